// What the launcher and its host agents say to each other, over the agent's stdin and stdout.
//
// A frame is one line: "@syncline <bytes> <payload>\n"; the length is checked. The payload is a
// JSON object, except for a rank's output: "L<rank> <stream> <raw bytes>". Other lines on the way
// (a login banner) are noise and handed on as such. The job key travels only here, never in
// arguments or environment.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace syncline::tools {

inline constexpr int kAgentProtocol = 3;
inline constexpr std::size_t kMessageBytesMax = 16u << 20;

using Variables = std::vector<std::pair<std::string, std::string>>;

// First message to an agent: all it needs to know but the rendezvous address.
struct AgentConfig {
  std::string host;  // the host's name in messages
  int host_index = 0;
  int host_count = 1;
  int rank_hosts = 1;  // how many of them, the first ones, have ranks
  int world_size = 1;
  int first_rank = 0;
  int ranks = 1;
  int servers = 0;                   // of the job; server s is process world_size + s in events
  std::vector<int> local_servers;    // those of this host
  std::string server_program;        // what servers run; empty: syncline serve
  std::vector<std::string> program;  // with its arguments
  std::string directory;
  Variables variables;  // set in each rank, over what the agent inherited
  std::string key;      // text of the key file
  std::string run_id;
  std::string ifname;
  std::string port_range;
  std::string bind_to = "none";
  bool keep_omp_threads = false;  // the user chose OMP_NUM_THREADS
};

struct AgentCommand {
  enum class Kind { kConfigure, kStart, kSignal };
  Kind kind = Kind::kSignal;
  AgentConfig config;      // kConfigure
  std::string rendezvous;  // kStart: "tcp://10.0.0.1:4711"
  int master_port = 0;     // kStart: MASTER_PORT for programs that bring their own rendezvous
  int signal = 0;          // kSignal: to the process group of each of its ranks
};

struct AgentEvent {
  enum class Kind {
    kReady,   // configured; rank 0's agent listens
    kLine,    // a rank printed
    kNotice,  // a line for the user
    kExit,    // a rank ended
    kFailed,  // the agent gives up
    kDone,    // every process of this host is gone
  };
  Kind kind = Kind::kNotice;
  int rank = -1;           // number of the process: servers come behind the ranks
  int stream = 1;          // kLine: 1 or 2
  std::string text;        // kLine, kNotice, kFailed
  int code = 0;            // kExit: exit code; kFailed: the launcher's exit code
  int signal = 0;          // kExit: the signal that killed it, or 0
  int cores = 0;           // kReady
  int threads = 0;         // kReady: OMP_NUM_THREADS given to each rank
  std::string rendezvous;  // kReady of rank 0's host
  int master_port = 0;     // kReady of rank 0's host
};

std::string encode(const AgentCommand& command);
std::string encode(const AgentEvent& event);
Result<AgentCommand> decode_command(std::string_view payload);
Result<AgentEvent> decode_event(std::string_view payload);

// Confined. Splits a byte stream into frames and noise.
class FrameReader {
 public:
  using Sink = std::function<void(bool is_frame, std::string_view text)>;
  // kCorrupt on a frame whose length is wrong or too large: the stream is of no use any more.
  Status feed(std::string_view bytes, const Sink& sink);

 private:
  std::string buffer_;
};

}  // namespace syncline::tools
