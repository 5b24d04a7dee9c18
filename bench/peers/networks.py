"""Where the ranks of a comparison run: on this machine, or on hosts (network namespaces) whose links have a given rate."""
import itertools
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

NUMBERS = itertools.count(1)


class ThisMachine:
    """All ranks here, over shared memory or over TCP on the loopback interface."""

    interface = "lo"
    address = "127.0.0.1"
    rate_limited = False

    def __init__(self, name):
        self.name = name  # "shm" or "tcp"
        self.environment = dict(os.environ)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def on_host(self, _, command):
        return command

    def launcher(self, command):
        return command


class ShapedHosts:
    """One rank on each of `count` hosts, every port at `rate` (of `tc tbf`); a switch joins them. Needs root."""

    rate_limited = True
    interface = "eth0"

    def __init__(self, rate, count):
        self.name = rate
        self.count = count
        number = next(NUMBERS)
        self.namespaces = [f"synbench{os.getpid()}n{number}h{index}" for index in range(count)]
        self.switch = f"synbench{os.getpid()}n{number}s"
        self.hosts = [f"bench{index}" for index in range(count)]
        self.addresses = [f"10.78.0.{index + 1}" for index in range(count)]
        self.address = self.addresses[0]

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="syncline-peers-"))
        self.environment = dict(os.environ, HOME=str(self.folder), TMPDIR=str(self.folder))
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for namespace in (*self.namespaces, self.switch):
            pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout.split()
            if pids:
                subprocess.run(["kill", "-9", *pids], check=False)
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
            shutil.rmtree(f"/etc/netns/{namespace}", ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self):
        for namespace in (*self.namespaces, self.switch):
            run("ip", "netns", "add", namespace)
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for index, namespace in enumerate(self.namespaces):
            port = f"port{index}"
            run("ip", "link", "add", "eth0", "netns", namespace, "type", "veth", "peer", "name", port, "netns", self.switch)
            run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", namespace, "addr", "add", f"{self.addresses[index]}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                run("ip", "-n", namespace, "link", "set", device, "up")
            for place, device in ((namespace, "eth0"), (self.switch, port)):
                run("ip", "netns", "exec", place, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", self.name,
                    "burst", "128kb", "latency", "50ms")
            folder = pathlib.Path("/etc/netns", namespace)  # `ip netns exec` shows its files as those of /etc
            folder.mkdir(parents=True)
            names = "".join(f"{address} {host}\n" for address, host in zip(self.addresses, self.hosts))
            (folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        self.remote_shell = self.folder / "rsh"
        cases = "".join(f"  {host}|{address}) namespace={namespace}; name={host};;\n"
                        for host, address, namespace in zip(self.hosts, self.addresses, self.namespaces))
        self.remote_shell.write_text(f"""#!/bin/sh
# Stands for ssh: rsh HOST COMMAND...
case "$1" in
{cases}  *) echo "no host $1" >&2; exit 255;;
esac
shift
exec ip netns exec $namespace unshare --uts sh -c "hostname $name; $*"
""")
        self.remote_shell.chmod(0o755)

    def on_host(self, index, command):
        return [str(self.remote_shell), self.hosts[index], shlex.join(map(str, command))]

    def launcher(self, command):
        return self.on_host(0, command)


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)
