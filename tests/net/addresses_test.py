"""NET-03: a name with several addresses, of which some lead nowhere."""

import subprocess
import time
import unittest

from two_hosts import NET_RANK, TwoHosts, missing

REASON = missing()
PORT = 29562
LIMIT_S = 3


@unittest.skipIf(REASON is not None, REASON)
class Addresses(TwoHosts):
    """Both ranks are on the first host; the second one only lends an address that swallows everything."""

    def join_hosts(self):
        super().join_hosts()
        for index, host in enumerate(self.hosts):
            self.ip("-n", host.namespace, "addr", "add", f"fd77::{index + 1}/64", "dev", "eth0", "nodad")

    def setUp(self):
        super().setUp()
        self.make_key(self.hosts[0])

    def name(self, *addresses):
        """What the name "meet" stands for, in the resolver's order."""
        with open(f"/etc/netns/{self.hosts[0].namespace}/hosts", "a", encoding="ascii") as file:
            file.write("".join(f"{address} meet\n" for address in addresses))

    def run_job(self, server, client):
        """Rank 0 first, so that only the way to it takes time. Seconds from the other's start to the job's."""
        host = self.hosts[0]
        common = {"SYNCLINE_WORLD_SIZE": 2, "SYNCLINE_LOCAL_WORLD_SIZE": 2, "SYNCLINE_TRANSPORT": "tcp", "SYNCLINE_SUSPECT_MS": "9s"}
        uris = [server, client]
        ranks = []
        for rank in range(2):
            begin = time.monotonic()
            ranks.append(self.start(host, NET_RANK, label=f"rank{rank}", SYNCLINE_RANK=rank, SYNCLINE_LOCAL_RANK=rank,
                                    SYNCLINE_RENDEZVOUS=uris[rank], **common))
            if rank == 0:
                self.wait_until(lambda: PORT in [port for _, port in self.listeners(host)], "rank 0 to listen", 20)
        self.wait_until(lambda: "ready" in ranks[1].out(), "the job to start", 30)
        seconds = time.monotonic() - begin
        for rank, one in enumerate(ranks):
            self.assertEqual(one.wait(), 0, self.logs())
            self.assertIn(f"rank {rank} of 2, local {rank} of 2, by SYNCLINE_*, over tcp: right", one.out())
            self.assertLessEqual(len(one.err().splitlines()), 2, "one line a family at most: " + one.err())
        self.assertLess(seconds, LIMIT_S, self.logs())
        return seconds

    def test_both_families_and_a_server_on_ipv4_only(self):
        self.name("::1", "127.0.0.1")
        self.run_job(f"tcp://127.0.0.1:{PORT}", f"tcp://meet:{PORT}")

    def test_both_families_and_a_server_on_ipv6_only(self):
        self.name("127.0.0.1", "::1")
        self.run_job(f"tcp://[::1]:{PORT}", f"tcp://meet:{PORT}")

    def test_no_ipv6_on_this_host(self):
        self.name("::1", "127.0.0.1")
        subprocess.run(["ip", "netns", "exec", self.hosts[0].namespace, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                        "net.ipv6.conf.lo.disable_ipv6=1"], check=True, capture_output=True)
        self.run_job(f"tcp://meet:{PORT}", f"tcp://meet:{PORT}")

    def test_literal_ipv6(self):
        self.run_job(f"tcp://[::1]:{PORT}", f"tcp://[::1]:{PORT}")

    def test_first_address_is_a_black_hole(self):
        rules = ("add table inet hole; add chain inet hole c { type filter hook input priority 0 ; }; "
                 "add rule inet hole c ip6 daddr fd77::2 tcp dport 0-65535 drop")
        subprocess.run(["ip", "netns", "exec", self.hosts[1].namespace, "nft", rules], check=True, capture_output=True)
        self.name("fd77::2", "10.77.0.1")
        seconds = self.run_job(f"tcp://meet:{PORT}", f"tcp://meet:{PORT}")
        self.assertGreater(seconds, 0.25, "it never met the black hole")


if __name__ == "__main__":
    unittest.main(verbosity=2)
