// LineBuffer: cuts a stream of bytes into lines.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace syncline::tools {

// Confined. A line ends at \n, \r or \r\n (so that progress bars show); a longer one than
// kLineBytesMax comes in pieces of that size.
class LineBuffer {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;
  using Sink = std::function<void(std::string_view line)>;  // without its end

  void feed(std::string_view bytes, const Sink& sink);
  // Emits what is left without an end.
  void flush(const Sink& sink);

 private:
  std::string partial_;
  bool after_return_ = false;
};

}  // namespace syncline::tools
