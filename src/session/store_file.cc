#include "session/store_file.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "ps/update.h"

namespace syncline::session {
namespace {

using nlohmann::json;
using optim::Kind;
using optim::Optimizer;

constexpr int kStoreVersion = 1;

// By the numbers of optim::Kind, from 1.
constexpr const char* kOptimizerNames[] = {"sgd",  "adam", "adamw",           "adagrad", "rmsprop",
                                           "lars", "lamb", "rowwise_adagrad", "custom"};
constexpr const char* kInitNames[] = {"constant", "uniform", "normal"};

struct Number {
  const char* name;
  double (Optimizer::*get)() const;
  Optimizer& (Optimizer::*set)(double);
};
constexpr Number kNumbers[] = {
    {"lr", &Optimizer::lr, &Optimizer::lr},
    {"weight_decay", &Optimizer::weight_decay, &Optimizer::weight_decay},
    {"momentum", &Optimizer::momentum, &Optimizer::momentum},
    {"dampening", &Optimizer::dampening, &Optimizer::dampening},
    {"eps", &Optimizer::eps, &Optimizer::eps},
    {"alpha", &Optimizer::alpha, &Optimizer::alpha},
    {"lr_decay", &Optimizer::lr_decay, &Optimizer::lr_decay},
    {"initial_accumulator", &Optimizer::initial_accumulator, &Optimizer::initial_accumulator},
    {"trust_coefficient", &Optimizer::trust_coefficient, &Optimizer::trust_coefficient}};

json json_of(const Optimizer& optimizer) {
  json out = {{"kind", optimizer_name(optimizer.kind())},
              {"beta1", optimizer.beta1()},
              {"beta2", optimizer.beta2()},
              {"custom_id", optimizer.custom_id()},
              {"nesterov", optimizer.nesterov()},
              {"centered", optimizer.centered()}};
  for (const Number& number : kNumbers) out[number.name] = (optimizer.*number.get)();
  return out;
}

template <std::size_t N>
int place_of(const char* const (&names)[N], const std::string& name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<int>(i);
  }
  return -1;
}

// Throws json::exception.
std::optional<Optimizer> optimizer_of(const json& from) {
  if (from.is_null()) return std::nullopt;
  const int kind = place_of(kOptimizerNames, from.at("kind").get<std::string>());
  if (kind < 0) throw json::other_error::create(501, "an unknown optimiser", &from);
  Optimizer optimizer = *ps::blank_optimizer(static_cast<Kind>(kind + 1));
  for (const Number& number : kNumbers) {
    (optimizer.*number.set)(from.at(number.name).get<double>());
  }
  optimizer.betas(from.at("beta1").get<double>(), from.at("beta2").get<double>());
  optimizer.custom_id(from.at("custom_id").get<std::uint32_t>());
  optimizer.nesterov(from.at("nesterov").get<bool>()).centered(from.at("centered").get<bool>());
  if (!ps::check(optimizer).ok()) {
    throw json::other_error::create(501, "an impossible optimiser", &from);
  }
  return optimizer;
}

json json_of(const ps::KeyDescription& key) {
  if (!key.table)
    return {{"name", key.name}, {"dtype", to_string(key.dtype)}, {"count", key.count}};
  const auto init = static_cast<std::size_t>(key.init.kind);
  json out = {{"name", key.name},
              {"dim", key.count},
              {"rows_max", key.rows_max},
              {"init",
               {{"kind", kInitNames[init]},
                {"a", key.init.a},
                {"b", key.init.b},
                {"seed", key.init.seed}}}};
  out["optimizer"] = key.optimizer.has_value() ? json_of(*key.optimizer) : json();
  return out;
}

// Throws json::exception.
ps::KeyDescription key_of(const json& from) {
  ps::KeyDescription key;
  key.name = from.at("name").get<std::string>();
  key.table = from.contains("dim");
  key.count = from.at(key.table ? "dim" : "count").get<std::uint64_t>();
  bool sound = !key.name.empty() && key.name.size() <= ps::kKeyNameMax;
  if (key.table) {
    key.rows_max = from.at("rows_max").get<std::uint64_t>();
    key.optimizer = optimizer_of(from.at("optimizer"));
    const json& init = from.at("init");
    const int kind = place_of(kInitNames, init.at("kind").get<std::string>());
    key.init = {static_cast<ps::RowInit::Kind>(kind), init.at("a").get<double>(),
                init.at("b").get<double>(), init.at("seed").get<std::uint64_t>()};
    sound = sound && kind >= 0 && key.count >= 1 && key.count <= ps::kRowElementsMax;
  } else {
    int type = 0;
    const std::string name = from.at("dtype").get<std::string>();
    while (type < kDTypeCount && name != to_string(static_cast<DType>(type))) ++type;
    sound = sound && type < kDTypeCount;
    key.dtype = static_cast<DType>(type);
  }
  if (!sound) throw json::other_error::create(501, "an impossible key", &from);
  return key;
}

}  // namespace

const char* optimizer_name(Kind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind) - 1];
}

std::string to_json(const StoreContents& contents) {
  json out = {{"version", kStoreVersion}, {"keys", json::array()}};
  out["optimizer"] = contents.optimizer.has_value() ? json_of(*contents.optimizer) : json();
  for (const auto& key : contents.keys) out["keys"].push_back(json_of(key));
  return out.dump();
}

Result<StoreContents> store_from_json(const std::string& text) {
  try {
    const json from = json::parse(text);
    const int version = from.at("version").get<int>();
    if (version != kStoreVersion) {
      return Status(Code::kUnsupported, "a store of version " + std::to_string(version) +
                                            "; this release reads " +
                                            std::to_string(kStoreVersion));
    }
    StoreContents contents;
    contents.optimizer = optimizer_of(from.at("optimizer"));
    for (const json& key : from.at("keys")) contents.keys.push_back(key_of(key));
    return contents;
  } catch (const json::exception&) {
    return Status(Code::kCorrupt, "its description of the store does not verify");
  }
}

std::vector<std::string> slot_names(const std::string& key, const Optimizer& optimizer) {
  const std::string at = key + "@";
  switch (optimizer.kind()) {
    case Kind::kSgd:
      if (optimizer.momentum() == 0) return {};
      return {at + "momentum_buffer"};
    case Kind::kLars:
      return {at + "momentum_buffer"};
    case Kind::kAdam:
    case Kind::kAdamW:
    case Kind::kLamb:
      return {at + "exp_avg", at + "exp_avg_sq"};
    case Kind::kAdagrad:
    case Kind::kRowwiseAdagrad:
      return {at + "sum"};
    case Kind::kCustom: {
      std::vector<std::string> slots;
      for (std::size_t i = 0; i < ps::slot_count(optimizer); ++i) {
        slots.push_back(at + "slot" + std::to_string(i));
      }
      return slots;
    }
    case Kind::kRmsprop:
      break;
  }
  std::vector<std::string> names{at + "square_avg"};
  if (optimizer.centered()) names.push_back(at + "grad_avg");
  if (optimizer.momentum() > 0) names.push_back(at + "momentum_buffer");
  return names;
}

std::string step_name(const std::string& key) { return key + "@step"; }
std::string ids_name(const std::string& table) { return table + "@ids"; }

}  // namespace syncline::session
