// What main() and the subcommands share.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace syncline::tools {

// Filled while the command line is parsed; main() then runs `action`.
struct Invocation {
  bool quiet = false;
  std::string color = "auto";
  std::function<int()> action;  // returns the exit code

  // Colour on this descriptor? --color, then NO_COLOR, then whether it is a terminal.
  bool use_color(int fd) const;
};

// Adds --quiet and --color.
void add_output_options(CLI::App& app, Invocation& invocation);

// Prints "syncline: <text>" on stderr and returns `code`.
int complain(int code, const std::string& text);

// Brings the arguments of a subcommand into the form CLI11 understands: "-np" becomes "--np", and
// "--nproc_per_node" becomes "--nproc-per-node". Stops at "--" or, if the subcommand runs a
// program, at the program's name.
std::vector<std::string> normalize(const CLI::App& subcommand,
                                   const std::vector<std::string>& arguments, bool runs_program);

}  // namespace syncline::tools
