"""Flight records: what is left of ranks that were killed, stopped, absent or at odds, and what doctor says about it."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from launcher import DEADLINE_S, LauncherTest, marked_processes

RANK = os.environ.get("FLIGHT_RANK", "flight_rank")
SHM = "/dev/shm"


class FlightTest(LauncherTest):
    """Each test has its own TMPDIR, so that dumps lie in its folder."""

    def setUp(self):
        super().setUp()
        self.environment["TMPDIR"] = self.folder
        self.shm_before = set(os.listdir(SHM))

    def dumps(self):
        """Folder of the job's dumps."""
        own = self.path(f"syncline-{os.geteuid()}")
        jobs = os.listdir(own) if os.path.isdir(own) else []
        self.assertEqual(len(jobs), 1, jobs)
        return os.path.join(own, jobs[0])

    def wait_for_dumps(self, ranks, seconds=20):
        limit = time.monotonic() + seconds
        wanted = {f"rank-{rank}.flight" for rank in ranks}
        found = set()
        while not wanted <= found:
            self.assertLess(time.monotonic(), limit, f"only {found} of {wanted}")
            own = self.path(f"syncline-{os.geteuid()}")
            found = {name for _, _, names in os.walk(own) for name in names}
            time.sleep(0.02)
        return self.dumps()

    def doctor(self, *names, code=0):
        """The JSON report; the text must fit it."""
        result = self.syncline("doctor", "--dump", *names, "--json")
        self.assertEqual(result.code, code, result.err)
        report = json.loads(result.out)
        self.assertEqual(report["schema"], "syncline.flight/1")
        return report

    def rank_of(self, report, rank):
        return next(entry for entry in report["ranks"] if entry["rank"] == rank)

    def processes_of_ranks(self):
        """Process ids by rank."""
        found = {}
        for pid in marked_processes(self.mark):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if os.path.basename(words[0].decode()) != os.path.basename(RANK):
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                match = re.search(rb"SYNCLINE_RANK=(\d+)", file.read())
            found[int(match[1])] = pid
        return found

    def start_ready(self, mode, ranks, *options, env=None):
        process = self.start("run", *options, "-np", str(ranks), RANK, mode, env=env)
        for rank in range(ranks):
            self.wait_for_file(f"ready-{rank}")
        return process

    def assert_nothing_in_shm(self):
        self.assertEqual(set(os.listdir(SHM)), self.shm_before)


