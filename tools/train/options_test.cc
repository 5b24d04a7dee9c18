#include "tools/train/options.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace syncline::tools {
namespace {

struct Parsed {
  TrainOptions options;
  int code;
  std::string said;
};

Parsed parse(const std::vector<std::string>& words) {
  Parsed result;
  testing::internal::CaptureStderr();
  result.code = parse_train_options(words, result.options);
  result.said = testing::internal::GetCapturedStderr();
  return result;
}

TEST(TrainOptions, TakesDashesAndUnderscores) {
  const Parsed p = parse({"--bucket_cap_mb", "4", "--max-steps=7", "--model", "resnet18", "-q"});
  EXPECT_EQ(p.code, -1);
  EXPECT_EQ(p.options.bucket_cap_mb, 4);
  EXPECT_EQ(p.options.max_steps, 7);
  EXPECT_EQ(p.options.model, "resnet18");
  EXPECT_TRUE(p.options.quiet);
}

TEST(TrainOptions, ReproducibleHasThreeSpellings) {
  EXPECT_FALSE(parse({}).options.reproducible);
  EXPECT_TRUE(parse({"--reproducible"}).options.reproducible);
  setenv("SYNCLINE_REPRODUCIBLE", "1", 1);
  EXPECT_TRUE(parse({}).options.reproducible);
  unsetenv("SYNCLINE_REPRODUCIBLE");
}

TEST(TrainOptions, KnowsEverySchedule) {
  EXPECT_EQ(parse({"--sync", "auto"}).options.sync, "");
  for (const char* name : {"ring", "double_tree", "hierarchical", "hierarchical:tree/ring"}) {
    EXPECT_EQ(parse({"--sync", name}).options.sync, name);
  }
  EXPECT_THAT(parse({"--sync", "hierarchical:ring"}).said, testing::HasSubstr("INNER/OUTER"));
}

TEST(TrainOptions, TheLastOfTwoCounts) {
  const Parsed p = parse({"--epochs", "3", "--epochs", "1", "--eval", "epoch", "--eval", "end"});
  EXPECT_EQ(p.code, -1) << p.said;
  EXPECT_EQ(p.options.epochs, 1);
  EXPECT_EQ(p.options.evaluate, "end");
}

TEST(TrainOptions, BadInputIsOneLineAndExitCodeTwo) {
  const std::vector<std::vector<std::string>> bad = {
      {"--model", "alexnet"}, {"--batch", "0"},
      {"--batch", "many"},    {"--epochs", "-1"},
      {"--lr", "0"},          {"--sync", "zigzag"},
      {"--no-such-flag"},     {"stray"},
      {"--warmup", "1.5"},    {"--optimizer", "lbfgs"},
      {"--max-steps", "0"},   {"--accum"},
      {"--slow", "2"},        {"--pool"}};
  for (const auto& words : bad) {
    const Parsed p = parse(words);
    EXPECT_EQ(p.code, 2) << words[0];
    EXPECT_EQ(std::count(p.said.begin(), p.said.end(), '\n'), 1) << p.said;
    EXPECT_THAT(p.said, testing::StartsWith("syncline: train: "));
  }
}

TEST(TrainOptions, SlownessNamesRankFactorAndShare) {
  const auto one = parse_slowness("2:5");
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->rank, 2);
  EXPECT_EQ(one->factor, 5);
  EXPECT_EQ(one->share, 1);
  const auto all = parse_slowness("all:10:0.1");
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->rank, -1);
  EXPECT_EQ(all->share, 0.1);
  for (const char* bad : {"", "2", "2:", ":5", "x:5", "-1:5", "2:0.5", "2:5:0", "2:5:2",
                          "2:5:0.1:", "2:5x", "2x:5"}) {
    EXPECT_FALSE(parse_slowness(bad).has_value()) << bad;
  }
}

TEST(TrainOptions, EnvironmentServesAndTheCommandLineWins) {
  setenv("SYNCLINE_BATCH", "17", 1);
  EXPECT_EQ(parse({}).options.batch, 17);
  EXPECT_EQ(parse({"--batch", "9"}).options.batch, 9);
  unsetenv("SYNCLINE_BATCH");
}

TEST(TrainOptions, AutoIsThePlannersChoice) {
  EXPECT_EQ(parse({"--sync", "auto"}).options.sync, "");
  EXPECT_EQ(parse({"--sync", "ring"}).options.sync, "ring");
}

TEST(TrainOptions, LearningRateFollowsTheSamplesOfAStep) {
  TrainOptions o;
  EXPECT_DOUBLE_EQ(default_lr(o, 4), 0.1);
  o.accum = 2;
  EXPECT_DOUBLE_EQ(default_lr(o, 4), 0.2);
  o.lr = 0.03;
  EXPECT_DOUBLE_EQ(default_lr(o, 4), 0.03);
}

}  // namespace
}  // namespace syncline::tools
