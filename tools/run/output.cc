#include "tools/run/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cluster/process_name.h"
#include "fmt/format.h"

namespace syncline::tools {
namespace {

constexpr std::array<int, 6> kColors = {36, 33, 35, 32, 34, 31};
constexpr std::size_t kPendingBytesMax = 1 << 20;

Status cannot(const std::string& path, const std::string& why) {
  return {Code::kFailedPrecondition, fmt::format("--log-dir: cannot write {}: {}", path, why)};
}

std::string printed_name(const OutputOptions& options, std::size_t number) {
  return cluster::process_name(static_cast<int>(number),
                               static_cast<int>(options.hosts.size()) - options.servers);
}

}  // namespace

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote >= 0) {
      text.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (errno == EAGAIN) {  // a terminal that somebody made non-blocking
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, 1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Output::Output(OutputOptions options)
    : options_(std::move(options)), tails_(options_.hosts.size()) {
  for (std::size_t rank = 0; rank < options_.hosts.size(); ++rank) {
    std::string prefix =
        fmt::format("[{} {}] ", printed_name(options_, rank), options_.hosts[rank]);
    if (options_.color) {
      prefix = fmt::format("\x1b[{}m{}\x1b[0m", kColors[rank % kColors.size()], prefix);
    }
    prefixes_.push_back(std::move(prefix));
  }
}

Result<std::unique_ptr<Output>> Output::open(OutputOptions options) {
  std::unique_ptr<Output> output(new Output(std::move(options)));
  const std::string& folder = output->options_.log_dir;
  if (folder.empty()) return output;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return cannot(folder, error.message());
  for (std::size_t rank = 0; rank < output->options_.hosts.size(); ++rank) {
    std::string name = printed_name(output->options_, rank);
    std::replace(name.begin(), name.end(), ' ', '-');
    for (const char* stream : {"stdout", "stderr"}) {
      const std::string path = fmt::format("{}/{}.{}.log", folder, name, stream);
      errno = 0;
      output->logs_.emplace_back(path, std::ios::binary | std::ios::trunc);
      if (!output->logs_.back()) return cannot(path, std::strerror(errno));
    }
  }
  return output;
}

void Output::line(int rank, int stream, std::string_view text) {
  const auto index = static_cast<std::size_t>(rank);
  const std::size_t which = stream == 2 ? 1 : 0;
  if (which == 1) {
    tails_[index].emplace_back(text);
    if (tails_[index].size() > kTailLines) tails_[index].pop_front();
  }
  if (!logs_.empty()) logs_[2 * index + which] << text << '\n' << std::flush;
  if (!options_.screen) return;
  if (options_.prefix || which == 1) pending_[which] += prefixes_[index];
  pending_[which] += text;
  pending_[which] += '\n';
  if (pending_[which].size() > kPendingBytesMax) flush();
}

bool Output::flush() {
  open_ = open_ && write_all(STDOUT_FILENO, pending_[0]);
  write_all(STDERR_FILENO, pending_[1]);
  pending_[0].clear();
  pending_[1].clear();
  return open_;
}

}  // namespace syncline::tools