class UnderTheLauncher(FlightTest):
    def test_a_killed_rank_leaves_its_last_operation(self):
        process = self.start_ready("loop", 4)
        os.kill(self.processes_of_ranks()[2], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 137)
        self.assertIn("syncline doctor --dump", result.err)
        folder = self.dumps()
        self.assertEqual(sorted(os.listdir(folder)), [f"rank-{rank}.flight" for rank in range(4)])
        report = self.doctor(folder)
        self.assertEqual((report["verdict"]["cause"], report["verdict"]["culprits"]), ("killed", [2]))
        victim = self.rank_of(report, 2)
        self.assertEqual(victim["end"], "killed by SIGKILL")
        self.assertRegex(victim["last_started"]["what"], r"^#\d+ all_reduce\(f32, 1048576 elements, sum\) 'step'$")
        self.assertGreaterEqual(victim["last_started"]["op"], 5)
        for rank in (0, 1, 3):  # nobody got further than one call beyond the victim's
            self.assertLessEqual(abs(self.rank_of(report, rank)["last_started"]["op"] - victim["last_started"]["op"]), 1)
        text = self.syncline("doctor", "--dump", folder)
        self.assertLess(len(text.out.splitlines()), 25)
        self.assertIn("culprit  rank 2 (killed)", text.out)
        self.assert_nothing_in_shm()

    def test_a_rank_that_never_calls_is_named_with_its_last_operation(self):
        process = self.start_ready("absent", 4)
        time.sleep(1.5)  # longer than a wait that is worth a word
        process.send_signal(signal.SIGUSR2)
        report = self.doctor(self.wait_for_dumps(range(4)))
        verdict = report["verdict"]
        self.assertEqual((verdict["cause"], verdict["culprits"]), ("not_called", [2]), verdict)
        self.assertIn("'second', in which ranks 0-1, 3 wait", verdict["text"])
        self.assertIn("its last call was #1 all_reduce(f32, 1000 elements, sum) 'first'", verdict["evidence"][0])
        self.assertEqual([(g["last_common"], g["last_called"]) for g in report["groups"]], [(1, 2)])
        absent = self.rank_of(report, 2)
        self.assertEqual(absent["pending"], [])
        self.assertEqual(absent["last_done"]["op"], 1)
        waiting = self.rank_of(report, 0)["pending"][0]
        self.assertEqual(waiting["op"], 2)
        self.assertGreater(waiting["age_s"], 1)
        self.assertIsNone(process.poll(), "the request ended the job")
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(self.finish(process).code, 0)

    def test_timeouts_name_the_absent_rank_too(self):
        result = self.syncline("run", "--timeout", "1500ms", "--grace", "1s", "-np", "3", RANK, "absent")
        self.assertEqual(result.code, 1, result.err)
        verdict = self.doctor(self.dumps())["verdict"]
        self.assertEqual((verdict["cause"], verdict["culprits"]), ("not_called", [2]), verdict)

    def test_a_stopped_rank(self):
        process = self.start_ready("loop", 3)
        os.kill(self.processes_of_ranks()[1], signal.SIGSTOP)
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR2)
        report = self.doctor(self.wait_for_dumps(range(3)))
        self.assertEqual((report["verdict"]["cause"], report["verdict"]["culprits"]), ("stopped", [1]))
        self.assertEqual(self.rank_of(report, 1)["end"], "stopped")
        self.assertIn("'step'", self.rank_of(report, 1)["last_started"]["what"])
        process.send_signal(signal.SIGTERM)
        self.finish(process)

    def test_a_mismatch(self):
        result = self.syncline("run", "-np", "3", RANK, "mismatch")
        self.assertEqual(result.code, 1, result.err)
        verdict = self.doctor(self.dumps())["verdict"]
        self.assertEqual((verdict["cause"], verdict["culprits"]), ("mismatch", [1]), verdict)
        self.assertIn("ranks disagree on operation #2", verdict["text"])
        self.assertIn("rank 1 called barrier()", verdict["evidence"])
        self.assertIn("ranks 0, 2 called all_reduce(f32, 1000 elements, sum)", verdict["evidence"])

    def test_an_orderly_end_leaves_nothing(self):
        for mode in ("well", "leaks"):
            result = self.syncline("run", "-np", "3", RANK, mode)
            self.assertEqual(result.code, 0, result.err)
            self.assertNotIn("flight", result.err)
            self.assertEqual(os.listdir(self.folder), [])
            self.assert_nothing_in_shm()

    def test_dumps_lie_beside_the_logs(self):
        result = self.syncline("run", "--log-dir", "logs", "-np", "2", RANK, "mismatch")
        self.assertEqual(result.code, 1, result.err)
        self.assertEqual(len(self.doctor(self.path("logs/flight"))["ranks"]), 2)

    def test_it_can_be_switched_off(self):
        result = self.syncline("run", "-np", "2", RANK, "mismatch", env={"SYNCLINE_FLIGHT": "off"})
        self.assertEqual(result.code, 1, result.err)
        self.assertNotIn("flight", result.err)
        self.assertEqual(os.listdir(self.folder), [])


