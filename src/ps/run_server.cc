#include "ps/run_server.h"

#include <cstdint>

namespace syncline::ps {
namespace {

// Takes what the worker sends, and drops it, until nothing more can come.
void outlast(ServerLinks& links, const std::shared_ptr<exec::Group>& worker) {
  for (Status status; status.ok();) {
    std::uint8_t byte = 0;
    exec::MessageRequest request;
    request.group = worker.get();
    request.peer = kWorkerSide;
    request.tag = kAnyTag;
    request.data = &byte;
    request.count = 1;
    request.type = DType::kU8;
    const auto work = links.engine->submit(std::move(request));
    status = links.engine->wait(*work);
  }
}

}  // namespace

Status run_server(ServerLinks links) {
  for (const auto& worker : links.workers) outlast(links, worker);
  return {};
}

}  // namespace syncline::ps
