// What a key-value store's file says beside its tensors, and what these are called. Pure.
// docs/formats/store-file.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/request.h"

namespace syncline::session {

inline constexpr const char* kStoreMetadata = "kvstore";

struct StoreContents {
  std::optional<optim::Optimizer> optimizer;  // of tensors; each table has its own
  std::vector<ps::KeyDescription> keys;       // without slices, in the order of their numbers
};

std::string to_json(const StoreContents& contents);
Result<StoreContents> store_from_json(const std::string& text);  // kCorrupt, kUnsupported

// "adam", as files and messages have it.
const char* optimizer_name(optim::Kind kind);

// Names of tensors; slots are called as PyTorch calls them.
std::vector<std::string> slot_names(const std::string& key, const optim::Optimizer& optimizer);
std::string step_name(const std::string& key);
std::string ids_name(const std::string& table);

}  // namespace syncline::session
