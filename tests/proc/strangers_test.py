"""Ports of a job and who is turned away from them: SEC-01, SEC-03, SEC-04, SEC-06."""

import os
import random
import socket
import threading
import time
import unittest

from ranks import NET_RANK, RanksTest, send_and_wait

# Of each request to each port.
REPEATS = int(os.environ.get("SYNCLINE_STRANGER_REPEATS", "1000"))
LENGTH = (1 << 63).to_bytes(8, "little")
REQUESTS = {
    "http": b"GET / HTTP/1.0\r\n\r\n",
    "random": random.Random(7).randbytes(64),
    "frame of 2^63 bytes": b"SL\x01\x01" + bytes(4) + b"\xff" * 8 + LENGTH + bytes(40),
    "handshake and a length of 2^63": b"SYNCLINE\x01\x00\x01\x00" + LENGTH + bytes(236) + LENGTH * 8,
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(233),
}


class Ports(RanksTest):
    """SEC-03: who gave a loopback address has listeners there and nowhere else."""

    def expect_addresses(self, wanted, least=1):
        found = self.listeners()
        self.assertGreaterEqual(len(found), least, self.logs())
        self.assertEqual({address for address, _ in found}, {wanted}, found)

    def check_job(self, rendezvous, wanted, **env):
        ranks = [self.start_rank(rank, 2, rendezvous, "--until", self.path("stop"), SYNCLINE_TRANSPORT="tcp", **env) for rank in range(2)]
        self.wait_until(lambda: self.listeners() or "ready" in ranks[0].out(), "a listener")
        self.expect_addresses(wanted)
        self.wait_until(lambda: all("ready" in one.out() for one in ranks), "the job to start")
        self.expect_addresses(wanted, 2)
        self.touch("stop")
        self.expect_right(ranks)
        os.remove(self.path("stop"))

    def test_what_is_given_is_bound(self):
        self.check_job(f"tcp://127.0.0.1:{self.free_port()}", "127.0.0.1")
        self.check_job(f"tcp://[::1]:{self.free_port()}", "::1")
        self.check_job(f"file:{self.path('meet')}", "127.0.0.1")
        # Also where a key would allow more.
        self.check_job(f"tcp://127.0.0.1:{self.free_port()}", "127.0.0.1", SYNCLINE_KEY_FILE=self.make_key())

    def test_the_launcher_and_its_ranks(self):
        job = self.start("run", "-q", "-np", "2", "--transport", "tcp", NET_RANK, "--until", self.path("stop"))
        self.wait_until(lambda: len(self.listeners()) >= 2, "the ranks' listeners")
        self.expect_addresses("127.0.0.1", 2)
        self.touch("stop")
        self.assertEqual(self.finish(job).code, 0)

    def test_the_wildcard_only_on_request(self):
        key = self.make_key()
        port = self.free_port()
        rank = self.start_rank(0, 2, f"tcp://0.0.0.0:{port}", SYNCLINE_KEY_FILE=key)
        self.wait_for_listener(port)
        self.assertIn(("0.0.0.0", port), self.listeners())
        rank.process.kill()
        without = self.start_rank(0, 2, f"tcp://0.0.0.0:{port}")
        self.assertEqual(without.wait(20), 3, self.logs())
        self.assertIn("syncline key create", without.err())


