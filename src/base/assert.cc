#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace syncline {

void assertion_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "syncline: internal error at %s:%d: %s (%s). Please report it.\n", file,
               line, why, condition);
  std::abort();
}

}  // namespace syncline
