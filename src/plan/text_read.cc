#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "plan/generators.h"
#include "plan/text.h"

namespace syncline::plan {
namespace {

constexpr int kIndexMax = 0xffff;
constexpr std::size_t kNameMax = 64;
constexpr std::size_t kQuoteMax = 40;  // of a bad word in a message

bool is_name(std::string_view word) {
  if (word.empty() || word.size() > kNameMax) return false;
  for (const char c : word) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.' && c != ':' &&
        c != '/')
      return false;
  }
  return true;
}

// Whole decimal number without sign in [low, high].
std::optional<int> parse_number(std::string_view word, int low, int high) {
  unsigned value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (word.empty() || stop != end || error != std::errc()) return std::nullopt;
  if (value < static_cast<unsigned>(low) || value > static_cast<unsigned>(high))
    return std::nullopt;
  return static_cast<int>(value);
}

// Confined to one call of from_text. Keeps the first error; after it every read fails.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Result<Schedule> read() {
    read_head();
    while (ok() && word() == "rank") read_rank();
    if (ok() && schedule_.size() != ranks_) {
      fail("expected 'rank " + std::to_string(schedule_.size()) + "' (" + std::to_string(ranks_) +
           " ranks were announced)");
    }
    expect("end");
    end_line();
    if (ok() && have_line_) fail("expected nothing after 'end'");
    if (!ok()) return error_;
    return std::move(schedule_);
  }

 private:
  bool ok() const { return error_.ok(); }

  void fail(const std::string& what) {
    if (!ok()) return;
    std::string found = have_line_ ? "the end of the line" : "the end of the text";
    if (!word().empty()) {
      found = "'" + std::string(word().substr(0, kQuoteMax)) +
              (word().size() > kQuoteMax ? "...'" : "'");
    }
    error_ = Status(Code::kInvalidArgument, "schedule text, line " + std::to_string(line_) + ": " +
                                                what + ", found " + found);
  }

  // The word at hand; empty at the end of a line.
  std::string_view word() const {
    return next_ < words_.size() ? words_[next_] : std::string_view();
  }

  // Moves on to the next line that has words.
  void next_line() {
    words_.clear();
    next_ = 0;
    have_line_ = false;
    while (words_.empty() && !rest_.empty()) {
      const std::size_t newline = rest_.find('\n');
      std::string_view line = rest_.substr(0, newline);
      rest_.remove_prefix(newline == std::string_view::npos ? rest_.size() : newline + 1);
      ++line_;
      line = line.substr(0, line.find('#'));
      std::size_t begin = 0;
      while ((begin = line.find_first_not_of(" \t\r", begin)) != std::string_view::npos) {
        const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
        words_.push_back(line.substr(begin, end - begin));
        begin = end;
      }
    }
    have_line_ = !words_.empty();
  }

  void end_line() {
    if (!ok()) return;
    if (!word().empty()) return fail("expected the end of the line");
    next_line();
  }

  void expect(std::string_view literal) {
    if (!ok()) return;
    if (word() != literal) return fail("expected '" + std::string(literal) + "'");
    ++next_;
  }

  bool accept(std::string_view literal) {
    if (!ok() || word() != literal) return false;
    ++next_;
    return true;
  }

  int number(const char* what, int low, int high) {
    if (!ok()) return low;
    const std::optional<int> value = parse_number(word(), low, high);
    if (!value) {
      fail(std::string("expected ") + what + " from " + std::to_string(low) + " to " +
           std::to_string(high));
      return low;
    }
    ++next_;
    return *value;
  }

  bool yes_no() {
    if (accept("yes")) return true;
    if (!accept("no")) fail("expected 'yes' or 'no'");
    return false;
  }

  int field(const char* name, int low, int high) {
    expect(name);
    const int value = number(name, low, high);
    end_line();
    return value;
  }

  void read_head() {
    next_line();
    expect("syncline-schedule");
    number("format version", 1, 1);
    end_line();
    expect("name");
    if (ok() && !is_name(word()))
      fail("expected a name of 1 to 64 letters, digits, '_', '-' and '.'");
    schedule_.name = std::string(word());
    ++next_;
    end_line();
    expect("kind");
    read_kind();
    end_line();
    ranks_ = field("ranks", 1, kRanksMax);
    schedule_.chunks = static_cast<std::uint16_t>(field("chunks", 1, kIndexMax));
    schedule_.root = static_cast<std::int16_t>(field("root", 0, kRanksMax - 1));
    expect("canonical_sum");
    schedule_.canonical_sum = yes_no();
    end_line();
  }

  void read_kind() {
    for (int i = 0; i < kCollectiveCount; ++i) {
      const auto kind = static_cast<Collective>(i);
      if (!accept(to_string(kind))) continue;
      schedule_.kind = kind;
      return;
    }
    fail("expected a kind of collective such as 'all_reduce'");
  }

  void read_rank() {
    expect("rank");
    const int expected = schedule_.size();
    if (expected == ranks_) return fail("expected 'end' after the last rank");
    number("the next rank", expected, expected);
    RankProgram program;
    expect("contributes");
    program.contributes = yes_no();
    expect("receives");
    program.receives = yes_no();
    expect("scratch_slots");
    program.scratch_slots = static_cast<std::uint16_t>(number("scratch_slots", 0, kIndexMax));
    end_line();
    while (accept("lane")) {
      end_line();
      if (program.lanes.size() == kIndexMax) return fail("expected at most 65535 lanes in a rank");
      program.lanes.emplace_back();
      read_steps(program.lanes.back());
    }
    if (ok()) schedule_.ranks.push_back(std::move(program));
  }

  void read_steps(Lane& lane) {
    while (ok() && have_line_ && word() != "lane" && word() != "rank" && word() != "end") {
      if (lane.steps.size() == kIndexMax) return fail("expected at most 65535 steps in a lane");
      lane.steps.push_back(read_step());
      end_line();
    }
  }

  Step read_step() {
    Step step;
    if (accept("send")) {
      step.kind = StepKind::kSend;
      step.a = read_slice();
      read_message(step, "to");
    } else if (accept("recv")) {
      step.kind = StepKind::kRecv;
      step.dst = read_slice();
      read_message(step, "from");
    } else if (accept("recv_reduce")) {
      step.kind = StepKind::kRecvReduce;
      step.dst = read_slice();
      step.a = read_slice();
      read_message(step, "from");
    } else if (accept("copy")) {
      step.kind = StepKind::kCopy;
      step.dst = read_slice();
      step.a = read_slice();
    } else if (accept("reduce")) {
      step.kind = StepKind::kReduce;
      step.dst = read_slice();
      step.a = read_slice();
      step.b = read_slice();
    } else {
      fail("expected a step, 'lane', 'rank' or 'end'");
    }
    step.finish = accept("finish");
    if (accept("after")) read_after(step);
    return step;
  }

  void read_message(Step& step, std::string_view preposition) {
    expect(preposition);
    step.peer = static_cast<std::int16_t>(number("peer", 0, kRanksMax - 1));
    expect("tag");
    step.tag = static_cast<std::uint16_t>(number("tag", 0, kIndexMax));
    if (accept("accumulator")) {
      step.wire = Wire::kAccumulator;
    } else if (!accept("element")) {
      fail("expected 'element' or 'accumulator'");
    }
  }

  void read_after(Step& step) {
    do {
      const std::size_t dot = word().find('.');
      const auto lane = parse_number(word().substr(0, dot), 0, kIndexMax);
      const auto index = dot == std::string_view::npos
                             ? std::nullopt
                             : parse_number(word().substr(dot + 1), 0, kIndexMax);
      if (!lane || !index) return fail("expected LANE.STEP");
      step.after.push_back({static_cast<std::uint16_t>(*lane), static_cast<std::uint16_t>(*index)});
      ++next_;
    } while (!word().empty());
  }

  Slice read_slice() {
    static constexpr struct {
      std::string_view prefix;
      Buf buf;
    } kBuffers[] = {
        {"in[", Buf::kIn}, {"out[", Buf::kOut}, {"acc[", Buf::kAcc}, {"scratch[", Buf::kScratch}};
    if (!ok()) return {};
    std::string_view inner = word();
    for (const auto& [prefix, buf] : kBuffers) {
      if (!inner.starts_with(prefix) || !inner.ends_with(']')) continue;
      inner = inner.substr(prefix.size(), inner.size() - prefix.size() - 1);
      std::optional<int> slot = 0;
      if (buf == Buf::kScratch) {
        const std::size_t colon = std::min(inner.find(':'), inner.size());
        slot = parse_number(inner.substr(0, colon), 0, kIndexMax);
        inner.remove_prefix(std::min(colon + 1, inner.size()));
      }
      const std::optional<int> chunk = parse_number(inner, 0, kIndexMax);
      if (!slot || !chunk) break;
      ++next_;
      return {buf, static_cast<std::uint16_t>(*chunk), static_cast<std::uint16_t>(*slot)};
    }
    fail("expected in[CHUNK], out[CHUNK], acc[CHUNK] or scratch[SLOT:CHUNK]");
    return {};
  }

  std::string_view rest_;
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
  int line_ = 0;
  bool have_line_ = false;
  int ranks_ = 0;
  Schedule schedule_;
  Status error_;
};

}  // namespace

Result<Schedule> from_text(std::string_view text) {
  if (text.size() > kScheduleTextBytesMax) {
    return Status(Code::kInvalidArgument, "schedule text: " + std::to_string(text.size()) +
                                              " bytes, at most " +
                                              std::to_string(kScheduleTextBytesMax) + " are read");
  }
  return Reader(text).read();
}

}  // namespace syncline::plan
