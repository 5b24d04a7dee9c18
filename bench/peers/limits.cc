// What the machine itself can do, beside which results are read:
//   memory BYTES      two threads, each doing x[i] += c in place on its own BYTES: us a pass
//   line              one way of a cache line between two threads, us
//   serve PORT        answers one connection's bytes one by one
//   ask HOST PORT     half a round trip of one byte to a `serve`, us
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// 0 for what is no number.
std::size_t number(const char* text) {
  std::size_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [parsed, error] = std::from_chars(text, end, value);
  return error == std::errc() && parsed == end ? value : 0;
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double memory(std::size_t bytes) {
  constexpr int kBatches = 15;
  const int passes = static_cast<int>(std::clamp(4e8 / static_cast<double>(bytes), 1.0, 20000.0));
  std::barrier together(2);
  std::vector<double> times;
  const auto work = [&](bool notes) {
    std::vector<float> data(bytes / sizeof(float), 1.0f);
    for (int batch = 0; batch < kBatches; ++batch) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      for (int pass = 0; pass < passes; ++pass) {
        for (float& x : data) x += 0.5f;
        asm volatile("" : : "r"(data.data()) : "memory");
      }
      together.arrive_and_wait();
      if (notes) times.push_back(us_since(start) / passes);
    }
  };
  std::thread other(work, false);
  work(true);
  other.join();
  return median(times);
}

double line() {
  constexpr int kTurns = 20000;
  alignas(64) std::atomic<int> turn{0};
  std::thread other([&] {
    for (int i = 0; i < 15 * kTurns; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  std::vector<double> times;
  for (int batch = 0; batch < 15; ++batch) {
    const auto start = Clock::now();
    for (int i = batch * kTurns; i < (batch + 1) * kTurns; ++i) {
      turn.store(2 * i + 1, std::memory_order_release);
      while (turn.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    times.push_back(us_since(start) / (2 * kTurns));
  }
  other.join();
  return median(times);
}

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in address_of(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(number(port)));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail(host);
  return address;
}

int tcp_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

void serve(const char* port) {
  const int listener = tcp_socket();
  const sockaddr_in address = address_of("0.0.0.0", port);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("bind");
  }
  if (::listen(listener, 1) != 0) fail("listen");
  const int fd = ::accept(listener, nullptr, nullptr);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  char byte = 0;
  while (::read(fd, &byte, 1) == 1 && ::write(fd, &byte, 1) == 1) {
  }
}

double ask(const char* host, const char* port) {
  const sockaddr_in address = address_of(host, port);
  int fd = tcp_socket();
  for (int attempt = 0;
       ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0; ++attempt) {
    if (attempt == 50) fail("connect");
    ::close(fd);
    ::usleep(100000);
    fd = tcp_socket();
  }
  std::vector<double> times;
  char byte = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto start = Clock::now();
    if (::write(fd, &byte, 1) != 1 || ::read(fd, &byte, 1) != 1) fail("ask");
    times.push_back(us_since(start) / 2);
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "memory" && argc == 3 && number(argv[2]) >= sizeof(float)) {
    std::printf("%.4f\n", memory(number(argv[2])));
  } else if (what == "line" && argc == 2) {
    std::printf("%.4f\n", line());
  } else if (what == "serve" && argc == 3) {
    serve(argv[2]);
  } else if (what == "ask" && argc == 4) {
    std::printf("%.4f\n", ask(argv[2], argv[3]));
  } else {
    std::fprintf(stderr, "usage: %s memory BYTES | line | serve PORT | ask HOST PORT\n", argv[0]);
    return 2;
  }
  return 0;
}
