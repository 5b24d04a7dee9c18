"""`syncline bench` and `syncline doctor` as processes."""

import json
import pathlib
import re
import unittest

from launcher import LauncherTest

SMALL = ("--minbytes", "1K", "--maxbytes", "64K", "--stepfactor", "64", "--iters", "20")


class Bench(LauncherTest):
    def rows(self, *arguments, env=None):
        result = self.syncline("bench", *arguments, "--json", "-", env=env)
        self.assertEqual(result.code, 0, result.err)
        return json.loads(result.out)

    def test_every_operation_is_right_on_every_transport(self):
        for operation in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "barrier"):
            for transport in ("shm", "tcp", "inproc"):
                with self.subTest(operation=operation, transport=transport):
                    report = self.rows(operation, "-np", "2", "--transport", transport, *SMALL)
                    self.assertEqual(report["ranks"], 2)
                    for row in report["rows"]:
                        self.assertEqual(row["wrong"], -1 if operation == "barrier" else 0)
                        self.assertEqual(row["transport"], transport)
                        self.assertLessEqual(row["p50_us"], row["p99_us"])
                        self.assertGreater(row["p50_us"], 0)
                        self.assertIn("predicted_us", row)
                    self.assertEqual([row["bytes"] for row in report["rows"]],
                                     [0] if operation == "barrier" else [1024, 65536])

    def test_types_operations_and_schedules(self):
        for extra in (("-d", "bf16"), ("-d", "i8", "-o", "max"), ("-d", "half", "-o", "avg"), ("-d", "bool"),
                      ("-d", "int64", "-o", "bit_xor"), ("--schedule", "ring"), ("--schedule", "tree")):
            with self.subTest(extra=extra):
                report = self.rows("all_reduce", "-np", "3", *SMALL, *extra)
                self.assertEqual([row["wrong"] for row in report["rows"]], [0, 0])
                self.assertEqual([row["in_place"]["wrong"] for row in report["rows"]], [0, 0])
                if "--schedule" in extra:
                    self.assertEqual({row["schedule"] for row in report["rows"]}, {extra[1]})

    def test_reproducible_is_compared_with_the_free_choice(self):
        small = ("all_reduce", "-np", "3", *SMALL)
        for words, env in ((("--reproducible",), None), ((), {"SYNCLINE_REPRODUCIBLE": "1"}),
                           (("--reproducible", "--transport", "inproc"), {"SYNCLINE_REPRODUCIBLE": "0"})):
            with self.subTest(words=words, env=env):
                report = self.rows(*small, *words, env=env)
                self.assertTrue(report["reproducible"])
                for row in report["rows"]:
                    self.assertNotEqual(row["schedule"], "ring")
                    self.assertEqual((row["wrong"], row["free"]["wrong"]), (0, 0))
                    self.assertLessEqual(row["free"]["ratio_p10"], row["free"]["ratio"])
                    self.assertLessEqual(row["free"]["ratio"], row["free"]["ratio_p90"])
                    self.assertGreater(row["free"]["ratio_p10"], 0)
        self.assertNotIn("free", self.rows("broadcast", "-np", "2", *SMALL, "--reproducible")["rows"][0])

    def test_reproducible_refuses_a_ring(self):
        result = self.syncline("bench", "all_reduce", "-np", "3", *SMALL, "--reproducible", "--schedule", "ring")
        self.assertNotEqual(result.code, 0)
        self.assertIn("'ring' is not admitted to a reproducible all_reduce", result.out + result.err)
        self.assertIn("take one of one_shot", result.out + result.err)

    def test_bandwidths_follow_from_the_time(self):
        row = self.rows("all_reduce", "-np", "3", *SMALL)["rows"][1]
        self.assertAlmostEqual(row["algbw_gbs"], row["bytes"] / row["mean_us"] / 1e3, delta=1e-6 * row["algbw_gbs"])
        self.assertAlmostEqual(row["busbw_gbs"], row["algbw_gbs"] * 4 / 3, delta=1e-6 * row["busbw_gbs"])

    def test_table_and_file(self):
        result = self.syncline("bench", "broadcast", "-np", "2", *SMALL, "-r", "1", "--json", "b.json")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("# Avg bus bandwidth", result.out)
        self.assertRegex(result.out, r"Out of bounds values : 0 OK")
        self.assertNotIn("[rank", result.out)
        with open(self.path("b.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["root"], 1)
        nccl = self.syncline("bench", "all_reduce", "-np", "2", "-b", "1K", "-e", "1K", "-n", "5", "-w", "1", "-c", "1",
                             "-d", "float", "-o", "sum", "--format", "nccl-tests")
        self.assertEqual(json.loads(nccl.out)["results"][0]["out_of_place"]["nwrong"], 0)

    def test_joins_the_job_around_it(self):
        result = self.syncline("run", "-q", "-np", "2", self.binary, "bench", "all_reduce", *SMALL, "--format", "osu")
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(len(re.findall(r"^\[rank 0 [^]]+\] (1024|65536) ", result.out, re.M)), 2)

    def test_a_root_that_is_no_rank(self):
        result = self.syncline("bench", "broadcast", "-np", "2", "--root", "5", *SMALL)
        self.assert_one_line(result, 2, "--root 5")


class Doctor(LauncherTest):
    def test_is_quick_and_says_what_it_found(self):
        result = self.syncline("doctor")
        self.assertIn(result.code, (0, 3), result.err)
        self.assertLess(result.seconds, 5)
        for topic in ("rank", "job key", "host name", "interfaces", "shared memory", "open files", "locked memory", "cores",
                      "instructions", "clock", "packages", "libtorch", "cuda", "nccl"):
            self.assertRegex(result.out, rf"(?m)^(OK|INFO|WARN|FAIL) +{topic} ")
        self.assertEqual("FAIL" in result.out, result.code == 3)

    def test_flags_unknown_names(self):
        result = self.syncline("doctor", "-q", env={"NCCL_SOCKET_IFNAM": "eth0", "SYNCLINE_TRANSPRT": "shm"})
        self.assertRegex(result.out, r"WARN +variables +NCCL_SOCKET_IFNAM is unknown.*NCCL_SOCKET_IFNAME\?")
        self.assertIn("did you mean SYNCLINE_TRANSPORT?", result.out)

    def test_knows_every_documented_variable(self):
        page = pathlib.Path(__file__).parents[2] / "docs/settings.md"
        names = re.findall(r"(?m)^\| `(SYNCLINE_\w+)`", page.read_text())
        self.assertIn("SYNCLINE_STALL_MS", names)
        result = self.syncline("doctor", "--json", env={name: "1" for name in names})
        self.assertNotIn("is unknown", result.out)
        self.assertIn("SYNCLINE_STALL_MS", self.syncline("doctor", "--settings").out)

    def test_a_broken_setting_fails(self):
        result = self.syncline("doctor", "--json", env={"SYNCLINE_RANK": "5", "SYNCLINE_WORLD_SIZE": "2"})
        self.assertEqual(result.code, 3)
        report = json.loads(result.out)
        self.assertEqual(report["schema"], "syncline.doctor/1")
        failed = [entry["topic"] for entry in report["findings"] if entry["level"] == "FAIL"]
        self.assertEqual(failed, ["rank"])

    def test_slurm_shell_trap(self):
        result = self.syncline("doctor", env={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"})
        self.assertRegex(result.out, r"WARN +slurm ")

    def test_settings_and_their_origin(self):
        result = self.syncline("doctor", "--settings", env={"SYNCLINE_SCHEDULE": "ring"})
        self.assertRegex(result.out, r"SYNCLINE_SCHEDULE +ring +environment")
        self.assertRegex(result.out, r"SYNCLINE_TIMEOUT +\S+ +default")


if __name__ == "__main__":
    unittest.main()
