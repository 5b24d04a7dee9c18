"""readme_commands.py SOURCE BUILD HOME: runs every ```sh block of README.md, in order, in one shell.

Two changes, no others: HOME is an empty folder, and build/release is the build folder under test. `./dev demo` runs
its whole path (packages, build, two workers) but only few steps; its accuracy over three seeds is measured by
demo_accuracy.sh. `./dev test` cannot run inside itself: its listing must work.
"""
import pathlib
import re
import shutil
import subprocess
import sys

REDUCED = {
    "./dev demo": "./dev demo --epochs 1 --max-steps 20 --eval end",
    "./dev test": "bash -n ./dev && ./dev --help | grep -q '^  test '",
}


def commands(readme):
    for block in re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.strip() and not line.startswith("#"):
                yield line


def main(source, build, home):
    shutil.rmtree(home, ignore_errors=True)
    pathlib.Path(home).mkdir(parents=True)
    found = list(commands((pathlib.Path(source) / "README.md").read_text()))
    for command in REDUCED:
        if command not in found:
            sys.exit(f"README.md does not show `{command}`")
    script = [f"cd '{source}'", "set -e"]
    for command in found:
        script.append(f"echo '$ '{command!r}")
        script.append(REDUCED.get(command, command).replace("build/release", build))
    environment = {"HOME": home, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "SYNCLINE_RELEASE": build,
                   "NO_INSTALL": "1", "CCACHE_DISABLE": "1"}
    done = subprocess.run(["bash", "-c", "\n".join(script)], env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"a command of README.md failed with exit code {done.returncode}; the last one shown above")


if __name__ == "__main__":
    main(*sys.argv[1:])
