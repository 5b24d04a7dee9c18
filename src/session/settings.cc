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

}  // namespace

SessionOptions effective_options(const SessionOptions& code) {
  SessionOptions options = code;
  override_text("SYNCLINE_RENDEZVOUS", options.rendezvous);
  override_text("SYNCLINE_TRANSPORT", options.transport);
  override_text("SYNCLINE_IFNAME", options.ifname);
  override_text("SYNCLINE_PORT_RANGE", options.port_range);
  override_text("SYNCLINE_SCHEDULE", options.schedule);
  override_time("SYNCLINE_SILENCE_MS", options.silence);
  override_time("SYNCLINE_SUSPECT_MS", options.suspect);
  override_time("SYNCLINE_STALL_MS", options.stall);
  override_time("SYNCLINE_TIMEOUT", options.timeout);
  override_time("SYNCLINE_CONNECT_TIMEOUT", options.connect_timeout);
  if (auto value = env("SYNCLINE_INSECURE")) options.insecure = *value == "1" || *value == "true";
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
  context.cost = plan::default_cost(within_host ? transport : "tcp", local_ranks, usable_cores());
}

std::shared_ptr<SessionContext> make_context(const SessionOptions& options, int rank) {
  exec::EngineOptions engine;
  engine.rank = rank;
  engine.suspect = options.suspect.count() * kMillisecond;
  engine.silence = options.silence.count() * kMillisecond;
  engine.stall = options.stall.count() * kMillisecond;
  engine.log = [rank](const std::string& line) { log_line(rank, line); };
  auto context = std::make_shared<SessionContext>();
  context->engine = std::make_shared<exec::Engine>(std::move(engine));
  context->forced_schedule = options.schedule;
  context->timeout = options.timeout.count() * kMillisecond;
  return context;
}

void attach_flight(SessionContext& context, FlightLog::Place place,
                   const flight::Identity& identity) {
  context.flight = FlightLog::open(place, identity, env);
  if (context.flight == nullptr) return;
  context.engine->set_flight(context.flight->recorder());
  context.engine->add_ticker([flight = context.flight](Nanos) { flight->dump_if_wanted(); });
}

}  // namespace syncline::session
