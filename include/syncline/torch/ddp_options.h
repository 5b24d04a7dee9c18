// DdpOptions: settings of one DistributedDataParallel.
#ifndef SYNCLINE_TORCH_DDP_OPTIONS_H_
#define SYNCLINE_TORCH_DDP_OPTIONS_H_

#include <chrono>
#include <string>
#include <utility>

namespace syncline {

// Every rank must give the same values; a difference is an error of the constructor (kMismatch).
// Setters chain: DdpOptions().bucket_cap_mb(25).schedule("ring").
class DdpOptions {
 public:
  // Size at which a bucket is closed, MiB. SYNCLINE_BUCKET_CAP_MB overrides it.
  double bucket_cap_mb() const { return bucket_cap_mb_; }
  DdpOptions& bucket_cap_mb(double v) { return bucket_cap_mb_ = v, *this; }

  // The same for the first bucket of each type: small, so that the exchange starts early.
  double first_bucket_mb() const { return first_bucket_mb_; }
  DdpOptions& first_bucket_mb(double v) { return first_bucket_mb_ = v, *this; }

  // Before the first forward after each synchronised backward, rank 0's buffers (running statistics
  // of BatchNorm) replace those of the other ranks.
  bool broadcast_buffers() const { return broadcast_buffers_; }
  DdpOptions& broadcast_buffers(bool v) { return broadcast_buffers_ = v, *this; }

  // .grad becomes a view of the bucket: saves the copy back and one gradient's memory. The price:
  // the bucket is reduced in place, so .grad is undefined after a failed backward.
  bool gradient_as_bucket_view() const { return gradient_as_bucket_view_; }
  DdpOptions& gradient_as_bucket_view(bool v) { return gradient_as_bucket_view_ = v, *this; }

  // Schedule of every bucket, by a name of CallOptions::schedule; "" = the planner's choice.
  const std::string& schedule() const { return schedule_; }
  DdpOptions& schedule(std::string v) { return schedule_ = std::move(v), *this; }

  // Prefix of operation names in messages and traces; "" = "ddp0", "ddp1", ...
  const std::string& name() const { return name_; }
  DdpOptions& name(std::string v) { return name_ = std::move(v), *this; }

  // Deadline of one collective; 0 = the session's.
  std::chrono::milliseconds timeout() const { return timeout_; }
  DdpOptions& timeout(std::chrono::milliseconds v) { return timeout_ = v, *this; }

 private:
  double bucket_cap_mb_ = 25;
  double first_bucket_mb_ = 1;
  bool broadcast_buffers_ = true;
  bool gradient_as_bucket_view_ = false;
  std::string schedule_;
  std::string name_;
  std::chrono::milliseconds timeout_{0};
};

}  // namespace syncline

#endif  // SYNCLINE_TORCH_DDP_OPTIONS_H_
