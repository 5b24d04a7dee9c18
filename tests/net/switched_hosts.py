"""Two hosts, or more, on one switch per rail, each port with a rate of its own: what links that break are tested on."""

import os
import subprocess

from two_hosts import TwoHosts


class SwitchedHosts(TwoHosts):
    """A switch is a namespace with a bridge and a port for each host."""

    rails = 1
    rate = "1gbit"
    latency = "50ms"  # of the queues at each end

    def join_hosts(self):
        try:
            self.join_by_switches()
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no shaped bridges here: {error.stderr}")

    def join_by_switches(self):
        self.switches = [f"syn{os.getpid()}s{rail}" for rail in range(self.rails)]
        for rail, switch in enumerate(self.switches):
            self.ip("netns", "add", switch)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", switch], capture_output=True, check=False)
            self.ip("-n", switch, "link", "add", "br0", "type", "bridge")
            self.ip("-n", switch, "link", "set", "br0", "up")
            for index, host in enumerate(self.hosts):
                port = f"port{index}"
                device = f"eth{rail}"
                self.ip("link", "add", device, "netns", host.namespace, "type", "veth", "peer", "name", port, "netns", switch)
                self.ip("-n", switch, "link", "set", port, "master", "br0", "up")
                self.ip("-n", host.namespace, "addr", "add", f"10.77.{rail}.{index + 1}/24", "dev", device)
                self.ip("-n", host.namespace, "link", "set", device, "up")
                for namespace, name in ((host.namespace, device), (switch, port)):
                    self.inside(namespace, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", self.rate, "burst", "128kb", "latency", self.latency)

    @staticmethod
    def inside(namespace, *command, check=True):
        return subprocess.run(["ip", "netns", "exec", namespace, *command], check=check, capture_output=True, text=True)

    def forward(self, switch, rule):
        """One rule for every frame that the switch forwards; "" takes it away."""
        self.inside(switch, "nft", "delete", "table", "bridge", "fault", check=False)
        if rule:
            made = self.inside(switch, "nft", "add table bridge fault", check=False)
            if made.returncode != 0:
                self.skipTest(f"nftables has no bridge family here: {made.stderr}")
            self.inside(switch, "nft", f"add table bridge fault; add chain bridge fault c {{ type filter hook forward priority 0 ; }}; "
                        f"add rule bridge fault c {rule}")
