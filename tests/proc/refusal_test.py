"""Bad input: one clear line, exit code 2 or 3, nothing started."""

import os
import socket
import unittest

from launcher import LauncherTest


class RunRefusals(LauncherTest):
    def refused(self, code, words, *arguments, env=None):
        result = self.syncline(*arguments, env=env)
        self.assert_one_line(result, code, *words)

    def test_usage(self):
        for words, arguments in [
            (["-np", "'0'"], ["run", "-np", "0", "true"]),
            (["-np", "'two'"], ["run", "-np", "two", "true"]),
            (["-np", "'-3'"], ["run", "-np", "-3", "true"]),
            (["no program"], ["run", "-np", "2"]),
            (["--bogus"], ["run", "--bogus", "true"]),
            (["--grace"], ["run", "--grace"]),
            (["soon"], ["run", "--grace", "soon", "true"]),
            (["--bind-to"], ["run", "--bind-to", "socket", "true"]),
            (["--port-range"], ["run", "--port-range", "9-1", "true"]),
            (["port", "99999"], ["run", "--port-range", "99999", "true"]),
            (["NOT_SET_HERE"], ["run", "-x", "NOT_SET_HERE", "true"]),
            (["--nnodes"], ["run", "--nnodes", "2", "true"]),
            (["-H"], ["run", "-H", "a:0", "true"]),
            (["slots"], ["run", "-np", "3", "-H", "a:1,b:1", "true"]),
            (["-oProxyCommand"], ["run", "-H", "-oProxyCommand=touch pwned", "true"]),
            (["--color"], ["run", "--color", "pink", "true"]),
            (["rings", "two_shot"], ["run", "--sync", "rings", "true"]),
            (["rings", "two_shot"], ["bench", "all_reduce", "-np", "2", "--schedule", "rings"]),
            (["pigeon"], ["run", "--transport", "pigeon", "true"]),
            (["all_to_none", "all_reduce"], ["bench", "all_to_none", "-np", "2"]),
            (["operation"], ["bench"]),
            (["f128"], ["bench", "all_reduce", "-d", "f128"]),
            (["12Q"], ["bench", "all_reduce", "-e", "12Q"]),
            (["--minbytes"], ["bench", "all_reduce", "-b", "2K", "-e", "1K"]),
            (["--iters"], ["bench", "all_reduce", "--iters", "0"]),
            (["--format"], ["bench", "all_reduce", "--format", "xml"]),
            (["nonsense"], ["nonsense"]),
            (["launcher"], ["run", "--agent"]),
        ]:
            with self.subTest(arguments=arguments):
                self.refused(2, words, *arguments)
        self.assertFalse(os.path.exists(self.path("pwned")))

    def test_no_command_at_all(self):
        self.assertEqual(self.syncline().code, 2)

    def test_hostfiles(self):
        self.refused(2, ["nowhere"], "run", "--hostfile", "nowhere", "true")
        for text, words in [("host slots=x\n", ["hosts:1", "slots"]), ("a\nb cores=4\n", ["hosts:2", "cores=4"]),
                            ("# none\n", ["hosts", "no host"]), ("a;rm\n", ["hosts:1"])]:
            with open(self.path("hosts"), "w", encoding="ascii") as file:
                file.write(text)
            self.refused(2, words, "run", "--hostfile", "hosts", "true")

    def test_programs(self):
        self.refused(2, ["./missing", "No such file"], "run", "-q", "-np", "2", "./missing")
        with open(self.path("plain"), "w", encoding="ascii") as file:
            file.write("echo\n")
        self.refused(2, ["./plain", "chmod +x"], "run", "-q", "-np", "2", "./plain")
        self.refused(2, ["./plain"], "run", "-q", "-np", "2", "plain")

    def test_a_busy_port(self):  # NET-01
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            port = busy.getsockname()[1]
            self.refused(3, [f"127.0.0.1:{port}", "Address already in use"], "run", "-q", "-np", "2", "--port-range",
                         str(port), "touch", "started")
        self.assertFalse(os.path.exists(self.path("started")))

    def test_a_log_folder_that_cannot_be(self):
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.refused(3, ["--log-dir", "file/logs"], "run", "-q", "--log-dir", "file/logs", "true")

    def test_an_interface_that_is_not_there(self):
        result = self.syncline("run", "-q", "--ifname", "=nope0", "true")
        self.assertIn(result.code, (2, 3))
        self.assert_one_line(result, result.code, "nope0")

    def test_numbers_on_top_of_another_launcher(self):
        env = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
               "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        self.refused(2, ["rank 1 of 4"], "run", "-np", "2", "true", env=env)
        inside = self.syncline("run", "sh", "-c", "echo own-$OMPI_COMM_WORLD_RANK ${SYNCLINE_RANK:-none}", env=env)
        self.assertEqual((inside.code, inside.out), (0, "own-1 none\n"))


class OtherCommands(LauncherTest):
    def test_version_and_help(self):
        version = self.syncline("--version")
        self.assertEqual(version.code, 0)
        for word in ("syncline 0.", "compiler: ", "transports: ", "SIMD target: "):
            self.assertIn(word, version.out)
        for command in ("run", "bench", "doctor", "key"):
            text = self.syncline(command, "--help")
            self.assertEqual((text.code, text.err), (0, ""))
            self.assertGreater(len(text.out), 200)

    def test_key_create(self):
        home = {"HOME": self.folder}
        created = self.syncline("key", "create", env=home)
        self.assertEqual(created.code, 0, created.err)
        path = self.path(".config/syncline/job.key")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="ascii") as file:
            first = file.read()
        self.assertRegex(first, r"^syncline-key-1 [0-9a-f]{64}\n$")
        self.assertNotIn(first.split()[1], created.out + created.err)
        self.assert_one_line(self.syncline("key", "create", env=home), 2, "--force")
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), first)
        self.assertEqual(self.syncline("key", "create", "--force", "-q", env=home).code, 0)
        with open(path, encoding="ascii") as file:
            self.assertNotEqual(file.read(), first)
        refused = self.syncline("key", "create", "--file", "/proc/no/job.key")
        self.assertIn(refused.code, (2, 3))


if __name__ == "__main__":
    unittest.main()
