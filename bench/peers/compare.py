#!/usr/bin/env python3
"""Compares all_reduce with other libraries side by side in one run, alternating size by size.

Every job's results are verified. For each size and library: the median over the rounds with its spread, how many times Syncline's
time that is, the share of the machine's own limit, measured in the same run, and processor seconds for each GB that ranks move.
`./dev bench peers` installs the libraries, builds the programs and passes its arguments on.

Exit codes: 0 ok, 1 a result was wrong or a job gave none, 2 wrong usage, 3 the machine lacks something.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys

import jobs
import limits
import networks
import report

ALL = {"np": "2,4,8", "networks": "shm,tcp,1gbit,200mbit",
       "sizes": "1K,4K,16K,64K,256K,512K,1M,4M,16M,32M,128M,256M"}
# More would take minutes an operation, and show nothing new.
SHAPED_BYTES_MAX = 32 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text):
    try:
        size = int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
    except ValueError:
        size = 0
    if size < 4 or size % 4 != 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size in bytes: a multiple of 4 such as 1K or 32M")
    return size


def listed(parse):
    return lambda text: [parse(part) for part in text.split(",") if part]


def library(name):
    name = {"mpi": "openmpi"}.get(name, name)
    if name not in jobs.RUNNERS:
        raise argparse.ArgumentTypeError(f"no library '{name}'; there are: {', '.join(jobs.RUNNERS)}")
    return name


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with the target bench_peers")
    parser.add_argument("-np", "--np", type=listed(int), help="numbers of ranks [2]")
    parser.add_argument("--networks", type=listed(str),
                        help="shm, tcp (loopback), or a rate such as 1gbit: one host, a namespace, for each rank [shm]")
    parser.add_argument("--sizes", type=listed(parse_size), help="[1K,64K,512K,4M,32M]")
    parser.add_argument("--all", action="store_true", help=f"as --np {ALL['np']} --networks {ALL['networks']} --sizes {ALL['sizes']}: hours")
    parser.add_argument("--peers", type=listed(library), default=["openmpi", "mpich", "gloo"], help="[openmpi,mpich,gloo]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch [/usr/bin/python3]")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows here")
    parser.add_argument("--html", type=pathlib.Path, help="write tables and plots here")
    options = parser.parse_args()
    options.np = options.np or listed(int)(ALL["np"] if options.all else "2")
    options.networks = options.networks or listed(str)(ALL["networks"] if options.all else "shm")
    options.sizes = options.sizes or listed(parse_size)(ALL["sizes"] if options.all else "1K,64K,512K,4M,32M")
    if min(options.np) < 2 or options.rounds < 1:
        parser.error("at least 2 ranks and 1 round")
    return options


def network_named(name, ranks):
    if name in ("shm", "tcp"):
        return networks.ThisMachine(name)
    if os.geteuid() != 0:
        print("hosts of a given rate are network namespaces: run as root", file=sys.stderr)
        sys.exit(3)
    return networks.ShapedHosts(name, ranks)


def measure(options, network, limit, ranks, size):
    """Rows of one size, Syncline's first; a library that gives no result is named and left out."""
    names = ["syncline"] + [name for name in options.peers if name != "syncline"]
    results = {name: [] for name in names}
    for turn in range(options.rounds):
        limit.again(size)
        for name in list(names if turn % 2 == 0 else names[::-1]):
            try:
                results[name].append(jobs.RUNNERS[name](options, network, ranks, size))
            except (jobs.Failed, OSError) as failure:
                print(f"{name}, {ranks} ranks, {report.size_name(size)}: {failure}", file=sys.stderr)
                names.remove(name)
                del results[name]
    moved = 2 * (ranks - 1) * size  # by all ranks together
    rows = []
    for name in names:
        times = [row["p50_us"] for row in results[name]]
        cpu = statistics.median(row["cpu_s"] / row["operations"] for row in results[name])
        rows.append({"network": network.name, "ranks": ranks, "bytes": size, "peer": name, "p50_us": statistics.median(times),
                     "min_us": min(times), "max_us": max(times), "limit_us": limit.least_us(size, ranks),
                     "cpu_s_per_gb": cpu / (moved * 1e-9), "wrong": sum(row["wrong"] for row in results[name])})
    ours = next((row["p50_us"] for row in rows if row["peer"] == "syncline"), None)
    for row in rows:
        row["ratio"] = row["p50_us"] / ours if ours else None
        row["share"] = row["limit_us"] / row["p50_us"]
    return rows


def main():
    options = parse_arguments()
    rows = []
    expected = 0
    for name in options.networks:
        for ranks in options.np:
            with contextlib.ExitStack() as stack:
                network = stack.enter_context(network_named(name, ranks))
                limit = limits.Limits(options, network)
                print(report.heading(network, ranks, options.rounds, limit), flush=True)
                for size in options.sizes:
                    if network.rate_limited and size > SHAPED_BYTES_MAX:
                        continue
                    new = measure(options, network, limit, ranks, size)
                    expected += 1 + len(options.peers)
                    print(report.text_of(new), flush=True)
                    rows += new
    if options.json:
        options.json.write_text(report.json_of(rows), encoding="utf-8")
    if options.html:
        options.html.write_text(report.html_of(rows), encoding="utf-8")
    wrong = sum(row["wrong"] for row in rows)
    if wrong:
        print(f"{wrong} wrong elements", file=sys.stderr)
    return 1 if wrong or len(rows) < expected else 0


if __name__ == "__main__":
    sys.exit(main())
