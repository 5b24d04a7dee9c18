// CanonicalSum: adds the contributions of one round to one slice, in the order of the canonical sum
// (plan/canonical.h's tree over the workers, those without a contribution skipped), as they arrive:
// two neighbours are added as soon as both are there. The result does not depend on who comes
// first.
//
// A worker's second push in a clock goes to a second tree, and so on; the trees' sums are added in
// that order. 16-bit floats accumulate in f32.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/buffers.h"
#include "syncline/types.h"

namespace syncline::ps {

// Confined.
class CanonicalSum {
 public:
  CanonicalSum(int workers, DType type, std::size_t count, Buffers& buffers)
      : workers_(workers), type_(type), count_(count), buffers_(&buffers) {}

  // `layer`: how many pushes of this worker came before. `value`: `count` elements of `type`, or
  // of the accumulate type.
  void add(int worker, int layer, Buffer value, bool accumulator);
  // No more comes: the sum, in the accumulate type; null without contributions.
  Buffer finish();
  // The same by tree, those without contributions left out: finish() adds them in this order.
  std::vector<Buffer> finish_layers();

 private:
  using Node = std::pair<int, int>;  // first worker, how many
  struct Value {
    Buffer data;
    bool accumulator = false;
  };
  using Layer = std::map<Node, Value>;

  static Node parent_of(Node node, int workers);
  static Node sibling_of(Node node, Node parent);
  Value merge(Value left, Value right);
  Value resolve(Layer& nodes, Node node);
  Buffer widen(Value value);

  int workers_;
  DType type_;
  std::size_t count_;
  Buffers* buffers_;
  std::vector<Layer> layers_;
};

}  // namespace syncline::ps
