"""Ranks started by hand on this machine, what they listen on, and strangers who talk to that."""

import os
import re
import socket
import subprocess
import time

from launcher import DEADLINE_S, LauncherTest, marked_processes

NET_RANK = os.environ.get("SYNCLINE_NET_RANK", "net_rank")


class Rank:
    """One process; out and err are files, so that nothing blocks."""

    def __init__(self, test, rank, command, env, **more):
        self.label = f"{test.jobs}-{rank}"
        self.paths = [test.path(f"{self.label}.{end}") for end in ("out", "err")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=test.folder, **more)

    def text(self, which):
        with open(self.paths[which], encoding="utf-8", errors="replace") as file:
            return file.read()

    def out(self):
        return self.text(0)

    def err(self):
        return self.text(1)

    def wait(self, seconds=DEADLINE_S):
        return self.process.wait(timeout=seconds)

    def resident_kib(self, field="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field))


class RanksTest(LauncherTest):
    def setUp(self):
        super().setUp()
        # On a loaded machine a rank may be silent for a second: no news here.
        self.environment.update(TMPDIR=self.folder, HOME=self.folder, SYNCLINE_CONNECT_TIMEOUT="20s", SYNCLINE_SUSPECT_MS="9s",
                                SYNCLINE_FLIGHT_DIR=self.path("flight"))  # ranks that are killed leave records
        self.ranks = []
        self.jobs = 0

    def tearDown(self):
        for one in self.ranks:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
        super().tearDown()

    def start_rank(self, rank, size, rendezvous, *arguments, before=(), preexec=None, **env):
        """`before`: a command that runs the program."""
        environment = dict(self.environment, SYNCLINE_RANK=str(rank), SYNCLINE_WORLD_SIZE=str(size),
                           SYNCLINE_RENDEZVOUS=rendezvous, **{name: str(value) for name, value in env.items()})
        one = Rank(self, rank, [*before, NET_RANK, *arguments], environment, preexec_fn=preexec)
        self.jobs += 1
        self.ranks.append(one)
        return one

    def make_key(self, name="job.key"):
        made = self.syncline("key", "create", "-q", "--file", self.path(name))
        self.assertEqual(made.code, 0, made.err)
        return self.path(name)

    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def logs(self):
        return "\n".join(f"--- {one.label}\n{one.out()}{one.err()}" for one in self.ranks)

    def wait_until(self, condition, what, seconds=30):
        limit = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), limit, f"waited {seconds} s for {what}\n{self.logs()}")
            time.sleep(0.01)

    def expect_right(self, ranks):
        for rank, one in enumerate(ranks):
            self.assertEqual(one.wait(), 0, self.logs())
            self.assertRegex(one.out(), rf"rank {rank} of {len(ranks)}, .*: right")

    def touch(self, name):
        with open(self.path(name), "wb"):
            pass

    def listeners(self, pids=None):
        """{(address, port): pid} of the listening TCP sockets of these, or of all processes of this test."""
        owner = {}
        for pid in pids or marked_processes(self.mark):
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}"))
                    if match:
                        owner[match[1]] = pid
            except OSError:
                pass
        found = {}
        for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            for row in rows:
                if row[3] == "0A" and row[9] in owner:
                    where, port = row[1].split(":")
                    words = [bytes.fromhex(where[i:i + 8])[::-1] for i in range(0, len(where), 8)]
                    found[socket.inet_ntop(family, b"".join(words)), int(port, 16)] = owner[row[9]]
        return found

    def wait_for_listener(self, port):
        self.wait_until(lambda: port in [each for _, each in self.listeners()], f"port {port} to listen")


def send_and_wait(target, request, seconds):
    """What comes back until the other side closes, or `seconds` pass; None if it does not listen."""
    try:
        with socket.create_connection(target, timeout=5) as one:
            one.settimeout(seconds)
            answer = b""
            try:
                one.sendall(request)
                while more := one.recv(4096):
                    answer += more
            except ConnectionError:
                pass
            return answer
    except TimeoutError:
        return b"(stays open)"
    except OSError:
        return None
