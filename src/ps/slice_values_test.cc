// DenseSlice and TablePart: what contributions make of values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/reduce.h"
#include "ps/dense_slice.h"
#include "ps/table_part.h"

namespace syncline::ps {
namespace {

class SliceValues : public testing::Test {
 protected:
  Buffer floats(const std::vector<float>& values) {
    Buffer data = buffers.take(values.size() * sizeof(float));
    std::memcpy(data.get(), values.data(), values.size() * sizeof(float));
    return data;
  }
  Buffer halves(const std::vector<float>& values) {
    Buffer data = buffers.take(values.size() * 2);
    kernels::copy(DType::kBF16, {data.get(), false}, {values.data(), true}, values.size());
    return data;
  }
  Contribution from(int worker, Buffer data, std::size_t count, double samples = 1) {
    Contribution each;
    each.worker = worker;
    each.data = std::move(data);
    each.count = count;
    each.samples = samples;
    return each;
  }
  static std::vector<float> seen(const Answer& answer) {
    std::vector<float> values(answer.count);
    kernels::copy(answer.type, {values.data(), true},
                  {answer.data.get(), answer.type == DType::kF32}, answer.count);
    return values;
  }
  std::vector<float> pull(DenseSlice& slice, int worker = 0) {
    return seen(slice.answer({worker, {}, nullptr}).value());
  }

