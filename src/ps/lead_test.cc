#include "ps/lead.h"

#include <gtest/gtest.h>

namespace syncline::ps {
namespace {

constexpr std::size_t kSlice = 128 << 10;

// Sends until no more is admitted; how many slices that were.
int fill(Lead& lead, Nanos now) {
  int slices = 0;
  for (; lead.admits(kSlice); ++slices) lead.send(kSlice, now);
  return slices;
}

TEST(Lead, OneIsAlwaysAdmitted) {
  Lead lead(1);
  EXPECT_EQ(fill(lead, 0), 1);
  lead.answer(kSlice, 1);
  EXPECT_EQ(fill(lead, 1), 1);
}

TEST(Lead, TwoLongSlicesAreAdmitted) {
  Lead lead(1);
  ASSERT_TRUE(lead.admits(kSlice + 4));
  lead.send(kSlice + 4, 0);
  ASSERT_TRUE(lead.admits(kSlice + 4));
  lead.send(kSlice + 4, 0);
  EXPECT_FALSE(lead.admits(kSlice + 4));
}

TEST(Lead, AnswersMakeRoom) {
  Lead lead(4 * kSlice);
  EXPECT_EQ(fill(lead, 0), 4);
  lead.answer(kSlice, kMillisecond);
  lead.answer(kSlice, kMillisecond);
  EXPECT_EQ(fill(lead, kMillisecond), 2);
}

// Others may wait for what this worker pushes last.
TEST(Lead, GrowsWithoutAnswersAndIsAsBeforeWithOne) {
  Lead lead(4 * kSlice);
  EXPECT_EQ(fill(lead, 0), 4);
  EXPECT_FALSE(lead.lose_patience(kMillisecond));
  EXPECT_TRUE(lead.lose_patience(6 * kMillisecond));
  EXPECT_EQ(fill(lead, 6 * kMillisecond), 4);
  EXPECT_FALSE(lead.lose_patience(7 * kMillisecond)) << "patience begins anew";
  EXPECT_TRUE(lead.lose_patience(12 * kMillisecond));
  EXPECT_EQ(fill(lead, 12 * kMillisecond), 8);
  for (int i = 0; i < 16; ++i) lead.answer(kSlice, 13 * kMillisecond);
  EXPECT_EQ(fill(lead, 13 * kMillisecond), 4);
  EXPECT_FALSE(Lead(kSlice).lose_patience(kSecond)) << "nothing is unanswered";
}

// Slow answers that come regularly are no reason for impatience.
TEST(Lead, PatienceFollowsTheGapsBetweenAnswers) {
  Lead lead(4 * kSlice);
  Nanos now = 0;
  fill(lead, now);
  for (int i = 0; i < 8; ++i) {
    now += 20 * kMillisecond;
    lead.answer(kSlice, now);
    fill(lead, now);
  }
  EXPECT_FALSE(lead.lose_patience(now + 49 * kMillisecond));
  EXPECT_TRUE(lead.lose_patience(now + 50 * kMillisecond));
}

// What a fast link brings in a span may be on its way.
TEST(Lead, FollowsThePaceOfFastLinks) {
  Lead lead(4 * kSlice);
  Nanos now = 0;
  fill(lead, now);
  for (int i = 0; i < 1000; ++i) {
    now += 100 * kMicrosecond;  // 1.3 GB/s
    lead.answer(kSlice, now);
    lead.send(kSlice, now);
  }
  EXPECT_NEAR(fill(lead, now), 200 - 4, 4);
}

}  // namespace
}  // namespace syncline::ps
