#include "cluster/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/assert.h"
#include "cluster/host_identity.h"
#include "cluster/rendezvous_address.h"
#include "cluster/rendezvous_file.h"
#include "cluster/rendezvous_guest.h"
#include "cluster/rendezvous_host.h"

namespace syncline::cluster {
namespace {

using transport::tcp::Address;
using transport::tcp::Fd;

constexpr Nanos kPollSlice = 50 * kMillisecond;
constexpr Nanos kCheckInterval = 500 * kMillisecond;

// Confined. One call of rendezvous(): what both sides share.
class Rendezvous {
 public:
  Rendezvous(event::Poller& poller, const Clock& clock, const RendezvousConfig& config, Member self)
      : poller_(poller),
        clock_(clock),
        config_(config),
        self_(std::move(self)),
        deadline_(clock.now() + config.timeout),
        report_at_(clock.now() + config.report_every) {}

  Result<Joined> run() {
    const auto uri = parse_rendezvous_uri(config_.uri);
    if (!uri.ok()) return uri.status();
    if (config_.key.absent() && config_.insecure) {
      log_to(
          config_.log,
          "insecure: there is no job key, whoever reaches this job's ports can join and read it");
    }
    const bool file = uri.value().kind == RendezvousUri::Kind::kFile;
    Result<View> view = self_.rank == 0
                            ? (file ? host_by_file(uri.value()) : host_by_tcp(uri.value()))
                            : (file ? join_by_file(uri.value()) : join_by_tcp(uri.value()));
    if (!view.ok()) return view.status();
    return Joined{std::move(view).value(), std::move(data_listeners_)};
  }

 private:
  Status open_data(const Address& local) {
    auto opened = open_data_listeners(config_, local);
    if (!opened.ok()) return opened.status();
    data_listeners_ = std::move(opened).value();
    self_.addresses.clear();
    for (const Fd& fd : data_listeners_) {
      self_.addresses.push_back(transport::tcp::local_address(fd.get()).to_string());
    }
    return {};
  }

  bool time_to_report(Nanos now) {
    if (now < report_at_) return false;
    report_at_ = now + config_.report_every;
    return true;
  }

  Result<View> host_by_tcp(const RendezvousUri& uri) {
    auto listeners = open_rendezvous_listeners(config_, uri.where);
    if (!listeners.ok()) return listeners.status();
    // IPv4 first: what most others can reach.
    auto& list = listeners.value();
    std::stable_partition(list.begin(), list.end(), [](const Fd& fd) {
      return transport::tcp::local_address(fd.get()).family() == AF_INET;
    });
    return host(std::move(list), [] { return Status(); });
  }

  Result<View> host_by_file(const RendezvousUri& uri) {
    if (const Status status = prepare_rendezvous_folder(uri.folder); !status.ok()) return status;
    auto listener = open_file_listener(config_);
    if (!listener.ok()) return listener.status();
    RendezvousFile file;
    file.run_id = config_.run_id;
    file.incarnation = self_.incarnation;
    file.address = transport::tcp::local_address(listener.value().get()).to_string();
    file.pid = self_.pid;
    file.host_name = self_.host_name;
    file.host_id = self_.host_id;
    const std::string path = rendezvous_file_path(uri.folder, config_.run_id);
    if (const Status status = publish_rendezvous_file(path, file); !status.ok()) return status;
    std::vector<Fd> listeners;
    listeners.push_back(std::move(listener).value());
    // On file systems without locks two may have published at once: the later rename stays.
    auto view = host(std::move(listeners), [&]() -> Status {
      const auto current = read_rendezvous_file(path);
      if (!current || *current == file) return {};
      return Status(Code::kFailedPrecondition,
                    "another job took " + path + " (rank 0 is pid " + std::to_string(current->pid) +
                        " on " + current->host_name +
                        "); give each job its own SYNCLINE_RUN_ID or folder");
    });
    withdraw_rendezvous_file(path, file);
    return view;
  }

  template <class Check>
  Result<View> host(std::vector<Fd> listeners, Check still_ours) {
    const Address local = transport::tcp::local_address(listeners.front().get());
    if (const Status status = open_data(local); !status.ok()) return status;
    RendezvousHost host(poller_, clock_, transport::tcp::make_listeners(std::move(listeners)),
                        config_, self_, deadline_);
    Nanos check_at = 0;
    for (;;) {
      const Nanos now = clock_.now();
      host.progress(now);
      if (host.ended()) return host.take();
      if (!host.decided() && time_to_report(now)) {
        log_to(config_.log, "rank 0 waits for " + host.missing() + " at " + config_.uri);
      }
      if (!host.decided() && now >= check_at) {
        check_at = now + kCheckInterval;
        if (const Status status = still_ours(); !status.ok()) host.fail(status);
      }
      poller_.poll(kPollSlice);
    }
  }

  std::unique_ptr<RendezvousGuest> make_guest(std::vector<Address> addresses,
                                              std::uint64_t incarnation) {
    DialOptions options = rendezvous_dial(config_, self_, deadline_);
    options.addresses = std::move(addresses);
    options.handshake.peer_incarnation = incarnation;
    return std::make_unique<RendezvousGuest>(
        poller_, clock_, std::move(options), config_.uri, config_.timeout,
        [this](const Address& local) -> Result<Member> {
          if (const Status status = open_data(local); !status.ok()) {
            return status;
          }
          return self_;
        });
  }

