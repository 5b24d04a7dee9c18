#!/usr/bin/env bash
# train_test.sh PROGRAMS KIND: the trainer as users start it.
set -euo pipefail
programs=$1 kind=$2
here=$(dirname "$(readlink -f "$0")")
area=$(mktemp -d)
trap 'rm -rf "$area"' EXIT
export OMP_NUM_THREADS=1
trainer=$programs/syncline-train
/usr/bin/python3 -B "$here/small_images.py" "$area/data"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# json FILE EXPRESSION: true in Python, the report being `r`.
json() {
  /usr/bin/python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' \
    "$1" "$2" || {
    cat "$1"
    fail "the report is not so: $2"
  }
}

# refused CODE WHAT ARGUMENT...: this exit code, one line on stderr that names WHAT, nothing else.
refused() {
  local code=$1 what=$2 status=0
  shift 2
  "$trainer" "$@" > "$area/out" 2> "$area/err" || status=$?
  [ $status -eq "$code" ] || fail "$*: exit code $status, not $code: $(cat "$area/err")"
  [ "$(wc -l < "$area/err")" -eq 1 ] || fail "$*: not one line: $(cat "$area/err")"
  [ ! -s "$area/out" ] || fail "$*: wrote to standard output"
  grep -q -- "$what" "$area/err" || fail "$*: the line does not name $what: $(cat "$area/err")"
}

bad_input() {
  refused 2 alexnet --model alexnet
  refused 2 batch --batch 0
  refused 2 no-such-flag --no-such-flag
  refused 2 /nowhere --data /nowhere
  refused 2 tar --data 'train-{000..099}.tar'
  refused 2 json --data "$area/data" --json /nowhere/r.json
  cp -r "$area/data" "$area/cut"
  head -c 5000 "$area/data/train-images-idx3-ubyte" > "$area/cut/train-images-idx3-ubyte"
  refused 2 train-images --data "$area/cut"
  cp "$area/data/t10k-labels-idx1-ubyte" "$area/cut/train-images-idx3-ubyte"
  refused 2 train-images --data "$area/cut"
  rm "$area/cut/train-images-idx3-ubyte"
  refused 2 train-images --data "$area/cut"
  SYNCLINE_RANK=7 SYNCLINE_WORLD_SIZE=2 refused 2 RANK --data "$area/data"
  SYNCLINE_RANK=0 SYNCLINE_WORLD_SIZE=0 refused 2 WORLD_SIZE --data "$area/data"

  local status=0
  "$programs/syncline" run -np 2 "$trainer" --data "$area/cut" > "$area/out" 2>&1 || status=$?
  [ $status -eq 2 ] || fail "two ranks without data: exit code $status, not 2: $(cat "$area/out")"
  grep -q 'train-images' "$area/out" || fail "two ranks without data: no reason: $(cat "$area/out")"
}

one_worker() {
  "$trainer" --data "$area/data" --batch 32 --epochs 2 --json "$area/r.json" > "$area/out" 2> "$area/err"
  grep -q 'One worker exchanges nothing' "$area/out" || fail "no verdict: $(cat "$area/out")"
  grep -q '^epoch 1/2:  *[0-9]*% [0-9]*/20 \[' "$area/err" || fail "no progress lines: $(cat "$area/err")"
  json "$area/r.json" 'r["schema"] == "syncline.train/1" and r["world_size"] == 1 and r["steps"] == 40'
  json "$area/r.json" 'r["buckets"] == [] and r["samples"] == 1280'
  json "$area/r.json" '[e["samples"] for e in r["evaluations"]] == [101, 101]'
  json "$area/r.json" 'r["test_accuracy"] > 0.9'
  "$trainer" --data "$area/data" --model resnet18 --batch 8 --max-steps 2 --augment shift-flip --optimizer adamw \
    --eval none --quiet --json "$area/r.json" > /dev/null 2> "$area/err"
  [ ! -s "$area/err" ] || fail "--quiet still speaks: $(cat "$area/err")"
  json "$area/r.json" 'r["steps"] == 2 and r["parameters"] > 11e6 and r["test_accuracy"] is None'
}

two_workers() {
  "$programs/syncline" run -np 2 "$trainer" --data "$area/data" --batch 16 --epochs 2 --accum 2 --bucket-cap-mb 0.05 \
    --json "$area/r.json" > "$area/out" 2> "$area/err" || fail "$(cat "$area/err")"
  json "$area/r.json" 'r["world_size"] == 2 and r["steps"] == 20 and r["samples"] == 1280'
  json "$area/r.json" '[e["samples"] for e in r["evaluations"]] == [101, 101]'
  json "$area/r.json" 'len(r["buckets"]) > 1 and all(b["schedule"] and b["transport"] == "shm" for b in r["buckets"])'
  json "$area/r.json" 'all(b["measured_us"] > 0 and b["predicted_us"] > 0 and b["in_step_us"] > 0 for b in r["buckets"])'
  json "$area/r.json" 'sum(b["bytes"] for b in r["buckets"]) == 4 * r["parameters"]'
  json "$area/r.json" 'abs(sum(r["phases_ms"][p] for p in ("data", "forward", "backward", "exposed", "optimiser")) - r["phases_ms"]["step"]) < 1e-6'
  json "$area/r.json" 'r["bound_by"] in r["verdict"]'
  [ "$(grep -c 'test accuracy  ' "$area/out")" -eq 1 ] || fail "not exactly one rank reported: $(cat "$area/out")"
}

