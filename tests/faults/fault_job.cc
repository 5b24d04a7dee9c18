#include "tests/faults/fault_job.h"

#include <dirent.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace syncline::faults {
namespace {

// Rank 0 decides when to stop and everybody learns it with the data, so that all stop alike.
void reduce_for_ever(Session& session, std::size_t count, Board& board) {
  Report& report = board.ranks[session.rank()];
  std::vector<float> data(count);
  const auto n = static_cast<float>(session.world_size());
  Status status;
  for (bool stop = false; status.ok() && !stop;) {
    std::fill(data.begin(), data.end(), 1.0f);
    if (session.rank() == 0 && board.stop != 0) data[0] = -n;
    status = session.world().all_reduce({data.data(), count}).wait_for(std::chrono::seconds(60));
    if (!status.ok()) break;
    stop = data[0] < 0;
    for (std::size_t i = 1; i < count; i += 1009) report.wrong += data[i] == n ? 0 : 1;
    ++report.rounds;
  }
  report.at = now_ns();
  // A loss that is seen between two calls is the cause of the next call's refusal.
  const bool between = status.code() == Code::kFailedPrecondition && status.cause() != nullptr;
  if (between) status = Status(*status.cause());
  report.code = static_cast<int>(status.code());
  report.peer = status.peer();
  std::snprintf(report.text, sizeof report.text, "%s", status.to_string().c_str());
  if (status.ok()) return;
  const Status next = session.world().barrier().wait_for(std::chrono::seconds(10));
  report.next_code = static_cast<int>(next.code());
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool await(const std::function<bool()>& condition, Millis limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Millis(2));
  }
  return true;
}

std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  DIR* folder = ::opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) names.insert(entry->d_name);
  ::closedir(folder);
  return names;
}

FaultJob::FaultJob(int ranks, const std::string& transport, std::size_t count,
                   const SessionOptions& options) {
  harness::ProcessOptions process;
  process.transport = transport;
  process.session = options;
  process.limit = std::chrono::seconds(60);
  Board& board = *board_;
  const auto body = [&board, count](Session& session) { reduce_for_ever(session, count, board); };
  job_ = std::make_unique<harness::ProcessJob>(ranks, body, process);
}

bool FaultJob::await_rounds(int rounds) const {
  return await(
      [&] {
        for (int r = 0; r < job_->size(); ++r) {
          if (report(r).rounds < rounds) return false;
        }
        return true;
      },
      Millis(30000));
}

void FaultJob::strike(int rank, int signal) {
  struck_at_ = now_ns();
  job_->signal(rank, signal);
}

Millis FaultJob::since_strike(int rank) const {
  return std::chrono::duration_cast<Millis>(std::chrono::nanoseconds(report(rank).at - struck_at_));
}

}  // namespace syncline::faults
