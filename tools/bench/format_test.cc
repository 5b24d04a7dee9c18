#include "tools/bench/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace syncline::tools {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

BenchReport sample() {
  BenchReport report;
  report.ranks = 4;
  report.local_ranks = 2;
  report.machine = "Test CPU, 2 cores, Linux 6";
  Row row;
  row.bytes = 4096;
  row.count = 1024;
  row.schedule = "two_shot";
  row.transport = "shm";
  row.predicted_us = 9.5;
  row.out_of_place = Timing{10, 8, 9, 14, 15, 7, 0.4, 0.6, 0};
  row.in_place = Timing{20, 18, 19, 24, 25, 17, 0.2, 0.3, 3};
  report.rows.push_back(row);
  return report;
}

TEST(BenchFormat, TableHasNcclTestsColumnsAndBothWays) {
  const std::string text = format_report(sample());
  for (const char* word : {"out-of-place",
                           "in-place",
                           "size(B)",
                           "count",
                           "type",
                           "redop",
                           "root",
                           "time(us)",
                           "algbw",
                           "busbw",
                           "#wrong",
                           "p50",
                           "p99",
                           "two_shot",
                           "shm",
                           "Test CPU",
                           "1 GB = 1e9 bytes",
                           "2(n-1)/n",
                           "# Out of bounds values : 3 FAILED",
                           "# Avg bus bandwidth    : 0.45"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(BenchFormat, JsonRowHasTheNamedKeys) {
  const json all = json::parse(report_json(sample()));
  EXPECT_EQ(all["schema"], "syncline.bench/1");
  const json& row = all["rows"][0];
  EXPECT_EQ(row["bytes"], 4096);
  EXPECT_EQ(row["p50_us"], 9);
  EXPECT_EQ(row["p99_us"], 14);
  EXPECT_EQ(row["algbw_gbs"], 0.4);
  EXPECT_EQ(row["busbw_gbs"], 0.6);
  EXPECT_EQ(row["wrong"], 0);
  EXPECT_EQ(row["predicted_us"], 9.5);
  EXPECT_EQ(row["in_place"]["wrong"], 3);
  EXPECT_EQ(row["ranks"], 4);
}

TEST(BenchFormat, ReproducibleStandsBesideTheFreeChoice) {
  BenchReport report = sample();
  EXPECT_THAT(format_report(report), Not(HasSubstr("free(us)")));
  EXPECT_FALSE(json::parse(report_json(report))["rows"][0].contains("free"));
  report.options.reproducible = true;
  report.rows[0].free = FreeChoice{"ring", 8.25, 1.125, 0.75, 1.5, 2};
  const std::string text = format_report(report);
  for (const char* word : {"free(us)", "8.25", "1.12", "0.75-1.50", " ring", "5 FAILED"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  const json all = json::parse(report_json(report));
  EXPECT_EQ(all["reproducible"], true);
  EXPECT_EQ(all["rows"][0]["free"]["ratio"], 1.125);
  EXPECT_EQ(all["rows"][0]["free"]["schedule"], "ring");
}

TEST(BenchFormat, NcclTestsKeyNames) {
  BenchReport report = sample();
  report.options.format = "nccl-tests";
  const json all = json::parse(format_report(report));
  const json& way = all["results"][0]["out_of_place"];
  EXPECT_EQ(way["time"], 10);
  EXPECT_EQ(way["alg_bw"], 0.4);
  EXPECT_EQ(way["bus_bw"], 0.6);
  EXPECT_EQ(way["nwrong"], 0);
}

TEST(BenchFormat, OsuColumns) {
  BenchReport report = sample();
  report.options.format = "osu";
  EXPECT_THAT(format_report(report), HasSubstr("Avg Latency(us)"));
}

TEST(BenchFormat, UncheckedIsNotZero) {
  BenchReport report = sample();
  report.rows[0].out_of_place->wrong = report.rows[0].in_place->wrong = -1;
  EXPECT_EQ(report.wrong(), -1);
  EXPECT_THAT(format_report(report), HasSubstr("N/A"));
}

TEST(BenchSizes, GrowAndAreWholeOnEveryRank) {
  BenchOptions options;
  EXPECT_EQ(sizes(options, 2),
            (std::vector<std::uint64_t>{1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20}));
  options.kind = Collective::kAllGather;
  options.bytes_min = options.bytes_max = 1024;
  EXPECT_EQ(sizes(options, 3), (std::vector<std::uint64_t>{1020}));
  options.bytes_min = 0;
  options.bytes_max = 8;
  EXPECT_EQ(sizes(options, 3), (std::vector<std::uint64_t>{12}));
  options.kind = Collective::kBarrier;
  EXPECT_EQ(sizes(options, 3), (std::vector<std::uint64_t>{0}));
}

TEST(BenchNames, AcceptBothVocabularies) {
  EXPECT_EQ(parse_dtype("half").value(), DType::kF16);
  EXPECT_EQ(parse_dtype("bf16").value(), DType::kBF16);
  EXPECT_EQ(parse_reduce_op("prod").value(), ReduceOp::kProduct);
  EXPECT_EQ(parse_collective("all_gather").value(), Collective::kAllGather);
  EXPECT_FALSE(parse_dtype("f128").ok());
  EXPECT_FALSE(parse_collective("all_to_none").ok());
}

}  // namespace
}  // namespace syncline::tools