# Two workers with batch 16 and one with 32 take the same steps, up to rounding.
same_steps() {
  local common=(--data "$area/data" --epochs 1 --eval end --quiet)
  "$trainer" "${common[@]}" --batch 32 --json "$area/one.json" > /dev/null
  "$trainer" "${common[@]}" --batch 16 --accum 2 --lr 0.0125 --json "$area/accum.json" > /dev/null
  "$programs/syncline" run -np 2 "$trainer" "${common[@]}" --batch 16 --json "$area/two.json" > /dev/null
  /usr/bin/python3 - "$area/one.json" "$area/accum.json" "$area/two.json" <<'PY' || fail "the runs differ"
import json, sys
one, accum, two = (json.load(open(path)) for path in sys.argv[1:])
for other in (accum, two):
    print(one["final_loss"], other["final_loss"], one["test_accuracy"], other["test_accuracy"])
    assert one["steps"] == other["steps"] and one["options"]["lr"] == other["options"]["lr"]
    # 20 steps of f32 sums in another order: a relative error of some 1e-6 a step.
    assert abs(one["final_loss"] - other["final_loss"]) < 1e-3 * one["final_loss"]
    assert abs(one["evaluations"][-1]["loss"] - other["evaluations"][-1]["loss"]) < 1e-3
PY
}

# Through servers, as many as may be, the parameters have the same bits.
servers() {
  local count digest first="" common=(--data "$area/data" --epochs 1 --eval none --quiet --batch 16 --sync ps)
  for count in 0 1 2 3; do
    "$programs/syncline" run -np 2 --servers $count "$trainer" "${common[@]}" --json "$area/$count.json" > /dev/null
    json "$area/$count.json" "r['steps'] == 20 and r['final_loss'] < 2.25 and len(r['store']['servers']) == ($count or 2)"
    digest=$(/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["parameters_crc32c"])' "$area/$count.json")
    first=${first:-$digest}
    [ "$digest" = "$first" ] || fail "$count servers: parameters $digest, not $first"
  done
  # Sums of two are the same in any order.
  common=(--data "$area/data" --epochs 1 --eval none --quiet --batch 16)
  "$programs/syncline" run -np 2 --aggregators 1 "$trainer" "${common[@]}" --json "$area/aggregated.json" > /dev/null
  "$programs/syncline" run -np 2 "$trainer" "${common[@]}" --sync ring --json "$area/ring.json" > /dev/null
  /usr/bin/python3 - "$area/aggregated.json" "$area/ring.json" << 'PY'
import json, sys
aggregated, ring = (json.load(open(path)) for path in sys.argv[1:])
assert all(bucket["schedule"] == "aggregator" for bucket in aggregated["buckets"]), aggregated["buckets"]
assert aggregated["parameters_crc32c"] == ring["parameters_crc32c"]
PY
  common+=(--sync ps)
  refused 2 pool "${common[@]}" --pool
  "$programs/syncline" run -np 2 --servers 1 "$trainer" "${common[@]}" --consistency asynchronous --pool --slow 1:4 --warmup 0 \
    --lr-schedule constant --json "$area/pool.json" > /dev/null
  json "$area/pool.json" 'r["samples"] == 640 and r["final_loss"] < 2.25'
}

# SIGTERM to the launcher: all ranks finish the same step and leave with 85.
stops() {
  local status=0
  "$programs/syncline" run -np 2 "$trainer" --data "$area/data" --batch 4 --epochs 1000000 --eval none --progress lines \
    > "$area/out" 2> "$area/err" &
  local job=$!
  for _ in $(seq 600); do
    grep -q 'it/s' "$area/err" && break
    kill -0 $job 2> /dev/null || fail "ended early: $(cat "$area/err")"
    sleep 0.1
  done
  kill -TERM $job
  wait $job || status=$?
  [ $status -eq 85 ] || fail "exit code $status, not 85: $(cat "$area/err" "$area/out")"
  grep -q 'stopped on request after step' "$area/err" || fail "no reason: $(cat "$area/err")"
}

case $kind in
  bad_input | one_worker | two_workers | same_steps | servers | stops) $kind ;;
  *) fail "unknown kind $kind" ;;
esac
