#include "plan/check/values.h"

#include <algorithm>

#include "plan/check/memory.h"
#include "plan/partition.h"
#include "plan/text.h"

namespace syncline::plan {
namespace {

class Evaluation {
 public:
  Evaluation(const Program& program, const Order& order, Aliasing aliasing, bool canonical)
      : p_(program),
        s_(*program.schedule),
        order_(order),
        aliasing_(aliasing),
        canonical_(canonical),
        expressions_(s_.size()),
        memory_(program, order, aliasing, expressions_),
        sent_(program.steps.size(), kNothing) {
    for (int rank = 0; rank < s_.size(); ++rank) {
      if (s_.ranks[static_cast<std::size_t>(rank)].contributes) contributors_.push_back(rank);
    }
  }

  Status run() {
    for (const int i : order_.sequence()) {
      if (Status status = execute(i); !status.ok()) return status;
    }
    for (int chunk = 0; chunk < s_.chunks; ++chunk) {
      if (Status status = check_results(chunk); !status.ok()) return status;
    }
    return {};
  }

 private:
  Status execute(int i) {
    const Step& step = *p_.at(i).step;
    const int rank = p_.at(i).rank;
    switch (step.kind) {
      case StepKind::kSend: {
        const Result<Expr> value = load(i, step.a);
        if (value.ok()) sent_[static_cast<std::size_t>(i)] = value.value();
        return value.status();
      }
      case StepKind::kRecv:
        return store(i, sent_[static_cast<std::size_t>(p_.at(i).partner)]);
      case StepKind::kRecvReduce:
        return combine(i, step.a, sent_[static_cast<std::size_t>(p_.at(i).partner)]);
      case StepKind::kCopy: {
        const bool same = memory_.place(rank, step.dst) == memory_.place(rank, step.a);
        if (same && !step.finish) return {};
        const Result<Expr> value = load(i, step.a);
        return value.ok() ? store(i, value.value()) : value.status();
      }
      case StepKind::kReduce: {
        const Result<Expr> other = load(i, step.b);
        return other.ok() ? combine(i, step.a, other.value()) : other.status();
      }
    }
    return {};
  }

  Result<Expr> load(int i, const Slice& slice) {
    Result<Expr> value = memory_.read(i, slice);
    if (value.ok() && expressions_.chunk(value.value()) != slice.chunk) {
      return step_error(p_.at(i), to_text(slice) + " holds chunk " +
                                      std::to_string(expressions_.chunk(value.value())));
    }
    return value;
  }

  Status combine(int i, const Slice& a, Expr other) {
    const Result<Expr> value = load(i, a);
    if (!value.ok()) return value.status();
    const std::string chunk = " chunk " + std::to_string(a.chunk);
    if (expressions_.is_finished(value.value()) || expressions_.is_finished(other)) {
      return step_error(p_.at(i), "combines a value of" + chunk + " that is finished already");
    }
    const int twice = expressions_.overlap(value.value(), other);
    if (twice >= 0) {
      return step_error(p_.at(i), "adds the contribution of rank " + std::to_string(twice) + " to" +
                                      chunk + " a second time, " + to_text(aliasing_));
    }
    return store(i, expressions_.add(value.value(), other));
  }

  Status store(int i, Expr value) {
    const Step& step = *p_.at(i).step;
    const bool is_result = is_reduction(s_.kind) && step.dst.buf == Buf::kOut;
    if (step.finish) {
      if (expressions_.is_finished(value)) return step_error(p_.at(i), "finishes a second time");
      value = expressions_.finish(value);
    } else if (is_result && !expressions_.is_finished(value)) {
      return step_error(p_.at(i),
                        "receives a result that was not finished: " + expressions_.to_text(value) +
                            ", chunk " + std::to_string(step.dst.chunk));
    } else if (!is_result && is_reduction(s_.kind) && expressions_.is_finished(value)) {
      return step_error(p_.at(i),
                        "keeps a finished value in " + to_text(step.dst) + ": it belongs into out");
    }
    return memory_.write(i, step.dst, value);
  }

