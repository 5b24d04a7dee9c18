#include "torch/agreement.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "torch/compat.h"
#include "torch/dense.h"

namespace syncline::torch_detail {
namespace {

constexpr std::size_t kPieceBytes = 32u << 20;

struct Line {
  std::string tensor;  // "parameter 'fc.weight'"
  std::string traits;  // "f32 [10, 20] requires_grad"
};

void describe(std::ostream& out, const char* kind, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    out << kind << " '" << name << "'\t" << to_string(*to_dtype(tensor.scalar_type())) << ' '
        << shape_text(tensor.sizes()) << (tensor.requires_grad() ? " requires_grad" : "") << '\n';
  }
}

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

std::vector<Line> parse(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto tab = line.find('\t');
    lines.push_back({line.substr(0, tab), tab == std::string::npos ? "" : line.substr(tab + 1)});
  }
  return lines;
}

std::string difference(const std::vector<Line>& mine, const std::vector<Line>& theirs, int rank) {
  const std::string other = "rank " + std::to_string(rank);
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    if (i >= mine.size()) return other + " has " + theirs[i].tensor + ", which rank 0 lacks";
    if (i >= theirs.size()) return other + " lacks " + mine[i].tensor + ", which rank 0 has";
    if (mine[i].tensor != theirs[i].tensor) {
      return "tensor " + std::to_string(i) + " is " + mine[i].tensor + " on rank 0 and " +
             theirs[i].tensor + " on " + other;
    }
    if (mine[i].traits != theirs[i].traits) {
      return mine[i].tensor + " is " + mine[i].traits + " on rank 0 and " + theirs[i].traits +
             " on " + other;
    }
  }
  return {};
}

std::vector<std::int64_t> gather(Communicator& comm, const std::vector<std::int64_t>& mine) {
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(comm.size()));
  CallOptions options;
  options.name = "ddp.agree";
  comm.all_gather(ConstTensorView(mine.data(), mine.size()), TensorView(all.data(), all.size()),
                  options)
      .wait();
  return all;
}

// Only after the digests differed: fetches every rank's description and finds the difference.
[[noreturn]] void explain(Communicator& comm, const std::string& text, std::int64_t longest) {
  std::string mine = text;
  mine.resize(static_cast<std::size_t>(longest), '\0');
  std::string all(mine.size() * static_cast<std::size_t>(comm.size()), '\0');
  CallOptions options;
  options.name = "ddp.explain";
  comm.all_gather(ConstTensorView(mine.data(), mine.size(), DType::kU8),
                  TensorView(all.data(), all.size(), DType::kU8), options)
      .wait();
  const auto of = [&](int rank) {
    const std::string padded =
        all.substr(mine.size() * static_cast<std::size_t>(rank), mine.size());
    return parse(padded.substr(0, padded.find('\0')));
  };
  const auto root = of(0);
  for (int rank = 1; rank < comm.size(); ++rank) {
    const std::string found = difference(root, of(rank), rank);
    if (found.empty()) continue;
    throw Error(Status(Code::kMismatch, "DistributedDataParallel: the models differ: " + found +
                                            "; build the same model on every rank before wrapping")
                    .with_peer(rank));
  }
  throw Error(
      Status(Code::kInternal, "DistributedDataParallel: digests differ, descriptions do not"));
}

}  // namespace

Agreement agree(Communicator& comm, const NamedTensors& parameters, const NamedTensors& buffers,
                const std::string& settings, std::int64_t proposed_id) {
  std::ostringstream out, layout;
  out << "the settings\t" << settings << '\n';
  describe(out, "parameter", parameters);
  describe(out, "buffer", buffers);
  for (const auto& parameter : parameters) layout << shape_text(parameter.second.strides());
  const std::string text = out.str();

  const std::vector<std::int64_t> mine = {static_cast<std::int64_t>(fnv1a(text)),
                                          static_cast<std::int64_t>(fnv1a(layout.str())),
                                          static_cast<std::int64_t>(text.size()), proposed_id};
  const std::vector<std::int64_t> all = gather(comm, mine);
  Agreement result{proposed_id, true};
  std::int64_t longest = 0;
  bool equal = true;
  for (std::size_t r = 0; r < all.size(); r += mine.size()) {
    equal &= all[r] == all[0] && all[r + 2] == all[2];
    result.strides_equal &= all[r + 1] == all[1];
    longest = std::max(longest, all[r + 2]);
    result.id = std::max(result.id, all[r + 3]);
  }
  if (!equal) explain(comm, text, longest);
  return result;
}

namespace {

// The tensor itself where its memory is already what the wire needs.
at::Tensor row_major(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : tensor.contiguous();
}

void broadcast_piece(Communicator& comm, const std::vector<at::Tensor>& tensors, std::size_t bytes,
                     int root, const CallOptions& options) {
  std::vector<std::byte> blob(bytes);
  std::size_t offset = 0;
  if (comm.rank() == root) {
    for (const auto& tensor : tensors) {
      const at::Tensor dense = row_major(tensor);
      if (dense.nbytes() > 0) std::memcpy(blob.data() + offset, dense.data_ptr(), dense.nbytes());
      offset += dense.nbytes();
    }
  }
  comm.broadcast(TensorView(blob.data(), bytes, DType::kU8), root, options).wait();
  if (comm.rank() == root) return;
  for (const auto& tensor : tensors) {
    at::Tensor dense = row_major(tensor);
    if (dense.nbytes() > 0) std::memcpy(dense.data_ptr(), blob.data() + offset, dense.nbytes());
    offset += dense.nbytes();
    if (!dense.is_same(tensor)) tensor.copy_(dense);
  }
}

}  // namespace

void broadcast_values(Communicator& comm, const std::vector<at::Tensor>& tensors, int root,
                      const CallOptions& options) {
  if (comm.size() == 1) return;
  const NoGrad no_grad;
  std::vector<at::Tensor> piece;
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) {
    piece.push_back(silent_alias(tensor));
    bytes += tensor.nbytes();
    if (bytes < kPieceBytes) continue;
    broadcast_piece(comm, piece, bytes, root, options);
    piece.clear();
    bytes = 0;
  }
  if (bytes > 0) broadcast_piece(comm, piece, bytes, root, options);
}

}  // namespace syncline::torch_detail
