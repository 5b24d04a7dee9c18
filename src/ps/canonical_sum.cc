#include "ps/canonical_sum.h"

#include "base/planted.h"
#include "kernels/reduce.h"
#include "plan/canonical.h"

namespace syncline::ps {

CanonicalSum::Node CanonicalSum::parent_of(Node node, int workers) {
  Node at{0, workers};
  for (;;) {
    const int left = plan::canonical_split(at.second);
    const Node first{at.first, left}, second{at.first + left, at.second - left};
    if (first == node || second == node) return at;
    at = node.first < second.first ? first : second;
  }
}

CanonicalSum::Node CanonicalSum::sibling_of(Node node, Node parent) {
  const int left = plan::canonical_split(parent.second);
  if (node.first == parent.first) return {parent.first + left, parent.second - left};
  return {parent.first, left};
}

CanonicalSum::Value CanonicalSum::merge(Value left, Value right) {
  const std::size_t width = size_of(kernels::accumulate_type(type_));
  const bool same = width == size_of(type_);
  Value result{nullptr, true};
  if (left.accumulator || same) {
    result.data = left.data;
  } else if (right.accumulator) {
    result.data = right.data;
  } else {
    result.data = buffers_->take(count_ * width);
  }
  kernels::reduce(type_, ReduceOp::kSum, {result.data.get(), true},
                  {left.data.get(), left.accumulator}, {right.data.get(), right.accumulator},
                  count_);
  for (Value* used : {&left, &right}) {
    if (used->data == result.data) continue;
    const std::size_t bytes = count_ * (used->accumulator ? width : size_of(type_));
    buffers_->give(std::move(used->data), bytes);
  }
  return result;
}

void CanonicalSum::add(int worker, int layer, Buffer value, bool accumulator) {
  if (layers_.size() <= static_cast<std::size_t>(layer)) {
    layers_.resize(static_cast<std::size_t>(layer) + 1);
  }
  Layer& nodes = layers_[static_cast<std::size_t>(layer)];
  Node node{worker, 1};
  Value sum{std::move(value), accumulator || kernels::accumulate_type(type_) == type_};
  while (node.second < workers_) {
    const Node parent = parent_of(node, workers_);
    const auto other = nodes.find(sibling_of(node, parent));
    if (other == nodes.end()) break;
    Value theirs = std::move(other->second);
    nodes.erase(other);
    const bool first = node.first == parent.first;
    sum = merge(first ? std::move(sum) : std::move(theirs),
                first ? std::move(theirs) : std::move(sum));
    node = parent;
  }
  if (SYNCLINE_PLANTED(sum_in_order_of_arrival) && !nodes.empty()) {
    nodes.begin()->second = merge(std::move(nodes.begin()->second), std::move(sum));
    return;
  }
  nodes.emplace(node, std::move(sum));
}

// What is left of a layer are sums whose siblings lack contributions.
CanonicalSum::Value CanonicalSum::resolve(Layer& nodes, Node node) {
  const auto at = nodes.find(node);
  if (at != nodes.end()) return std::move(at->second);
  if (node.second == 1) return {};
  const int split = plan::canonical_split(node.second);
  Value left = resolve(nodes, {node.first, split});
  Value right = resolve(nodes, {node.first + split, node.second - split});
  if (left.data == nullptr) return right;
  if (right.data == nullptr) return left;
  return merge(std::move(left), std::move(right));
}

Buffer CanonicalSum::finish() {
  Value total;
  for (Layer& nodes : layers_) {
    Value layer = resolve(nodes, {0, workers_});
    if (layer.data == nullptr) continue;
    total = total.data == nullptr ? std::move(layer) : merge(std::move(total), std::move(layer));
  }
  layers_.clear();
  return widen(std::move(total));
}

std::vector<Buffer> CanonicalSum::finish_layers() {
  std::vector<Buffer> sums;
  for (Layer& nodes : layers_) {
    Value layer = resolve(nodes, {0, workers_});
    if (layer.data != nullptr) sums.push_back(widen(std::move(layer)));
  }
  layers_.clear();
  return sums;
}

Buffer CanonicalSum::widen(Value value) {
  if (value.data == nullptr || value.accumulator) return value.data;
  Buffer wide = buffers_->take(count_ * size_of(kernels::accumulate_type(type_)));
  kernels::copy(type_, {wide.get(), true}, {value.data.get(), false}, count_);
  buffers_->give(std::move(value.data), count_ * size_of(type_));
  return wide;
}

}  // namespace syncline::ps