  // Every receiver of a chunk against what its kind promises, and against the first receiver.
  Status check_results(int chunk) {
    int first_rank = -1;
    Expr first = kNothing;
    for (int rank = 0; rank < s_.size(); ++rank) {
      if (!s_.ranks[static_cast<std::size_t>(rank)].receives || !has_out(s_, rank, chunk)) continue;
      const Expr value = memory_.value(rank, {Buf::kOut, static_cast<std::uint16_t>(chunk), 0});
      Status status =
          is_reduction(s_.kind) ? check_sum(rank, chunk, value) : check_copy(rank, chunk, value);
      if (!status.ok()) return status;
      if (first_rank < 0) {
        first_rank = rank;
        first = value;
      } else if (value != first) {
        return error(rank, chunk,
                     "sums in another order than rank " + std::to_string(first_rank) + ": " +
                         expressions_.to_text(value) + " and " + expressions_.to_text(first));
      }
    }
    return {};
  }

  Status check_sum(int rank, int chunk, Expr value) {
    if (value == kNothing) return error(rank, chunk, "never gets a result");
    if (!expressions_.is_finished(value))
      return error(rank, chunk, "ends with a value without finish");
    std::string missing;
    for (const int from : contributors_) {
      if (!expressions_.contains(value, from)) missing += " " + std::to_string(from);
    }
    if (!missing.empty()) return error(rank, chunk, "lacks the contributions of ranks" + missing);
    if (!canonical_) return {};
    const Expr canonical = expressions_.finish(expressions_.canonical(contributors_, chunk));
    if (value == canonical) return {};
    return error(
        rank, chunk,
        std::string(s_.canonical_sum ? "claims the canonical sum " : "needs the canonical sum ") +
            expressions_.to_text(canonical) + " but evaluates " + expressions_.to_text(value));
  }

  Status check_copy(int rank, int chunk, Expr value) {
    const bool from_owner = has_blocks(s_.kind) && s_.kind != Collective::kScatter;
    const int owner = from_owner ? block_owner(s_.kind, s_.size(), s_.chunks, chunk) : s_.root;
    if (value == expressions_.leaf(owner, chunk)) return {};
    return error(rank, chunk,
                 value == kNothing ? std::string("never gets it")
                                   : "ends with data of rank " + expressions_.to_text(value) +
                                         " instead of rank " + std::to_string(owner));
  }

  Status error(int rank, int chunk, const std::string& what) const {
    return Status(Code::kInvalidArgument, "schedule: rank " + std::to_string(rank) + ", chunk " +
                                              std::to_string(chunk) + ": " + what + " (" +
                                              to_text(aliasing_) + ")");
  }

  const Program& p_;
  const Schedule& s_;
  const Order& order_;
  const Aliasing aliasing_;
  const bool canonical_;
  Expressions expressions_;
  Memory memory_;
  std::vector<Expr> sent_;  // by send
  std::vector<int> contributors_;
};

}  // namespace

Status check_values(const Program& program, const Order& order, Aliasing aliasing, bool canonical) {
  return Evaluation(program, order, aliasing, canonical).run();
}

Status check_barrier(const Program& p, const Order& order) {
  const Schedule& s = *p.schedule;
  for (int rank = 0; rank < s.size(); ++rank) {
    std::vector<char> seen(s.ranks.size(), 0);
    seen[static_cast<std::size_t>(rank)] = 1;
    for (int lane = p.rank_lane[static_cast<std::size_t>(rank)];
         lane < p.rank_lane[static_cast<std::size_t>(rank) + 1]; ++lane) {
      const int end = p.lane_begin[static_cast<std::size_t>(lane) + 1];
      if (end == p.lane_begin[static_cast<std::size_t>(lane)]) continue;
      for (int other = 0; other < p.lanes(); ++other) {
        if (order.seen(end - 1, other) == 0) continue;
        seen[static_cast<std::size_t>(p.at(p.lane_begin[static_cast<std::size_t>(other)]).rank)] =
            1;
      }
    }
    if (!s.ranks[static_cast<std::size_t>(rank)].receives) continue;
    for (int other = 0; other < s.size(); ++other) {
      if (seen[static_cast<std::size_t>(other)] != 0) continue;
      if (!s.ranks[static_cast<std::size_t>(other)].contributes) continue;
      return Status(Code::kInvalidArgument, "schedule: rank " + std::to_string(rank) +
                                                " may leave the barrier before rank " +
                                                std::to_string(other) + " entered it");
    }
  }
  return {};
}

}  // namespace syncline::plan
