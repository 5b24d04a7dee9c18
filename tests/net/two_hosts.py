"""Two hosts on one machine: network namespaces with their own host names, joined by a veth pair."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SYNCLINE = os.environ.get("SYNCLINE_BINARY", "syncline")
NET_RANK = os.environ.get("SYNCLINE_NET_RANK", "net_rank")
DEADLINE_S = 60
FOREIGN = ("SYNCLINE_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "OMP_", "NCCL_", "GLOO_", "TORCHELASTIC_", "MASTER_")
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def missing():
    """Why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "unshare", "ss", "tc", "nft"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    probe = f"synprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None if made.returncode == 0 else f"no network namespaces here: {made.stderr.strip()}"


def sweep():
    """Removes what runs that were killed have left: each name carries its process."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for name in (line.split()[0] for line in listed.stdout.splitlines()):
        match = re.fullmatch(r"syn(?:probe)?(\d+)(?:[a-h]|s\d+)?", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            remove_namespace(name)


def remove_namespace(name):
    """With whoever still runs in it."""
    left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in left.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)


class Host:
    def __init__(self, index, folder):
        self.name = f"n0{index + 1}"
        self.namespace = f"syn{os.getpid()}{'abcdefgh'[index]}"
        self.address = f"10.77.0.{index + 1}"
        self.home = os.path.join(folder, f"home-{self.name}")
        self.temporary = os.path.join(folder, f"tmp-{self.name}")
        os.makedirs(self.home)
        os.makedirs(self.temporary)

    def command(self, *program):
        inner = 'hostname "$1"; shift; exec "$@"'
        return ["ip", "netns", "exec", self.namespace, "unshare", "--uts", "sh", "-c", inner, "sh", self.name, *program]


class Started:
    """One process; out and err are files, so that nothing blocks."""

    def __init__(self, command, env, folder, label):
        self.label = label
        self.out_path, self.err_path = (os.path.join(folder, f"{label}.{end}") for end in ("out", "err"))
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder)

    def out(self):
        with open(self.out_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def err(self):
        with open(self.err_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, seconds=DEADLINE_S):
        return self.process.wait(timeout=seconds)


class TwoHosts(unittest.TestCase):
    host_count = 2  # on a switch there may be up to 8

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="syncline-net-")
        self.hosts = [Host(i, self.folder) for i in range(self.host_count)]
        self.started = []
        self.addCleanup(self.clean_up)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.give_up)
        sweep()
        for host in self.hosts:
            self.ip("netns", "add", host.namespace)
        self.join_hosts()
        for host in self.hosts:
            self.ip("-n", host.namespace, "link", "set", "lo", "up")
            # `ip netns exec` shows this file as /etc/hosts.
            os.makedirs(f"/etc/netns/{host.namespace}")
            with open(f"/etc/netns/{host.namespace}/hosts", "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in self.hosts))

    def join_hosts(self):
        a, b = self.hosts
        self.ip("link", "add", "eth0", "netns", a.namespace, "type", "veth", "peer", "name", "eth0", "netns", b.namespace)
        for host in self.hosts:
            self.ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
            self.ip("-n", host.namespace, "link", "set", "eth0", "up")

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def clean_up(self):
        for one in self.started:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
        for host in self.hosts:
            remove_namespace(host.namespace)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")  # if it was ours alone
        shutil.rmtree(self.folder, ignore_errors=True)

    def give_up(self, number, _):
        """Told to end: what was made goes first."""
        self.doCleanups()
        os._exit(128 + number)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, host, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN) and k not in TORCHRUN}
        # Records of ranks that are killed stay in the test's own folder.
        env.update(HOME=host.home, TMPDIR=host.temporary, SYNCLINE_FLIGHT_DIR=host.temporary, SYNCLINE_CONNECT_TIMEOUT="30s")
        env.update({name: str(value) for name, value in more.items()})
        return env

    def start(self, host, *program, label=None, **env):
        one = Started(host.command(*program), self.environment(host, **env), self.folder, label or host.name)
        self.started.append(one)
        return one

    def make_key(self, *hosts):
        """One new key in the home of all given hosts."""
        made = subprocess.run([SYNCLINE, "key", "create"], env=self.environment(hosts[0]), capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        for host in hosts[1:]:
            self.give_key(hosts[0], host)

    @staticmethod
    def give_key(giver, host):
        folder = os.path.join(host.home, ".config/syncline")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        shutil.copy2(os.path.join(giver.home, ".config/syncline/job.key"), folder)

    def listeners(self, host):
        """[(address, port)] of what listens for TCP on the host."""
        shown = subprocess.run(["ip", "netns", "exec", host.namespace, "ss", "-Hltn"], capture_output=True, text=True, check=True)
        local = [line.split()[3] for line in shown.stdout.splitlines()]
        return [(text.rpartition(":")[0].strip("[]"), int(text.rpartition(":")[2])) for text in local]

    def wait_until(self, condition, what, seconds=DEADLINE_S):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"waited {seconds} s for {what}\n{self.logs()}")
            time.sleep(0.01)

    def logs(self):
        return "\n".join(f"--- {one.label}\n{one.out()}{one.err()}" for one in self.started)

    def expect_right(self, ranks, source):
        for rank, one in enumerate(ranks):
            self.assertEqual(one.wait(), 0, self.logs())
            line = f"rank {rank} of {len(ranks)}, local 0 of 1, by {source}, over tcp: right"
            self.assertIn(line, one.out(), self.logs())
