// Session: this process's membership of a job.
#ifndef SYNCLINE_SESSION_H_
#define SYNCLINE_SESSION_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "syncline/communicator.h"
#include "syncline/kvstore.h"

namespace syncline {

// Code-level settings; a flag or environment variable SYNCLINE_<NAME> overrides each (logged once).
struct SessionOptions {
  std::string rendezvous;  // "tcp://host:port", "slurm:", "file:/dir"; "" = from the environment
  std::string transport;   // "" = best shared; else a list such as "shm,tcp"
  std::string ifname;      // NCCL's grammar: "eth0" prefix, "=eth0" exact, "^lo,docker0" exclude
  std::string port_range;  // "A-B"; "" = kernel's choice
  // TCP congestion control between ranks: a name that the kernel has, or "system"; "" = the
  // system's, but cubic instead of bbr.
  std::string tcp_congestion;
  std::string schedule;  // force one schedule for every collective that has it
  // Every reduction evaluates the canonical sum (docs/numerics.md): the same bits by every
  // schedule, transport, segment size and bucket layout at one world size. Calls that force a
  // schedule which sums in another order throw kInvalidArgument. Ranks that disagree on it get
  // kMismatch.
  bool reproducible = false;
  std::size_t segment_bytes = 0;  // longest piece a message travels in; 0 = the planner's choice
  std::chrono::milliseconds silence{10000};  // a silent peer is lost after this
  std::chrono::milliseconds suspect{1000};   // a silent peer is named after this
  // An operation that has not moved for so long says for whom it waits, and what that rank did
  // last; 0 = never.
  std::chrono::milliseconds stall{10000};
  std::chrono::milliseconds timeout{1800000};         // deadline of one operation
  std::chrono::milliseconds connect_timeout{120000};  // deadline of init()
  bool insecure = false;  // allow remote peers without a job key; logged
};

class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  // Leaves in order: sends what is outstanding, says goodbye, never hangs.
  ~Session();

  Communicator& world();
  // Opens a key-value store: all workers in the same order. Blocks until all have; throws Error.
  KVStore kvstore(const KVStoreOptions& options = {});
  int rank() const;
  int world_size() const;
  int servers() const;     // of the job, beside its ranks; 0: it has none
  int local_rank() const;  // among the ranks of this host
  int local_world_size() const;
  // Which variables said so: "SYNCLINE_*", "torchrun", "OMPI_*", "PMI_*", "slurm step", "single".
  const std::string& rank_source() const;
  // True once SIGTERM or SIGUSR1 has arrived. The first call starts to catch these signals (where
  // the application left them at their default): a program that never asks is ended by them as
  // usual.
  bool stop_requested() const;

  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Joins the job that the environment describes (SYNCLINE_*, torchrun's set, OMPI_*, PMI_*, a Slurm
// step); a world of one when there is none. Blocks until all ranks are there; throws Error.
Session init(const SessionOptions& options = {});

// A job whose ranks are threads of this process, connected through memory: element r is rank r.
// Used by DataParallel and by tests.
std::vector<Session> init_threads(int ranks, const SessionOptions& options = {});
// With servers, which are threads too and end with the last session.
std::vector<Session> init_threads(int ranks, const SessionOptions& options, int servers);

}  // namespace syncline

#endif  // SYNCLINE_SESSION_H_
