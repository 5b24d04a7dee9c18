#!/usr/bin/env bash
# package_test.sh SOURCE BUILD AREA KIND: one check of the installed package; see CMakeLists.txt.
set -euo pipefail
source=$1 build=$2 area=$3 kind=$4
prefix=$area/moved
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# consumer NAME SOURCE OPTION...: configures and builds a project against the prefix.
consumer() {
  local name=$1 from=$2
  shift 2
  rm -rf "$area/$name"
  cmake -S "$from" -B "$area/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$prefix" "$@"
  cmake --build "$area/$name"
}

# refused WHY OPTION...: configuring the core consumer must fail and say WHY.
refused() {
  local why=$1 from=$2 log=$area/refused.log
  shift 2
  rm -rf "$area/refused"
  if cmake -S "$from" -B "$area/refused" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "$@" > "$log" 2>&1; then
    fail "find_package accepted what it should refuse: $why"
  fi
  tr -s ' \n' ' ' < "$log" | grep -q -- "$why" || { cat "$log"; fail "the message lacks: $why"; }
}

install_and_move() {
  rm -rf "$area"
  mkdir -p "$area"
  cmake --install "$build" --prefix "$area/first" > "$area/install.log"
  mv "$area/first" "$prefix"
  local package
  package=$(dirname "$(find "$prefix" -name syncline-config.cmake)")
  if grep -rn -e "$source" -e "$build" -e "$area/first" "$package"; then
    fail "the package names folders of the machine it was built on"
  fi
  [ -f "$prefix/include/syncline/syncline.h" ] || fail "public headers are missing"
  "$prefix/bin/syncline" --version | grep -q '0\.1\.0' || fail "the installed program does not run"
}

versions() {
  mkdir -p "$area/versions"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(versions CXX)' \
    'find_package(syncline ${WANTED} CONFIG REQUIRED COMPONENTS ${PARTS})' > "$area/versions/CMakeLists.txt"
  refused 'requested version "0.2"' "$area/versions" -DWANTED=0.2 -DPARTS=core
  refused "no component 'gpu'" "$area/versions" -DWANTED=0.1 -DPARTS=gpu
  cmake -S "$area/versions" -B "$area/versions/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.1 \
    -DPARTS=core
}

# A LibTorch of the other std::string, and one of another version.
libtorch() {
  mkdir -p "$area/versions" "$area/other"
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(versions CXX)' \
    'find_package(syncline 0.1 CONFIG REQUIRED COMPONENTS core torch)' > "$area/other/CMakeLists.txt"
  for fake in abi:1.13.0:0 version:2.4.0:1; do
    IFS=: read -r name version abi <<< "$fake"
    mkdir -p "$area/fake_$name"
    echo "set(TORCH_CXX_FLAGS \"-D_GLIBCXX_USE_CXX11_ABI=$abi\")" > "$area/fake_$name/TorchConfig.cmake"
    printf '%s\n' "set(PACKAGE_VERSION $version)" 'set(PACKAGE_VERSION_COMPATIBLE TRUE)' \
      > "$area/fake_$name/TorchConfigVersion.cmake"
  done
  refused '_GLIBCXX_USE_CXX11_ABI=0' "$area/other" -DTorch_DIR="$area/fake_abi"
  refused 'has 2.4.0' "$area/other" -DTorch_DIR="$area/fake_version"
}

# The program that README.md prints is the one that is built here.
readme() {
  /usr/bin/python3 "$source/tests/package/readme_program.py" "$source/README.md" "$source/examples/readme"
  consumer readme "$source/examples/readme"
  local log=$area/readme.log
  "$prefix/bin/syncline" run -np 2 "$area/readme/readme" | tee "$log"
  local steps
  steps=$(grep -c 'step [0-9]* loss' "$log") || true
  [ "$steps" -eq 4 ] || fail "rank 0 should print four lines, found $steps"
  # The targets have variance 8; a copy that did not learn stays there.
  awk '/loss/ { last = $NF } END { exit !(last < 0.08) }' "$log" || fail "the loss did not fall"
}

case $kind in
  install) install_and_move ;;
  core)
    consumer core "$source/tests/package/core"
    "$area/core/consumer"
    ;;
  versions) versions ;;
  libtorch) libtorch ;;
  readme) readme ;;
  subdirectory)
    rm -rf "$area/subdirectory"
    cmake -S "$source/tests/package/subdirectory" -B "$area/subdirectory" -G Ninja \
      -DCMAKE_CXX_COMPILER="$compiler" -DSYNCLINE_SOURCE="$source"
    ;;
  presets)
    for preset in dev release asan tsan minimal; do
      cmake --list-presets -S "$source" | grep -q "\"$preset\"" || fail "preset $preset is missing"
    done
    ;;
  *) fail "unknown kind $kind" ;;
esac
