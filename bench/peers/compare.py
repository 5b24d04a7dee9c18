#!/usr/bin/env python3
"""Compares all_reduce with Open MPI and Gloo side by side in one run, alternating size by size.

usage: compare.py --build DIR [-np 2] [--rounds 5] [--sizes 1K,64K,512K,4M,32M] [--transport shm]
                  [--peers mpi,gloo] [--json FILE]

DIR is a build folder with the targets syncline, bench_all_reduce_syncline and bench_peers_mpi
(`./dev bench peers` builds them and passes further arguments on). Prints medians over the rounds, spreads and ratios; exits 1 when a result was wrong.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

LIMIT_S = 120  # of one measurement
HERE = pathlib.Path(__file__).resolve().parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def size_name(size):
    for unit in "GMK":
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}iB"
    return f"{size} B"


def read_row(command, environment=None):
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"no result within {LIMIT_S} s from {' '.join(map(str, command))}") from error
    for line in done.stdout.splitlines():
        start = line.find('{"bytes"')
        if start >= 0:
            return json.loads(line[start:])
    raise SystemExit(f"no result from {' '.join(map(str, command))}:\n{done.stderr[-2000:]}")


def run_syncline(options, size):
    command = [options.build / "tools/syncline", "run", "-np", str(options.np)]
    if options.transport:
        command += ["--transport", options.transport]
    return read_row(command + [options.build / "bench/peers/bench_all_reduce_syncline", str(size)])


def run_mpi(options, size):
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(options.np)]
    if options.transport == "tcp":
        command += ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    return read_row(command + [options.build / "bench/peers/bench_all_reduce_mpi", str(size)])


def run_gloo(options, size):
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", WORLD_SIZE=str(options.np),
                       MASTER_PORT=str(random.randint(20000, 60000)), GLOO_SOCKET_IFNAME="lo")
    script = [options.python, HERE / "all_reduce_gloo.py", str(size)]
    others = [subprocess.Popen(script, env=dict(environment, RANK=str(rank)))
              for rank in range(1, options.np)]
    try:
        row = read_row(script, dict(environment, RANK="0"))
        for other in others:
            other.wait(LIMIT_S)
        return row
    finally:
        for other in others:
            other.kill()
            other.wait()


RUNNERS = {"syncline": run_syncline, "mpi": run_mpi, "gloo": run_gloo}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("-np", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="1K,64K,512K,4M,32M")
    parser.add_argument("--transport", default="")
    parser.add_argument("--peers", default="mpi,gloo")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    names = ["syncline"] + [name for name in options.peers.split(",") if name]
    rows = []
    wrong = 0
    print(f"all_reduce, f32 sum, in place, {options.np} ranks, {options.rounds} rounds; median us "
          "[min..max], ratio to syncline")
    for size in map(parse_size, options.sizes.split(",")):
        times = {name: [] for name in names}
        for turn in range(options.rounds):
            order = names if turn % 2 == 0 else names[::-1]
            for name in order:
                row = RUNNERS[name](options, size)
                times[name].append(row["p50_us"])
                wrong += row["wrong"]
        ours = statistics.median(times["syncline"])
        cells = []
        for name in names:
            middle = statistics.median(times[name])
            cells.append(f"{name} {middle:.2f} [{min(times[name]):.2f}..{max(times[name]):.2f}]"
                         f" {middle / ours:.2f}x")
            rows.append({"bytes": size, "peer": name, "ranks": options.np, "p50_us": middle,
                         "ratio": middle / ours})
        print(f"{size_name(size):>8}  " + "  ".join(cells), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"schema": "syncline.peers/1", "rows": rows}, indent=1))
    if wrong:
        print(f"{wrong} wrong elements", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
