#include "syncline/status.h"

namespace syncline {

struct Status::Detail {
  Code code = Code::kInternal;
  std::string message;
  int peer = -1;
  std::uint64_t view = 0;
  std::string operation;
  std::shared_ptr<const Status> cause;
};

namespace {
const std::string kEmpty;
}  // namespace

const char* to_string(Code code) {
  static constexpr const char* kNames[] = {"ok",          "invalid_argument", "failed_precondition",
                                           "unsupported", "timeout",          "cancelled",
                                           "link_down",   "peer_lost",        "mismatch",
                                           "corrupt",     "exhausted",        "shutdown",
                                           "internal"};
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

Status::Status(Code code, std::string message) {
  if (code == Code::kOk) return;
  auto detail = std::make_shared<Detail>();
  detail->code = code;
  detail->message = std::move(message);
  detail_ = std::move(detail);
}

Code Status::code() const { return detail_ ? detail_->code : Code::kOk; }
const std::string& Status::message() const { return detail_ ? detail_->message : kEmpty; }
int Status::peer() const { return detail_ ? detail_->peer : -1; }
std::uint64_t Status::view() const { return detail_ ? detail_->view : 0; }
const std::string& Status::operation() const { return detail_ ? detail_->operation : kEmpty; }
const Status* Status::cause() const { return detail_ ? detail_->cause.get() : nullptr; }

Status Status::with(void (*edit)(Detail&, const void*), const void* argument) const {
  if (ok()) return {};
  auto detail = std::make_shared<Detail>(*detail_);
  edit(*detail, argument);
  Status copy;
  copy.detail_ = std::move(detail);
  return copy;
}

Status Status::with_peer(int rank) const {
  return with([](Detail& d, const void* v) { d.peer = *static_cast<const int*>(v); }, &rank);
}

Status Status::with_view(std::uint64_t view) const {
  return with([](Detail& d, const void* v) { d.view = *static_cast<const std::uint64_t*>(v); },
              &view);
}

Status Status::with_operation(std::string operation) const {
  return with([](Detail& d, const void* v) { d.operation = *static_cast<const std::string*>(v); },
              &operation);
}

Status Status::caused_by(const Status& cause) const {
  return with(
      [](Detail& d, const void* v) {
        d.cause = std::make_shared<const Status>(*static_cast<const Status*>(v));
      },
      &cause);
}

std::string Status::to_string() const {
  std::string text = syncline::to_string(code());
  if (!detail_) return text;
  if (!detail_->operation.empty()) text += ": " + detail_->operation;
  text += ": " + detail_->message;
  if (detail_->cause) text += "; caused by " + detail_->cause->to_string();
  return text;
}

Error::Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}

void throw_if_error(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace syncline
