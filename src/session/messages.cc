// Communicator: send and recv.
#include <algorithm>

#include "session/communicator_impl.h"

namespace syncline {
namespace {

[[noreturn]] void refuse_message(bool sends, const std::string& why,
                                 Code code = Code::kInvalidArgument) {
  throw Error(Status(code, why).with_operation(sends ? "send" : "recv"));
}

}  // namespace

std::shared_ptr<WorkState> Communicator::Impl::start_message(exec::MessageRequest request,
                                                             const ConstTensorView& view,
                                                             const CallOptions& options) {
  const bool sends = request.sends;
  if (view.device().kind != DeviceKind::kCpu) {
    refuse_message(sends, "CUDA tensors are not supported yet; move the tensor to the CPU",
                   Code::kUnsupported);
  }
  if (view.data() == nullptr && view.count() != 0) refuse_message(sends, "null data pointer");
  if (request.peer >= size() || (request.peer < 0 && (sends || request.peer != kAnySource))) {
    refuse_message(sends, "rank " + std::to_string(request.peer) + " is outside this group of " +
                              std::to_string(size()));
  }
  if (request.tag < 0 && (sends || request.tag != kAnyTag)) {
    refuse_message(sends, "tag " + std::to_string(request.tag) + ": use 0 or a larger number");
  }
  if (options.weight >= 0 || !options.schedule.empty()) {
    refuse_message(sends, "weights and schedules are for collectives");
  }
  request.group = group_.get();
  request.data = const_cast<void*>(view.data());
  request.count = view.count();
  request.type = view.type();
  request.segment_bytes = std::min<std::size_t>(context_->staging.segment_bytes_max, 128 << 10);
  request.timeout =
      options.timeout.count() > 0 ? options.timeout.count() * kMillisecond : context_->timeout;
  return launch(std::move(request));
}

Work Communicator::send(ConstTensorView in, int destination, int tag, const CallOptions& options) {
  exec::MessageRequest request;
  request.sends = true;
  request.peer = destination;
  request.tag = tag;
  return Work(usable(impl_).start_message(std::move(request), in, options));
}

ReceiveWork Communicator::recv(TensorView out, int source, int tag, const CallOptions& options) {
  auto info = std::make_shared<MessageInfo>();
  exec::MessageRequest request;
  request.peer = source;
  request.tag = tag;
  request.info = info;
  return {usable(impl_).start_message(std::move(request), out, options), info};
}

}  // namespace syncline