  std::string name() const { return process_name(config_, self_.rank); }

  Result<View> join_by_tcp(const RendezvousUri& uri) {
    if (uri.where.port == 0) {
      return Status(Code::kInvalidArgument, "rendezvous " + config_.uri +
                                                " has port 0: only rank 0 knows which one it got");
    }
    auto addresses = rendezvous_addresses(config_, uri.where);
    if (!addresses.ok()) return addresses.status();
    const auto guest = make_guest(std::move(addresses).value(), 0);
    for (;;) {
      const Nanos now = clock_.now();
      guest->progress(now);
      if (guest->ended()) return guest->take();
      if (time_to_report(now)) log_to(config_.log, guest->waiting_for());
      poller_.poll(kPollSlice);
    }
  }

  Result<View> join_by_file(const RendezvousUri& uri) {
    const std::string path = rendezvous_file_path(uri.folder, config_.run_id);
    std::unique_ptr<RendezvousGuest> guest;
    RendezvousFile tried;
    Status stale;  // why the file that was tried is of no use
    Nanos look_at = 0;
    for (;;) {
      const Nanos now = clock_.now();
      if (now >= look_at && (!guest || guest->dialing())) {
        look_at = now + kPollSlice;
        const auto file = read_rendezvous_file(path);
        if (file && *file != tried) {
          tried = *file;
          auto next = guest_of_file(*file);
          if (!next.ok()) return next.status();
          guest = std::move(next).value();
        }
      }
      if (guest) guest->progress(now);
      if (guest && guest->ended()) {
        auto view = guest->take();
        if (view.ok() || !is_stale(*guest)) return explain_file(std::move(view), path, tried);
        stale = view.status();
        guest.reset();
      }
      if (now >= deadline_) return no_file(path, tried, stale);
      if (time_to_report(now)) {
        log_to(config_.log, guest ? guest->waiting_for() : name() + " waits for " + path);
      }
      poller_.poll(kPollSlice);
    }
  }

  Result<std::unique_ptr<RendezvousGuest>> guest_of_file(const RendezvousFile& file) {
    const auto where = transport::tcp::parse_host_port(file.address);
    if (!where.ok()) return std::unique_ptr<RendezvousGuest>();
    auto address = transport::tcp::parse_literal(where.value().host, where.value().port);
    if (!address.ok()) return std::unique_ptr<RendezvousGuest>();
    if (address.value().is_loopback() && file.host_id != self_.host_id) {
      if (config_.key.absent() && !config_.insecure) {
        return missing_key_error("rank 0 is on another host (" + file.host_name + ")");
      }
      return std::unique_ptr<RendezvousGuest>();  // of an earlier job, or rank 0 has no network
    }
    return make_guest({address.value()}, file.incarnation);
  }

  // The address belongs to somebody else now: wait for rank 0's own file.
  static bool is_stale(const RendezvousGuest& guest) { return guest.met_somebody_else(); }

  Result<View> explain_file(Result<View> view, const std::string& path,
                            const RendezvousFile& tried) {
    if (view.ok() || view.status().code() != Code::kTimeout || view.status().peer() != 0)
      return view;
    return no_file(path, tried, view.status());
  }

  Status no_file(const std::string& path, const RendezvousFile& tried, const Status& last) {
    std::string text = name() + " found no rank 0 through " + path + " within " +
                       limit_text(config_.timeout) + ": ";
    if (tried.incarnation == 0) {
      text += "there is no such file; do all ranks see the same folder and have the same run id?";
    } else {
      text += "the file names pid " + std::to_string(tried.pid) + " on " + tried.host_name +
              " at " + tried.address + ", which is not there (left behind by a killed job?)";
    }
    if (!last.ok()) text += "; last reason: " + last.message();
    return Status(Code::kTimeout, std::move(text)).with_peer(0);
  }

  event::Poller& poller_;
  const Clock& clock_;
  const RendezvousConfig& config_;
  Member self_;
  Nanos deadline_;
  Nanos report_at_;
  std::vector<Fd> data_listeners_;
};

}  // namespace

std::string limit_text(Nanos limit) {
  if (limit < kSecond) return std::to_string(limit / kMillisecond) + " ms";
  return std::to_string(limit / kSecond) + " s";
}

Member describe_self(int rank) {
  Member self;
  self.rank = rank;
  self.host_name = host_name();
  self.host_id = host_id();
  self.incarnation = Outside().fresh_incarnation();
  self.pid = ::getpid();
  self.launcher_pid = ::getppid();
  return self;
}

Result<Joined> rendezvous(event::Poller& poller, const Clock& clock, const RendezvousConfig& config,
                          Member self) {
  SYNCLINE_ASSERT(self.rank >= 0 && self.rank < config.world_size,
                  "discover_rank() checks the rank");
  if (config.world_size == 1) {
    View alone{1, config.outside.fresh_incarnation(), {std::move(self)}};
    return Joined{std::move(alone), {}};
  }
  return Rendezvous(poller, clock, config, std::move(self)).run();
}

}  // namespace syncline::cluster
