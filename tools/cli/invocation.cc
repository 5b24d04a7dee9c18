#include "tools/cli/invocation.h"

#include <unistd.h>

#include <algorithm>

#include "CLI/CLI.hpp"
#include "base/env.h"
#include "fmt/format.h"

namespace syncline::tools {

bool Invocation::use_color(int fd) const {
  if (color != "auto") return color == "always";
  const auto no_color = env("NO_COLOR");
  if (no_color.has_value() && !no_color->empty()) return false;
  return isatty(fd) == 1 && env("TERM").value_or("") != "dumb";
}

void add_output_options(CLI::App& app, Invocation& invocation) {
  app.add_flag("-q,--quiet", invocation.quiet, "Print results and errors only");
  app.add_option("--color", invocation.color, "auto, always or never; NO_COLOR works too")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

int complain(int code, const std::string& text) {
  fmt::print(stderr, "syncline: {}\n", text);
  return code;
}

std::vector<std::string> normalize(const CLI::App& subcommand,
                                   const std::vector<std::string>& arguments, bool runs_program) {
  std::vector<std::string> result;
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (word == "--" || (!is_option && runs_program)) break;
    if (word == "-np") word = "--np";
    const std::size_t equals = word.find('=');
    if (word.starts_with("--")) {
      const auto end =
          equals == std::string::npos ? word.end() : word.begin() + static_cast<long>(equals);
      std::replace(word.begin(), end, '_', '-');
    }
    result.push_back(word);
    if (!is_option || equals != std::string::npos) continue;
    const CLI::Option* const option = subcommand.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_min() > 0 && i + 1 < arguments.size()) {
      result.push_back(arguments[++i]);
    }
  }
  // CLI11 would read on behind a "--" that stands before the program.
  if (runs_program && i < arguments.size() && arguments[i] == "--") ++i;
  result.insert(result.end(), arguments.begin() + static_cast<long>(i), arguments.end());
  return result;
}

}  // namespace syncline::tools
