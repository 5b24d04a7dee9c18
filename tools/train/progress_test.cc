#include "tools/train/progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace syncline::tools {
namespace {

using testing::EndsWith;
using testing::StartsWith;

TEST(ProgressBar, HasTheShapeOfTqdm) {
  EXPECT_EQ(progress_bar("epoch 1/3", 5, 10, 5 * kSecond, "loss=0.5", 80, true),
            "epoch 1/3:  50%|############            | 5/10 [00:05<00:05, 1.00it/s, loss=0.5]");
}

TEST(ProgressBar, FillsTheWidthButNeverMore) {
  for (const int width : {10, 40, 60, 79, 200}) {
    const std::string bar = progress_bar("train", 3, 7, kSecond, "loss=0.5", width, true);
    EXPECT_LE(static_cast<int>(bar.size()), width);
  }
}

TEST(ProgressBar, UsesEighthsOfACellWithUtf8) {
  // 1/80 of 40 cells is half a cell.
  const std::string bar = progress_bar("t", 1, 80, kSecond, "", 79, false);
  EXPECT_THAT(bar, testing::HasSubstr("|▌ "));
}

TEST(ProgressBar, ShowsUnknownTimesAtTheStart) {
  EXPECT_THAT(progress_line("t", 0, 100, 0, ""), StartsWith("t:   0% 0/100 [00:00<?, ?it/s]"));
}

TEST(ProgressLine, SpeaksOfHours) {
  EXPECT_THAT(progress_line("t", 1, 3, 3600 * kSecond, ""),
              EndsWith("1/3 [1:00:00<2:00:00, 0.00it/s]"));
}

TEST(Progress, WritesALineForEachTenthOrThirtySeconds) {
  Progress progress("lines", true);
  progress.begin("t", 100, 0);
  EXPECT_FALSE(progress.due(9, kSecond));
  EXPECT_TRUE(progress.due(10, kSecond));
  EXPECT_TRUE(progress.due(9, 30 * kSecond));
  testing::internal::CaptureStderr();
  progress.update(9, kSecond, "");
  progress.update(10, kSecond, "loss=1");
  progress.update(11, 2 * kSecond, "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "t:  10% 10/100 [00:01<00:09, 10.00it/s, loss=1]\n");
}

TEST(Progress, IsSilentOnOtherRanksAndOnRequest) {
  for (const bool enabled : {false, true}) {
    Progress progress(enabled ? "none" : "lines", enabled);
    progress.begin("t", 10, 0);
    testing::internal::CaptureStderr();
    progress.update(10, kSecond, "");
    progress.finish(kSecond, "");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

TEST(Progress, FallsBackToLinesWithoutATerminal) {
  Progress progress("/dev/null", true);
  progress.begin("t", 10, 0);
  testing::internal::CaptureStderr();
  progress.update(10, kSecond, "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("t: 100% 10/10"));
}

}  // namespace
}  // namespace syncline::tools
