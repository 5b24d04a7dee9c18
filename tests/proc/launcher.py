"""Runs the real `syncline` program for the process tests; every wait has a deadline."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

SYNCLINE = os.environ.get("SYNCLINE_BINARY", "syncline")
DEADLINE_S = 60


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def last_line(self):
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


def marked_processes(mark):
    """Processes whose environment holds the mark."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


class LauncherTest(unittest.TestCase):
    """Marks every process that a test starts, and demands that none is left."""

    binary = SYNCLINE

    def setUp(self):
        self.mark = f"syncline-test-{uuid.uuid4().hex}"
        self.folder = tempfile.mkdtemp(prefix="syncline-proc-")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SYNCLINE_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "OMP_", "NCCL_"))
        }
        self.environment["TEST_MARK"] = self.mark
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        left = self.wait_until_gone(5)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.assertEqual(left, [], "processes were left behind")

    def wait_until_gone(self, seconds):
        limit = time.monotonic() + seconds
        left = marked_processes(self.mark)
        while left and time.monotonic() < limit:
            time.sleep(0.02)
            left = marked_processes(self.mark)
        return left

    def start(self, *arguments, env=None, before=None):
        environment = dict(self.environment, **(env or {}))
        process = subprocess.Popen(
            [SYNCLINE, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder,
            preexec_fn=before,
        )
        self.started.append(process)
        return process

    def finish(self, process, begin=None):
        out, err = process.communicate(timeout=DEADLINE_S)
        seconds = time.monotonic() - begin if begin else 0
        return Result(process.returncode, out, err, seconds)

    def syncline(self, *arguments, env=None):
        begin = time.monotonic()
        return self.finish(self.start(*arguments, env=env), begin)

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def wait_for_file(self, name, seconds=20):
        limit = time.monotonic() + seconds
        while not os.path.exists(self.path(name)):
            self.assertLess(time.monotonic(), limit, f"{name} did not appear")
            time.sleep(0.01)

    def assert_one_line(self, result, code, *words):
        """A refusal: the exit code, one line on stderr, nothing on stdout."""
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        for word in words:
            self.assertIn(word, result.err)
        self.assertEqual(result.out, "")
