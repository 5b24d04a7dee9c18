// Beyond 2^31 elements: two ranks of threads, 4 GiB in all.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/harness/inputs.h"
#include "tests/harness/thread_job.h"

namespace syncline::conformance {
namespace {

constexpr std::size_t kCount = (std::size_t{1} << 31) + 5;

// Marks are at places that differ from each other modulo 2^31 and 2^32.
constexpr std::size_t kMarks[] = {0,         4, 5, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                  kCount - 1};

TEST(Large, ReduceAndBroadcastPast31Bits) {
  const auto body = [](Session& session) {
    // Untouched pages of new memory are zero and cost nothing until they are written.
    const std::unique_ptr<std::uint8_t[], decltype(&std::free)> data(
        static_cast<std::uint8_t*>(std::calloc(kCount, 1)), &std::free);
    ASSERT_NE(data, nullptr);
    const auto mark = [&](std::uint8_t base) {
      for (std::size_t i = 0; i < std::size(kMarks); ++i) {
        data[kMarks[i]] = static_cast<std::uint8_t>(base + i);
      }
    };
    const auto expect = [&](int base, int step) {
      for (std::size_t i = 0; i < std::size(kMarks); ++i) {
        EXPECT_EQ(data[kMarks[i]], base + step * static_cast<int>(i)) << "element " << kMarks[i];
      }
      EXPECT_EQ(data[6], 0);
      EXPECT_EQ(data[kCount - 2], 0);
    };
    mark(session.rank() == 0 ? 10 : 100);
    session.world().all_reduce({data.get(), kCount}).wait();
    expect(110, 2);
    mark(session.rank() == 0 ? 0 : 60);
    session.world().broadcast({data.get(), kCount}, 1).wait();
    expect(60, 1);
  };
  SessionOptions options = harness::test_options();
  options.timeout = std::chrono::seconds(200);  // a busy machine; some ten seconds otherwise
  harness::run_ranks(2, body, options, std::chrono::seconds(250));
}

}  // namespace
}  // namespace syncline::conformance