  Buffers buffers;
  Rules rules;
  optim::Optimizer sgd = optim::Sgd(1);
};

TEST_F(SliceValues, AnswersStayWhatTheyWere) {
  DenseSlice slice(2, rules, true, DType::kF32, 2, false, buffers);
  slice.assign(floats({1, 2}));
  const Answer before = slice.answer({0, {}, nullptr}).value();
  slice.apply(from(0, floats({10, 10}), 2), {});
  const Answer between = slice.answer({0, {}, nullptr}).value();
  UpdateRule rule;
  rule.optimizer = &sgd;
  slice.apply(from(1, floats({1, 1}), 2), rule);
  EXPECT_EQ(seen(before), (std::vector<float>{1, 2}));
  EXPECT_EQ(seen(between), (std::vector<float>{11, 12}));
  EXPECT_EQ(pull(slice), (std::vector<float>{10, 11}));
}

TEST_F(SliceValues, RoundsReplaceAndMissingOnesDoNot) {
  DenseSlice slice(3, rules, false, DType::kF32, 1, false, buffers);
  slice.assign(floats({7}));
  slice.close(0, {});
  EXPECT_EQ(pull(slice), std::vector<float>{7});
  slice.keep(from(2, floats({1}), 1));
  slice.keep(from(0, floats({2}), 1));
  EXPECT_EQ(slice.sizes().held, 8u);
  slice.close(0, {});
  EXPECT_EQ(pull(slice), std::vector<float>{3});
  EXPECT_EQ(slice.sizes().held, 0u);
}

TEST_F(SliceValues, MeanBySamples) {
  UpdateRule mean;
  mean.combine = Combine::kMeanBySamples;
  DenseSlice slice(2, rules, false, DType::kF32, 1, false, buffers);
  slice.assign(floats({0}));
  slice.keep(from(0, floats({1}), 1, 3));
  slice.keep(from(1, floats({5}), 1, 1));
  slice.close(0, mean);
  EXPECT_EQ(pull(slice), std::vector<float>{2});
  slice.keep(from(0, floats({1}), 1));
  slice.keep(from(1, floats({5}), 1));
  slice.close(0, mean);
  EXPECT_EQ(pull(slice), std::vector<float>{3}) << "never said: the plain mean";
  slice.keep(from(0, floats({9}), 1, 0));
  slice.close(0, mean);
  EXPECT_EQ(pull(slice), std::vector<float>{0}) << "no samples behind it at all";
}

// Steps too small for bf16 add up in the master.
TEST_F(SliceValues, SixteenBitKeysHaveAMaster) {
  UpdateRule rule;
  rule.optimizer = &sgd;
  DenseSlice slice(1, rules, false, DType::kBF16, 1, false, buffers);
  slice.assign(halves({1}));
  for (std::uint64_t clock = 0; clock < 64; ++clock) {
    Contribution each = from(0, halves({-0.0009765625f}), 1);  // 2^-10, bf16 has 2^-7 at 1
    each.clock = clock;
    slice.keep(std::move(each));
    slice.close(clock, rule);
  }
  const auto answer = slice.answer({0, {}, nullptr}).value();
  EXPECT_EQ(answer.type, DType::kBF16);
  EXPECT_EQ(seen(answer), std::vector<float>{1.0625f});
}

// An optimiser on f64 weights would take them for f32.
TEST_F(SliceValues, OtherTypesAreSumsInEveryStore) {
  UpdateRule rule;
  rule.optimizer = &sgd;
  for (const bool immediate : {false, true}) {
    DenseSlice slice(1, rules, immediate, DType::kF64, 1, false, buffers);
    const double one = 1, two = 2;
    Buffer first = buffers.take(8), push = buffers.take(8);
    std::memcpy(first.get(), &one, 8);
    std::memcpy(push.get(), &two, 8);
    slice.assign(first);
    if (immediate) {
      slice.apply(from(0, push, 1), rule);
    } else {
      slice.keep(from(0, push, 1));
      slice.close(0, rule);
    }
    double value = 0;
    std::memcpy(&value, slice.answer({0, {}, nullptr}).value().data.get(), 8);
    EXPECT_EQ(value, immediate ? 3 : 2);
  }
}

TEST_F(SliceValues, OldGradientsWeighLess) {
  UpdateRule rule;
  rule.optimizer = &sgd;
  rule.scale_by_age = true;
  DenseSlice slice(2, rules, true, DType::kF32, 1, false, buffers);
  slice.assign(floats({0}));
  pull(slice, 1);
  slice.apply(from(0, floats({-1}), 1), rule);
  slice.apply(from(0, floats({-1}), 1), rule);
  EXPECT_EQ(slice.ages.max, 1u) << "worker 0 never looked";
  const float before = pull(slice, 0)[0];
  slice.apply(from(1, floats({-3}), 1), rule);
  EXPECT_EQ(pull(slice, 0)[0], before + 1) << "two updates old: a third";
}

class TableValues : public SliceValues {
 protected:
  TableValues() {
    key.name = "t";
    key.key = 4;
    key.table = true;
    key.count = 2;
  }
  Contribution rows(int worker, const std::vector<std::int64_t>& ids,
                    const std::vector<float>& gradients) {
    Buffer data = buffers.take(ids.size() * 8 + gradients.size() * 4);
    std::memcpy(data.get(), ids.data(), ids.size() * 8);
    std::memcpy(data.get() + ids.size() * 8, gradients.data(), gradients.size() * 4);
    return from(worker, std::move(data), ids.size());
  }
  std::vector<float> pull_rows(TablePart& table, const std::vector<std::int64_t>& ids) {
    WaitingPull pull;
    pull.request.count = ids.size();
    pull.ids = buffers.take(ids.size() * 8);
    std::memcpy(pull.ids.get(), ids.data(), ids.size() * 8);
    return seen(table.answer(pull).value());
  }
  KeyDescription key;
};

TEST_F(TableValues, RowsFollowFromTheSeed) {
  key.init = {RowInit::Kind::kUniform, -1, 1, 5};
  TablePart one(1, rules, false, key, buffers), other(3, rules, true, key, buffers);
  pull_rows(one, {1});
  EXPECT_EQ(pull_rows(one, {9, 1}), pull_rows(other, {9, 1}));
  EXPECT_NE(pull_rows(one, {9}), pull_rows(one, {1}));
  EXPECT_EQ(one.sizes().rows, 2u);
}

TEST_F(TableValues, AddsInCanonicalOrder) {
  const float big = 0x1p24f;
  for (const bool forwards : {true, false}) {
    TablePart table(3, rules, false, key, buffers);
    for (const int w : forwards ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 1, 0}) {
      table.keep(rows(w, {3}, {w == 0 ? big : 1.0f, 1}));
    }
    table.close(0, {});
    EXPECT_EQ(pull_rows(table, {3}), (std::vector<float>{(big + 1.0f) + 1.0f, 3}));
  }
}

TEST_F(TableValues, MeansWeighBySamples) {
  UpdateRule mean;
  mean.combine = Combine::kMeanBySamples;
  TablePart table(2, rules, false, key, buffers);
  Contribution first = rows(0, {1, 2}, {1, 1, 1, 1});
  first.samples = 3;
  table.keep(std::move(first));
  table.keep(rows(1, {1}, {5, 5}));
  table.close(0, mean);
  EXPECT_EQ(pull_rows(table, {1, 2}), (std::vector<float>{2, 2, 1, 1}));
}

// Our client sums them first; others may not.
TEST_F(TableValues, RepeatedIdsInOnePush) {
  TablePart table(3, rules, false, key, buffers);
  table.keep(rows(1, {3, 3, 3, 4}, {1, 1, 2, 2, 4, 4, 8, 8}));
  table.close(0, {});
  EXPECT_EQ(pull_rows(table, {3, 4}), (std::vector<float>{7, 7, 8, 8}));
}

TEST_F(TableValues, RefusesWhatDoesNotFit) {
  key.rows_max = 10;
  TablePart table(1, rules, false, key, buffers);
  const std::int64_t ids[] = {0, 9, 10, -1};
  EXPECT_EQ(table.refuse_ids(ids, 2), "");
  EXPECT_NE(table.refuse_ids(ids, 3), "");
  EXPECT_NE(table.refuse_ids(ids + 3, 1), "");
  Request push;
  push.count = kRowBytesMax / 16;
  EXPECT_EQ(table.push_bytes(push).value(), kRowBytesMax);
  ++push.count;
  EXPECT_FALSE(table.push_bytes(push).ok());
  push.count = 1;
  push.dtype = DType::kF64;
  EXPECT_FALSE(table.push_bytes(push).ok());
}

TEST_F(TableValues, RowsHaveTheirOwnSteps) {
  key.optimizer = optim::Adam(1);
  TablePart table(1, rules, true, key, buffers);
  table.apply(rows(0, {1}, {1, -1}), {});
  table.apply(rows(0, {1}, {1, -1}), {});
  table.apply(rows(0, {2}, {1, -1}), {});
  const auto values = pull_rows(table, {1, 2});
  EXPECT_NEAR(values[0], -2, 1e-5);
  EXPECT_NEAR(values[2], -1, 1e-5) << "its first step, however many the others had";
}

}  // namespace
}  // namespace syncline::ps
