#include "cluster/carrier_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "cluster/interfaces.h"

namespace syncline::cluster {

CarrierWatch::CarrierWatch(event::Poller& poller,
                           const std::vector<transport::tcp::Address>& addresses,
                           std::function<void(int, bool)> on_change)
    : poller_(poller), on_change_(std::move(on_change)), interface_of_(addresses.size(), 0) {
  const auto interfaces = list_interfaces();
  if (!interfaces.ok()) return;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    for (const Interface& each : interfaces.value()) {
      if (each.loopback || each.address.host() != addresses[i].host()) continue;
      interface_of_[i] = ::if_nametoindex(each.name.c_str());
    }
  }
  transport::tcp::Fd fd(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = RTMGRP_LINK;
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0) {
    return;
  }
  socket_ = std::move(fd);
  poller_.add(socket_.get(), EPOLLIN, [this](std::uint32_t) { on_ready(); });
}

CarrierWatch::~CarrierWatch() {
  if (socket_.valid()) poller_.remove(socket_.get());
}

bool CarrierWatch::is_up(int index) const {
  const auto known = up_.find(interface_of_[static_cast<std::size_t>(index)]);
  return known == up_.end() || known->second;
}

void CarrierWatch::forget_neighbour(int index, const transport::tcp::Address& neighbour) {
  const unsigned interface = interface_of_[static_cast<std::size_t>(index)];
  if (!socket_.valid() || interface == 0) return;
  struct Request {
    nlmsghdr header{};
    ndmsg body{};
    rtattr attribute{};
    std::array<std::byte, 16> address{};
  } request;
  const bool v4 = neighbour.family() == AF_INET;
  const std::size_t bytes = v4 ? 4 : 16;
  const void* raw = v4 ? static_cast<const void*>(
                             &reinterpret_cast<const sockaddr_in*>(neighbour.get())->sin_addr)
                       : static_cast<const void*>(
                             &reinterpret_cast<const sockaddr_in6*>(neighbour.get())->sin6_addr);
  request.header.nlmsg_type = RTM_DELNEIGH;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_len =
      static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(ndmsg)) + RTA_LENGTH(bytes));
  request.body.ndm_family = static_cast<unsigned char>(neighbour.family());
  request.body.ndm_ifindex = static_cast<int>(interface);
  request.attribute.rta_type = NDA_DST;
  request.attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes));
  std::memcpy(request.address.data(), raw, bytes);
  (void)::send(socket_.get(), &request, request.header.nlmsg_len, MSG_DONTWAIT);
}

void CarrierWatch::on_ready() {
  alignas(nlmsghdr) std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    on_message(buffer.data(), static_cast<std::size_t>(got));
  }
}

void CarrierWatch::on_message(const void* message, std::size_t bytes) {
  auto left = static_cast<unsigned>(bytes);
  for (auto* each = static_cast<const nlmsghdr*>(message); NLMSG_OK(each, left);
       each = NLMSG_NEXT(each, left)) {
    if (each->nlmsg_type != RTM_NEWLINK && each->nlmsg_type != RTM_DELLINK) continue;
    if (each->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) continue;
    const auto* info = static_cast<const ifinfomsg*>(NLMSG_DATA(each));
    const auto interface = static_cast<unsigned>(info->ifi_index);
    const bool up = each->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_UP) != 0 &&
                    (info->ifi_flags & IFF_RUNNING) != 0;
    const auto known = up_.find(interface);
    if (known == up_.end() ? up : known->second == up) continue;
    up_[interface] = up;
    for (std::size_t i = 0; i < interface_of_.size(); ++i) {
      if (interface_of_[i] == interface) on_change_(static_cast<int>(i), up);
    }
  }
}

}  // namespace syncline::cluster
