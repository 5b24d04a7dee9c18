#include "ps/request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace syncline::ps {
namespace {

std::vector<std::byte> whole(Request request, std::size_t body) {
  request.inlined = static_cast<std::uint32_t>(body);
  std::vector<std::byte> bytes(kRequestHeaderBytes + body);
  encode(request, std::span<std::byte, kRequestHeaderBytes>(bytes.data(), kRequestHeaderBytes));
  return bytes;
}

Request sample() {
  Request request;
  request.kind = RequestKind::kPush;
  request.store = 0x1234;
  request.key = 77;
  request.slice = 5;
  request.tag = first_reply_tag(request.store);
  request.priority = -9;
  request.dtype = DType::kBF16;
  request.clock = 1ull << 40;
  request.count = 3;
  request.samples = 0.25;
  request.separate = request.continues = true;
  return request;
}

KeyDescription dense() {
  KeyDescription key;
  key.name = "fc1.weight";
  key.key = 3;
  key.dtype = DType::kF16;
  key.count = 10;
  key.slices = {{0, 4, 1}, {4, 6, 0}};
  return key;
}

KeyDescription rows() {
  KeyDescription key;
  key.name = "user";
  key.table = true;
  key.count = 64;
  key.rows_max = 1000;
  key.init = {RowInit::Kind::kNormal, 0, 0.01, 7};
  key.optimizer = optim::RowwiseAdagrad(0.05);
  return key;
}

TEST(RequestFormat, ComesBackAsItWas) {
  Request request = sample();
  const auto bytes = whole(request, 20);
  request.inlined = 20;
  const auto found = decode_request(bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value(), request);
}

// docs/formats/store.md in bytes.
TEST(RequestFormat, LiesWhereTheDocumentSays) {
  const auto bytes = whole(sample(), 0);
  const unsigned char expected[kRequestHeaderBytes] = {
      1, 7,    0x34, 0x12, 77,   0,    0,
      0, 5,    0,    0,    0,    2,    0,
      0, 0x23, 0xf7, 0xff, 0xff, 0xff, static_cast<unsigned char>(DType::kBF16),
      3, 0,    0,    0,    0,    0,    0,
      0, 0,    0,    0,    0,    0,    0,
      0, 0,    1,    0,    0,    3,    0,
      0, 0,    0,    0,    0,    0,    0,
      0, 0,    0,    0,    0,    0xd0, 0x3f};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << "byte " << i;
  }
}

TEST(RequestFormat, RefusesWhatItCannotBe) {
  const auto good = whole(sample(), 8);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(decode_request({good.data(), length}).ok()) << length;
  }
  const struct {
    std::size_t at;
    unsigned char value;
  } changes[] = {{0, 0},    {0, 2},  {1, 0},  {1, 17}, {12, 1}, {15, 0x80}, {20, kDTypeCount},
                 {21, 32},  {22, 1}, {23, 1}, {24, 9}, {24, 7}, {28, 1},    {31, 1},
                 {55, 0x7f}};
  for (const auto& change : changes) {
    auto bytes = good;
    bytes[change.at] = std::byte{change.value};
    if (change.at == 55) bytes[54] = std::byte{0xf0};  // infinite samples
    EXPECT_FALSE(decode_request(bytes).ok()) << "byte " << change.at << " = " << +change.value;
  }
  EXPECT_FALSE(decode_request(whole(sample(), kInlineMax + 1)).ok());
  EXPECT_TRUE(decode_request(whole(sample(), kInlineMax)).ok());
  Request asks = sample();
  asks.answers = true;
  ASSERT_TRUE(decode_request(whole(asks, 0)).ok());
  EXPECT_TRUE(decode_request(whole(asks, 0))->answers);
  asks.tag = last_reply_tag(asks.store);  // there is none behind it for the answer
  EXPECT_FALSE(decode_request(whole(asks, 0)).ok());
  asks = sample();
  asks.answers = true;
  asks.kind = RequestKind::kPull;
  EXPECT_FALSE(decode_request(whole(asks, 0)).ok());
  Request sum = sample();
  sum.weighted = true;
  EXPECT_FALSE(decode_request(whole(sum, 0)).ok()) << "weighted, but no sum";
  sum.summed = true;
  ASSERT_TRUE(decode_request(whole(sum, 0)).ok());
  EXPECT_EQ(decode_request(whole(sum, 0)).value(), sum);
  sum.kind = RequestKind::kPull;
  EXPECT_FALSE(decode_request(whole(sum, 0)).ok());
  Request negative = sample();
  negative.samples = -1;
  EXPECT_FALSE(decode_request(whole(negative, 0)).ok());
}

