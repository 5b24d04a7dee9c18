#include "plan/check/order.h"

#include <algorithm>
#include <map>
#include <utility>

namespace syncline::plan {
namespace {

constexpr std::size_t kClocksMax = std::size_t{1} << 27;

// Edges of "happens before" as predecessor lists.
class Graph {
 public:
  explicit Graph(const Program& program) : p_(program), earlier_(program.steps.size()) {
    for (int i = 0; i < p_.size(); ++i) {
      const FlatStep& at = p_.at(i);
      if (at.index > 0) add(i - 1, i);
      for (const After& after : at.step->after) add(p_.named(at, after), i);
      if (at.partner >= 0 && at.step->kind != StepKind::kSend) add(at.partner, i);
    }
  }

  // A channel holds one frame: message k + 1 leaves after the receive of message k.
  void add_channel_limits() {
    std::map<std::pair<int, int>, int> previous;
    for (int i = 0; i < p_.size(); ++i) {
      const FlatStep& at = p_.at(i);
      if (at.step->kind != StepKind::kSend) continue;
      const auto [it, fresh] = previous.try_emplace({at.rank, at.step->peer}, at.partner);
      if (!fresh) add(std::exchange(it->second, at.partner), i);
    }
  }

  const std::vector<int>& earlier(int i) const { return earlier_[static_cast<std::size_t>(i)]; }

  // All steps in an order that respects the edges; fewer where there is a circle.
  std::vector<int> sort() const {
    std::vector<int> missing(earlier_.size()), sequence;
    std::vector<std::vector<int>> later(earlier_.size());
    for (int i = 0; i < p_.size(); ++i) {
      missing[static_cast<std::size_t>(i)] = static_cast<int>(earlier(i).size());
      if (earlier(i).empty()) sequence.push_back(i);
      for (const int before : earlier(i)) later[static_cast<std::size_t>(before)].push_back(i);
    }
    for (std::size_t next = 0; next < sequence.size(); ++next) {
      for (const int i : later[static_cast<std::size_t>(sequence[next])]) {
        if (--missing[static_cast<std::size_t>(i)] == 0) sequence.push_back(i);
      }
    }
    return sequence;
  }

  Status circle_error(const std::vector<int>& sorted, const std::string& condition) const {
    std::vector<char> done(earlier_.size(), 0);
    for (const int i : sorted) done[static_cast<std::size_t>(i)] = 1;
    const auto stuck = [&done](int i) { return done[static_cast<std::size_t>(i)] == 0; };
    int at = 0;
    while (!stuck(at)) ++at;
    std::vector<int> path;  // each waits for the next
    while (std::find(path.begin(), path.end(), at) == path.end()) {
      path.push_back(at);
      at = *std::find_if(earlier(at).begin(), earlier(at).end(), stuck);
    }
    std::string circle;
    const auto begin = std::find(path.begin(), path.end(), at);
    for (auto it = begin; it != path.end() && it - begin < 8; ++it) {
      circle += describe(p_.at(*it)) + " waits for ";
    }
    circle += path.end() - begin > 8 ? "others, and so on" : describe(p_.at(at));
    return Status(Code::kInvalidArgument, "schedule: deadlock" + condition + ": " + circle);
  }

 private:
  void add(int before, int i) { earlier_[static_cast<std::size_t>(i)].push_back(before); }

  const Program& p_;
  std::vector<std::vector<int>> earlier_;
};

}  // namespace

Result<Order> Order::of(const Program& program) {
  Order order;
  order.lanes_ = static_cast<std::size_t>(program.lanes());
  if (order.lanes_ * program.steps.size() > kClocksMax) {
    return Status(Code::kUnsupported, "schedule: " + std::to_string(program.size()) + " steps in " +
                                          std::to_string(program.lanes()) +
                                          " lanes are too many to prove");
  }
  Graph graph(program);
  order.sequence_ = graph.sort();
  if (order.sequence_.size() != program.steps.size())
    return graph.circle_error(order.sequence_, "");
  order.set_clocks(program);
  if (Status status = order.check_channels(program); !status.ok()) return status;
  graph.add_channel_limits();
  const std::vector<int> limited = graph.sort();
  if (limited.size() != program.steps.size()) {
    return graph.circle_error(limited,
                              " when sends block (one frame of room from a rank to another)");
  }
  return order;
}

void Order::set_clocks(const Program& program) {
  clocks_.assign(lanes_ * program.steps.size(), 0);
  for (const FlatStep& at : program.steps) {
    lane_of_.push_back(at.global_lane);
    index_of_.push_back(at.index);
  }
  const Graph graph(program);
  for (const int i : sequence_) {
    auto* clock = clocks_.data() + static_cast<std::size_t>(i) * lanes_;
    for (const int before : graph.earlier(i)) {
      const auto* other = clocks_.data() + static_cast<std::size_t>(before) * lanes_;
      for (std::size_t lane = 0; lane < lanes_; ++lane)
        clock[lane] = std::max(clock[lane], other[lane]);
    }
    const FlatStep& at = program.at(i);
    clock[at.global_lane] = static_cast<std::uint16_t>(at.index + 1);
  }
}

Status Order::check_channels(const Program& program) const {
  std::map<std::pair<int, int>, int> previous;
  for (int i = 0; i < program.size(); ++i) {
    const FlatStep& at = program.at(i);
    if (at.step->kind != StepKind::kSend) continue;
    const auto [it, fresh] = previous.try_emplace({at.rank, at.step->peer}, i);
    if (fresh) continue;
    const int earlier = std::exchange(it->second, i);
    if (before(earlier, i)) continue;
    return step_error(at, "may overtake the message of " + describe(program.at(earlier)) +
                              ": messages to one peer must leave in tag order");
  }
  return {};
}

}  // namespace syncline::plan
