#include "session/store_loader.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "ps/slice_state.h"
#include "ps/table_part.h"
#include "session/store_file.h"

namespace syncline::session {
namespace {

constexpr std::size_t kRestoresAtOnce = 8;

// The next `bytes` of `to`.
std::byte* append(std::byte* to, std::span<const std::byte> bytes) {
  return std::copy(bytes.begin(), bytes.end(), to);
}

}  // namespace

Result<std::span<const std::byte>> StoreLoader::tensor(const std::string& name, DType type,
                                                       std::uint64_t count) const {
  const checkpoint::StoredTensor* found = file_.find(name);
  if (found == nullptr || found->dtype != type || found->bytes != count * size_of(type)) {
    return Status(Code::kCorrupt, "tensor '" + name + "' is missing or of another shape");
  }
  return file_.bytes(*found);
}

Status StoreLoader::drain(std::size_t pieces) {
  Status first;
  while (under_way_.size() > pieces) {
    const auto work = std::move(under_way_.front());
    under_way_.pop_front();
    const Status status = clients_.tables->links().engine->wait(*work);
    if (first.ok()) first = status;
  }
  return first;
}

Status StoreLoader::send(const ps::KeyDescription& key, std::size_t server, std::size_t slice,
                         Bytes state) {
  under_way_.push_back(client_of(key).restore(key, server, slice, std::move(state), call_));
  return drain(kRestoresAtOnce);
}

Status StoreLoader::load(const ps::KeyDescription& key,
                         const std::optional<optim::Optimizer>& optimizer) {
  std::vector<std::string> slots;
  if (key.table && key.optimizer.has_value()) slots = slot_names(key.name, *key.optimizer);
  const bool steps = kernels::accumulate_type(key.dtype) == DType::kF32;
  if (!key.table && steps && optimizer.has_value()) slots = slot_names(key.name, *optimizer);
  ps::Client& client = client_of(key);
  const Status announced = client.announce(key);
  if (!announced.ok()) return announced;
  const Status sent = key.table ? load_rows(key, slots) : load_slices(key, slots);
  const Status left = drain(0);
  if (!sent.ok() || !left.ok()) return sent.ok() ? left : sent;
  const Status there = clients_.tables->links().engine->wait(*client.flush(call_.timeout));
  const Status refused = client.take_failure();
  if (!there.ok() || !refused.ok()) return refused.ok() ? there : refused;
  clients_.tables->publish(key);
  return {};
}

Status StoreLoader::load_slices(const ps::KeyDescription& key,
                                const std::vector<std::string>& slots) {
  const DType wide = kernels::accumulate_type(key.dtype);
  std::vector<std::span<const std::byte>> sources;
  auto values = tensor(key.name, wide, key.count);
  if (!values.ok()) return values.status();
  sources.push_back(values.value());
  for (const std::string& name : slots) {
    auto slot = tensor(name, DType::kF32, key.count);
    if (!slot.ok()) return slot.status();
    sources.push_back(slot.value());
  }
  ps::StateHeader header;
  header.slots = static_cast<std::uint32_t>(slots.size());
  if (const auto steps = tensor(step_name(key.name), DType::kI64, 1); steps.ok()) {
    std::memcpy(&header.steps, steps.value().data(), sizeof header.steps);
  }
  const std::size_t width = size_of(wide);
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    const ps::PlacedSlice& slice = key.slices[i];
    auto state = std::make_shared<std::vector<std::byte>>(
        ps::slice_state_bytes(key.dtype, slice.count, slots.size()));
    ps::encode(header, *state);
    std::byte* to = state->data() + ps::kStateHeaderBytes;
    for (const auto& source : sources) {
      to = append(to, source.subspan(slice.begin * width, slice.count * width));
    }
    const Status sent = send(key, static_cast<std::size_t>(slice.server), i, std::move(state));
    if (!sent.ok()) return sent;
  }
  return {};
}

Status StoreLoader::load_rows(const ps::KeyDescription& table,
                              const std::vector<std::string>& slots) {
  const checkpoint::StoredTensor* const found = file_.find(ids_name(table.name));
  if (found == nullptr) return Status(Code::kCorrupt, "table '" + table.name + "' has no ids");
  const std::uint64_t rows = found->bytes / sizeof(std::int64_t);
  const auto ids = tensor(found->name, DType::kI64, rows);
  if (!ids.ok()) return ids.status();
  struct Source {
    std::span<const std::byte> bytes;
    std::size_t width;  // of a row
  };
  const std::size_t slot_values = slots.empty() ? 0 : ps::row_slot_values(table) / slots.size();
  std::vector<Source> sources;
  for (std::size_t i = 0; i <= slots.size(); ++i) {
    const std::uint64_t width = i == 0 ? table.count : slot_values;
    auto values = tensor(i == 0 ? table.name : slots[i - 1], DType::kF32, rows * width);
    if (!values.ok()) return values.status();
    sources.push_back({values.value(), width * sizeof(float)});
  }
  const auto steps = tensor(step_name(table.name), DType::kI64, rows);
  if (!steps.ok()) return steps.status();

  std::vector<std::vector<std::size_t>> of_server(
      static_cast<std::size_t>(clients_.tables->servers()));
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t id = 0;
    std::memcpy(&id, ids.value().data() + row * sizeof id, sizeof id);
    of_server[static_cast<std::size_t>(ps::server_of_row(id, clients_.tables->servers()))]
        .push_back(row);
  }
  const std::size_t at_once = ps::rows_of_a_state(table);
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    const auto& all = of_server[server];
    for (std::size_t begin = 0; begin < all.size(); begin += at_once) {
      const std::span<const std::size_t> part(all.data() + begin,
                                              std::min(at_once, all.size() - begin));
      ps::StateHeader header;
      header.rows = header.rows_there = part.size();
      auto state = std::make_shared<std::vector<std::byte>>(
          ps::kStateHeaderBytes + part.size() * ps::row_state_bytes(table));
      ps::encode(header, *state);
      std::byte* to = state->data() + ps::kStateHeaderBytes;
      for (const std::size_t row : part) to = append(to, ids.value().subspan(row * 8, 8));
      for (const std::size_t row : part) to = append(to, steps.value().subspan(row * 8, 8));
      for (const std::size_t row : part) {
        for (const Source& source : sources) {
          to = append(to, source.bytes.subspan(row * source.width, source.width));
        }
      }
      const Status sent = send(table, server, 0, std::move(state));
      if (!sent.ok()) return sent;
    }
  }
  return {};
}

}  // namespace syncline::session