class WithoutOurLauncher(FlightTest):
    def setUp(self):
        super().setUp()
        self.flights = self.path("flights")
        os.mkdir(self.path("meet"))

    def start_ranks(self, mode, ranks):
        processes = []
        for rank in range(ranks):
            env = dict(self.environment, SYNCLINE_RENDEZVOUS=f"file:{self.path('meet')}", SYNCLINE_RANK=str(rank),
                       SYNCLINE_WORLD_SIZE=str(ranks), SYNCLINE_FLIGHT_DIR=self.flights)
            processes.append(subprocess.Popen([RANK, mode], env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        self.started += processes
        return processes

    def test_a_killed_rank_can_be_read_later(self):
        ranks = self.start_ranks("loop", 3)
        for rank in range(3):
            self.wait_for_file(f"ready-{rank}")
        ranks[1].kill()
        for rank in ranks:
            rank.communicate(timeout=DEADLINE_S)
        live = os.path.join(self.flights, "live")
        left = [name for _, _, names in os.walk(live) for name in names]
        self.assertEqual(left, ["rank-1.flight"])
        report = self.doctor(live, self.flights)
        self.assertEqual((report["verdict"]["cause"], report["verdict"]["culprits"]), ("killed", [1]))
        self.assertEqual(len(report["ranks"]), 3)  # the others dumped when their operation failed
        self.assertIn("'step'", self.rank_of(report, 1)["last_started"]["what"])
        self.assertEqual(self.rank_of(report, 0)["failed"][0]["code"], "peer_lost")
        by_default = self.syncline("doctor", "--dump", "--json", env={"SYNCLINE_FLIGHT_DIR": self.flights})
        self.assertEqual(len(json.loads(by_default.out)["ranks"]), 3, by_default.err)

    def test_sigusr2_to_a_rank_dumps_its_record(self):
        ranks = self.start_ranks("loop", 2)
        for rank in range(2):
            self.wait_for_file(f"ready-{rank}")
        ranks[0].send_signal(signal.SIGUSR2)
        limit = time.monotonic() + 10
        while not [n for f, _, names in os.walk(self.flights) if "live" not in f for n in names if n == "rank-0.flight"]:
            self.assertLess(time.monotonic(), limit)
            self.assertIsNone(ranks[0].poll())
            time.sleep(0.02)
        for rank in ranks:
            rank.kill()

    def test_an_orderly_end_leaves_nothing(self):
        for mode in ("well", "leaks"):
            for rank in self.start_ranks(mode, 3):
                _, err = rank.communicate(timeout=DEADLINE_S)
                self.assertEqual(rank.returncode, 0, err)
                self.assertNotIn("flight", err)
            left = [name for _, _, names in os.walk(self.flights) for name in names]
            self.assertEqual(left, [])
            self.assertFalse(os.path.exists(os.path.join(self.flights, "live")))
        self.assert_nothing_in_shm()


class BadFiles(FlightTest):
    def test_each_gets_one_line_and_the_rest_is_read(self):
        self.syncline("run", "-np", "2", RANK, "mismatch")
        folder = self.dumps()
        with open(os.path.join(folder, "rank-0.flight"), "rb") as file:
            whole = file.read()
        for name, content in (("empty.flight", b""), ("text.flight", b"hello\n" * 9999), ("short.flight", whole[:-100]),
                              ("version.flight", whole[:8] + b"\x09" + whole[9:])):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        result = self.syncline("doctor", "--dump", folder, "nowhere.flight")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("verdict", result.out)
        self.assertEqual(len(result.err.splitlines()), 5, result.err)
        for words in ("empty.flight: is empty", "text.flight: is no flight record", "short.flight: is truncated: ",
                      "version.flight: is a flight record of version 9", "nowhere.flight: cannot be read: No such file"):
            self.assertIn(words, result.err)

    def test_nothing_readable_is_an_error(self):
        self.assertEqual(self.syncline("doctor", "--dump", "nowhere").code, 2)
        os.mkdir(self.path("hollow"))
        self.assertIn("holds no flight records", self.syncline("doctor", "--dump", "hollow").err)
        self.assert_one_line(self.syncline("doctor", "stray-name"), 2, "--dump")


if __name__ == "__main__":
    unittest.main()
