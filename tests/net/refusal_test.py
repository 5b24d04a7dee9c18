"""Who does not belong to the job is refused, and changes nothing but the log: SEC-01, SEC-03, SEC-04 and SEC-06 over a network."""

import os
import random
import subprocess
import sys
import time
import unittest

from two_hosts import NET_RANK, TwoHosts, missing

REASON = missing()
REQUESTS = {
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(233),
    "ones": b"\xff" * 64,
    "huge": b"\x53\x4e\x01\x01" + b"\x00" * 8 + b"\xff" * 8 + b"\x00" * 44,
    "nothing": b"",
}

# Runs inside a namespace: sends every request to every address `times` times, reads a little, hangs up.
STRANGER = """
import socket, sys
times, targets, requests = eval(sys.stdin.read())
for _ in range(times):
    for target in targets:
        for request in requests:
            try:
                with socket.create_connection(target, timeout=2) as s:
                    s.settimeout(0.02)
                    s.sendall(request)
                    try:
                        s.recv(4096)
                    except OSError:
                        pass
            except OSError:
                pass
"""


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


@unittest.skipIf(REASON is not None, REASON)
class Refusal(TwoHosts):
    RENDEZVOUS = {"SYNCLINE_WORLD_SIZE": 2, "SYNCLINE_RENDEZVOUS": "tcp://10.77.0.1:29560"}

    def rank(self, rank, *arguments, label=None, **more):
        return self.start(self.hosts[rank], NET_RANK, *arguments, label=label, SYNCLINE_RANK=rank, **self.RENDEZVOUS, **more)

    def stranger(self, host, targets, times):
        requests = [*REQUESTS.values(), random.Random(7).randbytes(64)]
        subprocess.run(host.command(sys.executable, "-c", STRANGER), input=repr((times, targets, requests)), text=True,
                       check=True, timeout=DEADLINE_OF_STRANGER)

    def wait_for_listener(self, host, port):
        self.wait_until(lambda: port in [p for _, p in self.listeners(host)], f"port {port} to listen", 20)

    def expect_refused(self, one):
        self.assertEqual(one.wait(20), 3, self.logs())
        lines = [line for line in one.err().splitlines() if line.startswith("net_rank: ")]
        self.assertEqual(len(lines), 1, self.logs())
        self.assertIn("key", lines[0])
        return lines[0]

    def test_missing_keys(self):
        ranks = [self.rank(0), self.rank(1)]
        lines = [self.expect_refused(one) for one in ranks]
        for line in lines:
            self.assertIn("syncline key create", line)

    def test_wrong_key_is_refused_and_the_right_one_still_joins(self):
        a, b = self.hosts
        self.make_key(b)
        os.rename(os.path.join(b.home, ".config"), os.path.join(b.home, "wrong"))
        self.make_key(a, b)
        first = self.rank(0)
        self.wait_for_listener(a, 29560)
        wrong = self.rank(1, label="wrong", SYNCLINE_KEY_FILE=os.path.join(b.home, "wrong/syncline/job.key"))
        self.expect_refused(wrong)
        self.expect_right([first, self.rank(1)], "SYNCLINE_*")

    def test_missing_key_of_one_rank(self):
        a, b = self.hosts
        self.make_key(a)
        first = self.rank(0)
        self.wait_for_listener(a, 29560)
        self.expect_refused(self.rank(1, label="missing"))
        self.give_key(a, b)
        self.expect_right([first, self.rank(1)], "SYNCLINE_*")

    def test_strangers_at_the_rendezvous(self):
        self.make_key(*self.hosts)
        first = self.rank(0)
        self.wait_for_listener(self.hosts[0], 29560)
        self.stranger(self.hosts[1], [("10.77.0.1", 29560)], 5)
        self.expect_right([first, self.rank(1)], "SYNCLINE_*")

    def test_strangers_at_every_port_of_a_running_job(self):
        self.make_key(*self.hosts)
        stop = self.path("stop")
        ranks = [self.rank(0, "--until", stop), self.rank(1, "--until", stop)]
        self.wait_until(lambda: all("ready" in one.out() for one in ranks), "the job to start", 30)
        targets = []
        for host in self.hosts:
            for address, port in self.listeners(host):
                self.assertEqual(address, host.address, "listens where nobody asked for it")
                targets.append((address, port))
        self.assertGreaterEqual(len(targets), 1, "a link that breaks needs a listener to come back to")
        before = [rss_kib(one.process.pid) for one in ranks]
        for host in self.hosts:
            self.stranger(host, targets, 30)
        for one, kib in zip(ranks, before):
            self.assertIsNone(one.process.poll(), self.logs())
            self.assertLess(rss_kib(one.process.pid) - kib, 10 << 10)
        with open(stop, "w", encoding="ascii"):
            pass
        self.expect_right(ranks, "SYNCLINE_*")
        self.assertIn("refused", self.logs())
        for one in ranks:
            self.assertLess(len(one.err().splitlines()), 40, "the log is flooded\n" + self.logs())

    def test_not_a_syncline_endpoint(self):
        self.make_key(*self.hosts)
        for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64):
            server = ("import socket, sys\ns = socket.create_server(('10.77.0.1', 29560), reuse_port=True)\nprint('up', flush=True)\n"
                      f"while True:\n  c, _ = s.accept(); c.sendall({reply!r}); keep = c\n")
            stub = self.start(self.hosts[0], sys.executable, "-c", server, label="stub")
            self.wait_until(lambda: "up" in stub.out(), "the stub", 10)
            began = time.monotonic()
            guest = self.rank(1, label="guest", SYNCLINE_CONNECT_TIMEOUT="3s")
            self.assertNotEqual(guest.wait(20), 0)
            self.assertLess(time.monotonic() - began, 10)
            self.assertIn("not a syncline endpoint at 10.77.0.1:29560", guest.err())
            stub.process.kill()
            stub.process.wait()


DEADLINE_OF_STRANGER = 120

if __name__ == "__main__":
    unittest.main(verbosity=2)
