"""`syncline run` on this machine: environment, output, failures, signals, leftovers."""

import json
import os
import re
import signal
import socket
import time
import unittest

from launcher import LauncherTest

PRINT_ENVIRONMENT = "env; echo END"


def variables(result, rank):
    """The environment that a rank printed."""
    found = {}
    for line in result.out.splitlines():
        match = re.match(rf"\[rank {rank} [^]]+\] (\w+)=(.*)", line)
        if match:
            found[match[1]] = match[2]
    return found


class Environment(LauncherTest):
    def test_ranks_find_both_sets_of_variables(self):
        result = self.syncline("run", "-np", "3", "sh", "-c", PRINT_ENVIRONMENT)
        self.assertEqual(result.code, 0, result.err)
        ids = set()
        for rank in range(3):
            env = variables(result, rank)
            self.assertEqual(env["SYNCLINE_RANK"], str(rank))
            for name, value in {"WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3"}.items():
                self.assertEqual(env[name], value)
                self.assertEqual(env["SYNCLINE_" + name], value)
            for name, value in {"RANK": str(rank), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": str(rank),
                                "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
                                "TORCHELASTIC_RESTART_COUNT": "0"}.items():
                self.assertEqual(env[name], value)
            self.assertRegex(env["SYNCLINE_RENDEZVOUS"], r"^tcp://127\.0\.0\.1:\d+$")
            self.assertEqual("SYNCLINE_RENDEZVOUS_FD" in env, rank == 0)
            ids.add((env["SYNCLINE_RUN_ID"], env["SYNCLINE_RENDEZVOUS"], env["MASTER_PORT"], env["TORCHELASTIC_RUN_ID"]))
        self.assertEqual(len(ids), 1)

    def test_rank_0_inherits_a_listening_socket_and_all_the_same_key(self):
        program = (
            "import os,socket\n"
            "key = os.fdopen(int(os.environ['SYNCLINE_KEY_FD'])).read()\n"
            "fd = os.environ.get('SYNCLINE_RENDEZVOUS_FD')\n"
            "port = int(os.environ['SYNCLINE_RENDEZVOUS'].rsplit(':', 1)[1])\n"
            "if fd: s = socket.socket(fileno=int(fd)); assert s.getsockname()[1] == port; s.accept()[0].sendall(b'x')\n"
            "else: assert socket.create_connection(('127.0.0.1', port), 10).recv(1) == b'x'\n"
            "print('KEY', key.strip())\n"
        )
        result = self.syncline("run", "-np", "2", "/usr/bin/python3", "-c", program)
        self.assertEqual(result.code, 0, result.err)
        keys = re.findall(r"KEY (syncline-key-1 [0-9a-f]{64})$", result.out, re.M)
        self.assertEqual(len(keys), 2)
        self.assertEqual(len(set(keys)), 1)
        self.assertNotIn(keys[0].split()[1], result.err)

    def test_a_program_can_bind_the_master_port(self):
        program = (
            "import os,socket\n"
            "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
            "s.bind(('', int(os.environ['MASTER_PORT']))); s.listen()\n"
        )
        result = self.syncline("run", "-np", "1", "/usr/bin/python3", "-c", program)
        self.assertEqual(result.code, 0, result.err)

    def test_threads_are_shared_out_and_said_once(self):  # PERF-01
        cores = len(os.sched_getaffinity(0))
        result = self.syncline("run", "-np", "4", "sh", "-c", "echo T=$OMP_NUM_THREADS")
        self.assertEqual(re.findall(r"T=(\d+)", result.out), [str(max(1, cores // 4))] * 4)
        self.assertEqual(result.err.count("OMP_NUM_THREADS"), 1)
        kept = self.syncline("run", "-np", "4", "sh", "-c", "echo T=$OMP_NUM_THREADS", env={"OMP_NUM_THREADS": "2"})
        self.assertEqual(re.findall(r"T=(\d+)", kept.out), ["2"] * 4)
        self.assertEqual(kept.err, "")

    def test_a_smaller_core_set_counts(self):
        one = {min(os.sched_getaffinity(0))}
        process = self.start("run", "-np", "1", "sh", "-c", "echo T=$OMP_NUM_THREADS",
                             before=lambda: os.sched_setaffinity(0, one))
        result = self.finish(process)
        self.assertIn("T=1\n", result.out)
        self.assertIn("1 usable cores", result.err)

    def test_exported_variables_arrive(self):
        result = self.syncline("run", "-q", "-np", "1", "-x", "A=b c", "-x", "HOME", "--sync", "ring", "--timeout", "1.5s",
                               "--reproducible", "sh", "-c", PRINT_ENVIRONMENT)
        env = variables(result, 0)
        self.assertEqual((env["A"], env["SYNCLINE_SCHEDULE"], env["SYNCLINE_TIMEOUT"]), ("b c", "ring", "1500ms"))
        self.assertEqual(env["SYNCLINE_REPRODUCIBLE"], "1")

    def test_arguments_after_the_program_are_its_own(self):
        result = self.syncline("run", "-q", "--nproc_per_node", "1", "echo", "-np", "7", "--json", "--", "-x")
        self.assertEqual(result.out.split("] ")[1], "-np 7 --json -- -x\n")

    def test_two_jobs_at_once_never_share_a_port(self):  # NET-01
        for _ in range(20):
            jobs = [self.start("run", "-q", "-np", "2", "sh", "-c", "echo $SYNCLINE_RENDEZVOUS") for _ in range(2)]
            results = [self.finish(job) for job in jobs]
            self.assertEqual([result.code for result in results], [0, 0], results[0].err + results[1].err)
            uris = [set(re.findall(r"tcp://\S+", result.out)) for result in results]
            self.assertEqual([len(uri) for uri in uris], [1, 1])

    def test_binding_stays_within_the_core_set(self):
        show = "import os; print('CORES', sorted(os.sched_getaffinity(0)))"
        result = self.syncline("run", "-q", "-np", "2", "--bind-to", "core", "/usr/bin/python3", "-c", show)
        self.assertEqual(result.code, 0, result.err)
        sets = [json.loads(text) for text in re.findall(r"CORES (\[.*\])", result.out)]
        allowed = os.sched_getaffinity(0)
        self.assertTrue(all(set(cores) <= allowed for cores in sets))
        if len(allowed) >= 2:
            self.assertFalse(set(sets[0]) & set(sets[1]))


class OutputOfRanks(LauncherTest):
    def test_lines_are_prefixed_and_partial_ones_kept(self):
        result = self.syncline("run", "-q", "-np", "2", "sh", "-c", "echo a; echo b >&2; printf tail-$RANK")
        host = socket.gethostname().split(".")[0]
        self.assertEqual(sorted(result.out.splitlines()),
                         sorted(f"[rank {r} {host}] {t}" for r in range(2) for t in ("a", f"tail-{r}")))
        self.assertEqual(result.err.splitlines(), [f"[rank 0 {host}] b", f"[rank 1 {host}] b"]
                         if result.err.startswith("[rank 0") else [f"[rank 1 {host}] b", f"[rank 0 {host}] b"])
        self.assertNotIn("\x1b", result.out)
        colored = self.syncline("run", "-q", "--color", "always", "-np", "1", "echo", "a")
        self.assertIn("\x1b[", colored.out)

    def test_much_output_and_long_lines_come_whole(self):
        program = "import sys\nfor i in range(20000): print(i)\nsys.stdout.write('x' * 1000000 + '\\n')\nprint('end')"
        result = self.syncline("run", "-q", "-np", "2", "/usr/bin/python3", "-c", program)
        self.assertEqual(result.code, 0, result.err)
        for rank in range(2):
            lines = [line.split("] ", 1)[1] for line in result.out.splitlines() if line.startswith(f"[rank {rank} ")]
            self.assertEqual(lines[:20000], [str(i) for i in range(20000)])
            self.assertEqual("".join(lines[20000:-1]), "x" * 1000000)
            self.assertLessEqual(max(map(len, lines)), 65536)
            self.assertEqual(lines[-1], "end")

    def test_bytes_that_are_no_text_pass_unchanged(self):
        result = self.syncline("run", "-q", "-np", "1", "--log-dir", "logs", "--no-tee", "printf", r"\377\001\n")
        self.assertEqual((result.code, result.out), (0, ""))
        with open(self.path("logs/rank-0.stdout.log"), "rb") as file:
            self.assertEqual(file.read(), b"\xff\x01\n")

    def test_log_files_per_rank_and_stream(self):
        result = self.syncline("run", "-q", "-np", "2", "--log-dir", "a/logs", "sh", "-c", "echo o$RANK; echo e$RANK >&2")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("o1", result.out)
        for rank in range(2):
            for stream in ("stdout", "stderr"):
                with open(self.path(f"a/logs/rank-{rank}.{stream}.log"), encoding="utf-8") as file:
                    self.assertEqual(file.read(), f"{stream[3]}{rank}\n")

    def test_a_closed_reader_ends_the_job(self):
        process = self.start("run", "-q", "-np", "2", "yes")
        process.stdout.read(100)
        process.stdout.close()
        self.assertNotEqual(process.wait(timeout=20), 0)


class Failures(LauncherTest):
    def test_success_is_zero(self):
        self.assertEqual(self.syncline("run", "-q", "-np", "4", "true").code, 0)

    def test_the_first_cause_wins(self):  # LAU-01
        program = "case $RANK in 2) echo no-data >&2; sleep 0.2; exit 3;; 1) trap 'kill -ABRT $$' TERM;; esac; sleep 30 & wait"
        result = self.syncline("run", "-np", "4", "sh", "-c", program)
        self.assertEqual(result.code, 3, result.err)
        self.assertIn("rank 2 on", result.last_line())
        self.assertIn("exit code 3", result.last_line())
        self.assertIn("    no-data", result.err)
        collateral = [line for line in result.err.splitlines() if "collateral" in line][0]
        for rank in (0, 1, 3):
            self.assertIn(f"rank {rank} (", collateral)
        self.assertNotIn("rank 2 (", collateral)
        self.assertIn("rank 1 (killed by SIGABRT)", collateral)
        self.assertLess(result.seconds, 10)

    def test_a_killed_rank_gives_128_and_the_signal(self):  # LAU-01: out of memory
        result = self.syncline("run", "-np", "2", "sh", "-c", "test $RANK = 0 && kill -KILL $$; sleep 30")
        self.assertEqual(result.code, 137)
        self.assertIn("SIGKILL", result.last_line())
        crash = self.syncline("run", "-np", "2", "sh", "-c", "test $RANK = 1 && kill -SEGV $$; sleep 30")
        self.assertEqual(crash.code, 139)

    def test_an_early_clean_exit_of_one_does_not_hide_others(self):  # HANG-03
        result = self.syncline("run", "-np", "3", "sh", "-c", "test $RANK = 2 && exit 0; sleep 0.3; exit $((RANK + 4))")
        self.assertIn(result.code, (4, 5))
        self.assertIn("exit code 0: ranks 2", result.err)

    def test_only_the_last_20_lines_are_shown(self):
        result = self.syncline("run", "-np", "1", "--no-tee", "sh", "-c", "seq 1 100 >&2; exit 9")
        self.assertEqual(result.code, 9)
        self.assertEqual(re.findall(r"^    (\d+)$", result.err, re.M), [str(i) for i in range(81, 101)])

    def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(self):
        program = ("trap '' TERM; touch ready-$RANK; test $RANK = 0 || { until test -e ready-0; do sleep 0.02; done; exit 7; }; "
                   "while :; do sleep 30; done")
        result = self.syncline("run", "--grace", "500ms", "-np", "2", "sh", "-c", program)
        self.assertEqual(result.code, 7)
        self.assertGreater(result.seconds, 0.4)
        self.assertLess(result.seconds, 10)

    def test_requeue_gives_the_others_their_time(self):
        program = "test $RANK = 0 && exit 85; sleep 0.5; echo saved; exit 85"
        result = self.syncline("run", "-q", "-np", "2", "sh", "-c", program)
        self.assertEqual(result.code, 85)
        self.assertIn("saved", result.out)

    def test_summary_as_json(self):
        self.syncline("run", "-q", "-np", "2", "--json", "r.json", "sh", "-c", "echo why >&2; exit $((RANK * 5))")
        with open(self.path("r.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual((summary["schema"], summary["exit_code"]), ("syncline.run/1", 5))
        self.assertEqual((summary["first_cause"]["rank"], summary["first_cause"]["stderr"]), (1, ["why"]))

    def test_time_limit(self):
        result = self.syncline("run", "--time-limit", "300ms", "--grace", "200ms", "-np", "2", "sleep", "30")
        self.assertEqual(result.code, 124)


class Signals(LauncherTest):
    READY = "touch ready-$RANK; sleep 60 & wait"

    def start_ready(self, program, *options):
        process = self.start("run", *options, "-np", "2", "sh", "-c", program)
        self.wait_for_file("ready-0")
        self.wait_for_file("ready-1")
        return process

    def test_one_interrupt_lets_the_ranks_end(self):
        process = self.start_ready("trap 'sleep 0.3; echo bye-$RANK; exit 0' TERM; " + self.READY)
        process.send_signal(signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.code, 130)
        self.assertIn("bye-0", result.out)
        self.assertIn("bye-1", result.out)

    def test_two_interrupts_kill(self):
        process = self.start_ready("trap 'touch got-$RANK' TERM; touch ready-$RANK; while :; do sleep 0.05; done",
                                   "--grace", "60s")
        process.send_signal(signal.SIGINT)
        self.wait_for_file("got-0")
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).code, 130)
        self.assertLess(time.monotonic() - begin, 5)

    def test_sigterm_is_graceful_within_the_grace(self):
        process = self.start_ready("trap 'sleep 0.5; echo saved-$RANK; exit 85' TERM; " + self.READY, "--grace", "20s")
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 85)
        self.assertIn("saved-0", result.out)
        self.assertIn("saved-1", result.out)

    def test_sigterm_kills_after_the_grace(self):
        process = self.start_ready("trap '' TERM; touch ready-$RANK; while :; do sleep 0.05; done", "--grace", "300ms")
        process.send_signal(signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.code, 137)


class Leftovers(LauncherTest):
    """tearDown() looks for processes that carry the mark."""

    FAMILY = "sleep 300 & setsid sleep 300 & (sleep 300 & (setsid sleep 300 &)) & touch ready-$RANK; "

    def test_grandchildren_die_with_a_failed_job(self):
        result = self.syncline("run", "-np", "2", "sh", "-c", self.FAMILY + "test $RANK = 0 && exit 3; wait")
        self.assertEqual(result.code, 3)
        self.assertEqual(self.wait_until_gone(1), [])

    def test_grandchildren_die_with_a_job_that_ended_well(self):
        self.assertEqual(self.syncline("run", "-np", "2", "sh", "-c", self.FAMILY + "exit 0").code, 0)
        self.assertEqual(self.wait_until_gone(1), [])

    def test_a_killed_launcher_leaves_nothing(self):
        process = self.start("run", "-np", "2", "sh", "-c", "trap '' TERM HUP; " + self.FAMILY + "wait")
        self.wait_for_file("ready-0")
        self.wait_for_file("ready-1")
        process.kill()
        process.wait()
        self.assertEqual(self.wait_until_gone(5), [])

    def test_a_killed_agent_takes_its_ranks_along(self):
        process = self.start("run", "-np", "2", "sh", "-c", "setsid sleep 300 & touch ready-$RANK; sleep 300 & wait")
        self.wait_for_file("ready-0")
        self.wait_for_file("ready-1")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 1)
        self.assertIn("agent was lost", result.last_line())
        self.assertEqual(self.wait_until_gone(5), [])


if __name__ == "__main__":
    unittest.main()
