"""What the comparison makes of its jobs' results; the libraries themselves do not run here."""
import contextlib
import io
import json
import pathlib
import sys
import types
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import jobs  # noqa: E402
import report  # noqa: E402


class FixedLimit:
    def __init__(self):
        self.asked = 0

    def again(self, _):
        self.asked += 1

    @staticmethod
    def least_us(_, __):
        return 5.0


def job(times, wrong=0):
    """One that takes these times in turn; 0.001 processor seconds an operation."""
    left = list(times)

    def run(*_):
        if not left:
            raise jobs.Failed("it has crashed")
        return {"rank": 0, "p50_us": left.pop(0), "wrong": wrong, "cpu_s": 0.1, "operations": 100}

    return run


class Compare(unittest.TestCase):
    def measure(self, ranks=2, size=1000000, **runners):
        kept = dict(jobs.RUNNERS)
        self.addCleanup(jobs.RUNNERS.update, kept)
        jobs.RUNNERS.update(runners)
        options = types.SimpleNamespace(rounds=3, peers=[name for name in runners if name != "syncline"])
        network = types.SimpleNamespace(name="shm")
        self.limit = FixedLimit()
        with contextlib.redirect_stderr(io.StringIO()) as self.errors:
            return compare.measure(options, network, self.limit, ranks, size)

    def test_medians_ratios_and_shares(self):
        ours, theirs = self.measure(syncline=job([20, 10, 12]), openmpi=job([30, 24, 18]))
        self.assertEqual((ours["p50_us"], ours["min_us"], ours["max_us"]), (12, 10, 20))
        self.assertEqual((ours["ratio"], theirs["ratio"]), (1, 2))
        self.assertAlmostEqual(ours["share"], 5 / 12)
        self.assertAlmostEqual(theirs["share"], 5 / 24)
        self.assertEqual(self.limit.asked, 3)

    def test_processor_time_counts_what_all_ranks_move(self):
        (ours,) = self.measure(ranks=4, syncline=job([1, 1, 1]))
        self.assertAlmostEqual(ours["cpu_s_per_gb"], 0.001 / (2 * 3 * 1000000 * 1e-9))

    def test_a_library_that_fails_is_named_and_left_out(self):
        rows = self.measure(syncline=job([1, 1, 1]), mpich=job([1]), gloo=job([2, 2, 2]))
        self.assertEqual([row["peer"] for row in rows], ["syncline", "gloo"])
        self.assertIn("mpich", self.errors.getvalue())
        self.assertIn("it has crashed", self.errors.getvalue())

    def test_wrong_elements_add_up(self):
        ours, theirs = self.measure(syncline=job([1, 1, 1]), gloo=job([1, 1, 1], wrong=2))
        self.assertEqual((ours["wrong"], theirs["wrong"]), (0, 6))

    def test_a_rank_without_result_is_a_failure(self):
        rows = jobs.rows_of('[1,0]<stdout>: {"bytes": 4, "rank": 1, "wrong": 1, "cpu_s": 2}\nnoise\n')
        with self.assertRaises(jobs.Failed):
            jobs.joined(rows, 2, "here")
        rows += jobs.rows_of('{"bytes": 4, "rank": 0, "p50_us": 7, "wrong": 1, "cpu_s": 1}')
        self.assertEqual(jobs.joined(rows, 2, "here"), {"bytes": 4, "rank": 0, "p50_us": 7, "wrong": 2, "cpu_s": 3})

    def test_sizes(self):
        self.assertEqual([compare.parse_size(text) for text in ("4", "1K", "256M")], [4, 1 << 10, 256 << 20])
        for text in ("", "0", "3", "1k", "M", "-4"):
            with self.assertRaises(compare.argparse.ArgumentTypeError, msg=text):
                compare.parse_size(text)

    def test_reports(self):
        rows = [row for size in (1024, 1 << 20) for row in self.measure(size=size, syncline=job([1, 2, 3]), openmpi=job([5, 4, 6]))]
        self.assertRegex(report.text_of(rows[:2]), r"1 KiB  syncline 2\.00 \[1\.00\.\.3\.00\] 1\.00x 250% .*openmpi 5\.00 .* 2\.50x")
        self.assertEqual(json.loads(report.json_of(rows))["rows"], rows)
        page = report.html_of(rows)
        for svg in page.split("<svg")[1:]:
            drawing = xml.etree.ElementTree.fromstring("<svg" + svg.partition("</svg>")[0] + "</svg>")
            self.assertEqual(len(drawing.findall("polyline")), 3)  # two libraries and the limit
        self.assertEqual(page.count("<tr>"), 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
