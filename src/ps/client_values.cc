// Client: tensors and rows.
#include <algorithm>
#include <unordered_map>

#include "kernels/reduce.h"
#include "ps/client.h"
#include "ps/table_part.h"

namespace syncline::ps {
namespace {

constexpr std::size_t kIdsPerPull = kInlineMax / sizeof(std::int64_t);
constexpr std::size_t kRowBytesPerPush = 1 << 20;
constexpr Nanos kNoLimit = 365 * 24 * 3600 * kSecond;

// Each id once, with the places where it stood.
struct DistinctIds {
  std::vector<std::int64_t> ids;
  std::vector<std::size_t> index;  // of each place: which distinct id
};

DistinctIds distinct(const std::int64_t* ids, std::size_t count) {
  DistinctIds result;
  std::unordered_map<std::int64_t, std::size_t> seen;
  result.index.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [at, made] = seen.try_emplace(ids[i], result.ids.size());
    if (made) result.ids.push_back(ids[i]);
    result.index.push_back(at->second);
  }
  return result;
}

// Which distinct ids each server has, in the order of `ids`.
std::vector<std::vector<std::size_t>> by_server(const std::vector<std::int64_t>& ids, int servers) {
  std::vector<std::vector<std::size_t>> parts(static_cast<std::size_t>(servers));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    parts[static_cast<std::size_t>(server_of_row(ids[i], servers))].push_back(i);
  }
  return parts;
}

OperationName named(const char* what, const KeyDescription& key, std::uint64_t clock) {
  return {what, key.name, clock};
}

}  // namespace

std::shared_ptr<Client::Item> Client::slice_item(RequestKind kind, const KeyDescription& key,
                                                 std::size_t slice, const Call& call,
                                                 std::span<const std::byte> inlined) {
  auto item = make_item(kind, call, inlined);
  item->request.key = key.key;
  item->request.slice = static_cast<std::uint32_t>(slice);
  item->request.dtype = key.dtype;
  item->request.count = key.slices[slice].count;
  return item;
}

std::shared_ptr<Client::Item> Client::slice_push_item(const KeyDescription& key, std::size_t slice,
                                                      const std::byte* from, DType type,
                                                      const Call& call) {
  const std::size_t bytes = key.slices[slice].count * size_of(type);
  const bool inlined = bytes <= kInlineMax;
  auto item = slice_item(RequestKind::kPush, key, slice, call, {from, inlined ? bytes : 0});
  item->request.dtype = type;
  if (inlined) return item;
  item->request.separate = true;
  item->payload = from;
  item->payload_bytes = bytes;
  return item;
}

std::shared_ptr<Client::Item> Client::push_item(const KeyDescription& key, std::size_t slice,
                                                const void* data, const Call& call) {
  const auto* from =
      static_cast<const std::byte*>(data) + key.slices[slice].begin * size_of(key.dtype);
  return slice_push_item(key, slice, from, key.dtype, call);
}

std::shared_ptr<WorkState> Client::push(const KeyDescription& key, const void* data,
                                        const Call& call) {
  auto joined = join(named("push", key, call.clock), key.slices.size());
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  if (key.slices.empty()) joined->end();
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    auto item = push_item(key, i, data, call);
    item->sent = joined;
    enqueue(static_cast<std::size_t>(key.slices[i].server), std::move(item));
  }
  return work;
}

std::shared_ptr<WorkState> Client::push_pull(const KeyDescription& key, void* data,
                                             const Call& call) {
  auto joined = join(named("push_pull", key, call.clock), 2 * key.slices.size());
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  if (key.slices.empty()) joined->end();
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    const PlacedSlice& slice = key.slices[i];
    auto item = push_item(key, i, data, call);
    item->request.answers = true;
    item->answer = static_cast<std::byte*>(data) + slice.begin * size_of(key.dtype);
    item->answer_bytes = slice.count * size_of(key.dtype);
    item->sent = item->answered = joined;
    enqueue(static_cast<std::size_t>(slice.server), std::move(item));
  }
  return work;
}

std::shared_ptr<WorkState> Client::relay(const KeyDescription& key, std::size_t slice,
                                         const std::vector<RoundSum>& sums, const Buffer& value,
                                         const Call& call) {
  auto joined = join(named("relay", key, call.clock), sums.size() + 1);
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  joined->set_on_end([sums, value](Status&) {});
  Call unlimited = call;
  unlimited.timeout = kNoLimit;
  std::vector<std::shared_ptr<Item>> items;
  for (const RoundSum& sum : sums) {
    auto item =
        slice_push_item(key, slice, sum.data.get(), kernels::accumulate_type(key.dtype), unlimited);
    item->request.samples = sum.weighted ? sum.samples : static_cast<double>(sum.contributions);
    item->request.summed = true;
    item->request.weighted = sum.weighted;
    item->sent = joined;
    items.push_back(std::move(item));
  }
  if (items.empty()) {
    items.push_back(slice_item(RequestKind::kPull, key, slice, unlimited));
  } else {
    items.back()->request.answers = true;
  }
  items.back()->answer = value.get();
  items.back()->answer_bytes = key.slices[slice].count * size_of(key.dtype);
  items.back()->answered = joined;
  for (auto& item : items) {
    enqueue(static_cast<std::size_t>(key.slices[slice].server), std::move(item));
  }
  return work;
}