TEST(RequestFormat, StoresHaveTagsOfTheirOwn) {
  std::int32_t last = kRequestTag;
  for (std::uint16_t store = 0; store < kStoresAtOnce; ++store) {
    EXPECT_EQ(error_tag(store), last + 1);
    EXPECT_GT(first_reply_tag(store), error_tag(store));
    EXPECT_GT(last_reply_tag(store), first_reply_tag(store));
    last = last_reply_tag(store);
    Request strange = sample();
    strange.store = static_cast<std::uint16_t>(store + 1);
    strange.tag = first_reply_tag(store);
    EXPECT_FALSE(decode_request(whole(strange, 0)).ok()) << "a tag of another store";
  }
}

TEST(RequestFormat, KeysComeBack) {
  for (const KeyDescription& key : {dense(), rows()}) {
    const auto bytes = encode(key);
    const auto found = decode_key(bytes);
    ASSERT_TRUE(found.ok()) << key.name;
    EXPECT_EQ(encode(found.value()), bytes);
    EXPECT_EQ(found->slices, key.slices);
    EXPECT_EQ(found->init, key.init);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode_key({bytes.data(), length}).ok()) << length;
    }
  }
}

TEST(RequestFormat, RefusesImpossibleKeys) {
  const auto refused = [](KeyDescription key) { return !decode_key(encode(key)).ok(); };
  auto key = dense();
  key.slices[1].count = 7;
  EXPECT_TRUE(refused(key)) << "slices longer than the key";
  key.slices.pop_back();
  EXPECT_TRUE(refused(key)) << "slices shorter than the key";
  key = dense();
  key.count = key.slices[1].count = 1ull << 62;
  key.slices.erase(key.slices.begin());
  EXPECT_TRUE(refused(key)) << "its bytes overflow";
  key = dense();
  key.name.clear();
  EXPECT_TRUE(refused(key));
  key.name.assign(kKeyNameMax + 1, 'x');
  EXPECT_TRUE(refused(key));
  auto table = rows();
  table.count = 0;
  EXPECT_TRUE(refused(table)) << "rows of nothing";
  table.count = kRowElementsMax + 1;
  EXPECT_TRUE(refused(table)) << "a row that no push can carry";
  table = rows();
  table.slices = {{0, 64, 0}};
  EXPECT_TRUE(refused(table));
  table = rows();
  table.dtype = DType::kF64;
  EXPECT_TRUE(refused(table));
}

TEST(RequestFormat, RulesAndStatisticsComeBack) {
  const Rules rules{kUnbounded, Combine::kMeanBySamples, true};
  auto bytes = encode(rules);
  ASSERT_EQ(bytes.size(), 10u);
  EXPECT_EQ(decode_rules(bytes).value(), rules);
  bytes[8] = std::byte{2};
  EXPECT_FALSE(decode_rules(bytes).ok());
  bytes[8] = std::byte{1};
  bytes[9] = std::byte{2};
  EXPECT_FALSE(decode_rules(bytes).ok());
  const ServerStats stats{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto written = encode(stats);
  ASSERT_EQ(written.size(), kServerStatsBytes);
  EXPECT_EQ(encode(decode_stats(written).value()), written);
  EXPECT_FALSE(decode_stats({written.data(), written.size() - 1}).ok());
}

TEST(RequestFormat, OptimisersComeBack) {
  const optim::Optimizer all[] = {optim::Sgd(0.1).momentum(0.9).nesterov(true),
                                  optim::Adam(1e-3).betas(0.8, 0.9),
                                  optim::AdamW(),
                                  optim::Adagrad().lr_decay(0.1),
                                  optim::Rmsprop().centered(true),
                                  optim::Lars(0.1),
                                  optim::Lamb(),
                                  optim::RowwiseAdagrad()};
  for (const optim::Optimizer& each : all) {
    auto bytes = encode(each);
    const auto found = decode_optimizer(bytes);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(encode(found.value()), bytes);
    bytes[1] |= std::byte{4};
    EXPECT_FALSE(decode_optimizer(bytes).ok()) << "unknown flag";
    bytes = encode(each);
    bytes[0] = std::byte{10};
    EXPECT_FALSE(decode_optimizer(bytes).ok()) << "unknown kind";
    EXPECT_FALSE(decode_optimizer({bytes.data(), bytes.size() - 1}).ok());
  }
}

TEST(RequestFormat, LongErrorsAreCut) {
  const ErrorNote note{5, Code::kMismatch, std::string(5000, 'e')};
  const auto bytes = encode(note);
  EXPECT_EQ(bytes.size(), kErrorNoteBytes);
  const auto found = decode_error(bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->tag, 5);
  EXPECT_EQ(found->code, Code::kMismatch);
  EXPECT_EQ(found->text, note.text.substr(0, kErrorNoteBytes - 9));
  auto bad = bytes;
  bad[4] = std::byte{0};
  EXPECT_FALSE(decode_error(bad).ok()) << "an error that is none";
  bad[4] = std::byte{200};
  EXPECT_FALSE(decode_error(bad).ok());
}

}  // namespace
}  // namespace syncline::ps
