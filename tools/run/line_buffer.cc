#include "tools/run/line_buffer.h"

namespace syncline::tools {

void LineBuffer::feed(std::string_view bytes, const Sink& sink) {
  for (const char c : bytes) {
    const bool second_half = after_return_ && c == '\n';
    after_return_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      sink(partial_);
      partial_.clear();
      continue;
    }
    partial_.push_back(c);
    if (partial_.size() == kLineBytesMax) flush(sink);
  }
}

void LineBuffer::flush(const Sink& sink) {
  if (partial_.empty()) return;
  sink(partial_);
  partial_.clear();
}

}  // namespace syncline::tools
