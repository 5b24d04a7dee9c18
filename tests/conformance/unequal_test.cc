// The `_v` collectives: blocks of unequal lengths, also none, and ranks that disagree on one.
#include <numeric>
#include <vector>

#include "tests/conformance/each_wiring.h"
#include "tests/harness/instrumented.h"
#include "tests/harness/workspace.h"

namespace syncline::conformance {
namespace {

using harness::Bytes;
using harness::Guarded;
using namespace std::chrono_literals;

using Counts = std::vector<std::size_t>;

class Unequal : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Unequal);

// Elements that rank `from` gives to rank `to` in turn `turn`: 0, 1, 7, around a segment, several
// segments. `unit`: elements of a segment.
std::size_t block_length(std::size_t turn, int from, int to, std::size_t unit) {
  const std::size_t sizes[] = {0, 1, 7, unit - 1, unit, unit + 1, 3 * unit + 5, 2, 100};
  return sizes[(turn + 4 * static_cast<std::size_t>(from) + 7 * static_cast<std::size_t>(to)) % 9];
}

std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// One rank's view of a turn; all ranks compute the same tables.
struct BlockTurn {
  Communicator& world;
  DType type;
  std::size_t number;
  std::size_t unit;

  int n() const { return world.size(); }
  int me() const { return world.rank(); }
  Bytes period(int rank) const { return harness::contribution(type, ReduceOp::kSum, rank); }
  // What every rank gives in kinds with one block per rank.
  Counts blocks() const {
    Counts counts;
    for (int r = 0; r < n(); ++r) counts.push_back(block_length(number, r, 0, unit));
    return counts;
  }
  void expect(const Guarded& at, const Bytes& expected, std::size_t phase, std::size_t begin,
              std::size_t count, const char* what) const {
    EXPECT_EQ(at.first_difference(expected, phase, begin, count), count)
        << what << " " << to_string(type) << " turn " << number << " rank " << me() << " of "
        << n();
    EXPECT_TRUE(at.fences_intact()) << what;
  }

  void all_gather_v() const {
    const Counts counts = blocks();
    Guarded in, out;
    in.reset(period(me()), type, 0, counts[static_cast<std::size_t>(me())], 1);
    out.reset(type, sum(counts), number % 3);
    world.all_gather_v(in.view(), out.view(), counts).wait();
    expect_gathered(out, counts, "all_gather_v");
  }
  void expect_gathered(const Guarded& out, const Counts& counts, const char* what) const {
    std::size_t begin = 0;
    for (int r = 0; r < n(); ++r) {
      const std::size_t count = counts[static_cast<std::size_t>(r)];
      expect(out, period(r), 0, begin, count, what);
      begin += count;
    }
  }
  void gather_v(int root) const {
    const Counts counts = blocks();
    Guarded in, out;
    in.reset(period(me()), type, 0, counts[static_cast<std::size_t>(me())], 1);
    out.reset(type, sum(counts), 0);
    if (me() == root) {
      world.gather_v(in.view(), out.view(), counts, root).wait();
      expect_gathered(out, counts, "gather_v");
    } else {
      world.gather_v(in.view(), {}, {}, root).wait();
    }
  }
  void scatter_v(int root) const {
    const Counts counts = blocks();
    const std::size_t mine = counts[static_cast<std::size_t>(me())];
    std::size_t before = 0;
    for (int r = 0; r < me(); ++r) before += counts[static_cast<std::size_t>(r)];
    Guarded in, out;
    in.reset(period(root), type, 0, sum(counts), 2);
    out.reset(type, mine, 0);
    if (me() == root) {
      world.scatter_v(in.view(), out.view(), counts, root).wait();
    } else {
      world.scatter_v({}, out.view(), {}, root).wait();
    }
    expect(out, period(root), before, 0, mine, "scatter_v");
  }
  void reduce_scatter_v(const CallOptions& options) const {
    const Counts counts = blocks();
    const std::size_t mine = counts[static_cast<std::size_t>(me())];
    std::size_t before = 0;
    for (int r = 0; r < me(); ++r) before += counts[static_cast<std::size_t>(r)];
    Guarded in, out;
    in.reset(period(me()), type, 0, sum(counts), 0);
    out.reset(type, mine, 1);
    world.reduce_scatter_v(in.view(), out.view(), counts, ReduceOp::kSum, options).wait();
    const Bytes total = harness::reduction(type, ReduceOp::kSum, n());
    expect(out, total, before, 0, mine, "reduce_scatter_v");
    EXPECT_TRUE(in.equals(period(me())));
  }
  void all_to_all_v() const {
    Counts gives, gets;
    for (int r = 0; r < n(); ++r) {
      gives.push_back(block_length(number, me(), r, unit));
      gets.push_back(block_length(number, r, me(), unit));
    }
    Guarded in, out;
    in.reset(period(me()), type, 0, sum(gives), 2);
    out.reset(type, sum(gets), 1);
    world.all_to_all_v(in.view(), out.view(), gives, gets).wait();
    std::size_t begin = 0;
    for (int s = 0; s < n(); ++s) {
      std::size_t phase = 0;
      for (int d = 0; d < me(); ++d) phase += block_length(number, s, d, unit);
      const std::size_t count = gets[static_cast<std::size_t>(s)];
      expect(out, period(s), phase, begin, count, "all_to_all_v");
      begin += count;
    }
  }
};

void run_turns(Session& session, int types_step) {
  Communicator& world = session.world();
  for (int type = 0; type < kDTypeCount; type += types_step) {
    for (std::size_t number = 0; number < 9; number += 1 + static_cast<std::size_t>(type) % 3) {
      const auto dtype = static_cast<DType>(type);
      const PlanInfo plan = world.plan(Collective::kGather, dtype, (1 << 20) / size_of(dtype));
      const BlockTurn turn{world, dtype, number, plan.segment_bytes / size_of(dtype)};
      const int root = static_cast<int>(number) % world.size();
      turn.all_gather_v();
      turn.gather_v(root);
      turn.scatter_v(root);
      turn.reduce_scatter_v({});
      turn.all_to_all_v();
    }
  }
}

TEST_P(Unequal, EveryCountAndType) {
  const int slow = harness::kInstrumented ? 4 : 1;
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    run(ranks, [&](Session& session) { run_turns(session, slow * (ranks <= 3 ? 1 : 3)); });
  }
}

