#include "tools/train/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "fmt/format.h"

namespace syncline::tools {
namespace {

constexpr Nanos kBarInterval = 100 * kMillisecond;
constexpr Nanos kLineInterval = 30 * kSecond;

std::string clock_text(Nanos time) {
  const std::int64_t seconds = std::max<Nanos>(time, 0) / kSecond;
  if (seconds < 3600) return fmt::format("{:02}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string tail(std::int64_t done, std::int64_t total, Nanos elapsed, const std::string& extra) {
  const double seconds = static_cast<double>(elapsed) / static_cast<double>(kSecond);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string remaining = "?";
  if (rate > 0) {
    const double left = static_cast<double>(total - done) / rate;
    remaining = clock_text(static_cast<Nanos>(left * static_cast<double>(kSecond)));
  }
  const std::string speed = rate > 0 ? fmt::format("{:.2f}it/s", rate) : "?it/s";
  return fmt::format("{}/{} [{}<{}, {}{}{}]", done, total, clock_text(elapsed), remaining, speed,
                     extra.empty() ? "" : ", ", extra);
}

std::string filled(double part, int cells, bool ascii) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(part * cells * 8);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += ascii ? "#" : "█";
  int used = eighths / 8;
  if (!ascii && eighths % 8 != 0) {
    bar += kEighths[eighths % 8];
    ++used;
  }
  return bar + std::string(static_cast<std::size_t>(cells - used), ' ');
}

int columns_of(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = env(name);
    if (!value.has_value() || value->empty()) continue;
    return value->find("UTF-8") != std::string::npos || value->find("utf8") != std::string::npos;
  }
  return false;
}

double part_of(std::int64_t done, std::int64_t total) {
  return total <= 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

}  // namespace

std::string progress_bar(const std::string& label, std::int64_t done, std::int64_t total,
                         Nanos elapsed, const std::string& extra, int width, bool ascii) {
  const double part = part_of(done, total);
  const std::string head = fmt::format("{}: {:3}%|", label, static_cast<int>(part * 100));
  const std::string end = "| " + tail(done, total, elapsed, extra);
  const int cells = std::clamp(width - static_cast<int>(head.size() + end.size()), 0, 40);
  std::string line = head + filled(part, cells, ascii) + end;
  if (cells == 0) line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(width, 1))));
  return line;
}

std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total,
                          Nanos elapsed, const std::string& extra) {
  return fmt::format("{}: {:3}% {}", label, static_cast<int>(part_of(done, total) * 100),
                     tail(done, total, elapsed, extra));
}

Progress::Progress(const std::string& mode, bool enabled) {
  if (!enabled || mode == "none") return;
  fd_ = STDERR_FILENO;
  ascii_ = !speaks_utf8();
  bar_ = mode == "bar" || (mode == "auto" && isatty(fd_) == 1);
  if (mode.find('/') == std::string::npos) return;
  const int terminal = open(mode.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return;
  if (isatty(terminal) != 1) {
    close(terminal);
    return;
  }
  fd_ = terminal;
  owns_fd_ = true;
  bar_ = true;
}

Progress::~Progress() {
  if (owns_fd_) close(fd_);
}

void Progress::begin(std::string label, std::int64_t total, Nanos now) {
  label_ = std::move(label);
  total_ = total;
  last_done_ = 0;
  begun_ = last_ = now;
}

bool Progress::due(std::int64_t done, Nanos now) const {
  if (fd_ < 0) return false;
  if (bar_) return now - last_ >= kBarInterval;
  return done * 10 / std::max<std::int64_t>(total_, 1) !=
             last_done_ * 10 / std::max<std::int64_t>(total_, 1) ||
         now - last_ >= kLineInterval;
}

void Progress::update(std::int64_t done, Nanos now, const std::string& extra) {
  if (!due(done, now)) return;
  last_ = now;
  last_done_ = done;
  if (bar_) {
    write("\r\x1b[K" +
          progress_bar(label_, done, total_, now - begun_, extra, columns_of(fd_) - 1, ascii_));
  } else {
    write(progress_line(label_, done, total_, now - begun_, extra) + "\n");
  }
}

void Progress::finish(Nanos now, const std::string& extra) {
  if (!bar_) return;
  write("\r\x1b[K" +
        progress_bar(label_, total_, total_, now - begun_, extra, columns_of(fd_) - 1, ascii_) +
        "\n");
}

void Progress::write(const std::string& text) const {
  if (fd_ >= 0 && ::write(fd_, text.data(), text.size()) < 0) return;
}

}  // namespace syncline::tools
