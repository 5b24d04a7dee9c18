// split: colours, key order, groups of groups, overlapping groups in flight.
#include <vector>

#include "tests/conformance/each_wiring.h"

namespace syncline::conformance {
namespace {

class Split : public EachWiring {};
SYNCLINE_ON_EACH_WIRING(Split);

TEST_P(Split, ColoursFormGroups) {
  run(5, [](Session& session) {
    const int rank = session.rank();
    Communicator group = session.world().split(rank % 2);
    ASSERT_TRUE(group.valid());
    EXPECT_EQ(group.size(), rank % 2 == 0 ? 3 : 2);
    EXPECT_EQ(group.rank(), rank / 2);
    EXPECT_TRUE(works(group));
    EXPECT_TRUE(works(session.world()));
  });
}

TEST_P(Split, KeysOrderRanksAndTiesKeepWorldOrder) {
  run(4, [](Session& session) {
    const int rank = session.rank();
    Communicator reversed = session.world().split(7, -rank);
    EXPECT_EQ(reversed.rank(), 3 - rank);
    Communicator tied = session.world().split(7, rank / 2 == 0 ? 1 : 0);  // 2, 3, 0, 1
    EXPECT_EQ(tied.rank(), (rank + 2) % 4);
    std::vector<std::int32_t> order(4);
    const std::int32_t mine = rank;
    tied.all_gather({&mine, 1}, {order.data(), 4}).wait();
    EXPECT_EQ(order, (std::vector<std::int32_t>{2, 3, 0, 1}));
    EXPECT_TRUE(works(reversed));
  });
}

TEST_P(Split, NegativeColourGivesNone) {
  run(3, [](Session& session) {
    Communicator group = session.world().split(session.rank() == 1 ? -1 : 0);
    EXPECT_EQ(group.valid(), session.rank() != 1);
    if (group.valid()) {
      EXPECT_EQ(group.size(), 2);
      EXPECT_TRUE(works(group));
    }
    EXPECT_FALSE(session.world().split(-5).valid());
    EXPECT_TRUE(works(session.world()));
  });
}

TEST_P(Split, GroupsOfGroups) {
  run(4, [](Session& session) {
    Communicator half = session.world().split(session.rank() / 2);
    Communicator one = half.split(half.rank());
    EXPECT_EQ(one.size(), 1);
    EXPECT_TRUE(works(one));
    Communicator again = half.split(0, -half.rank());
    EXPECT_EQ(again.rank(), 1 - half.rank());
    EXPECT_TRUE(works(again));
    EXPECT_TRUE(works(half, 40000));
    Communicator all = session.world().split(0);
    EXPECT_TRUE(works(all));
  });
}

TEST_P(Split, RowsAndColumnsAtOnce) {
  run(4, [](Session& session) {
    Communicator row = session.world().split(session.rank() / 2);
    Communicator column = session.world().split(session.rank() % 2);
    for (int i = 0; i < 30; ++i) {
      std::vector<std::int32_t> a(700, session.rank()), b(90000, session.rank());
      Work first = row.all_reduce({a.data(), a.size()});
      Work second = column.all_reduce({b.data(), b.size()});
      if (i % 2 == 0) first.wait();
      second.wait();
      first.wait();
      EXPECT_EQ(a[699], session.rank() / 2 == 0 ? 1 : 5);
      EXPECT_EQ(b[89999], session.rank() % 2 == 0 ? 2 : 4);
    }
  });
}

TEST_P(Split, RepeatedSplitsStayApart) {
  run(2, [](Session& session) {
    for (int i = 0; i < 60; ++i) {
      Communicator group = session.world().split(i % 3, i % 2 == 0 ? 0 : -session.rank());
      EXPECT_TRUE(works(group));
    }
    EXPECT_TRUE(works(session.world()));
  });
}

TEST_P(Split, GroupsMayOutliveTheirParent) {
  run(3, [](Session& session) {
    Communicator child;
    {
      Communicator parent = session.world().split(0, -session.rank());
      child = parent.split(0);
    }
    EXPECT_EQ(child.rank(), 2 - session.rank());
    EXPECT_TRUE(works(child));
  });
}

}  // namespace
}  // namespace syncline::conformance
