// TablePart: the rows of a table that live on one server. A row comes to be when it is first asked
// for or pushed to, from (seed, table, id) alone, so that it is the same on any number of servers.
#pragma once

#include <map>
#include <unordered_map>

#include "ps/part.h"
#include "ps/update.h"

namespace syncline::ps {

// Which server has the row.
int server_of_row(std::int64_t id, int servers);
// Of the table's name.
std::uint64_t table_seed(const std::string& table);
// The values of a new row.
void fill_row(const RowInit& init, std::uint64_t table_seed, std::int64_t id, float* row,
              std::size_t count);

// Confined. f32. The client sums the gradients of ids that repeat in a push. Contributions to a
// row are added in the order of the canonical sum over the workers, as CanonicalSum does.
class TablePart : public Part {
 public:
  TablePart(int workers, const Rules& rules, bool immediate, KeyDescription key, Buffers& buffers);

  bool is_table() const override { return true; }
  bool has_value() const override { return true; }
  Result<std::size_t> push_bytes(const Request& push) const override;
  void keep(Contribution contribution) override;
  bool close(std::uint64_t clock, const UpdateRule& rule) override;
  void apply(Contribution contribution, const UpdateRule& rule) override;
  Result<Answer> answer(const WaitingPull& pull) override;
  Answer state(const Request& request, const UpdateRule& rule) override;
  bool takes_state(std::uint64_t bytes) const override;
  Status restore(std::span<const std::byte> state) override;
  PartSizes sizes() const override;

  // Of the answer to a pull.
  std::size_t pull_bytes(std::size_t rows) const { return rows * dim() * sizeof(float); }
  // An id that the table cannot have; empty if all are fine.
  std::string refuse_ids(const std::int64_t* ids, std::size_t count) const;

 private:
  struct Row {
    std::vector<float> values;  // then the optimiser's slots, one behind the other
    std::uint64_t steps = 0;
  };
  struct Share {  // of one row, by one push
    int layer;
    int worker;
    const float* gradient;
    double samples;
  };
  std::size_t dim() const { return static_cast<std::size_t>(key_.count); }
  std::size_t slots() const;
  Row& row(std::int64_t id);
  void step(Row& row, const float* gradient, const UpdateRule& rule, std::uint64_t age);
  void sum_shares(std::vector<Share>& shares, const UpdateRule& rule, std::vector<float>& sum);

  int workers_;
  KeyDescription key_;
  std::uint64_t seed_ = table_seed(key_.name);
  Buffers* buffers_;
  std::unordered_map<std::int64_t, Row> rows_;
  std::vector<std::int64_t> in_order_;  // ids, as their rows came to be
  std::map<std::uint64_t, std::vector<Contribution>> rounds_;
};

}  // namespace syncline::ps
