// CarrierWatch: hears from the kernel when a network interface loses or regains its carrier.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "event/poller.h"
#include "transport/tcp/socket.h"

namespace syncline::cluster {

// Confined to its poller. Quietly does nothing where the kernel offers no routing socket
// (restricted containers): silence then decides.
class CarrierWatch {
 public:
  // `on_change(index, up)`: a position in `addresses` whose interface changed; called inside
  // poll(), must not destroy the watch.
  CarrierWatch(event::Poller& poller, const std::vector<transport::tcp::Address>& addresses,
               std::function<void(int index, bool up)> on_change);
  ~CarrierWatch();
  CarrierWatch(const CarrierWatch&) = delete;
  CarrierWatch& operator=(const CarrierWatch&) = delete;

  bool is_up(int index) const;
  // Lets the kernel ask for the neighbour's hardware address at once. What was sent while the
  // carrier was gone has left an entry that asks once a second only. Needs CAP_NET_ADMIN; without
  // it, nothing happens and the path returns up to a second later.
  void forget_neighbour(int index, const transport::tcp::Address& neighbour);

 private:
  void on_ready();
  void on_message(const void* message, std::size_t bytes);

  event::Poller& poller_;
  transport::tcp::Fd socket_;
  std::function<void(int, bool)> on_change_;
  std::vector<unsigned> interface_of_;  // by index; 0: unknown
  std::map<unsigned, bool> up_;         // by the kernel's interface number
};

}  // namespace syncline::cluster
