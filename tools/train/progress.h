// Progress: how far a loop has come, in the shape of tqdm's bar.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace syncline::tools {

// "epoch 1/3:  42%|####      | 197/469 [00:05<00:07, 38.1it/s, loss=0.43]", `width` columns at
// most. `ascii`: for terminals without UTF-8.
std::string progress_bar(const std::string& label, std::int64_t done, std::int64_t total,
                         Nanos elapsed, const std::string& extra, int width, bool ascii);
// The same without a bar, for files and pipes.
std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total,
                          Nanos elapsed, const std::string& extra);

// Confined. Writes to stderr or to a terminal; nothing at all unless `enabled`.
class Progress {
 public:
  // mode: "auto" (a bar if stderr is a terminal, else lines), "bar", "lines", "none", or the path
  // of a terminal to draw the bar on (lines if it cannot be opened).
  Progress(const std::string& mode, bool enabled);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(std::string label, std::int64_t total, Nanos now);
  // True when update() would write now: building `extra` can wait until then.
  bool due(std::int64_t done, Nanos now) const;
  void update(std::int64_t done, Nanos now, const std::string& extra);
  // Ends the line of the bar.
  void finish(Nanos now, const std::string& extra);

 private:
  void write(const std::string& text) const;

  int fd_ = -1;
  bool owns_fd_ = false;
  bool bar_ = false;
  bool ascii_ = true;
  std::string label_;
  std::int64_t total_ = 0;
  std::int64_t last_done_ = 0;
  Nanos begun_ = 0;
  Nanos last_ = 0;
};

}  // namespace syncline::tools
