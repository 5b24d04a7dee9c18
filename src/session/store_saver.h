// StoreSaver: a store's values and optimiser state into one file, piece by piece, by worker 0.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "ps/slice_state.h"
#include "session/store_clients.h"
#include "session/store_file.h"

namespace syncline::session {

// Confined; blocks.
class StoreSaver {
 public:
  // `contents`: keys with their slices.
  StoreSaver(const StoreClients& clients, const StoreContents& contents,
             const ps::Client::Call& call);
  Status save(const std::string& path);

 private:
  struct Piece {
    std::size_t key = 0, server = 0, slice = 0;
    std::uint64_t first_row = 0;
    ps::Client::State state;
  };
  struct Table {
    std::vector<std::uint64_t> rows;  // by server
    std::uint64_t before(std::size_t server) const;
    std::uint64_t all() const { return before(rows.size()); }
  };
  const ps::KeyDescription& key_at(const Piece& piece) const { return contents_.keys[piece.key]; }
  std::vector<std::string> slots_of(const ps::KeyDescription& key) const;
  Piece ask(Piece piece);
  Status wait(const Piece& piece);
  Status count_rows();
  std::vector<checkpoint::StoredTensor> layout();
  Status write(const Piece& piece);
  Status write_slice(const Piece& piece, const ps::StateHeader& header);
  Status write_rows(const Piece& piece, const ps::StateHeader& header);
  Status put(const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  Status write_steps();
  std::vector<Piece> pieces() const;

  ps::Client& client_of(const ps::KeyDescription& key) const {
    return key.table ? *clients_.tables : *clients_.tensors;
  }

  const StoreClients& clients_;
  const StoreContents& contents_;
  const ps::Client::Call call_;
  std::map<std::size_t, Table> tables_;         // by key
  std::map<std::size_t, std::uint64_t> steps_;  // of dense keys
  std::map<std::string, std::size_t> tensors_;  // by name
  std::unique_ptr<checkpoint::TensorFileWriter> file_;
};

}  // namespace syncline::session
