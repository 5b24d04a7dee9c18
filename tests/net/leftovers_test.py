"""What a test of several hosts made is gone after it, also when it was told to end or killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from two_hosts import missing, sweep

REASON = missing()
SUBJECT = """
import time, unittest
from two_hosts import TwoHosts

class Subject(TwoHosts):
    def test_forever(self):
        self.start(self.hosts[0], "sleep", "60")
        print("made", flush=True)
        time.sleep(60)

unittest.main()
"""


@unittest.skipIf(REASON is not None, REASON)
class Leftovers(unittest.TestCase):
    def run_until(self, number):
        """What is left of a run that got the signal in the middle."""
        folder = tempfile.TemporaryDirectory(prefix="syncline-left-")
        self.addCleanup(folder.cleanup)
        subject = subprocess.Popen([sys.executable, "-B", "-c", SUBJECT], cwd=os.path.dirname(os.path.abspath(__file__)),
                                   env={**os.environ, "TMPDIR": folder.name}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(subject.kill)
        self.assertEqual(subject.stdout.readline(), "made\n")
        self.assertEqual(len(self.left(subject.pid)), 2)
        subject.send_signal(number)
        subject.wait(20)
        subject.stdout.close()
        return subject.pid

    @staticmethod
    def left(pid):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        return [line for line in listed.stdout.splitlines() if line.startswith(f"syn{pid}")]

    def test_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.assertEqual(self.left(self.run_until(number)), [])

    def test_killed(self):
        pid = self.run_until(signal.SIGKILL)
        begin = time.monotonic()
        sweep()
        self.assertEqual(self.left(pid), [])
        self.assertLess(time.monotonic() - begin, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
