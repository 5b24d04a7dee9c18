"""NET-07: little, no, read-only or littered shared memory: jobs run on, say so once, and leave nothing."""

import os
import resource
import shutil
import signal
import subprocess
import unittest

from ranks import NET_RANK, RanksTest

KILLS = int(os.environ.get("SYNCLINE_ROOM_KILLS", "20"))
RANKS = 4
OWN = f"syncline-{os.geteuid()}"


def no_mounts():
    """Why a test cannot have a /dev/shm of its own here, or None."""
    if os.geteuid() != 0:
        return "mount namespaces need root"
    for tool in ("unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    made = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    return None if made.returncode == 0 else f"no mount namespaces here: {made.stderr.strip()}"


REASON = no_mounts()


class Room(RanksTest):
    def expect_right_over(self, ranks, transport):
        self.expect_right(ranks)
        for one in ranks:
            self.assertIn(f"over {transport}: right", one.out(), self.logs())

    def expect_lines(self, ranks, *words):
        """Each rank says one thing at most, and at least one of them says this."""
        for one in ranks:
            self.assertLessEqual(len(one.err().splitlines()), 1, self.logs())
        text = "".join(one.err() for one in ranks)
        for word in words:
            self.assertIn(word, text)
        if not words:
            self.assertEqual(text, "")


@unittest.skipIf(REASON is not None, REASON)
class OwnShm(Room):
    """In a mount namespace whose /dev/shm holds 1 MiB."""

    def setUp(self):
        super().setUp()
        del self.environment["SYNCLINE_FLIGHT_DIR"]  # records lie where they do by default
        script = "mount -t tmpfs -o size=1m tmpfs /dev/shm && touch mounted && exec sleep 300"
        holder = subprocess.Popen(["unshare", "-m", "sh", "-c", script], env=self.environment, cwd=self.folder)
        self.started.append(holder)
        self.wait_for_file("mounted")
        self.enter = ["nsenter", "-t", str(holder.pid), "-m", "--wd=" + self.folder]
        self.shm = os.path.join("/proc", str(holder.pid), "root", "dev/shm")

    def start_job(self, *arguments, **env):
        uri = f"tcp://127.0.0.1:{self.free_port()}"
        return [self.start_rank(rank, RANKS, uri, *arguments, before=self.enter, SYNCLINE_LOCAL_WORLD_SIZE=RANKS, SYNCLINE_LOCAL_RANK=rank, **env)
                for rank in range(RANKS)]

    def used(self):
        """(names, bytes) of what lies there."""
        names = sorted(os.path.relpath(os.path.join(where, name), self.shm) for where, _, files in os.walk(self.shm) for name in files)
        return names, sum(os.stat(os.path.join(self.shm, name)).st_blocks * 512 for name in names)

    def test_one_mebibyte(self):
        ranks = self.start_job()
        self.expect_right_over(ranks, "shm")
        self.expect_lines(ranks)
        self.assertEqual(self.used()[0], [])

    def test_full(self):
        with open(os.path.join(self.shm, "filler"), "wb") as file, self.assertRaises(OSError):
            file.write(bytes(2 << 20))
        ranks = self.start_job()
        self.expect_right_over(ranks, "shm")
        self.expect_lines(ranks, "no flight record: ", "No space left on device")

    def test_unwritable(self):
        subprocess.run([*self.enter, "mount", "-o", "remount,ro", "/dev/shm"], check=True, capture_output=True)
        ranks = self.start_job()
        self.expect_right_over(ranks, "shm")
        self.expect_lines(ranks, "no flight record: ", "Read-only file system")

    def test_launcher_needs_none(self):
        subprocess.run([*self.enter, "mount", "-o", "remount,ro", "/dev/shm"], check=True, capture_output=True)
        binary = os.environ.get("SYNCLINE_BINARY", "syncline")
        done = subprocess.run([*self.enter, binary, "run", "-q", "-np", str(RANKS), NET_RANK], env=self.environment, capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout.count("over shm: right"), RANKS, done.stdout)

    def kill_again_and_again(self, times):
        """Bytes that lie there after each job."""
        sizes = []
        for _ in range(times):
            ranks = self.start_job("--until", self.path("never"))
            self.wait_until(lambda started=ranks: all("ready" in one.out() for one in started), "the job to start")
            # Stopped first, so that none of them sees another's end.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for one in ranks:
                    one.process.send_signal(number)
            for one in ranks:
                self.assertEqual(one.wait(), -signal.SIGKILL, self.logs())
            self.expect_lines(ranks)
            sizes.append(self.used()[1])
        return sizes

    def test_ranks_that_are_killed_again_and_again(self):
        self.kill_again_and_again(KILLS // 2)  # there is room for one job
        subprocess.run([*self.enter, "mount", "-o", "remount,size=64m", "/dev/shm"], check=True, capture_output=True)
        sizes = self.kill_again_and_again(KILLS // 2)
        # `doctor --dump` reads the last records; earlier ones are removed by the next job.
        self.assertLessEqual(max(sizes[5:]), max(sizes[:5]), sizes)

    def test_stale_names(self):
        job = os.path.join(self.shm, OWN, "night")
        os.makedirs(job, mode=0o700)
        os.chmod(os.path.dirname(job), 0o700)
        for rank, text in enumerate((b"", b"x" * 100, bytes(1 << 16))):
            with open(os.path.join(job, f"rank-{rank}.flight"), "wb") as file:
                file.write(text)
        os.symlink(self.path("elsewhere"), os.path.join(job, "rank-3.flight"))
        ranks = self.start_job(SYNCLINE_RUN_ID="night")
        self.expect_right_over(ranks, "shm")
        self.expect_lines(ranks)
        self.assertEqual(self.used()[0], [])
        self.assertFalse(os.path.exists(self.path("elsewhere")))


class NoMemory(Room):
    def test_falls_back_to_tcp_with_one_warning(self):
        def limit():
            # Also of memory without a name; ignored, the signal leaves the error to the program.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        uri = f"tcp://127.0.0.1:{self.free_port()}"
        ranks = [self.start_rank(rank, 2, uri, preexec=limit, SYNCLINE_FLIGHT="off") for rank in range(2)]
        self.expect_right(ranks)
        self.expect_lines(ranks, "no room for shared memory; 1 local peers are reached over TCP")


if __name__ == "__main__":
    unittest.main(verbosity=2)
