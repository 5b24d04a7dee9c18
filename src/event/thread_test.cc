#include "event/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>

namespace syncline::event {
namespace {

TEST(NamedThread, CarriesNameAndBlocksSignals) {
  char name[16] = {};
  sigset_t inside;
  sigset_t before;
  sigset_t after;
  sigemptyset(&inside);
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  NamedThread thread("fifteen-letters", [&] {
    pthread_getname_np(pthread_self(), name, sizeof name);
    pthread_sigmask(SIG_SETMASK, nullptr, &inside);
  });
  thread.join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_STREQ(name, "fifteen-letters");
  EXPECT_EQ(sigismember(&inside, SIGTERM), 1);
  EXPECT_EQ(sigismember(&inside, SIGUSR1), 1);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

TEST(NamedThread, DestructionAndAssignmentJoin) {
  std::atomic<int> ended{0};
  {
    NamedThread thread("first", [&] { ended.fetch_add(1); });
    thread = NamedThread("second", [&] { ended.fetch_add(1); });
    EXPECT_GE(ended.load(), 1);
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_EQ(ended.load(), 2);
  NamedThread none;
  EXPECT_FALSE(none.joinable());
  none.join();
}

TEST(NamedThreadDeathTest, RefusesLongNames) {
  EXPECT_DEATH(NamedThread("sixteen-letters-", [] {}), "15 characters");
}

}  // namespace
}  // namespace syncline::event
