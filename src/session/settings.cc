#include "session/settings.h"

#include <sched.h>

#include <charconv>

#include "base/env.h"
#include "session/log.h"

namespace syncline::session {
namespace {

// Staging that stays in the second-level cache: with 1 MiB a 32 MiB all_reduce of four ranks on two
// cores took half as long again.
constexpr std::size_t kInFlightWithinHost = 256 << 10;
constexpr std::size_t kInFlightOverNetwork = 1 << 20;

// Below this the frame's header weighs more than what it carries.
constexpr std::size_t kSegmentBytesMin = 256;

void override_text(const char* name, std::string& field) {
  if (auto value = env(name)) field = *value;
}

// "1500", "1500ms", "30s", "2m".
std::chrono::milliseconds parse_time(const std::string& name, const std::string& text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(rest, text.data() + text.size());
  const std::int64_t factor = unit.empty() || unit == "ms" ? 1
                              : unit == "s"                ? 1000
                              : unit == "m"                ? 60000
                                                           : 0;
  if (error != std::errc() || number < 0 || factor == 0) {
    throw Error(Status(Code::kInvalidArgument,
                       name + "=" + text + " is no time; write for example 2000ms or 2s"));
  }
  return std::chrono::milliseconds(number * factor);
}

void override_time(const std::string& name, std::chrono::milliseconds& field) {
  if (auto value = env(name)) field = parse_time(name, *value);
}

void override_bytes(const std::string& name, std::size_t& field) {
  const auto value = env(name);
  if (!value) return;
  const auto [rest, error] = std::from_chars(value->data(), value->data() + value->size(), field);
  if (error != std::errc() || rest != value->data() + value->size()) {
    throw Error(Status(Code::kInvalidArgument,
                       name + "=" + *value + " is no number of bytes; write for example 65536"));
  }
}

}  // namespace

void override_flag(const std::string& name, bool& field) {
  const auto value = env(name);
  if (!value) return;
  const bool yes = *value == "1" || *value == "true" || *value == "yes" || *value == "on";
  const bool no =
      value->empty() || *value == "0" || *value == "false" || *value == "no" || *value == "off";
  if (!yes && !no) {
    throw Error(Status(Code::kInvalidArgument,
                       name + "=" + *value + " is neither yes nor no; write 1 or 0"));
  }
  field = yes;
}

SessionOptions effective_options(const SessionOptions& code) {
  SessionOptions options = code;
  override_text("SYNCLINE_RENDEZVOUS", options.rendezvous);
  override_text("SYNCLINE_TRANSPORT", options.transport);
  override_text("SYNCLINE_IFNAME", options.ifname);
  override_text("SYNCLINE_PORT_RANGE", options.port_range);
  override_text("SYNCLINE_TCP_CONGESTION", options.tcp_congestion);
  override_text("SYNCLINE_SCHEDULE", options.schedule);
  override_flag("SYNCLINE_REPRODUCIBLE", options.reproducible);
  override_bytes("SYNCLINE_SEGMENT_BYTES", options.segment_bytes);
  override_time("SYNCLINE_SILENCE_MS", options.silence);
  override_time("SYNCLINE_SUSPECT_MS", options.suspect);
  override_time("SYNCLINE_STALL_MS", options.stall);
  override_time("SYNCLINE_TIMEOUT", options.timeout);
  override_time("SYNCLINE_CONNECT_TIMEOUT", options.connect_timeout);
  if (auto value = env("SYNCLINE_INSECURE")) options.insecure = *value == "1" || *value == "true";
  if (options.segment_bytes != 0 && options.segment_bytes < kSegmentBytesMin) {
    throw Error(Status(Code::kInvalidArgument,
                       "segment_bytes " + std::to_string(options.segment_bytes) +
                           " is too short; give at least " + std::to_string(kSegmentBytesMin)));
  }
  return options;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void choose_transport(SessionContext& context, const std::string& transport, int local_ranks,
                      std::size_t segment_bytes_max) {
  context.transport = transport;
  context.engine->set_crowded(local_ranks > usable_cores());
  const bool within_host = transport == "inproc" || transport == "shm";
  context.staging = {segment_bytes_max, within_host ? kInFlightWithinHost : kInFlightOverNetwork};
  context.cost = plan::default_cost(transport, local_ranks, usable_cores());
}

std::shared_ptr<SessionContext> make_context(const SessionOptions& options, int number,
                                             std::string name) {
  if (name.empty()) name = "rank " + std::to_string(number);
  exec::EngineOptions engine;
  engine.rank = number;
  engine.name = name;
  engine.suspect = options.suspect.count() * kMillisecond;
  engine.silence = options.silence.count() * kMillisecond;
  engine.stall = options.stall.count() * kMillisecond;
  engine.log = [name](const std::string& line) { log_line(name, line); };
  auto context = std::make_shared<SessionContext>();
  context->engine = std::make_shared<exec::Engine>(std::move(engine));
  context->preferences = {options.schedule, options.segment_bytes};
  context->reproducible = options.reproducible;
  context->timeout = options.timeout.count() * kMillisecond;
  return context;
}

void attach_flight(SessionContext& context, FlightLog::Place place,
                   const flight::Identity& identity) {
  context.flight = FlightLog::open(place, identity, env);
  if (context.flight == nullptr) return;
  context.engine->set_flight(context.flight->recorder());
  context.engine->add_ticker([flight = context.flight](Nanos) {
    flight->dump_if_wanted();
    return true;
  });
}

}  // namespace syncline::session
