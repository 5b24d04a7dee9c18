"""A soak: two hosts with two ranks each and two rails, random collectives, random faults, every result compared.

SYNCLINE_SOAK_SECONDS [15] is how long, SYNCLINE_SOAK_SEED [1] what happens. `./dev soak` runs it for an hour.
"""

import collections
import os
import random
import signal
import time
import unittest

from switched_hosts import SwitchedHosts
from two_hosts import missing

REASON = missing()
RANK = os.environ.get("SYNCLINE_NET_SOAK_RANK", "net_soak_rank")
SECONDS = float(os.environ.get("SYNCLINE_SOAK_SECONDS", "15"))
SEED = int(os.environ.get("SYNCLINE_SOAK_SEED", "1"))
LOCAL = 2
SETTLE_S = 60  # before it, memory pools may still grow
GROWTH_KIB = 32 * 1024


class Soak(SwitchedHosts):
    rails = 2
    rate = "400mbit"

    # Each fault begins and returns what ends it and after how many seconds; all stay below the 10 s of silence
    # after which a peer counts as lost.

    def reset(self, rng):
        """Every connection that one host has to the other by one rail, or by both."""
        host = rng.randrange(2)
        for rail in rng.choice([[0], [1], [0, 1]]):
            self.inside(self.hosts[host].namespace, "ss", "-K", "dst", f"10.77.{rail}.{2 - host}", check=False)
        return lambda: None, 0

    def silence(self, rng):
        """A switch forwards nothing."""
        switch = rng.choice(self.switches)
        self.forward(switch, "drop")
        return lambda: self.forward(switch, ""), rng.uniform(0.05, 4)

    def unplug(self, rng):
        """A port has no carrier."""
        switch, port = rng.choice(self.switches), rng.choice(["port0", "port1"])
        self.ip("-n", switch, "link", "set", port, "down")
        return lambda: self.ip("-n", switch, "link", "set", port, "up"), rng.uniform(0.05, 4)

    def dark(self, rng):
        """Neither switch forwards anything."""
        for switch in self.switches:
            self.forward(switch, "drop")
        return lambda: [self.forward(switch, "") for switch in self.switches], rng.uniform(0.05, 4)

    def lose(self, rng):
        """A switch loses some frames."""
        switch = rng.choice(self.switches)
        self.forward(switch, f"numgen random mod 1000 < {rng.randrange(1, 30)} drop")
        return lambda: self.forward(switch, ""), rng.uniform(1, 8)

    def slow(self, rng):
        """A port has a fraction of its rate."""
        switch, port = rng.choice(self.switches), rng.choice(["port0", "port1"])
        shape = lambda rate: self.inside(switch, "tc", "qdisc", "change", "dev", port, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms")
        shape(f"{rng.randrange(5, 100)}mbit")
        return lambda: shape(self.rate), rng.uniform(1, 8)

    def pause(self, rng):
        """A rank stands still."""
        pid = self.pids()[rng.randrange(len(self.ranks))]
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT), rng.uniform(0.05, 4)

    def pids(self):
        """Of the ranks themselves: what was started replaced itself by them."""
        return [one.process.pid for one in self.ranks]

    def start_job(self):
        self.make_key(*self.hosts)
        self.ranks = []
        for rank in range(2 * LOCAL):
            host = self.hosts[rank // LOCAL]
            self.ranks.append(self.start(
                host, RANK, "--seed", str(SEED), "--until", self.path("stop"), "--progress", self.path(f"progress{rank}"), label=f"rank{rank}",
                SYNCLINE_RANK=rank, SYNCLINE_WORLD_SIZE=2 * LOCAL, SYNCLINE_LOCAL_RANK=rank % LOCAL, SYNCLINE_LOCAL_WORLD_SIZE=LOCAL,
                SYNCLINE_RENDEZVOUS="tcp://10.77.0.1:29557", SYNCLINE_IFNAME="=eth0,eth1"))
        self.wait_until(lambda: all(self.progress(rank) for rank in range(2 * LOCAL)), "the first calls")

    def progress(self, rank):
        """[(rounds, KiB, descriptors, threads)]"""
        try:
            with open(self.path(f"progress{rank}"), encoding="ascii") as file:
                return [tuple(map(int, line.split())) for line in file.read().splitlines(keepends=True) if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def break_things(self, rng, until):
        """One or two faults at a time. What was begun is ended. Returns how many of each kind there were."""
        kinds = [self.reset, self.silence, self.unplug, self.dark, self.lose, self.slow, self.pause]
        counts = collections.Counter()
        running = []
        while time.monotonic() < until:
            kind = rng.choice(kinds)
            # Two of a kind would undo each other; two that silence could add up to a lost peer.
            silencing = ("silence", "unplug", "dark", "lose", "pause")
            busy = {name for _, _, name in running}
            if kind.__name__ not in busy and not (kind.__name__ in silencing and busy & set(silencing)):
                end, seconds = kind(rng)
                counts[kind.__name__] += 1
                running.append((time.monotonic() + seconds, end, kind.__name__))
            pause_until = time.monotonic() + rng.uniform(0.1, 2)
            while time.monotonic() < pause_until:
                for one in [each for each in running if time.monotonic() >= each[0]]:
                    running.remove(one)
                    one[1]()
                for one in self.ranks:
                    self.assertIsNone(one.process.poll(), f"seed {SEED}: {one.label} ended\n{self.logs()}")
                time.sleep(0.01)
        for _, end, _ in running:
            end()
        return counts

    def check_leaks(self, rank):
        rows = self.progress(rank)
        if len(rows) <= 2 * SETTLE_S:
            return
        early, late = rows[SETTLE_S], rows[-1]
        self.assertLessEqual(late[1], max(row[1] for row in rows[:SETTLE_S]) + GROWTH_KIB, f"rank {rank} grew: {early} to {late}")
        self.assertLessEqual(late[2], max(row[2] for row in rows[:SETTLE_S]), f"rank {rank} has more descriptors: {early} to {late}")
        self.assertEqual(late[3], early[3], f"rank {rank} has other threads: {early} to {late}")

    @unittest.skipIf(REASON is not None, REASON)
    def test_mixed_faults(self):
        self.start_job()
        counts = self.break_things(random.Random(SEED), time.monotonic() + SECONDS)
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        for one in self.ranks:
            self.assertEqual(one.wait(120), 0, f"seed {SEED}\n{self.logs()}")
            self.assertIn("right", one.out(), self.logs())
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        first, last = self.progress(0)[0], self.progress(0)[-1]
        print(f"soak of {SECONDS:.0f} s, seed {SEED}: {self.ranks[0].out().split()[-1]} calls right under {sum(counts.values())} faults ({faults}); "
              f"memory {first[1]} to {last[1]} KiB, descriptors {first[2]} to {last[2]}, threads {first[3]} to {last[3]}")
        for rank in range(2 * LOCAL):
            self.check_leaks(rank)


if __name__ == "__main__":
    unittest.main(verbosity=2)
