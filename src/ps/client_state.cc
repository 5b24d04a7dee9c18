// Client: what goes into files and comes from them.
#include "ps/client.h"
#include "ps/norm_exchange.h"
#include "ps/slice_state.h"

namespace syncline::ps {

Client::State Client::read_state(const KeyDescription& key, std::size_t server, std::size_t slice,
                                 std::uint64_t first_row, const Call& call) {
  auto joined = join({"state of", key.name}, 1);
  const auto work = joined->work();
  auto item = make_item(RequestKind::kState, call);
  item->request.key = key.key;
  item->request.slice = static_cast<std::uint32_t>(slice);
  item->request.count = first_row;
  auto answer = std::make_shared<std::vector<std::byte>>(state_bytes_max(key, slice));
  item->answer = answer->data();
  item->answer_bytes = answer->size();
  item->answer_exact = false;
  item->answer_vector = answer;
  item->answered = joined;
  enqueue(server, std::move(item));
  return {work, answer};
}

Status Client::announce(const KeyDescription& key) {
  if (key.slices.size() > 1 && key.slices.front().count > kSliceElementsMax) {
    return Status(Code::kUnsupported, "a tensor of " + std::to_string(key.count) +
                                          " elements; split it into several keys");
  }
  const std::vector<std::byte> body = encode(key);
  if (body.size() > kInlineMax) {
    return Status(Code::kUnsupported, "a key of " + std::to_string(key.slices.size()) +
                                          " slices; split the tensor into several keys");
  }
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    auto item = make_item(RequestKind::kCreate, {}, body);
    item->request.key = key.key;
    enqueue(server, std::move(item));
  }
  return {};
}

std::shared_ptr<WorkState> Client::restore(const KeyDescription& key, std::size_t server,
                                           std::size_t slice,
                                           std::shared_ptr<std::vector<std::byte>> state,
                                           const Call& call) {
  auto joined = join({"restore of", key.name}, 1);
  auto work = joined->work();
  auto item = make_item(RequestKind::kRestore, call);
  item->request.key = key.key;
  item->request.slice = static_cast<std::uint32_t>(slice);
  item->request.count = state->size();
  item->request.separate = true;
  item->payload = state->data();
  item->payload_bytes = state->size();
  item->keep = std::move(state);
  item->sent = joined;
  enqueue(server, std::move(item));
  return work;
}

}  // namespace syncline::ps