TEST_P(Unequal, OtherSchedulesWhereAllKnowTheCounts) {
  run(3, [](Session& session) {
    for (std::size_t number = 0; number < 9; ++number) {
      const BlockTurn turn{session.world(), DType::kBF16, number, 4096};
      turn.reduce_scatter_v(harness::with_schedule("ring"));
    }
  });
}

TEST_P(Unequal, NothingAtAll) {
  run(3, [](Session& session) {
    const Counts none(3, 0);
    session.world().all_gather_v({}, {}, none).wait();
    session.world().all_to_all_v({}, {}, none, none).wait();
    session.world().gather_v({}, {}, none, 1).wait();
    EXPECT_TRUE(works(session.world()));
  });
}

TEST_P(Unequal, InPlace) {
  run(3, [](Session& session) {
    const Counts counts{2, 0, 3};
    const std::size_t begin[] = {0, 2, 2};
    const auto me = static_cast<std::size_t>(session.rank());
    float all[5] = {};
    for (std::size_t i = 0; i < counts[me]; ++i) all[begin[me] + i] = static_cast<float>(me + 1);
    session.world().all_gather_v({all + begin[me], counts[me]}, {all, 5}, counts).wait();
    EXPECT_EQ(std::vector<float>(all, all + 5), (std::vector<float>{1, 1, 3, 3, 3}));
    session.world().reduce_scatter_v({all, 5}, {all + begin[me], counts[me]}, counts).wait();
    EXPECT_TRUE(me != 2 || all[4] == 9.0f) << all[4];
  });
}

