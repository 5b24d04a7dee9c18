#pragma once

#include <string>

namespace syncline::tools {

// Version, compiler, transports and instruction set, one line each.
std::string version_text();

}  // namespace syncline::tools
