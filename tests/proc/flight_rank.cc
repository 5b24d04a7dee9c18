// A rank for the tests of flight records: flight_rank MODE. It makes the file ready-RANK in its
// folder when it is where the test wants it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "syncline/session.h"

namespace {

using namespace syncline;

void reduce(Session& session, const char* name, std::size_t count = 1000) {
  std::vector<float> data(count, 1.0f);
  CallOptions options;
  options.name = name;
  session.world().all_reduce({data.data(), count}, ReduceOp::kSum, options).wait();
}

void ready(const Session& session) {
  std::ofstream("ready-" + std::to_string(session.rank())) << "ready";
}

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

int run(const std::string& mode) {
  if (mode == "leaks") {  // ends by exit() without destroying the session
    auto* session = new Session(init());
    reduce(*session, "only");
    session->world().barrier().wait();
    std::exit(0);
  }
  Session session = init();
  reduce(session, "first");
  if (mode == "well") {
    for (int i = 0; i < 100; ++i) reduce(session, "more");
  } else if (mode == "loop") {  // large ones, so that a signal hits the middle of one
    for (int i = 0;; ++i) {
      reduce(session, "step", 1 << 20);
      if (i == 3) ready(session);
    }
  } else if (mode == "absent") {
    ready(session);
    if (session.rank() == 2) sleep_for_ever();
    reduce(session, "second");
  } else if (mode == "mismatch") {
    if (session.rank() == 1) {
      session.world().barrier().wait();
    } else {
      reduce(session, "second");
    }
  } else {
    std::fprintf(stderr, "unknown mode %s\n", mode.c_str());
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
