"""NET-04: which network interfaces a job takes, on hosts with docker0, eth0 and eth0.17."""

import os
import subprocess
import unittest

from two_hosts import NET_RANK, SYNCLINE, TwoHosts, missing

REASON = missing()


@unittest.skipIf(REASON is not None, REASON)
class Interfaces(TwoHosts):
    """The wrong interfaces come first in the kernel's order."""

    def join_hosts(self):
        for host in self.hosts:
            self.ip("-n", host.namespace, "link", "add", "docker0", "type", "bridge")
            self.ip("-n", host.namespace, "addr", "add", "172.17.0.1/16", "dev", "docker0")
            self.ip("-n", host.namespace, "link", "set", "docker0", "up")
        a, b = self.hosts
        # Named like a VLAN; the kernel here may have none.
        self.ip("link", "add", "eth0.17", "netns", a.namespace, "type", "veth", "peer", "name", "eth0.17", "netns", b.namespace)
        for host in self.hosts:
            self.ip("-n", host.namespace, "addr", "add", host.address.replace("77", "78") + "/24", "dev", "eth0.17")
            self.ip("-n", host.namespace, "link", "set", "eth0.17", "up")
        super().join_hosts()

    def setUp(self):
        super().setUp()
        self.make_key(*self.hosts)
        os.makedirs(self.path("shared"))

    def start_job(self, ifname, rendezvous):
        env = {"SYNCLINE_WORLD_SIZE": 2, "SYNCLINE_RENDEZVOUS": rendezvous}
        if ifname:
            env["SYNCLINE_IFNAME"] = ifname
        ranks = [self.start(host, NET_RANK, "--until", self.path("stop"), label=f"{ifname} {host.name}", **env, SYNCLINE_RANK=rank)
                 for rank, host in enumerate(self.hosts)]
        self.wait_until(lambda: all("ready" in one.out() for one in ranks), "the job to start", 30)
        return ranks

    def end_job(self, ranks):
        with open(self.path("stop"), "w", encoding="ascii"):
            pass
        self.expect_right(ranks, "SYNCLINE_*")
        os.remove(self.path("stop"))

    def served_at(self, host):
        """Networks of the listeners, "77" and "78"; the test fails for any other."""
        found = {address for address, _ in self.listeners(host)}
        wanted = {host.address.replace("77", network): network for network in ("77", "78")}
        self.assertLessEqual(found, set(wanted), "listens where no other host gets in")
        return {wanted[address] for address in found}

    def test_choice_of_interfaces(self):
        for ifname, networks in (("", {"78"}), ("=eth0", {"77"}), ("eth0", {"77", "78"}), ("^docker0", {"77", "78"}),
                                 ("^lo", {"77", "78"}), ("^docker0,eth0.", {"77"})):
            with self.subTest(ifname=ifname):
                ranks = self.start_job(ifname, f"file:{self.path('shared')}")
                for host, one in zip(self.hosts, ranks):
                    self.assertEqual(self.served_at(host), networks, self.logs())
                    lines = [line for line in one.err().splitlines() if "serves other hosts at" in line]
                    self.assertEqual(len(lines), 1, one.err())
                    self.assertNotIn("172.17.", lines[0])
                    for network in networks:
                        device = {"77": "eth0", "78": "eth0.17"}[network]
                        self.assertIn(f" {device} {host.address.replace('77', network)}:", lines[0])
                    if ifname == "eth0":
                        self.assertIn("serves other hosts at eth0 ", lines[0], "the full name comes first")
                self.end_job(ranks)

    def test_rank_0s_address_decides_without_a_choice(self):
        ranks = self.start_job("", "tcp://n01:29561")
        for host in self.hosts:
            self.assertEqual(self.served_at(host), {"77"})
        self.end_job(ranks)

    def test_doctor_shows_the_choice(self):
        for ifname, text in (("", "best first: eth0.17 10.78.0.1, eth0 10.77.0.1"), ("eth0", "best first: eth0 10.77.0.1, eth0.17 10.78.0.1"),
                             ("=eth0", "best first: eth0 10.77.0.1\n"), ("^docker0", "best first: eth0.17 10.78.0.1, eth0 10.77.0.1")):
            host = self.hosts[0]
            env = self.environment(host, **({"SYNCLINE_IFNAME": ifname} if ifname else {}))
            shown = subprocess.run(host.command(SYNCLINE, "doctor"), env=env, capture_output=True, text=True, check=False, timeout=60)
            self.assertIn(text, shown.stdout, f"{ifname}: {shown.stdout}{shown.stderr}")

    def test_an_interface_that_is_not_there_is_one_clear_line(self):
        one = self.start(self.hosts[0], NET_RANK, SYNCLINE_RANK=0, SYNCLINE_WORLD_SIZE=2, SYNCLINE_IFNAME="=eth1",
                         SYNCLINE_RENDEZVOUS=f"file:{self.path('shared')}")
        self.assertNotEqual(one.wait(20), 0)
        self.assertIn("matches '=eth1'; there are: ", one.err())
        self.assertIn("eth0 10.77.0.1", one.err())


if __name__ == "__main__":
    unittest.main(verbosity=2)
