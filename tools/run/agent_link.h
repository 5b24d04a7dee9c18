// AgentLink: the launcher's end of one host agent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "event/poller.h"
#include "tools/run/message.h"

namespace syncline::tools {

// Confined to the launcher's loop.
class AgentLink {
 public:
  struct Events {
    std::function<void(const AgentEvent&)> event;
    std::function<void(std::string_view)> noise;  // lines that are no message
    std::function<void(const Status&)> closed;    // once; ok = the agent ended its stream
  };

  // The command that starts the agent on `host`; "" is this machine. `rsh` is split at spaces.
  static std::vector<std::string> command(const std::string& host, const std::string& rsh);

  AgentLink(event::Poller& poller, Events events) : poller_(poller), events_(std::move(events)) {}
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  Status start(const std::vector<std::string>& command);
  // Messages to an agent that has gone are dropped: closed() tells.
  void send(const AgentCommand& command);
  bool is_open() const { return out_ >= 0; }
  // Hangs up, waits up to a second for the process, then kills it. Returns "exit code 255" or
  // "SIGKILL".
  std::string finish();

 private:
  void on_output();
  void close_output(const Status& why);

  event::Poller& poller_;
  Events events_;
  FrameReader reader_;
  pid_t pid_ = -1;
  int in_ = -1;   // its stdin
  int out_ = -1;  // its stdout
};

// "SIGTERM"
std::string signal_name(int signo);

// Path of the running program.
std::string own_path();

}  // namespace syncline::tools
