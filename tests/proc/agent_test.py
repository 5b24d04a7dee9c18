"""`syncline run` on several hosts: a script stands for ssh and ignores the host."""

import os
import re
import signal
import unittest

from launcher import LauncherTest


class SeveralHosts(LauncherTest):
    def setUp(self):
        super().setUp()
        self.rsh = self.script("rsh", 'echo "welcome to $1"\nshift\nexec sh -c "$*"\n')

    def run_hosts(self, hosts, *program, options=(), env=None):
        return self.syncline("run", "-q", "--rsh", self.rsh, "--ifname", "=lo", "-H", hosts, *options, *program, env=env)

    def test_ranks_follow_the_host_list(self):
        result = self.run_hosts("host-a:2,host-b:1", "sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK")
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(sorted(result.out.splitlines()),
                         ["[rank 0 host-a] 0/3 0/2 0", "[rank 1 host-a] 1/3 1/2 0", "[rank 2 host-b] 2/3 0/1 1"])
        self.assertIn("host-a: welcome to host-a", result.err)

    def test_all_hosts_get_rank_0s_address(self):
        result = self.run_hosts("host-a,host-b", "sh", "-c", "echo $SYNCLINE_RENDEZVOUS fd=$SYNCLINE_RENDEZVOUS_FD")
        self.assertEqual(len(set(re.findall(r"tcp://\S+", result.out))), 1)
        self.assertRegex(result.out, r"rank 0 host-a\] \S+ fd=\d")
        self.assertRegex(result.out, r"rank 1 host-b\] \S+ fd=\n")

    def test_settings_travel_and_the_key_stays_out_of_sight(self):
        program = "echo $SYNCLINE_LOG $MY; cat <&$SYNCLINE_KEY_FD; tr '\\0' '\\n' < /proc/$PPID/cmdline; env"
        result = self.run_hosts("host-a,host-b", "sh", "-c", program, options=("-x", "MY=own"), env={"SYNCLINE_LOG": "off"})
        self.assertEqual(len(re.findall(r"off own$", result.out, re.M)), 2)
        keys = re.findall(r"syncline-key-1 ([0-9a-f]{64})", result.out)
        self.assertEqual(len(keys), 2, result.out)
        self.assertEqual(result.out.count(keys[0]), 2)

    def test_a_failure_on_one_host_ends_the_other(self):
        result = self.run_hosts("host-a:1,host-b:2", "sh", "-c", "test $RANK = 2 && { echo broken >&2; exit 6; }; sleep 60")
        self.assertEqual(result.code, 6)
        self.assertIn("rank 2 on host-b failed first: exit code 6", result.last_line())
        self.assertIn("    broken", result.err)
        self.assertLess(result.seconds, 15)

    def test_hostfile_forms(self):
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.write("# two hosts\nhost-a slots=2\nhost-b:2 # second\n")
        result = self.syncline("run", "-q", "--rsh", self.rsh, "--ifname", "=lo", "--hostfile", "hosts", "-np", "3", "true")
        self.assertEqual(result.code, 0, result.err)

    def test_a_host_that_cannot_be_reached(self):
        refusing = self.script("refusing", 'test "$1" = host-b && exit 255\nshift\nexec sh -c "$*"\n')
        result = self.syncline("run", "-q", "--rsh", refusing, "--ifname", "=lo", "-H", "host-a,host-b", "sleep", "60")
        self.assert_one_line(result, 3, "host-b", "exit code 255")

    def test_a_host_that_never_answers(self):
        silent = self.script("silent", 'exec sleep 300\n')
        result = self.syncline("run", "-q", "--rsh", silent, "--start-timeout", "500ms", "-H", "host-a,host-b", "true")
        self.assert_one_line(result, 3, "no answer from host-a")

    def test_a_lost_connection_ends_the_job(self):
        # The middle process stands for sshd; the agent has a session of its own.
        middle = self.script("middle", 'shift\necho $$ >> middle.pids\nsetsid sh -c "$*" | cat\n')
        process = self.start("run", "-q", "--rsh", middle, "--ifname", "=lo", "-H", "host-a,host-b", "sh", "-c",
                             "touch ready-$RANK; sleep 300 & wait")
        self.wait_for_file("ready-0")
        self.wait_for_file("ready-1")
        with open(self.path("middle.pids"), encoding="ascii") as file:
            os.killpg(int(file.read().split()[1]), signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.code, 1)
        self.assertIn("agent was lost", result.err)
        self.assertEqual(self.wait_until_gone(5), [])

    def test_a_killed_launcher_leaves_nothing_on_any_host(self):
        process = self.start("run", "--rsh", self.rsh, "--ifname", "=lo", "-H", "host-a:2,host-b:2", "sh", "-c",
                             "trap '' TERM HUP; touch ready-$RANK; sleep 300 & setsid sleep 300 & wait")
        for rank in range(4):
            self.wait_for_file(f"ready-{rank}")
        process.kill()
        process.wait()
        self.assertEqual(self.wait_until_gone(5), [])


if __name__ == "__main__":
    unittest.main()
