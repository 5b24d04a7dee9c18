#include "session/flight.h"

#include <charconv>

#include "base/flight_dump.h"
#include "base/flight_memory.h"
#include "session/dump_signal.h"
#include "session/log.h"

namespace syncline::session {
namespace {

constexpr std::uint32_t kThreadRecords = 1024;
constexpr std::size_t kJobsKept = 20;
// 150 KB a rank, and a container's /dev/shm may have 64 MB.
constexpr std::size_t kLiveJobsKept = 4;

Result<flight::Memory> process_memory(const flight::Identity& identity, const EnvLookup& lookup,
                                      std::size_t bytes) {
  if (const auto text = lookup("SYNCLINE_FLIGHT_FD")) {
    int fd = -1;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), fd);
    if (error != std::errc() || end != text->data() + text->size() || fd < 0) {
      return Status(Code::kInvalidArgument,
                    "no flight record: SYNCLINE_FLIGHT_FD=" + *text + " is no descriptor");
    }
    return flight::inherited_memory(fd, bytes);
  }
  if (identity.world_size == 1) return flight::private_memory(bytes);
  const std::string folder = flight::live_folder(lookup);
  flight::prune(folder, kLiveJobsKept);
  auto memory = flight::file_memory(folder, identity.job, identity.rank, bytes);
  if (memory.ok() || memory.status().code() != Code::kExhausted) return memory;
  flight::prune(folder, 1);  // the newest job is this one
  return flight::file_memory(folder, identity.job, identity.rank, bytes);
}

}  // namespace

std::shared_ptr<FlightLog> FlightLog::open(Place place, const flight::Identity& identity,
                                           const EnvLookup& lookup) {
  if (lookup("SYNCLINE_FLIGHT").value_or("") == "off") return nullptr;
  const bool process = place == Place::kProcess;
  const std::uint32_t records = process ? flight::FlightRecorder::kRecords : kThreadRecords;
  const std::size_t bytes = flight::image_bytes(records, flight::FlightRecorder::kCallerRecords);
  Result<flight::Memory> memory =
      process ? process_memory(identity, lookup, bytes) : flight::private_memory(bytes);
  if (!memory.ok()) {
    log_line(identity.rank, memory.status().message());
    memory = flight::private_memory(bytes);
    if (!memory.ok()) return nullptr;
  }
  const std::shared_ptr<FlightLog> log(new FlightLog);
  log->rank_ = identity.rank;
  log->live_file_ = memory->file;
  log->recorder_ = std::make_shared<flight::FlightRecorder>(memory->bytes, identity, records);
  if (process || lookup("SYNCLINE_FLIGHT_DIR").has_value()) {
    log->folder_ = flight::dump_folder(lookup);
  }
  if (process) watch_dump_signal();
  log->requests_seen_ = dump_signals_seen();
  return log;
}

FlightLog::~FlightLog() { leave(); }

void FlightLog::dump_if_wanted() {
  flight::DumpNote note;
  note.reason = recorder_->take_wish();
  if (const unsigned seen = dump_signals_seen(); seen != requests_seen_) {
    requests_seen_ = seen;
    note.reason = flight::Reason::kRequest;
  }
  if (note.reason == flight::Reason::kNone || folder_.empty()) return;
  const Result<std::string> file = flight::write_dump(folder_, recorder_->image(), note);
  if (!file.ok()) return log_line(rank_, file.status().message());
  log_line(rank_, "flight record: " + file.value() + "; read those of all ranks with: " +
                      "syncline doctor --dump " + file.value().substr(0, file.value().rfind('/')));
  if (!pruned_) flight::prune(folder_, kJobsKept);
  pruned_ = true;
}

void FlightLog::leave() {
  if (!live_file_.empty()) flight::remove_live_file(live_file_);
  live_file_.clear();
}

}  // namespace syncline::session
