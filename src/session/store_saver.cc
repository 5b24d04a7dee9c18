#include "session/store_saver.h"

#include <algorithm>
#include <deque>

#include "kernels/reduce.h"
#include "ps/slice_state.h"

namespace syncline::session {
namespace {

// How many pieces, each about a slice, are on their way at a time.
constexpr std::size_t kPiecesAtOnce = 8;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

Status unlike(const ps::KeyDescription& key) {
  return Status(Code::kCorrupt, "a server has another '" + key.name + "' than this worker");
}

}  // namespace

StoreSaver::StoreSaver(const StoreClients& clients, const StoreContents& contents,
                       const ps::Client::Call& call)
    : clients_(clients), contents_(contents), call_(call) {}

std::uint64_t StoreSaver::Table::before(std::size_t server) const {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < server; ++s) sum += rows[s];
  return sum;
}

std::vector<std::string> StoreSaver::slots_of(const ps::KeyDescription& key) const {
  const bool steps = key.table || kernels::accumulate_type(key.dtype) == DType::kF32;
  const auto& optimizer = key.table ? key.optimizer : contents_.optimizer;
  if (!steps || !optimizer.has_value()) return {};
  return slot_names(key.name, *optimizer);
}

StoreSaver::Piece StoreSaver::ask(Piece piece) {
  piece.state = client_of(key_at(piece))
                    .read_state(key_at(piece), piece.server, piece.slice, piece.first_row, call_);
  return piece;
}

Status StoreSaver::wait(const Piece& piece) {
  return clients_.tables->links().engine->wait(*piece.state.work);
}

// Rows only come, behind those that are there: the first so many are the ones to save.
Status StoreSaver::count_rows() {
  for (std::size_t k = 0; k < contents_.keys.size(); ++k) {
    if (!contents_.keys[k].table) continue;
    Table& table = tables_[k];
    for (std::size_t server = 0; server < static_cast<std::size_t>(clients_.tables->servers());
         ++server) {
      const Piece piece = ask({k, server, 0, UINT64_MAX, {}});
      const Status answered = wait(piece);
      if (!answered.ok()) return answered;
      const auto header = ps::decode_state(*piece.state.bytes);
      if (!header.ok()) return header.status();
      table.rows.push_back(header->rows_there);
    }
  }
  return {};
}

std::vector<checkpoint::StoredTensor> StoreSaver::layout() {
  std::vector<checkpoint::StoredTensor> tensors;
  const auto add = [&](const std::string& name, DType type, std::vector<std::uint64_t> shape) {
    tensors_.emplace(name, tensors.size());
    tensors.push_back({name, type, std::move(shape)});
  };
  for (std::size_t k = 0; k < contents_.keys.size(); ++k) {
    const ps::KeyDescription& key = contents_.keys[k];
    const auto slots = slots_of(key);
    if (!key.table) {
      if (contents_.optimizer.has_value()) add(step_name(key.name), DType::kI64, {1});
      add(key.name, kernels::accumulate_type(key.dtype), {key.count});
      for (const std::string& slot : slots) add(slot, DType::kF32, {key.count});
      continue;
    }
    const std::uint64_t rows = tables_[k].all();
    add(ids_name(key.name), DType::kI64, {rows});
    add(step_name(key.name), DType::kI64, {rows});
    add(key.name, DType::kF32, {rows, key.count});
    for (const std::string& slot : slots) {
      const std::uint64_t width = ps::row_slot_values(key) / slots.size();
      add(slot, DType::kF32, width == key.count ? std::vector{rows, width} : std::vector{rows});
    }
  }
  return tensors;
}

std::vector<StoreSaver::Piece> StoreSaver::pieces() const {
  std::vector<Piece> all;
  for (std::size_t k = 0; k < contents_.keys.size(); ++k) {
    const ps::KeyDescription& key = contents_.keys[k];
    for (std::size_t i = 0; i < key.slices.size(); ++i) {
      all.push_back({k, static_cast<std::size_t>(key.slices[i].server), i, 0, {}});
    }
    if (!key.table) continue;
    const Table& table = tables_.at(k);
    for (std::size_t server = 0; server < table.rows.size(); ++server) {
      for (std::uint64_t row = 0; row < table.rows[server]; row += ps::rows_of_a_state(key)) {
        all.push_back({k, server, 0, row, {}});
      }
    }
  }
  return all;
}

Status StoreSaver::put(const std::string& tensor, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  return file_->write(tensors_.at(tensor), offset, bytes);
}

