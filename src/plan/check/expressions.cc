#include "plan/check/expressions.h"

#include <algorithm>
#include <bit>

#include "plan/canonical.h"

namespace syncline::plan {
namespace {

constexpr std::size_t kTextMax = 400;

std::uint64_t pair_key(int x, int y) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(x)) << 32 |
         static_cast<std::uint32_t>(y);
}

}  // namespace

Expr Expressions::intern(Node n) {
  auto& index = n.kind == Kind::kLeaf ? leaves_ : n.kind == Kind::kAdd ? sums_ : finished_;
  const auto number = static_cast<Expr>(nodes_.size());
  const auto [it, fresh] = index.try_emplace(pair_key(n.x, n.y), number);
  if (!fresh) return it->second;
  nodes_.push_back(n);
  members_.resize(members_.size() + words_, 0);
  auto* mine = members_.data() + static_cast<std::size_t>(number) * words_;
  if (n.kind == Kind::kLeaf) {
    mine[n.x / 64] |= std::uint64_t{1} << (n.x % 64);
    return number;
  }
  for (const Expr part : {n.x, n.y}) {
    if (part == kNothing) continue;
    const auto* other = members_.data() + static_cast<std::size_t>(part) * words_;
    for (std::size_t w = 0; w < words_; ++w) mine[w] |= other[w];
  }
  return number;
}

Expr Expressions::leaf(int rank, int chunk) { return intern({Kind::kLeaf, rank, chunk, chunk}); }

Expr Expressions::add(Expr x, Expr y) {
  return intern({Kind::kAdd, std::min(x, y), std::max(x, y), chunk(x)});
}

Expr Expressions::finish(Expr x) { return intern({Kind::kFinish, x, kNothing, chunk(x)}); }

Expr Expressions::canonical(const std::vector<int>& contributors, int chunk) {
  return canonical_part(contributors, 0, contributors.size(), chunk);
}

Expr Expressions::canonical_part(const std::vector<int>& contributors, std::size_t first,
                                 std::size_t count, int chunk) {
  if (count == 1) return leaf(contributors[first], chunk);
  const auto left = static_cast<std::size_t>(canonical_split(static_cast<int>(count)));
  const Expr x = canonical_part(contributors, first, left, chunk);
  return add(x, canonical_part(contributors, first + left, count - left, chunk));
}

int Expressions::overlap(Expr x, Expr y) const {
  const auto* a = members_.data() + static_cast<std::size_t>(x) * words_;
  const auto* b = members_.data() + static_cast<std::size_t>(y) * words_;
  for (std::size_t w = 0; w < words_; ++w) {
    if ((a[w] & b[w]) != 0) return static_cast<int>(w * 64) + std::countr_zero(a[w] & b[w]);
  }
  return -1;
}

bool Expressions::contains(Expr x, int rank) const {
  const auto* mine = members_.data() + static_cast<std::size_t>(x) * words_;
  return (mine[rank / 64] >> (rank % 64) & 1) != 0;
}

std::string Expressions::to_text(Expr x) const {
  std::string text;
  append(text, x);
  if (text.size() > kTextMax) text = text.substr(0, kTextMax) + "...";
  return text;
}

void Expressions::append(std::string& text, Expr x) const {
  if (text.size() > kTextMax) return;
  const Node& n = node(x);
  if (n.kind == Kind::kLeaf) {
    text += std::to_string(n.x);
    return;
  }
  const bool sum = n.kind == Kind::kAdd;
  const bool swap = sum && first_rank(n.y) < first_rank(n.x);
  const bool bare = !sum && node(n.x).kind == Kind::kAdd;  // its sum brings the parentheses
  text += sum ? "(" : bare ? "finish" : "finish(";
  append(text, swap ? n.y : n.x);
  if (sum) {
    text += " + ";
    append(text, swap ? n.x : n.y);
  }
  if (!bare) text += ")";
}

int Expressions::first_rank(Expr x) const { return overlap(x, x); }

}  // namespace syncline::plan
