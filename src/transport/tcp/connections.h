// Listeners and attempts over TCP sockets.
#pragma once

#include <memory>
#include <vector>

#include "transport/listener.h"
#include "transport/tcp/socket.h"

namespace syncline::transport::tcp {

// Takes over a socket that listens.
std::unique_ptr<Listener> make_listener(Fd fd);
std::vector<std::unique_ptr<Listener>> make_listeners(std::vector<Fd> fds);

// A transport::Connect.
std::unique_ptr<Attempt> connect_to(const Address& to, const Address& from);

}  // namespace syncline::transport::tcp
