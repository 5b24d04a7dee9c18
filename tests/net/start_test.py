"""One program, started on two hosts in every way, without a change."""

import json
import os
import shutil
import unittest

from two_hosts import NET_RANK, SYNCLINE, TwoHosts, missing

REASON = missing()


@unittest.skipIf(REASON is not None, REASON)
class Start(TwoHosts):
    def setUp(self):
        super().setUp()
        self.make_key(*self.hosts)

    def start_both(self, common, own):
        return [self.start(host, NET_RANK, **common, **own(rank)) for rank, host in enumerate(self.hosts)]

    def remote_shell(self):
        """A script that stands for ssh."""
        path = self.path("rsh")
        a, b = self.hosts
        with open(path, "w", encoding="ascii") as file:
            file.write(f"""#!/bin/sh
case "$1" in
  {a.address}|{a.name}) ns={a.namespace}; name={a.name}; home={a.home}; tmp={a.temporary};;
  {b.address}|{b.name}) ns={b.namespace}; name={b.name}; home={b.home}; tmp={b.temporary};;
  *) echo "no host $1" >&2; exit 255;;
esac
shift
export HOME=$home TMPDIR=$tmp
exec ip netns exec $ns unshare --uts sh -c "hostname $name; $*"
""")
        os.chmod(path, 0o755)
        return path

    def test_launcher_with_hostfile(self):
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write("".join(f"{host.name} slots=1\n" for host in self.hosts))
        job = self.start(self.hosts[0], SYNCLINE, "run", "--hostfile", self.path("hosts"), "--rsh", self.remote_shell(), NET_RANK)
        self.assertEqual(job.wait(), 0, self.logs())
        for rank in range(2):
            self.assertRegex(job.out(), rf"rank {rank} of 2, local 0 of 1, by [^,]*, over tcp: right")

    def test_launcher_with_two_ranks_a_host(self):
        job = self.start(self.hosts[0], SYNCLINE, "run", "-H", "n01:2,n02:2", "--rsh", self.remote_shell(), NET_RANK)
        self.assertEqual(job.wait(), 0, self.logs())
        for rank in range(4):
            self.assertRegex(job.out(), rf"rank {rank} of 4, local {rank % 2} of 2, by [^,]*, over shm\+tcp: right")

    def test_launcher_with_servers(self):
        for options, servers in ((("-H", "n01:2,n02:1"), "3"), (("-H", "n01:1", "--servers-on", self.path("servers")), "2")):
            with self.subTest(options=options):
                with open(self.path("servers"), "w", encoding="ascii") as file:
                    file.write("n02 slots=2\n")
                job = self.start(self.hosts[0], SYNCLINE, "run", *options, "--servers", servers, "--rsh", self.remote_shell(), "--json", self.path("r.json"),
                                 NET_RANK)
                self.assertEqual(job.wait(), 0, self.logs())
                with open(self.path("r.json"), encoding="utf-8") as file:
                    summary = json.load(file)
                places = [entry["host"] for entry in summary["servers"]]
                self.assertEqual(places, ["n01", "n02", "n01"] if servers == "3" else ["n02", "n02"])
                self.assertEqual(job.out().count("right"), len(summary["ranks"]), self.logs())

    def test_hierarchical_schedules_know_the_hosts(self):
        for words, pattern in ((("--schedule", "hierarchical"), "hierarchical:"),
                               (("--schedule", "hierarchical:two_shot/ring", "-d", "bf16"), "hierarchical:two_shot/ring"),
                               (("--schedule", "hierarchical", "--reproducible"), "hierarchical:")):
            with self.subTest(words=words):
                job = self.start(self.hosts[0], SYNCLINE, "bench", "all_reduce", "-H", "n01:2,n02:2", "--rsh", self.remote_shell(),
                                 "--minbytes", "1K", "--maxbytes", "1M", "--stepfactor", "32", "--iters", "10", "--json", "-", *words)
                self.assertEqual(job.wait(), 0, self.logs())
                for row in json.loads(job.out())["rows"]:
                    self.assertTrue(row["schedule"].startswith(pattern), row)
                    self.assertEqual((row["wrong"], row["in_place"]["wrong"], row["transport"]), (0, 0, "shm+tcp"))

    def test_torchrun_environment(self):
        common = {"WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "n01", "MASTER_PORT": 29555}
        self.expect_right(self.start_both(common, lambda rank: {"RANK": rank, "GROUP_RANK": rank}), "torchrun")

    def test_own_variables(self):
        common = {"SYNCLINE_WORLD_SIZE": 2, "SYNCLINE_RENDEZVOUS": "tcp://10.77.0.1:29556"}
        self.expect_right(self.start_both(common, lambda rank: {"SYNCLINE_RANK": rank}), "SYNCLINE_*")

    def test_file_in_a_shared_folder(self):
        shared = self.path("shared")
        os.makedirs(shared)
        common = {"SYNCLINE_WORLD_SIZE": 2, "SYNCLINE_RENDEZVOUS": f"file:{shared}"}
        self.expect_right(self.start_both(common, lambda rank: {"SYNCLINE_RANK": rank}), "SYNCLINE_*")

    def test_slurm_step(self):
        common = {"SLURM_JOB_ID": 4711, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 2, "SLURM_NTASKS": 8, "SLURM_LOCALID": 0,
                  "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "n[01-02]"}
        own = lambda rank: {"SLURM_PROCID": rank, "SLURM_NODEID": rank}
        self.expect_right(self.start_both(common, own), "slurm step")

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_mpirun(self):
        job = self.start(self.hosts[0], "mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", self.remote_shell(),
                         "--mca", "btl", "self,tcp", "--host", "n01:1,n02:1", "-np", "2",
                         "-x", "MASTER_ADDR=10.77.0.1", "-x", "MASTER_PORT=29557", NET_RANK)
        self.assertEqual(job.wait(), 0, self.logs())
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, local 0 of 1, by OMPI_*, over tcp: right", job.out(), self.logs())


if __name__ == "__main__":
    unittest.main(verbosity=2)
