#include "plan/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "plan/checker.h"
#include "plan/generators.h"

namespace syncline::plan {
namespace {

using testing::HasSubstr;

// The example of docs/formats/schedule-text.md.
constexpr const char* kOneShot = R"(syncline-schedule 1
name one_shot
kind all_reduce
ranks 2
chunks 1
root 0
canonical_sum yes
rank 0 contributes yes receives yes scratch_slots 0
lane
send in[0] to 1 tag 0 element
lane
recv_reduce out[0] in[0] from 1 tag 0 element finish after 0.0
rank 1 contributes yes receives yes scratch_slots 0
lane
send in[0] to 0 tag 0 element
lane
recv_reduce out[0] in[0] from 0 tag 0 element finish after 0.0
end
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kOneShot;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const Result<Schedule> result = from_text(text);
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  return result.status().message();
}

TEST(ScheduleText, IsExactlyAsDocumented) {
  const Schedule s = find_generator("one_shot")->make(Collective::kAllReduce, 2, 0);
  EXPECT_EQ(to_text(s), kOneShot);
  const Result<Schedule> read = from_text(kOneShot);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(read.value() == s);
  EXPECT_TRUE(check(read.value()).ok());
}

TEST(ScheduleText, CommentsBlanksAndCarriageReturns) {
  const std::string text =
      "# by hand\r\n\r\n" + replaced("lane\nsend in[0]", "  lane # one\r\n\tsend   in[0]");
  const Result<Schedule> read = from_text(text);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(to_text(read.value()), kOneShot);
}

TEST(ScheduleText, EveryStepAndField) {
  Schedule s;
  s.name = "hand-made.1";
  s.kind = Collective::kReduce;
  s.chunks = 65535;
  s.root = 0;
  s.ranks.resize(1);
  s.ranks[0].contributes = false;
  s.ranks[0].scratch_slots = 65535;
  Step copy;
  copy.kind = StepKind::kCopy;
  copy.dst = {Buf::kScratch, 65534, 65534};
  copy.a = {Buf::kAcc, 3, 0};
  copy.after = {{1, 0}, {65535, 65535}};
  Step reduce = copy;
  reduce.kind = StepKind::kReduce;
  reduce.b = {Buf::kOut, 1, 0};
  reduce.finish = true;
  s.ranks[0].lanes = {Lane{{copy}}, Lane{}, Lane{{reduce}}};
  const Result<Schedule> read = from_text(to_text(s));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(read.value() == s);
}

TEST(ScheduleText, ErrorsNameTheLine) {
  EXPECT_EQ(
      error_of(replaced("send in[0]", "send inn[0]")),
      "schedule text, line 10: expected in[CHUNK], out[CHUNK], acc[CHUNK] or scratch[SLOT:CHUNK], "
      "found 'inn[0]'");
  EXPECT_EQ(error_of(replaced("ranks 2", "ranks 4097")),
            "schedule text, line 4: expected ranks from 1 to 4096, found '4097'");
  EXPECT_EQ(error_of(""),
            "schedule text, line 0: expected 'syncline-schedule', found the end of the text");
  EXPECT_EQ(error_of(replaced("syncline-schedule 1", "syncline-schedule 2")),
            "schedule text, line 1: expected format version from 1 to 1, found '2'");
}

TEST(ScheduleText, RefusesWhatIsNotWhole) {
  EXPECT_THAT(error_of(replaced("ranks 2", "ranks 3")),
              HasSubstr("line 18: expected 'rank 2' (3 ranks"));
  EXPECT_THAT(error_of(replaced("ranks 2", "ranks 1")), HasSubstr("line 13: expected 'end' after"));
  EXPECT_THAT(error_of(replaced("rank 1", "rank 2")), HasSubstr("line 13: expected the next rank"));
  EXPECT_THAT(error_of(std::string(kOneShot) + "end\n"),
              HasSubstr("line 19: expected nothing after"));
  EXPECT_THAT(error_of(replaced("end\n", "")),
              HasSubstr("expected 'end', found the end of the text"));
  EXPECT_THAT(error_of(replaced("tag 0", "tag -1")),
              HasSubstr("expected tag from 0 to 65535, found '-1'"));
  EXPECT_THAT(error_of(replaced("tag 0", "tag 65536")), HasSubstr("found '65536'"));
  EXPECT_THAT(error_of(replaced("tag 0", "tag 99999999999999999999")), HasSubstr("expected tag"));
  EXPECT_THAT(error_of(replaced("tag 0 element", "tag 0")), HasSubstr("found the end of the line"));
  EXPECT_THAT(error_of(replaced("tag 0 element", "tag 0 element now")), HasSubstr("found 'now'"));
  EXPECT_THAT(error_of(replaced("after 0.0", "after 0")),
              HasSubstr("expected LANE.STEP, found '0'"));
  EXPECT_THAT(error_of(replaced("after 0.0", "after")), HasSubstr("expected LANE.STEP"));
  EXPECT_THAT(error_of(replaced("all_reduce", "all_reduced")), HasSubstr("expected a kind"));
  EXPECT_THAT(error_of(replaced("name one_shot", "name a*b")), HasSubstr("expected a name"));
  EXPECT_THAT(error_of(replaced("canonical_sum yes", "canonical_sum 1")),
              HasSubstr("'yes' or 'no'"));
  EXPECT_THAT(error_of(std::string(200, 'x')), HasSubstr("...'"));
}

TEST(ScheduleText, DamagedTextIsSurvived) {
  std::mt19937 random(11);
  const std::string whole = to_text(find_generator("two_shot")->make(Collective::kAllReduce, 3, 0));
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = whole;
    for (int edit = 0; edit < 3; ++edit) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 128);
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, whole.substr(random() % whole.size(), random() % 30));
          break;
      }
    }
    const Result<Schedule> read = from_text(text);
    if (read.ok()) (void)check(read.value()).ok();
  }
}

}  // namespace
}  // namespace syncline::plan
