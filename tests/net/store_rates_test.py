"""How long pushing and pulling takes on hosts whose links are the bottleneck, beside what the links' rates allow.

A worker gives and gets each byte once; a server gets and gives each byte of its share once for every worker. So of m bytes at
rate r: max(1, workers / servers) * m / r, both directions at once.
"""

import json
import os
import subprocess
import sys
import unittest

from switched_hosts import SwitchedHosts
from two_hosts import SYNCLINE, missing

RATE = 200e6 / 8  # bytes a second
# Of a frame of 1,514 bytes, which the shaper counts, TCP carries 1,448.
PAYLOAD = RATE * 1448 / 1514
SMALL_IMAGES = os.path.join(os.path.dirname(__file__), "../demo/small_images.py")
SECONDS = 2  # of operations behind each figure, at least


class StoreRates(SwitchedHosts):
    host_count = 8
    rate = "200mbit"

    def run_kv(self, workers, servers, *options, bytes=4 << 20, keys=8, together=False, iterations=None):
        """Pushes and pulls, beside the formula."""
        expected = max(1, workers / max(servers, 1)) * bytes * keys / PAYLOAD
        measured = self.run_job(workers, servers, *options, bytes=bytes, keys=keys, together=together,
                                iterations=iterations or max(3, round(SECONDS / expected + 0.5)))
        if not together:  # case PS-11: what the planner says
            self.assertLess(abs(measured["p50_us"] / measured["predicted_us"] - 1), 0.25)
        measured["expected_s"] = expected
        measured["seconds"] = measured["p50_us"] / 1e6
        measured["ratio"] = measured["seconds"] / expected
        return measured

    def run_job(self, workers, servers, *options, bytes, keys, together=False, iterations):
        """The first hosts have a worker each, the servers are on others (or, `together`, on the same)."""
        self.jobs = getattr(self, "jobs", 0) + 1
        env = dict(SYNCLINE_WORLD_SIZE=workers, SYNCLINE_SERVERS=servers, SYNCLINE_RUN_ID=f"rates{self.jobs}",
                   SYNCLINE_RENDEZVOUS=f"tcp://{self.hosts[0].address}:{29000 + self.jobs}")
        places = self.hosts if together else self.hosts[workers:]
        started = [self.start(places[i], SYNCLINE, "serve", label=f"server{i}", SYNCLINE_SERVER_ID=i, **env) for i in range(servers)]
        result = self.path(f"kv{self.jobs}.json")
        started += [self.start(self.hosts[i], SYNCLINE, "bench", "kv", "--keys", str(keys), "--bytes", str(bytes), "--warmup", "1",
                               "--iters", str(iterations), "--gbit", str(PAYLOAD * 8e-9), "--json", result, *options, label=f"worker{i}", SYNCLINE_RANK=i, **env)
                    for i in range(workers)]
        for one in started:
            self.assertEqual(one.wait(180), 0, self.logs())
        with open(result, encoding="utf-8") as file:
            measured = json.load(file)
        self.assertEqual((measured["wrong"], measured["workers"]), (0, workers))
        return measured

    def show(self, line):
        print(line, file=sys.stderr)

    def test_time_by_workers_and_servers(self):
        """One server: as the workers. Several: by so much less. As many as workers: always the same."""
        self.make_key(*self.hosts)
        for workers, servers in ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (4, 4)):
            r = self.run_kv(workers, servers)
            self.show(f"{workers} workers, {servers} servers, 32 MiB: {r['seconds']:.3f} s, formula {r['expected_s']:.3f} s, "
                      f"ratio {r['ratio']:.3f}")
            self.assertLess(abs(r["ratio"] - 1), 0.1)

    def test_spare_hosts_are_faster_than_the_ring(self):
        self.make_key(*self.hosts)
        r = self.run_kv(4, 4, "--beside", "ring", iterations=5)
        gain = r["all_reduce_us"] / r["p50_us"]
        self.show(f"4 workers, 4 spare hosts, 32 MiB: {r['seconds']:.3f} s (formula {r['expected_s']:.3f}); "
                  f"ring {r['all_reduce_us'] / 1e6:.3f} s: {gain:.3f} times (the wires allow 1.5)")
        self.assertGreater(gain, 1.4)

    def test_servers_on_the_workers_hosts(self):
        self.make_key(*self.hosts)
        for name, servers in (("processes of their own", 4), ("shares of the workers", 0)):
            r = self.run_kv(4, servers, "--beside", "ring", together=True, iterations=3)
            gain = r["all_reduce_us"] / r["p50_us"]
            self.show(f"4 workers, servers on their hosts ({name}), 32 MiB: {r['seconds']:.3f} s; ring {r['all_reduce_us'] / 1e6:.3f} s: "
                      f"{gain:.3f} times (the wires allow 1)")
            self.assertGreater(gain, 0.95)

    def summed_or_not(self, servers, sums):
        """Two hosts with two workers each; seconds of 16 MiB."""
        self.jobs = getattr(self, "jobs", 0) + 1
        env = dict(SYNCLINE_WORLD_SIZE=4, SYNCLINE_SERVERS=servers, SYNCLINE_RUN_ID=f"hosts{self.jobs}", SYNCLINE_HOST_SUMS=sums,
                   SYNCLINE_RENDEZVOUS=f"tcp://{self.hosts[0].address}:{29000 + self.jobs}")
        result = self.path(f"hosts{self.jobs}.json")
        started = [self.start(self.hosts[2 + i], SYNCLINE, "serve", label=f"server{i}", SYNCLINE_SERVER_ID=i, **env) for i in range(servers)]
        started += [self.start(self.hosts[i // 2], SYNCLINE, "bench", "kv", "--keys", "8", "--bytes", str(2 << 20), "--warmup", "1",
                               "--iters", "3", "--json", result, label=f"worker{i}", SYNCLINE_RANK=i, **env)
                    for i in range(4)]
        for one in started:
            self.assertEqual(one.wait(180), 0, self.logs())
        with open(result, encoding="utf-8") as file:
            measured = json.load(file)
        self.assertEqual((measured["wrong"], measured["sums_on_hosts"]), (0, sums == 1))
        return measured["p50_us"] / 1e6

    def test_hosts_sum_for_their_workers(self):
        """What crosses the links is one sum of each host, and one value back."""
        self.make_key(*self.hosts)
        for servers in (1, 2):
            pairs = [(self.summed_or_not(servers, 1), self.summed_or_not(servers, 0)) for _ in range(3)]
            summed, single = (sorted(times)[1] for times in zip(*pairs))
            self.show(f"2 hosts of 2 workers, {servers} servers, 16 MiB: {summed:.3f} s summed by host, {single:.3f} s without: "
                      f"{single / summed:.3f} times (the wires allow 2)")
            self.assertGreater(single / summed, 1.8)

    def train(self, images, sums):
        """Two hosts with two workers each and a server; what the trainer reports."""
        self.jobs = getattr(self, "jobs", 0) + 1
        env = dict(SYNCLINE_WORLD_SIZE=4, SYNCLINE_SERVERS=1, SYNCLINE_RUN_ID=f"train{self.jobs}", SYNCLINE_HOST_SUMS=sums, OMP_NUM_THREADS=1,
                   SYNCLINE_RENDEZVOUS=f"tcp://{self.hosts[0].address}:{29000 + self.jobs}")
        result = self.path(f"train{self.jobs}.json")
        started = [self.start(self.hosts[2], SYNCLINE, "serve", label="server", SYNCLINE_SERVER_ID=0, **env)]
        started += [self.start(self.hosts[i // 2], SYNCLINE, "train", "--data", images, "--epochs", "1", "--sync", "ps", "-q",
                               "--json", result, label=f"worker{i}", SYNCLINE_RANK=i, **env)
                    for i in range(4)]
        for one in started:
            self.assertEqual(one.wait(180), 0, self.logs())
        with open(result, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["store"]["sums_on_hosts"], sums == 1)
        return report

    def test_training_through_hosts_sums(self):
        """Four ranks on two hosts: the tree of all and the hosts fit each other, so not a bit changes."""
        self.make_key(*self.hosts)
        images = self.path("images")
        subprocess.run([sys.executable, SMALL_IMAGES, images, "8000", "100"], check=True)
        summed, single = self.train(images, 1), self.train(images, 0)
        self.show(f"small-cnn, 2 hosts of 2 workers, 1 server: {summed['images_per_second']:.0f} images/s summed by host, "
                  f"{single['images_per_second']:.0f} without")
        self.assertEqual(summed["parameters_crc32c"], single["parameters_crc32c"])

    def all_reduce(self, schedule, aggregators):
        """Four workers, and more hosts that sum for them; seconds of 32 MiB, median."""
        self.jobs = getattr(self, "jobs", 0) + 1
        env = dict(SYNCLINE_WORLD_SIZE=4, SYNCLINE_SERVERS=aggregators, SYNCLINE_SERVERS_AGGREGATE=1, SYNCLINE_RUN_ID=f"sums{self.jobs}",
                   SYNCLINE_RENDEZVOUS=f"tcp://{self.hosts[0].address}:{29000 + self.jobs}")
        result = self.path(f"sums{self.jobs}.json")
        started = [self.start(self.hosts[4 + i], SYNCLINE, "serve", label=f"aggregator{i}", SYNCLINE_SERVER_ID=i, **env) for i in range(aggregators)]
        started += [self.start(self.hosts[i], SYNCLINE, "bench", "all_reduce", "--minbytes", "32M", "--maxbytes", "32M", "--iters", "3",
                               "--warmup", "1", "--schedule", schedule, "--json", result, label=f"worker{i}", SYNCLINE_RANK=i, **env)
                    for i in range(4)]
        for one in started:
            self.assertEqual(one.wait(180), 0, self.logs())
        with open(result, encoding="utf-8") as file:
            row = json.load(file)["rows"][0]
        self.assertEqual((row["wrong"], row["schedule"]), (0, schedule))
        return row["p50_us"] / 1e6

    def against_the_ring(self, aggregators, links):
        """How many times faster, in turns."""
        pairs = [(self.all_reduce("aggregator", aggregators), self.all_reduce("ring", aggregators)) for _ in range(3)]
        aggregated, ring = (sorted(times)[1] for times in zip(*pairs))
        self.show(f"4 workers, {aggregators} aggregators on {links}, 32 MiB: {aggregated:.3f} s; ring {ring:.3f} s: "
                  f"{ring / aggregated:.3f} times (the wires allow 1.5)")
        return ring / aggregated

    def test_one_aggregator_on_an_unshaped_link(self):
        """Each worker gives and gets its bytes once; in a ring of n hosts 2 (n - 1) / n times."""
        self.make_key(*self.hosts)
        self.inside(self.hosts[4].namespace, "tc", "qdisc", "del", "dev", "eth0", "root")
        self.inside(self.switches[0], "tc", "qdisc", "del", "dev", "port4", "root")
        self.assertGreater(self.against_the_ring(1, "an unshaped link"), 1.4)

    def test_four_aggregators_on_hosts_of_their_own(self):
        self.make_key(*self.hosts)
        self.assertGreater(self.against_the_ring(4, "links like theirs"), 1.2)

    def test_front_layers_first(self):
        """The link is the bottleneck: forward begins while the rear layers' gradients still travel."""
        self.make_key(*self.hosts)
        for workers, servers in ((1, 1), (2, 2)):
            r = self.run_job(workers, servers, "--layer-us", "10000", bytes=512 << 10, keys=16, iterations=8)
            first, last = r["by_priority"], r["in_order"]
            self.show(f"{workers} workers, {servers} servers, 16 layers of 512 KiB, 10 ms each way: {first['p50_us'] / 1e3:.0f} ms a step "
                      f"with priorities, {last['p50_us'] / 1e3:.0f} ms without ({first['p50_us'] / last['p50_us']:.3f}); first layer's weights "
                      f"after {first['first_us'] / 1e3:.0f} ms, last's after {first['last_us'] / 1e3:.0f} ms; without priorities after "
                      f"{last['first_us'] / 1e3:.0f} and {last['last_us'] / 1e3:.0f} ms")
            self.assertLess(first["p50_us"], 0.95 * last["p50_us"])
            self.assertLess(first["first_us"], first["last_us"])
            self.assertGreater(last["first_us"], last["last_us"])


if __name__ == "__main__":
    if missing():
        print(missing())
        sys.exit(0)
    unittest.main()
