"""Jobs with servers: how they start, how they end, and who is blamed."""

import json
import os
import re
import signal
import time
import unittest

from launcher import SYNCLINE, LauncherTest, marked_processes
from ranks import Rank, RanksTest

RANK = os.environ.get("SYNCLINE_SERVED_RANK", "served_rank")
CUSTOM_SERVER = os.environ.get("SYNCLINE_CUSTOM_SERVER", "custom_server")


def servers_of(mark):
    """{id: pid} of the servers that run."""
    found = {}
    for pid in marked_processes(mark):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                match = re.search(rb"(?:^|\0)SYNCLINE_SERVER_ID=(\d+)", file.read())
        except OSError:
            continue
        if match:
            found[int(match[1])] = pid
    return found


class Servers(LauncherTest):
    def setUp(self):
        super().setUp()
        self.environment.update(SYNCLINE_CONNECT_TIMEOUT="20s", SYNCLINE_FLIGHT_DIR=self.path("flight"))
        self.shm = sorted(os.listdir("/dev/shm"))

    def tearDown(self):
        super().tearDown()
        self.assertEqual(sorted(os.listdir("/dev/shm")), self.shm)

    def start_reducing(self, *more, options=()):
        """A job that goes on until `enough` is made."""
        process = self.start("run", "-np", "2", "--servers", "2", *options, RANK, "--servers", "2", "--until", self.path("enough"), *more)
        for _ in range(2):
            self.assertIn("ready", process.stdout.readline())
        self.assertEqual(sorted(servers_of(self.mark)), [0, 1])
        return process

    def enough(self):
        with open(self.path("enough"), "wb"):
            pass

    # The ranks do again what the aggregator owed them, and go on by themselves.
    def test_ranks_outlive_their_aggregator(self):
        for moment in (0.1, 0.2, 0.4):
            with self.subTest(moment=moment):
                process = self.start("run", "-np", "3", "--aggregators", "2", RANK, "--until", self.path("enough"))
                for _ in range(3):
                    self.assertIn("ready", process.stdout.readline())
                time.sleep(moment)
                os.kill(servers_of(self.mark)[1], signal.SIGKILL)
                time.sleep(0.5)
                self.enough()
                out, err = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out.count("with 0 servers: right"), 3, out + err)
                self.assertIn("aggregator 1 on", err)
                self.assertIn("all_reduces go on without aggregators", err)
                os.remove(self.path("enough"))

    def test_servers_of_ones_own_know_custom_updates(self):
        job = ("run", "-q", "-np", "2", "--servers", "2", "--server-program", CUSTOM_SERVER, RANK, "--servers", "2", "--custom")
        result = self.syncline(*job, "3")
        self.assertEqual((result.code, result.out.count("right"), result.err), (0, 2, ""), result.out)
        result = self.syncline(*job, "4")
        self.assertEqual(result.code, 2, result.err)
        self.assertIn("a server knows no update 4; call optim::register_update()", result.err)

    # Case PS-10, second part: all roles end in any order, with traffic on its way.
    def test_stores_end_in_any_order(self):
        for seed in range(50):
            with self.subTest(seed=seed):
                begun = time.monotonic()
                result = self.syncline("run", "-q", "-np", "3", "--servers", "2", RANK, "--servers", "2", "--scatter", str(seed))
                self.assertEqual((result.code, result.err), (0, ""), result.out)
                self.assertEqual(result.out.count("done"), 3, result.out)
                self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(marked_processes(self.mark), [])

    def test_they_end_with_their_ranks(self):
        result = self.syncline("run", "-q", "-np", "2", "--servers", "2", "--json", "r.json", RANK, "--servers", "2")
        self.assertEqual((result.code, result.err), (0, ""), result.out)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2 with 2 servers: right", result.out)
        self.assertEqual(marked_processes(self.mark), [])
        with open(self.path("r.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual([entry["rank"] for entry in summary["ranks"]], [0, 1])
        self.assertEqual([(entry["server"], entry["exit_code"]) for entry in summary["servers"]], [(0, 0), (1, 0)])

    def test_one_rank_with_a_server(self):
        result = self.syncline("run", "-q", "-np", "1", "--servers", "1", RANK, "--servers", "1")
        self.assertEqual((result.code, result.err), (0, ""), result.out)

    def test_over_tcp(self):
        result = self.syncline("run", "-q", "-np", "2", "--servers", "3", "--transport", "tcp", RANK, "--servers", "3")
        self.assertEqual((result.code, result.err), (0, ""), result.out)

    def test_aggregators_sum_for_the_ranks(self):
        for transport in ("shm", "tcp"):
            result = self.syncline("run", "-q", "-np", "3", "--aggregators", "2", "-x", "SYNCLINE_TRANSPORT=" + transport, SYNCLINE, "bench",
                                   "all_reduce", "--minbytes", "4", "--maxbytes", "1M", "--stepfactor", "512", "--iters", "5", "--json", "sums.json")
            self.assertEqual((result.code, result.err), (0, ""), result.out)
            with open(self.path("sums.json"), encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            self.assertEqual([(row["schedule"], row["wrong"]) for row in rows], [("aggregator", 0)] * 3)

    def test_aggregators_hold_no_store(self):
        result = self.syncline("run", "-q", "-np", "2", "--aggregators", "1", RANK, "--servers", "0")
        self.assertEqual((result.code, result.err), (0, ""), result.out)
        result = self.syncline("run", "-q", "-np", "2", "--aggregators", "1", SYNCLINE, "bench", "kv", "--keys", "3", "--bytes", "1M", "--iters", "2")
        self.assertEqual((result.code, result.err), (0, ""), result.out)
        self.assertIn("2 workers, 2 servers", result.out)  # the workers' shares

    def test_a_job_without_servers_knows_none(self):
        # Not even those of a job around it.
        result = self.syncline("run", "-q", "-np", "2", RANK, env={"SYNCLINE_SERVERS": "5", "SYNCLINE_SERVER_ID": "1"})
        self.assertEqual((result.code, result.err), (0, ""), result.out)

    def test_what_they_find_in_their_environment(self):
        process = self.start_reducing(options=("-q", "-x", "MY=own"))
        for number, pid in servers_of(self.mark).items():
            with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                env = dict(entry.split("=", 1) for entry in file.read().split("\0") if "=" in entry)
            self.assertEqual((env["SYNCLINE_SERVERS"], env["SYNCLINE_SERVER_ID"], env["SYNCLINE_WORLD_SIZE"], env["MY"]),
                             ("2", str(number), "2", "own"))
            self.assertFalse({"SYNCLINE_RANK", "SYNCLINE_LOCAL_RANK", "SYNCLINE_RENDEZVOUS_FD"} & set(env))
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                self.assertEqual(file.read().split("\0")[1], "serve")
        self.enough()
        self.assertEqual(self.finish(process).code, 0)

    def test_a_program_that_never_joins_leaves_no_server_behind(self):
        result = self.syncline("run", "-q", "-np", "2", "--servers", "2", "sh", "-c", "echo $SYNCLINE_SERVERS")
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertLess(result.seconds, 5, "nobody waits for the grace")

    def test_a_rank_that_fails_ends_all(self):
        process = self.start_reducing("--fail", "1", options=("-q", "--grace", "20s"))
        begin = time.monotonic()
        self.enough()
        result = self.finish(process, begin)
        self.assertEqual(result.code, 3, result.err)
        self.assertRegex(result.last_line(), r"^syncline run: rank 1 on \S+ failed first: exit code 3$")
        self.assertIn("    no more data", result.err)
        self.assertNotIn("server", "".join(line for line in result.err.splitlines() if "collateral" in line))
        self.assertLess(result.seconds, 10, "servers see that the ranks are gone")
        self.assertEqual(marked_processes(self.mark), [])

    def test_a_killed_server_fails_the_job_and_is_named(self):
        process = self.start_reducing("--fail", "none", options=("-q", "--json", "r.json"))
        os.kill(servers_of(self.mark)[1], signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 137, result.err)
        self.assertRegex(result.last_line(), r"^syncline run: server 1 on \S+ failed first: killed by SIGKILL")
        self.assertEqual(marked_processes(self.mark), [])
        with open(self.path("r.json"), encoding="utf-8") as file:
            cause = json.load(file)["first_cause"]
        self.assertEqual(cause["server"], 1)
        self.assertNotIn("rank", cause)

    def test_a_stopped_server_ends_too(self):
        process = self.start_reducing(options=("-q", "-x", "SYNCLINE_LOG=off"))
        os.kill(servers_of(self.mark)[0], signal.SIGSTOP)
        self.enough()
        result = self.finish(process)
        self.assertEqual((result.code, result.err), (0, ""))

    def test_sigterm_is_for_the_ranks(self):
        process = self.start_reducing(options=("-q", "-x", "SYNCLINE_LOG=off"))
        for pid in servers_of(self.mark).values():
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGUSR1)
        time.sleep(0.2)
        self.assertEqual(sorted(servers_of(self.mark)), [0, 1])
        self.enough()
        result = self.finish(process)
        self.assertEqual((result.code, result.err), (0, ""))

    def test_their_output_has_their_name(self):
        process = self.start_reducing("--fail", "0", options=("--log-dir", "logs"))
        self.enough()
        result = self.finish(process)
        self.assertRegex(result.err, r"\[server 1 \S+\] \S+ syncline server 1: .*rank 0 \(host \S+, pid \d+\)")
        with open(self.path("logs/server-1.stderr.log"), encoding="utf-8") as file:
            self.assertIn("syncline server 1: ", file.read())

    def test_wrong_usage_is_one_line(self):
        self.assert_one_line(self.syncline("run", "--servers", "x", "true"), 2, "--servers")
        self.assert_one_line(self.syncline("run", "--aggregators", "x", "true"), 2, "--aggregators")
        self.assert_one_line(self.syncline("run", "--aggregators", "1", "--servers", "1", "true"), 2, "give one")
        self.assert_one_line(self.syncline("run", "--servers-on", "colocated", "true"), 2, "--servers N")
        self.assert_one_line(self.syncline("run", "--servers", "1", "--servers-on", "nowhere", "true"), 2, "nowhere")
        self.assert_one_line(self.syncline("serve"), 3, "SYNCLINE_SERVER_ID is not set")
        server = {"SYNCLINE_SERVER_ID": "0", "SYNCLINE_SERVERS": "1"}
        self.assert_one_line(self.syncline("serve", env=server), 2, "SYNCLINE_WORLD_SIZE is not")

    def test_hosts_of_servers(self):
        # A script stands for ssh and ignores the host.
        rsh = self.script("rsh", 'shift\nexec sh -c "$*"\n')
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write("host-b slots=1\nhost-c:2\n")
        more = ("-q", "--rsh", rsh, "--ifname", "=lo", "-H", "host-a:1,host-b:1")
        for where, names in ((("colocated",), "aba"), ((self.path("hosts"),), "bcc")):
            enough = self.path("enough-" + names)
            process = self.start("run", *more, "--servers", "3", "--servers-on", *where, "--json", "r.json", RANK, "--servers", "3",
                                 "--until", enough)
            for _ in range(2):
                self.assertIn("ready", process.stdout.readline())
            with open(enough, "wb"):
                pass
            result = self.finish(process)
            self.assertEqual(result.code, 0, result.err)
            with open(self.path("r.json"), encoding="utf-8") as file:
                summary = json.load(file)
            self.assertEqual([entry["host"] for entry in summary["servers"]], [f"host-{name}" for name in names])
        few = self.syncline("run", *more, "--servers", "4", "--servers-on", "hosts", "true")
        self.assert_one_line(few, 2, "4 servers", "3 slots")


class ByHand(RanksTest):
    """Ranks and servers without a launcher of ours."""

    def start_process(self, label, *command, **env):
        one = Rank(self, label, command, dict(self.environment, **env))
        self.jobs += 1
        self.ranks.append(one)
        return one

    def start_served(self, rank, **env):
        return self.start_process(f"rank-{rank}", RANK, "--servers", "1", SYNCLINE_RANK=str(rank), **env)

    def start_server(self, **env):
        return self.start_process("server", self.binary, "serve", SYNCLINE_SERVER_ID="0", **env)

    def job(self, **more):
        return dict({"SYNCLINE_SERVERS": "1", "SYNCLINE_WORLD_SIZE": "2", "SYNCLINE_RUN_ID": "by-hand",
                     "SYNCLINE_RENDEZVOUS": f"tcp://127.0.0.1:{self.free_port()}"}, **more)

    def test_in_any_order(self):
        job = self.job()
        everybody = [self.start_server(**job), *(self.start_served(rank, **job) for rank in (1, 0))]
        for one in everybody:
            self.assertEqual(one.wait(), 0, self.logs())

    def test_a_shared_folder(self):
        job = self.job(SYNCLINE_RENDEZVOUS=f"file:{self.path('meet')}")
        for one in (self.start_server(**job), *(self.start_served(rank, **job) for rank in range(2))):
            self.assertEqual(one.wait(), 0, self.logs())

    def test_servers_that_nobody_started_are_missed_by_name(self):
        job = self.job(SYNCLINE_CONNECT_TIMEOUT="1500ms")
        ranks = [self.start_served(rank, **job) for rank in range(2)]
        for one in ranks:
            self.assertEqual(one.wait(), 124, self.logs())
        self.assertIn("server 0 of 1 did not arrive", ranks[0].err())

    def test_a_rank_that_counts_other_servers_is_refused(self):
        job = self.job(SYNCLINE_CONNECT_TIMEOUT="3s")
        right = self.start_served(0, **job)
        wrong = self.start_process("wrong", RANK, SYNCLINE_RANK="1", **dict(job, SYNCLINE_SERVERS="2"))
        self.assertEqual(wrong.wait(), 1, self.logs())
        self.assertEqual(len(wrong.err().splitlines()), 1, wrong.err())
        self.assertIn("world size 2 with 2 servers here, 2 with 1 servers there", wrong.err())
        self.assertEqual(right.wait(), 124, self.logs())

    def test_init_in_a_server_is_refused(self):
        wrong = self.start_process("wrong", RANK, SYNCLINE_SERVER_ID="0", **self.job())
        self.assertEqual(wrong.wait(), 3, self.logs())
        self.assertIn("SYNCLINE_SERVER_ID=0: this process is a server", wrong.err())


if __name__ == "__main__":
    unittest.main(verbosity=2)
