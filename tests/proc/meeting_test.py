"""NET-05: what an earlier or a parallel job left at the meeting place is never taken for the own one."""

import os
import re
import subprocess
import time
import unittest

from ranks import NET_RANK, RanksTest

ROUNDS = int(os.environ.get("SYNCLINE_MEETING_ROUNDS", "1"))
FOLDER = "meet"


class Meeting(RanksTest):
    def uri(self):
        return f"file:{self.path(FOLDER)}"

    def files(self):
        return os.listdir(self.path(FOLDER)) if os.path.isdir(self.path(FOLDER)) else []

    def kill(self, ranks):
        for one in ranks:
            one.process.kill()
            one.process.wait()


class Stale(Meeting):
    def leave_behind(self):
        """A job of two whose rank 0 was killed while it waited."""
        killed = self.start_rank(0, 2, self.uri())
        self.wait_until(lambda: self.files() == ["syncline-default.rendezvous"], "the file")
        self.kill([killed])

    def test_rank_0_first(self):
        self.leave_behind()
        self.expect_right([self.start_rank(rank, 3, self.uri()) for rank in range(3)])
        self.assertEqual(self.files(), [])

    def test_rank_1_meets_the_old_file_first(self):
        self.leave_behind()
        early = self.start_rank(1, 2, self.uri())
        time.sleep(0.3)
        self.assertIsNone(early.process.poll(), self.logs())
        self.expect_right([self.start_rank(0, 2, self.uri()), early])
        self.assertEqual(self.files(), [])

    def test_all_ranks_killed_while_they_run(self):
        ranks = [self.start_rank(rank, 2, self.uri(), "--until", self.path("never")) for rank in range(2)]
        self.wait_until(lambda: all("ready" in one.out() for one in ranks), "the job to start")
        self.kill(ranks)
        self.expect_right([self.start_rank(rank, 2, self.uri()) for rank in range(2)])

    def test_leftovers_that_are_no_such_file(self):
        os.makedirs(self.path(FOLDER))
        for text in ("", "syncline-rendezvous-1\nrun_id \n", "\0" * 8192):
            with open(self.path(f"{FOLDER}/syncline-default.rendezvous"), "w", encoding="ascii") as file:
                file.write(text)
            self.expect_right([self.start_rank(rank, 2, self.uri()) for rank in (0, 1)])


class Parallel(Meeting):
    """Two jobs are told to meet at the same place, and have no names."""

    # Ranks that are children of one shell, or each of a subshell of it, as scripts start them.
    CHILDREN = "start 1 & start 0 & wait"
    WRAPPED = "(start 1; true) & (start 0; true) & wait"

    def start_job(self, tag, uri, how):
        start = 'start() { SYNCLINE_RANK=$1 exec "$program" --tag $tag > "job-$tag-$1.out" 2> "job-$tag-$1.err"; }\n'
        if how == self.WRAPPED:
            start = start.replace("exec ", "")
        env = dict(self.environment, SYNCLINE_WORLD_SIZE="2", SYNCLINE_RENDEZVOUS=uri, SYNCLINE_CONNECT_TIMEOUT="3s",
                   program=NET_RANK, tag=str(tag))
        process = subprocess.Popen(["sh", "-c", start + how], env=env, cwd=self.folder)
        self.started.append(process)
        return process

    def read(self, tag, rank, end):
        with open(self.path(f"job-{tag}-{rank}.{end}"), encoding="utf-8") as file:
            return file.read()

    def check_two_at_once(self, uri, refusal, how, least=1):
        tags = [1, 2]
        for process in [self.start_job(tag, uri, how) for tag in tags]:
            process.wait(30)
        text = "\n".join(f"--- {tag}-{rank}\n{self.read(tag, rank, 'out')}{self.read(tag, rank, 'err')}" for tag in tags for rank in range(2))
        right = 0
        for tag in tags:
            outs = [self.read(tag, rank, "out") for rank in range(2)]
            for out in outs:
                joined = re.search(r"^tags (.*)$", out, re.M)
                if joined:
                    self.assertEqual(joined[1], f"{tag} {tag}", "ranks of two jobs have joined each other\n" + text)
            if all(": right" in out for out in outs):
                right += 1
            else:
                self.assertRegex(self.read(tag, 0, "err"), refusal, text)
        self.assertGreaterEqual(right, least, text)

    def check(self, new_uri, refusal):
        for how in (self.CHILDREN, self.WRAPPED):
            for _ in range(ROUNDS):
                uri = new_uri()
                self.check_two_at_once(uri, refusal, how)

    def test_in_one_folder(self):
        self.check(self.uri, r"another job uses \S+ \(rank 0 is pid \d+ on \S+\); give each job its own SYNCLINE_RUN_ID")

    def test_on_one_port(self):
        self.check(lambda: f"tcp://127.0.0.1:{self.free_port()}", r"127\.0\.0\.1:\d+: Address already in use")

    def test_the_second_rank_0_learns_who_has_the_port(self):
        uri = f"tcp://127.0.0.1:{self.free_port()}"
        first = self.start_rank(0, 2, uri)
        self.wait_until(self.listeners, "rank 0 to listen")
        second = self.start_rank(0, 2, uri)
        self.assertEqual(second.wait(10), 3, self.logs())
        self.assertIn(f"Address already in use; stop the other program or choose another port; pid {first.process.pid} (net_rank) listens there",
                      second.err())
        self.expect_right([first, self.start_rank(1, 2, uri)])

    def test_children_of_one_process(self):
        """Nothing tells these apart until two claim one rank; each ends soon, and who is refused learns what to do."""
        ranks = [self.start_rank(rank, 2, self.uri(), SYNCLINE_CONNECT_TIMEOUT="3s") for _ in (1, 2) for rank in (1, 0)]
        for one in ranks:
            if one.wait(20) != 0:
                self.assertRegex(one.err(), "SYNCLINE_RUN_ID|left the rendezvous|left behind|no such file", self.logs())
            else:
                self.assertIn(": right", one.out(), self.logs())

    def test_rank_0_whose_ranks_went_to_another_job(self):
        alone = self.start_rank(0, 2, self.uri(), SYNCLINE_CONNECT_TIMEOUT="1s")
        self.assertNotEqual(alone.wait(20), 0, self.logs())
        self.assertRegex(alone.err(), "rank 1 of 2 did not arrive .* give each its own SYNCLINE_RUN_ID")

    def test_with_run_ids(self):
        os.makedirs(self.path(FOLDER))
        jobs = [[self.start_rank(rank, 2, self.uri(), "--tag", str(tag), SYNCLINE_RUN_ID=f"job-{tag}") for rank in range(2)]
                for tag in (1, 2)]
        for tag, ranks in zip((1, 2), jobs):
            self.expect_right(ranks)
            for one in ranks:
                self.assertIn(f"tags {tag} {tag}\n", one.out())


if __name__ == "__main__":
    unittest.main(verbosity=2)