Status StoreSaver::write(const Piece& piece) {
  const auto header = ps::decode_state(*piece.state.bytes);
  if (!header.ok()) return header.status();
  return key_at(piece).table ? write_rows(piece, header.value())
                             : write_slice(piece, header.value());
}

Status StoreSaver::write_slice(const Piece& piece, const ps::StateHeader& header) {
  const ps::KeyDescription& key = key_at(piece);
  const ps::PlacedSlice& slice = key.slices[piece.slice];
  const auto slots = slots_of(key);
  if (header.slots < slots.size() ||
      piece.state.bytes->size() != ps::slice_state_bytes(key.dtype, slice.count, header.slots)) {
    return unlike(key);
  }
  steps_[piece.key] = std::max(steps_[piece.key], header.steps);
  const std::size_t width = size_of(kernels::accumulate_type(key.dtype));
  std::span<const std::byte> rest(*piece.state.bytes);
  rest = rest.subspan(ps::kStateHeaderBytes);
  for (std::size_t i = 0; i <= slots.size(); ++i) {
    const Status written = put(i == 0 ? key.name : slots[i - 1], slice.begin * width,
                               rest.subspan(i * slice.count * width, slice.count * width));
    if (!written.ok()) return written;
  }
  return {};
}

Status StoreSaver::write_rows(const Piece& piece, const ps::StateHeader& header) {
  const ps::KeyDescription& key = key_at(piece);
  const auto slots = slots_of(key);
  const Table& table = tables_.at(piece.key);
  if (piece.state.bytes->size() != ps::kStateHeaderBytes + header.rows * ps::row_state_bytes(key)) {
    return unlike(key);
  }
  const auto arrived = static_cast<std::size_t>(header.rows);
  const std::uint64_t wanted = table.rows[piece.server] - piece.first_row;
  const std::size_t rows = std::min<std::uint64_t>(arrived, wanted);
  const std::uint64_t at = table.before(piece.server) + piece.first_row;
  const std::byte* const ids = piece.state.bytes->data() + ps::kStateHeaderBytes;
  const std::byte* const steps = ids + arrived * sizeof(std::int64_t);
  const std::byte* const values = steps + arrived * sizeof(std::uint64_t);
  Status written = put(ids_name(key.name), at * 8, {ids, rows * 8});
  if (written.ok()) written = put(step_name(key.name), at * 8, {steps, rows * 8});
  const std::size_t row_bytes =
      (static_cast<std::size_t>(key.count) + ps::row_slot_values(key)) * sizeof(float);
  std::size_t begin = 0;  // of the column in a row
  for (std::size_t i = 0; i <= slots.size() && written.ok(); ++i) {
    const std::size_t width =
        (i == 0 ? static_cast<std::size_t>(key.count) : ps::row_slot_values(key) / slots.size()) *
        sizeof(float);
    std::vector<std::byte> column(rows * width);
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(values + row * row_bytes + begin, width, column.data() + row * width);
    }
    written = put(i == 0 ? key.name : slots[i - 1], at * width, bytes_of(column));
    begin += width;
  }
  return written;
}

Status StoreSaver::write_steps() {
  if (!contents_.optimizer.has_value()) return {};
  for (std::size_t k = 0; k < contents_.keys.size(); ++k) {
    if (contents_.keys[k].table) continue;
    const std::vector<std::uint64_t> steps{steps_[k]};
    const Status written = put(step_name(contents_.keys[k].name), 0, bytes_of(steps));
    if (!written.ok()) return written;
  }
  return {};
}

Status StoreSaver::save(const std::string& path) {
  const Status counted = count_rows();
  if (!counted.ok()) return counted;
  auto file =
      checkpoint::TensorFileWriter::create(path, layout(), {{kStoreMetadata, to_json(contents_)}});
  if (!file.ok()) return file.status();
  file_ = std::move(file).value();
  std::deque<Piece> under_way;
  Status outcome;
  const auto take_one = [&] {
    const Piece piece = std::move(under_way.front());
    under_way.pop_front();
    const Status answered = wait(piece);
    if (outcome.ok()) outcome = answered.ok() ? write(piece) : answered;
  };
  for (const Piece& piece : pieces()) {
    if (!outcome.ok()) break;
    under_way.push_back(ask(piece));
    if (under_way.size() >= kPiecesAtOnce) take_one();
  }
  while (!under_way.empty()) take_one();
  if (outcome.ok()) outcome = write_steps();
  return outcome.ok() ? file_->commit() : outcome;
}

}  // namespace syncline::session
