#include "tools/train/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace syncline::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

TrainReport two_ranks() {
  TrainReport r;
  r.world_size = 2;
  r.steps = 100;
  r.samples = 12800;
  r.train_seconds = 4;
  r.evaluations = {{10000, 0.8, 0.5}, {10000, 0.9123, 0.25}};
  r.phases = {0.5, 10, 20, 0.4, 2};
  r.compute_ms_min = 31;
  r.compute_ms_max = 33;
  BucketReport bucket;
  bucket.name = "ddp0.bucket0";
  bucket.bytes = 1611352;
  bucket.schedule = "two_shot";
  bucket.transport = "shm";
  bucket.predicted_us = 150;
  bucket.alone_us = 160;
  bucket.in_step_us = 900;
  r.buckets = {bucket};
  return r;
}

TEST(Verdict, ComputeBoundsTheStepWhenItTakesLonger) {
  const TrainReport r = two_ranks();
  EXPECT_EQ(bound_by(r), "compute");
  EXPECT_THAT(verdict(r),
              HasSubstr("t1 = compute = 32.00 ms is more than t2 = exchange = 0.16 ms"));
  EXPECT_THAT(verdict(r), HasSubstr("a faster network would not"));
}

TEST(Verdict, BlamesTheSlowerRankForExposedTimeThatBytesDoNotExplain) {
  TrainReport r = two_ranks();
  r.phases.exposed = 6;
  EXPECT_THAT(verdict(r), HasSubstr("waiting for the slower rank"));
  EXPECT_THAT(verdict(r), HasSubstr("31.00 to 33.00 ms"));
}

TEST(Verdict, ExchangeBoundsTheStepWhenItTakesLonger) {
  TrainReport r = two_ranks();
  r.buckets[0].alone_us = 50000;
  r.phases.exposed = 25;
  EXPECT_EQ(bound_by(r), "exchange");
  EXPECT_THAT(verdict(r),
              HasSubstr("t2 = exchange = 50.00 ms is more than t1 = compute = 32.00 ms"));
  EXPECT_THAT(verdict(r), HasSubstr("25.00 ms of it stay exposed"));
}

TEST(Verdict, DataBoundsTheStepWhenItTakesLongest) {
  TrainReport r = two_ranks();
  r.phases.data = 40;
  EXPECT_EQ(bound_by(r), "data");
  EXPECT_THAT(verdict(r), HasSubstr("reading the data bounds the step"));
}

TEST(Verdict, OneWorkerExchangesNothing) {
  TrainReport r = two_ranks();
  r.world_size = 1;
  r.buckets.clear();
  EXPECT_THAT(verdict(r), HasSubstr("One worker exchanges nothing"));
}

TEST(ReportText, NamesAccuracyThroughputPhasesAndBuckets) {
  const std::string text = report_text(two_ranks());
  for (const char* part :
       {"91.23 %", "3200 images/s", "waiting for data", "exposed communication", "optimiser",
        "1.54 MiB", "two_shot", "shm", "150 us", "160 us", "900 us"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportJson, SaysTheSame) {
  const auto json = nlohmann::json::parse(report_json(two_ranks()));
  EXPECT_EQ(json["schema"], "syncline.train/1");
  EXPECT_DOUBLE_EQ(json["test_accuracy"], 0.9123);
  EXPECT_DOUBLE_EQ(json["images_per_second"], 3200);
  EXPECT_DOUBLE_EQ(json["phases_ms"]["step"], 32.9);
  EXPECT_EQ(json["buckets"][0]["schedule"], "two_shot");
  EXPECT_EQ(json["bound_by"], "compute");
}

TEST(ReportJson, HasNoAccuracyWithoutEvaluation) {
  TrainReport r = two_ranks();
  r.evaluations.clear();
  EXPECT_TRUE(nlohmann::json::parse(report_json(r))["test_accuracy"].is_null());
}

TEST(ReportText, TheStoreSaysWhatSharesSave) {
  TrainReport r = two_ranks();
  r.world_size = 3;
  r.consistency = "bulk_synchronous";
  r.store_servers = 2;
  r.store_sums_on_hosts = true;
  r.store.resize(2);
  EXPECT_THAT(report_text(r), HasSubstr("bulk_synchronous, 2 servers, summed on hosts; loss"));
  EXPECT_THAT(report_text(r), Not(HasSubstr("ZeRO"))) << "an optimiser without a state";
  r.store[0].optimizer_bytes = 3 << 20;
  r.store[1].optimizer_bytes = 1 << 20;
  EXPECT_THAT(report_text(r), HasSubstr("(ZeRO stage 1): 3 workers save 8.00 MiB"));
  const auto json = nlohmann::json::parse(report_json(r));
  EXPECT_EQ(json["store"]["optimizer_bytes_saved"], 8 << 20);
  EXPECT_EQ(json["store"]["sums_on_hosts"], true);
}

}  // namespace
}  // namespace syncline::tools
