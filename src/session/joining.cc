// Joining: from the environment to a view of the job.
#include "session/joining.h"

#include "base/env.h"
#include "session/log.h"
#include "session/session_impl.h"
#include "session/settings.h"

namespace syncline::session {
namespace {

cluster::RendezvousConfig rendezvous_config(const Joining& join) {
  cluster::RendezvousConfig config;
  config.uri = join.env.rendezvous;
  config.listen_fd = join.env.rendezvous_fd;
  config.world_size = join.env.processes();
  config.servers = join.env.servers;
  config.one_host = join.env.one_host();
  config.run_id = join.env.run_id;
  config.key = join.key;
  config.insecure = join.options.insecure;
  config.interfaces = value_or_throw(cluster::interface_filter(join.options.ifname, env));
  if (!join.options.port_range.empty()) {
    config.ports = value_or_throw(transport::tcp::parse_port_range(join.options.port_range));
  }
  config.timeout = join.options.connect_timeout.count() * kMillisecond;
  config.log = join.log;
  return config;
}

// One line a host: the wrong network is slow and no error.
void tell_interfaces(const Joining& join) {
  const HostCount& all = join.locality.processes;
  const auto addresses = cluster::addresses_of(join.self());
  if (all.hosts < 2 || all.before != 0 || !addresses.ok()) return;
  std::string text;
  for (const transport::tcp::Address& each : addresses.value()) {
    text += (text.empty() ? "" : ", ") + cluster::interface_name(each) + " " + each.to_string();
  }
  join.log("serves other hosts at " + text);
}

}  // namespace

std::string Joining::label_of(const cluster::Member& member) const {
  return cluster::process_name(member.rank, env.world_size) + " (host " + member.host_name +
         ", pid " + std::to_string(member.pid) + ")";
}

Joining begin_joining(const SessionOptions& code_options) {
  Joining join;
  join.options = effective_options(code_options);
  join.env = value_or_throw(cluster::discover_rank([&](const std::string& name) {
    if (name == "SYNCLINE_RENDEZVOUS" && !join.options.rendezvous.empty()) {
      return std::optional<std::string>(join.options.rendezvous);
    }
    return env(name);
  }));
  throw_if_error(transport::tcp::check_congestion_control(join.options.tcp_congestion));
  join.log = [name = join.env.name()](const std::string& line) { log_line(name, line); };
  for (const std::string& warning : join.env.warnings) join.log(warning);
  join.transports = value_or_throw(parse_transports(join.options.transport));
  join.context = make_context(join.options, join.env.number(), join.env.name());
  return join;
}

void meet(Joining& join) {
  join.wiring = std::make_shared<Wiring>();
  join.key = value_or_throw(cluster::load_job_key(env)).key;
  if (join.transports.shm) join.shm_listener = value_or_throw(transport::shm::Listener::open());
  const cluster::RendezvousConfig config = rendezvous_config(join);
  cluster::Member self = cluster::describe_self(join.env.number());
  if (join.shm_listener != nullptr) self.shm_name = join.shm_listener->name();
  auto joined = value_or_throw(cluster::rendezvous(join.context->engine->poller(),
                                                   join.wiring->clock, config, std::move(self)));
  join.view = std::move(joined.view);
  join.data_listeners = std::move(joined.data_listeners);
  join.locality = locality_of(join.view, join.env.number(), join.env.world_size);
  tell_interfaces(join);
}

// Plans are about the workers: where servers run changes neither their costs nor the transport's
// name. Servers do take part in the staging of a host, and in the contest for its cores.
void choose_transports(Joining& join) {
  const HostCount& workers = join.locality.workers;
  const int crowd = join.locality.processes.max;
  const bool shm = join.transports.shm && workers.max > 1;
  const std::string name = !shm ? "tcp" : workers.hosts > 1 ? "shm+tcp" : "shm";
  const std::size_t segment_max = join.transports.shm && crowd > 1
                                      ? segment_bytes_max(ring_capacity(crowd))
                                      : transport::kFrameBytesMax;
  choose_transport(*join.context, name, workers.max, segment_max);
  join.context->engine->set_crowded(crowd > usable_cores());
  join.context->host_of = join.locality.host_of;
  join.context->server_hosts = join.locality.server_hosts;
}

}  // namespace syncline::session