class Garbage(RanksTest):
    """SEC-01: requests of other protocols and lengths that nobody has."""

    def setUp(self):
        super().setUp()
        self.port = self.free_port()
        self.uri = f"tcp://127.0.0.1:{self.port}"

    def send_all(self, targets):
        """Every request REPEATS times to every target; all of them are closed, none is answered."""
        failures = []

        def work(target, name, request):
            for _ in range(REPEATS):
                answer = send_and_wait(target, request, 5)
                # A version, a key or a moment that does not fit gets a reject of 192 bytes.
                if answer is None or answer not in (b"",) and not (len(answer) == 192 and answer.startswith(b"SYNCLINE")):
                    failures.append((target, name, answer))

        threads = [threading.Thread(target=work, args=(target, name, request)) for target in targets for name, request in REQUESTS.items()]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failures[:3], [], self.logs())

    def expect_few_lines(self, one, seconds):
        """One line for the only source, on each listener, in ten seconds; the next says how many there were."""
        lines = [line for line in one.err().splitlines() if "refused a connection from " in line]
        self.assertGreaterEqual(len(lines), 1, one.err())
        self.assertLessEqual(len(lines), 2 + seconds // 5, one.err())
        self.assertLess(len(one.err().splitlines()), len(lines) + 10, "the log is flooded: " + one.err())

    def test_at_every_port_of_a_running_job(self):
        job = [self.start_rank(rank, 2, self.uri, "--until", self.path("stop"), SYNCLINE_TRANSPORT="tcp") for rank in range(2)]
        self.wait_until(lambda: all("ready" in one.out() for one in job), "the job to start")
        targets = list(self.listeners())
        self.assertGreaterEqual(len(targets), 2, "a link that breaks needs a listener to come back to")
        before = [one.resident_kib() for one in job]
        begin = time.monotonic()
        self.send_all(targets)
        seconds = time.monotonic() - begin
        for one, kib in zip(job, before):
            self.assertIsNone(one.process.poll(), self.logs())
            self.assertLess(one.resident_kib() - kib, 10 << 10)
            self.expect_few_lines(one, seconds)
        self.touch("stop")
        self.expect_right(job)

    def test_at_the_rendezvous(self):
        first = self.start_rank(0, 2, self.uri)
        self.wait_for_listener(self.port)
        before = first.resident_kib()
        begin = time.monotonic()
        self.send_all([("127.0.0.1", self.port)])
        self.assertLess(first.resident_kib() - before, 10 << 10)
        self.expect_few_lines(first, time.monotonic() - begin)
        self.expect_right([first, self.start_rank(1, 2, self.uri)])


class Recorder:
    """A proxy that keeps what its first client sends."""

    def __init__(self, test, port):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.target = port
        self.sent = b""
        test.addCleanup(self.server.close)
        one = threading.Thread(target=self.serve, daemon=True)
        one.start()
        test.addCleanup(one.join, 10)

    def serve(self):
        client, _ = self.server.accept()
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            back = threading.Thread(target=self.copy, args=(server, client, False), daemon=True)
            back.start()
            self.copy(client, server, True)
            back.join()

    def copy(self, source, sink, keep):
        try:
            while more := source.recv(65536):
                if keep:
                    self.sent += more
                sink.sendall(more)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Impostors(RanksTest):
    """SEC-04: without the job's key nobody joins, whatever was overheard."""

    def test_wrong_key_no_key_and_a_replayed_handshake(self):
        key, other = self.make_key(), self.make_key("other.key")
        port = self.free_port()
        uri = f"tcp://127.0.0.1:{port}"
        common = {"SYNCLINE_TRANSPORT": "tcp", "SYNCLINE_KEY_FILE": key}
        arguments = ("--until", self.path("stop"))
        first = self.start_rank(0, 3, uri, *arguments, **common)
        self.wait_for_listener(port)
        recorder = Recorder(self, port)
        second = self.start_rank(1, 3, f"tcp://127.0.0.1:{recorder.port}", *arguments, **common)
        self.wait_until(lambda: len(recorder.sent) > 256 + 64 + 4, "rank 1 to join")
        for _ in range(20):
            self.assertEqual(len(send_and_wait(("127.0.0.1", port), recorder.sent, 5)), 192, "more than the reply of 192 bytes")
        for wrong in ({"SYNCLINE_KEY_FILE": other}, {}):
            stranger = self.start_rank(2, 3, uri, SYNCLINE_TRANSPORT="tcp", **wrong)
            self.assertEqual(stranger.wait(20), 3, self.logs())
            self.assertIn("key", stranger.err().splitlines()[-1])
        self.assertIsNone(first.process.poll(), self.logs())
        third = self.start_rank(2, 3, uri, *arguments, **common)
        ranks = [first, second, third]
        self.wait_until(lambda: all("ready" in one.out() for one in ranks), "the job to start")
        for target in self.listeners():
            for _ in range(20):
                self.assertLessEqual(len(send_and_wait(target, recorder.sent, 5)), 192)
        self.touch("stop")
        self.expect_right(ranks)
        self.assertIn("refused a connection", first.err())


class OtherService(RanksTest):
    """SEC-06: another program has the rendezvous port."""

    def serve(self, reply):
        """Answers every connection with `reply` and leaves it open."""
        server = socket.create_server(("127.0.0.1", 0))
        held = []

        def work():
            try:
                while True:
                    one, _ = server.accept()
                    held.append(one)
                    one.sendall(reply)
            except OSError:
                pass

        self.addCleanup(lambda: [one.close() for one in [*held, server]])
        threading.Thread(target=work, daemon=True).start()
        return server.getsockname()[1]

    def join(self, port):
        """(error, seconds, peak memory in KiB) of a rank that wants to join there."""
        begin = time.monotonic()
        one = self.start_rank(1, 2, f"tcp://127.0.0.1:{port}", SYNCLINE_CONNECT_TIMEOUT="3s")
        _, status, usage = os.wait4(one.process.pid, 0)
        one.process.returncode = os.waitstatus_to_exitcode(status)
        self.assertNotEqual(one.process.returncode, 0)
        return one.err(), time.monotonic() - begin, usage.ru_maxrss

    def test_is_named_and_costs_no_memory(self):
        nobody, _, usual = self.join(self.free_port())
        self.assertIn("Connection refused", nobody)
        for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64):
            port = self.serve(reply)
            error, seconds, peak = self.join(port)
            self.assertIn(f"not a syncline endpoint at 127.0.0.1:{port}", error)
            self.assertEqual(len(error.splitlines()), 1, error)
            self.assertLess(seconds, 3 + 2)
            self.assertLess(peak - usual, 1 << 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
