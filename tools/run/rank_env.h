// The environment that a rank or a server finds. Pure.
#pragma once

#include "tools/run/message.h"

namespace syncline::tools {

struct RankPlace {
  int local_rank = 0;      // of a rank
  std::string rendezvous;  // "tcp://127.0.0.1:4711"
  int master_port = 0;
  int rendezvous_fd = -1;  // rank 0: the listening socket behind `rendezvous`
  int key_fd = -1;
  int flight_fd = -1;  // memory for the flight record
  int threads = 1;
};

// SYNCLINE_*, torchrun's set and OMP_NUM_THREADS (unless the user chose it), then the user's -x
// variables.
//
// MASTER_PORT is not the rendezvous port: a program that brings its own rendezvous (PyTorch's
// TCPStore) binds it itself, while rank 0 already holds the rendezvous socket.
Variables rank_environment(const AgentConfig& config, const RankPlace& place);

// What describes the job, and which server this is; nothing of a rank. A server has no use for
// OMP_NUM_THREADS.
Variables server_environment(const AgentConfig& config, const RankPlace& place, int server);

}  // namespace syncline::tools