// Ranks that think differently of one block: named at both ends, never a hang or an overrun.
TEST_P(Unequal, DisagreementShowsBothSides) {
  run(3, [](Session& session) {
    const bool odd = session.rank() == 0;
    float in[64] = {}, out[64];
    struct Odd {
      const char* what;
      std::function<Work(Communicator&)> call;
      std::vector<std::string> shown;  // on the rank that sees it first
    };
    const Odd calls[] = {
        {"all_gather_v",
         [&](Communicator& w) {
           const Counts mine = odd ? Counts{1, 2, 4} : Counts{1, 2, 3};
           const auto me = static_cast<std::size_t>(w.rank());
           return w.all_gather_v({in, mine[me]}, {out, sum(mine)}, mine);
         },
         {"all_gather_v(f32, 4 elements)", "all_gather_v(f32, 3 elements)"}},
        {"gather_v",
         [&](Communicator& w) {
           return odd ? w.gather_v({in, 1}, {out, 11}, {1, 5, 5}, 0)
                      : w.gather_v({in, static_cast<std::size_t>(w.rank()) + 4}, {}, {}, 0);
         },
         {"gather_v(f32, 5 elements, root 0)", "gather_v(f32, 6 elements, root 0)"}},
        {"scatter_v, nothing or something",
         [&](Communicator& w) {
           return odd ? w.scatter_v({in, 3}, {out, 1}, {1, 2, 0}, 0)
                      : w.scatter_v({}, {out, 2}, {}, 0);
         },
         {"scatter_v(f32, 0 elements, root 0)", "scatter_v(f32, 2 elements, root 0)"}},
        {"all_to_all_v",
         [&](Communicator& w) {
           const Counts twos(3, 2);
           return odd ? w.all_to_all_v({in, 7}, {out, 6}, {2, 2, 3}, twos)
                      : w.all_to_all_v({in, 6}, {out, 6}, twos, twos);
         },
         {"all_to_all_v(f32, 3 elements)", "all_to_all_v(f32, 2 elements)"}},
        {"reduce_scatter_v",
         [&](Communicator& w) {
           const Counts mine = odd ? Counts{1, 1, 4} : Counts{1, 1, 3};
           const auto me = static_cast<std::size_t>(w.rank());
           return w.reduce_scatter_v({in, sum(mine)}, {out, mine[me]}, mine);
         },
         {"reduce_scatter_v(f32, 4 elements, sum)", "reduce_scatter_v(f32, 3 elements, sum)"}},
        {"plain or not",
         [&](Communicator& w) {
           return odd ? w.all_gather({in, 2}, {out, 6})
                      : w.all_gather_v({in, 2}, {out, 6}, Counts(3, 2));
         },
         {"all_gather(f32, 2 elements)", "all_gather_v(f32, 2 elements)"}},
    };
    for (const Odd& bad : calls) {
      Communicator group = session.world().split(0);
      Status status = bad.call(group).wait_for(5s);
      if (status.ok()) status = group.barrier().wait_for(5s);
      if (status.code() == Code::kFailedPrecondition) status = *status.cause();
      EXPECT_EQ(status.code(), Code::kMismatch) << bad.what << ": " << status.to_string();
      for (const std::string& shown : bad.shown) {
        EXPECT_NE(status.to_string().find(shown), std::string::npos)
            << bad.what << ": '" << shown << "' is not in: " << status.to_string();
      }
      EXPECT_TRUE(works(session.world())) << bad.what;
    }
  });
}

TEST_P(Unequal, BadArgumentsAreRefused) {
  run(2, [](Session& session) {
    float m[16] = {};
    using BadBlocks = std::function<void(Communicator&)>;
    const std::pair<const char*, BadBlocks> calls[] = {
        {"too few counts",
         [&](auto& w) {
           w.all_gather_v({m, 1}, {m + 8, 1}, {1});
         }},
        {"counts do not fill",
         [&](auto& w) {
           w.all_gather_v({m, 1}, {m + 8, 3}, {1, 1});
         }},
        {"counts overflow",
         [&](auto& w) {
           w.all_gather_v({m, 1}, {m + 8, 1}, {SIZE_MAX, 2});
         }},
        {"own count",
         [&](auto& w) {
           w.all_gather_v({m, 2}, {m + 8, 2}, {1, 1});
         }},
        {"overlap",
         [&](auto& w) {
           w.all_to_all_v({m, 2}, {m, 2}, {1, 1}, {1, 1});
         }},
        {"overlap of equal blocks",
         [&](auto& w) {
           w.all_to_all({m, 2}, {m + 1, 2});
         }},
        {"no blocks",
         [&](auto& w) {
           w.all_to_all({m, 3}, {m + 8, 3});
         }},
        {"types",
         [&](auto& w) {
           w.gather({m, 2}, {m + 8, 4, DType::kI32}, 0);
         }},
        {"size of gather",
         [&](auto& w) {
           w.gather({m, 2}, {m + 8, 3}, 0);
         }},
        {"size of scatter",
         [&](auto& w) {
           w.scatter({m, 3}, {m + 8, 2}, 0);
         }},
        {"root",
         [&](auto& w) {
           w.scatter({m, 2}, {m + 8, 1}, 2);
         }},
        {"negative root",
         [&](auto& w) {
           w.gather_v({m, 2}, {m + 8, 1}, {}, -1);
         }},
        {"null",
         [&](auto& w) {
           w.gather({static_cast<float*>(nullptr), 2}, {m, 4}, 0);
         }},
    };
    for (const auto& [what, call] : calls) {
      if (session.rank() == 0) {
        EXPECT_EQ(code_of([&, &bad = call] { bad(session.world()); }), Code::kInvalidArgument)
            << what;
      }
      EXPECT_TRUE(works(session.world())) << what;
    }
  });
}

}  // namespace
}  // namespace syncline::conformance
