#include "plan/builder.h"
#include "plan/generators.h"
#include "plan/generators/direct_sum.h"

namespace syncline::plan {
namespace {

enum AggregatedPhase { kPartsUp = 0, kSumsDown = 1 };

// One lane up and one down. A sum may overwrite the input of its part: it was made from that.
void add_worker(Builder& b, int rank, int workers, int aggregators) {
  const LaneRef up = b.new_lane(rank);
  const LaneRef down = b.new_lane(rank);
  for (int i = 0; i < aggregators; ++i) {
    const int part = (rank + i) % aggregators;  // not everybody begins with the same one
    b.send(up, in(part), workers + part, message_key(kPartsUp, part));
    b.recv(down, out(part), workers + part, message_key(kSumsDown, part));
  }
}

// A lane for the sum and one for each worker's copy of it: who is slow to take it holds up nobody.
void add_aggregator(Builder& b, int part, int workers) {
  const int rank = workers + part;
  b.make_helper(rank);
  const LaneRef sum = b.new_lane(rank);
  After done;
  if (workers == 1) {
    b.recv(sum, scratch(0, part), 0, message_key(kPartsUp, part));
    done = b.copy(sum, out(part), scratch(0, part));
  } else {
    done = append_direct_sum(b, sum, workers, part, message_key(kPartsUp, part));
  }
  for (int worker = 0; worker < workers; ++worker) {
    const LaneRef copy = b.new_lane(rank);
    b.send(copy, out(part), worker, message_key(kSumsDown, part));
    b.wait_for(copy, done);
  }
}

}  // namespace

bool aggregated_supports(int workers, int aggregators) {
  return workers >= 1 && aggregators >= 1 && workers + aggregators <= kRanksMaxQuadratic;
}

Schedule make_aggregated(int workers, int aggregators) {
  Builder b(kAggregated, Collective::kAllReduce, workers + aggregators, aggregators);
  for (int rank = 0; rank < workers; ++rank) add_worker(b, rank, workers, aggregators);
  for (int part = 0; part < aggregators; ++part) add_aggregator(b, part, workers);
  return b.build(true);
}

}  // namespace syncline::plan
