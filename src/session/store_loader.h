// StoreLoader: a store's keys out of a file, to any number of servers, by worker 0.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "session/store_clients.h"

namespace syncline::session {

// Confined; blocks.
class StoreLoader {
 public:
  // Both outlive it.
  StoreLoader(const StoreClients& clients, const checkpoint::TensorFileReader& file,
              const ps::Client::Call& call)
      : clients_(clients), file_(file), call_(call) {}

  // Makes the key, whose slices are chosen, on all servers and gives it what the file has.
  // `optimizer`: of tensors, what their state is for.
  Status load(const ps::KeyDescription& key, const std::optional<optim::Optimizer>& optimizer);

 private:
  using Bytes = std::shared_ptr<std::vector<std::byte>>;

  Status load_slices(const ps::KeyDescription& key, const std::vector<std::string>& slots);
  Status load_rows(const ps::KeyDescription& table, const std::vector<std::string>& slots);
  // kCorrupt: not there, or of another type or length.
  Result<std::span<const std::byte>> tensor(const std::string& name, DType type,
                                            std::uint64_t count) const;
  Status send(const ps::KeyDescription& key, std::size_t server, std::size_t slice, Bytes state);
  // Waits until so many pieces are on their way at most.
  Status drain(std::size_t pieces);

  ps::Client& client_of(const ps::KeyDescription& key) const {
    return key.table ? *clients_.tables : *clients_.tensors;
  }

  const StoreClients& clients_;
  const checkpoint::TensorFileReader& file_;
  const ps::Client::Call call_;
  std::deque<std::shared_ptr<WorkState>> under_way_;
};

}  // namespace syncline::session
