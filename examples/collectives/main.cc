// What a communicator can do beside all_reduce. Runs alone or as `syncline run -np 4
// ./collectives`.
#include <syncline/syncline.h>

#include <cstdio>
#include <vector>

// Returns how many checks failed.
int show(syncline::Communicator& world) {
  const int n = world.size(), me = world.rank();
  int wrong = 0;

  // Unequal blocks: rank r has r + 1 samples; rank 0 gets them all, one behind the other.
  std::vector<std::size_t> counts;
  std::size_t all = 0;
  for (int r = 0; r < n; ++r) counts.push_back(r + 1), all += counts.back();
  std::vector<float> samples(counts[me], static_cast<float>(me)), gathered(me == 0 ? all : 0);
  world.gather_v({samples.data(), samples.size()}, {gathered.data(), gathered.size()}, counts, 0)
      .wait();
  if (me == 0) wrong += gathered.back() != static_cast<float>(n - 1);

  // Everyone to everyone: element d of rank s becomes element s of rank d.
  std::vector<int> give(n, me), got(n, -1);
  world.all_to_all({give.data(), give.size()}, {got.data(), got.size()}).wait();
  for (int r = 0; r < n; ++r) wrong += got[r] != r;

  // Messages: workers report to rank 0, which takes them as they come and learns who sent.
  if (me != 0) world.send({&me, 1}, 0, /*tag=*/7).wait();
  for (int i = 1; me == 0 && i < n; ++i) {
    int value = -1;
    syncline::ReceiveWork report = world.recv({&value, 1}, syncline::kAnySource, 7);
    report.wait();
    wrong += value != report.message().source;
  }

  // A ring exchange as one: no order of the calls can make it hang.
  std::vector<double> mine(100000, me), theirs(100000, -1);
  syncline::Batch batch;
  syncline::Communicator ring = batch.on(world);
  ring.send({mine.data(), mine.size()}, (me + 1) % n);
  ring.recv({theirs.data(), theirs.size()}, (me + n - 1) % n);
  batch.start().wait();
  wrong += theirs.back() != (me + n - 1) % n;

  // Groups of groups: pairs within halves.
  syncline::Communicator half = world.split(me % 2);
  syncline::Communicator pair = half.split(half.rank() / 2);
  int members = 1;
  pair.all_reduce({&members, 1}).wait();
  wrong += members != pair.size();
  return wrong;
}

int main() {
  auto session = syncline::init();
  const int wrong = show(session.world());
  std::printf("rank %d of %d: %s\n", session.rank(), session.world_size(),
              wrong == 0 ? "all as expected" : "WRONG");
  return wrong == 0 ? 0 : 1;
}
