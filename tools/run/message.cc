#include "tools/run/message.h"

#include <charconv>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace syncline::tools {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "@syncline ";

std::string framed(std::string_view payload) {
  return fmt::format("{}{} {}\n", kPrefix, payload.size(), payload);
}

// Names and paths may hold any bytes: keep what JSON can carry.
std::string frame(const json& object) {
  return framed(object.dump(-1, ' ', false, json::error_handler_t::replace));
}

Status corrupt(std::string message) { return {Code::kCorrupt, std::move(message)}; }

// Runs `read` and turns a missing or mistyped field into a Status.
template <class T, class Read>
Result<T> guarded(const char* what, const Read& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    return corrupt(fmt::format("malformed {}: {}", what, error.what()));
  }
}

json to_json(const AgentConfig& c) {
  return {{"protocol", kAgentProtocol},
          {"host", c.host},
          {"host_index", c.host_index},
          {"host_count", c.host_count},
          {"rank_hosts", c.rank_hosts},
          {"world_size", c.world_size},
          {"first_rank", c.first_rank},
          {"ranks", c.ranks},
          {"servers", c.servers},
          {"local_servers", c.local_servers},
          {"server_program", c.server_program},
          {"program", c.program},
          {"directory", c.directory},
          {"variables", c.variables},
          {"key", c.key},
          {"run_id", c.run_id},
          {"ifname", c.ifname},
          {"port_range", c.port_range},
          {"bind_to", c.bind_to},
          {"keep_omp_threads", c.keep_omp_threads}};
}

AgentConfig config_from(const json& j) {
  AgentConfig c;
  j.at("host").get_to(c.host);
  j.at("host_index").get_to(c.host_index);
  j.at("host_count").get_to(c.host_count);
  j.at("rank_hosts").get_to(c.rank_hosts);
  j.at("world_size").get_to(c.world_size);
  j.at("first_rank").get_to(c.first_rank);
  j.at("ranks").get_to(c.ranks);
  j.at("servers").get_to(c.servers);
  j.at("local_servers").get_to(c.local_servers);
  j.at("server_program").get_to(c.server_program);
  j.at("program").get_to(c.program);
  j.at("directory").get_to(c.directory);
  j.at("variables").get_to(c.variables);
  j.at("key").get_to(c.key);
  j.at("run_id").get_to(c.run_id);
  j.at("ifname").get_to(c.ifname);
  j.at("port_range").get_to(c.port_range);
  j.at("bind_to").get_to(c.bind_to);
  j.at("keep_omp_threads").get_to(c.keep_omp_threads);
  return c;
}

Result<AgentEvent> decode_line(std::string_view payload) {
  AgentEvent event;
  event.kind = AgentEvent::Kind::kLine;
  const char* const end = payload.data() + payload.size();
  const auto rank = std::from_chars(payload.data() + 1, end, event.rank);
  const bool good = rank.ec == std::errc() && event.rank >= 0 && end - rank.ptr >= 3 &&
                    (rank.ptr[1] == '1' || rank.ptr[1] == '2') && rank.ptr[2] == ' ';
  if (!good) return corrupt("malformed output line from an agent");
  event.stream = rank.ptr[1] - '0';
  event.text.assign(rank.ptr + 3, end);
  return event;
}

}  // namespace

std::string encode(const AgentCommand& command) {
  switch (command.kind) {
    case AgentCommand::Kind::kConfigure: {
      json object = to_json(command.config);
      object["type"] = "configure";
      return frame(object);
    }
    case AgentCommand::Kind::kStart:
      return frame(json{{"type", "start"},
                        {"rendezvous", command.rendezvous},
                        {"master_port", command.master_port}});
    case AgentCommand::Kind::kSignal:
      break;
  }
  return frame(json{{"type", "signal"}, {"signal", command.signal}});
}

Result<AgentCommand> decode_command(std::string_view payload) {
  return guarded<AgentCommand>("message to an agent", [&]() -> Result<AgentCommand> {
    const json object = json::parse(payload);
    const auto type = object.at("type").get<std::string>();
    AgentCommand command;
    if (type == "configure") {
      const int protocol = object.at("protocol").get<int>();
      if (protocol != kAgentProtocol) {
        return Status(
            Code::kFailedPrecondition,
            fmt::format("the launcher speaks agent protocol {}, this host's syncline {}; install "
                        "the same version on every host",
                        protocol, kAgentProtocol));
      }
      command.kind = AgentCommand::Kind::kConfigure;
      command.config = config_from(object);
    } else if (type == "start") {
      command.kind = AgentCommand::Kind::kStart;
      object.at("rendezvous").get_to(command.rendezvous);
      object.at("master_port").get_to(command.master_port);
    } else if (type == "signal") {
      object.at("signal").get_to(command.signal);
    } else {
      return corrupt(fmt::format("unknown message '{}' to an agent", type));
    }
    return command;
  });
}

std::string encode(const AgentEvent& event) {
  if (event.kind == AgentEvent::Kind::kLine) {
    return framed(fmt::format("L{} {} {}", event.rank, event.stream, event.text));
  }
  return frame(json{{"type", static_cast<int>(event.kind)},
                    {"rank", event.rank},
                    {"text", event.text},
                    {"code", event.code},
                    {"signal", event.signal},
                    {"cores", event.cores},
                    {"threads", event.threads},
                    {"rendezvous", event.rendezvous},
                    {"master_port", event.master_port}});
}

Result<AgentEvent> decode_event(std::string_view payload) {
  if (payload.starts_with('L')) return decode_line(payload);
  return guarded<AgentEvent>("message from an agent", [&]() -> Result<AgentEvent> {
    const json object = json::parse(payload);
    AgentEvent event;
    const int kind = object.at("type").get<int>();
    if (kind < 0 || kind > static_cast<int>(AgentEvent::Kind::kDone)) {
      return corrupt(fmt::format("unknown message {} from an agent", kind));
    }
    event.kind = static_cast<AgentEvent::Kind>(kind);
    object.at("rank").get_to(event.rank);
    object.at("text").get_to(event.text);
    object.at("code").get_to(event.code);
    object.at("signal").get_to(event.signal);
    object.at("cores").get_to(event.cores);
    object.at("threads").get_to(event.threads);
    object.at("rendezvous").get_to(event.rendezvous);
    object.at("master_port").get_to(event.master_port);
    return event;
  });
}

Status FrameReader::feed(std::string_view bytes, const Sink& sink) {
  std::size_t scanned = buffer_.size();
  buffer_.append(bytes);
  std::size_t begin = 0;
  for (std::size_t end; (end = buffer_.find('\n', scanned)) != std::string::npos;
       scanned = begin = end + 1) {
    std::string_view line(buffer_.data() + begin, end - begin);
    if (!line.starts_with(kPrefix)) {
      sink(false, line);
      continue;
    }
    line.remove_prefix(kPrefix.size());
    std::size_t length = 0;
    const auto number = std::from_chars(line.data(), line.data() + line.size(), length);
    const auto skip = static_cast<std::size_t>(number.ptr - line.data()) + 1;
    if (number.ec != std::errc() || line.size() < skip || line.size() - skip != length) {
      return corrupt("a message of a host agent has the wrong length");
    }
    sink(true, line.substr(skip));
  }
  buffer_.erase(0, begin);
  if (buffer_.size() > kMessageBytesMax) return corrupt("a message of a host agent is too long");
  return {};
}

}  // namespace syncline::tools
