// What main() of a rank program is: options as pairs, errors as one line and an exit code of the
// tools.
#pragma once

#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "syncline/status.h"
#include "tools/cli/exit_code.h"

namespace syncline::net {

using RankOptions = std::map<std::string, std::string>;

// `run` gets {"--count": "5"} of "--count 5". `name`: of the program, for its errors.
inline int rank_main(const char* name, int argc, char** argv, void (*run)(RankOptions options)) {
  RankOptions options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  try {
    run(std::move(options));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return tools::exit_code_of(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace syncline::net
