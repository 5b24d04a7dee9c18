"""What the machine itself can do, measured in the same run: the least time that an all_reduce could take."""
import json
import random
import statistics
import subprocess
import time

IPERF_S = 2


class Limits:
    """Of one network. An all_reduce takes at least one way of its smallest message; and each rank passes over its own
    tensor (shared memory), or sends 2 (n - 1) / n of its bytes (everywhere else)."""

    def __init__(self, options, network):
        self.program = str(options.build / "bench/peers/bench_limits")
        self.network = network
        self.times = {}  # of passes, by bytes
        if network.name == "shm":
            self.rate = None
            self.latency_us = self.ask("line")
        else:
            self.rate = self.iperf()
            self.latency_us = self.one_way()

    def ask(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=True)
        return float(done.stdout)

    def with_server(self, server, client):
        """`server` on host 0 and, while it runs, `client` on another: the client's output."""
        far = 1 if self.network.rate_limited else 0
        with subprocess.Popen(self.network.on_host(0, server), stdout=subprocess.DEVNULL) as serving:
            try:
                time.sleep(0.3)
                done = subprocess.run(self.network.on_host(far, client), capture_output=True, text=True, timeout=60, check=True)
            finally:
                serving.terminate()
        return done.stdout

    def iperf(self):
        port = str(random.randint(20000, 60000))
        out = self.with_server(["iperf3", "-s", "-1", "-p", port],
                               ["iperf3", "-c", self.network.address, "-p", port, "-t", str(IPERF_S), "-J"])
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8

    def one_way(self):
        port = str(random.randint(20000, 60000))
        return float(self.with_server([self.program, "serve", port], [self.program, "ask", self.network.address, port]))

    def again(self, size):
        """Called between the measurements of a size, so that the limit is of the same minutes."""
        if self.rate is None:
            self.times.setdefault(size, []).append(self.ask("memory", size))

    def least_us(self, size, ranks):
        if self.rate is None:
            volume = statistics.median(self.times[size])
        else:
            volume = 2 * (ranks - 1) / ranks * size / self.rate * 1e6
        return max(volume, self.latency_us)

    def describe(self):
        if self.rate is None:
            return f"one way of a cache line {self.latency_us:.2f} us; limit: two threads, x[i] += c in place"
        return f"iperf3, one stream {self.rate * 8e-9:.2f} Gbit/s, one way {self.latency_us:.1f} us; limit: that rate"
