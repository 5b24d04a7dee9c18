// Symbolic values: leaves (a rank's contribution to a chunk), sums and finished sums, each kept
// once, so that equal expressions have equal numbers. Confined to one check.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace syncline::plan {

using Expr = int;
inline constexpr Expr kNothing = -1;

class Expressions {
 public:
  explicit Expressions(int ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {}

  Expr leaf(int rank, int chunk);
  // Commutes: add(x, y) == add(y, x). Precondition: not finished, same chunk, !overlap(x, y).
  Expr add(Expr x, Expr y);
  Expr finish(Expr x);
  // The canonical sum (plan/canonical.h) of these ranks' contributions to a chunk.
  Expr canonical(const std::vector<int>& contributors, int chunk);

  bool is_finished(Expr x) const { return node(x).kind == Kind::kFinish; }
  bool is_leaf(Expr x) const { return node(x).kind == Kind::kLeaf; }
  int chunk(Expr x) const { return node(x).chunk; }
  // Rank of the first contribution that both contain, -1 if none.
  int overlap(Expr x, Expr y) const;
  bool contains(Expr x, int rank) const;
  // "finish((0 + 1) + 2)": contributions by rank; long ones are cut.
  std::string to_text(Expr x) const;

 private:
  enum class Kind : std::uint8_t { kLeaf, kAdd, kFinish };
  struct Node {
    Kind kind;
    int x;  // leaf: rank
    int y;  // leaf: chunk
    int chunk;
  };

  const Node& node(Expr x) const { return nodes_[static_cast<std::size_t>(x)]; }
  Expr intern(Node node);
  Expr canonical_part(const std::vector<int>& contributors, std::size_t first, std::size_t count,
                      int chunk);
  void append(std::string& text, Expr x) const;
  int first_rank(Expr x) const;

  std::size_t words_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> members_;  // by node: bit set of ranks, words_ each
  std::unordered_map<std::uint64_t, Expr> sums_, leaves_, finished_;
};

}  // namespace syncline::plan