std::shared_ptr<WorkState> Client::pull(const KeyDescription& key, void* data, const Call& call) {
  auto joined = join(named("pull", key, call.clock), key.slices.size());
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  if (key.slices.empty()) joined->end();
  const std::size_t width = size_of(key.dtype);
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    const PlacedSlice& slice = key.slices[i];
    auto item = slice_item(RequestKind::kPull, key, i, call);
    item->answer = static_cast<std::byte*>(data) + slice.begin * width;
    item->answer_bytes = slice.count * width;
    item->answered = joined;
    enqueue(static_cast<std::size_t>(slice.server), std::move(item));
  }
  return work;
}

// Servers that have none of the rows; request.h says why.
void Client::add_news(RequestKind kind, const KeyDescription& table, const Call& call,
                      Items& items) {
  if (!bulk_ || items.empty()) return;
  std::vector<bool> asked(lanes_.size());
  for (const auto& [server, item] : items) asked[server] = true;
  for (std::size_t server = 0; server < asked.size(); ++server) {
    if (asked[server]) continue;
    auto item = make_item(kind, call);
    item->request.key = table.key;
    items.emplace_back(server, std::move(item));
  }
}

std::shared_ptr<WorkState> Client::push_rows(const KeyDescription& table, const std::int64_t* ids,
                                             const float* gradients, std::size_t count,
                                             const Call& call) {
  const auto dim = static_cast<std::size_t>(table.count);
  const DistinctIds rows = distinct(ids, count);
  std::vector<float> sums(rows.ids.size() * dim);
  for (std::size_t i = 0; i < count; ++i) {
    float* sum = sums.data() + rows.index[i] * dim;
    for (std::size_t d = 0; d < dim; ++d) sum[d] += gradients[i * dim + d];
  }
  const std::size_t row_bytes = sizeof(std::int64_t) + dim * sizeof(float);
  const std::size_t rows_max = std::max<std::size_t>(1, kRowBytesPerPush / row_bytes);
  Items items;
  const auto parts = by_server(rows.ids, servers());
  for (std::size_t server = 0; server < parts.size(); ++server) {
    for (std::size_t begin = 0; begin < parts[server].size(); begin += rows_max) {
      const std::size_t n = std::min(rows_max, parts[server].size() - begin);
      auto bytes = std::make_shared<std::vector<std::byte>>(n * row_bytes);
      auto* out_ids = reinterpret_cast<std::int64_t*>(bytes->data());
      auto* out_rows = reinterpret_cast<float*>(bytes->data() + n * sizeof(std::int64_t));
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t row = parts[server][begin + i];
        out_ids[i] = rows.ids[row];
        std::copy_n(sums.data() + row * dim, dim, out_rows + i * dim);
      }
      auto item = make_item(RequestKind::kPushRows, call);
      item->request.key = table.key;
      item->request.count = n;
      item->request.separate = true;
      item->request.continues = begin > 0;
      item->payload = bytes->data();
      item->payload_bytes = bytes->size();
      item->keep = std::move(bytes);
      items.emplace_back(server, std::move(item));
    }
  }
  add_news(RequestKind::kPushRows, table, call, items);
  auto joined = join(named("push_rows", table, call.clock), items.size());
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  if (items.empty()) joined->end();
  for (auto& [server, item] : items) {
    item->sent = joined;
    enqueue(server, std::move(item));
  }
  return work;
}

std::shared_ptr<WorkState> Client::pull_rows(const KeyDescription& table, const std::int64_t* ids,
                                             float* rows, std::size_t count, const Call& call) {
  const auto dim = static_cast<std::size_t>(table.count);
  auto wanted = std::make_shared<DistinctIds>(distinct(ids, count));
  auto values = std::make_shared<std::vector<float>>(wanted->ids.size() * dim);
  Items items;
  std::vector<std::size_t> place(wanted->ids.size());  // of a distinct id's row in `values`
  std::size_t next = 0;
  const auto parts = by_server(wanted->ids, servers());
  const std::size_t rows_max = std::min(kIdsPerPull, kRowBytesMax / (dim * sizeof(float)));
  for (std::size_t server = 0; server < parts.size(); ++server) {
    for (std::size_t begin = 0; begin < parts[server].size(); begin += rows_max) {
      const std::size_t n = std::min(rows_max, parts[server].size() - begin);
      std::vector<std::int64_t> asked(n);
      float* const answer = values->data() + next * dim;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t id = parts[server][begin + i];
        asked[i] = wanted->ids[id];
        place[id] = next++;
      }
      auto item = make_item(RequestKind::kPullRows, call, std::as_bytes(std::span(asked)));
      item->answer = answer;
      item->answer_bytes = n * dim * sizeof(float);
      item->request.key = table.key;
      item->request.count = n;
      items.emplace_back(server, std::move(item));
    }
  }
  add_news(RequestKind::kPullRows, table, call, items);
  auto joined = join(named("pull_rows", table, call.clock), items.size());
  auto work = joined->work();  // held, so that a failure is not taken for one that nobody hears of
  joined->set_on_end([wanted, values, place = std::move(place), rows, dim](Status& outcome) {
    if (!outcome.ok()) return;
    for (std::size_t i = 0; i < wanted->index.size(); ++i) {
      std::copy_n(values->data() + place[wanted->index[i]] * dim, dim, rows + i * dim);
    }
  });
  if (items.empty()) joined->end();
  for (auto& [server, item] : items) {
    (item->answer_bytes > 0 ? item->answered : item->sent) = joined;
    enqueue(server, std::move(item));
  }
  return work;
}

}  // namespace syncline::ps
