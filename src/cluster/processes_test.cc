#include "cluster/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "transport/tcp/socket.h"

namespace syncline::cluster {
namespace {

TEST(Processes, TheCloserTheMoreAncestors) {
  const int own = common_ancestors(::getpid(), ::getpid());
  EXPECT_GE(own, 1);
  EXPECT_EQ(common_ancestors(::getpid(), ::getppid()), own - 1);
  EXPECT_LE(common_ancestors(::getpid(), 1), 1);
  EXPECT_EQ(common_ancestors(::getpid(), 1 << 30), 0);
}

TEST(Processes, OwnersOfPorts) {
  auto listener = transport::tcp::listen_on(transport::tcp::parse_literal("127.0.0.1", 0).value());
  ASSERT_TRUE(listener.ok());
  const std::uint16_t port = transport::tcp::local_address(listener.value().get()).port();
  EXPECT_THAT(listener_on_port(port),
              testing::StartsWith("pid " + std::to_string(::getpid()) + " (cluster_test"));
  listener.value().reset();
  EXPECT_EQ(listener_on_port(port), "");
}

}  // namespace
}  // namespace syncline::cluster
