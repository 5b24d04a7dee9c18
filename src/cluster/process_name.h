// What a process of a job is called. The W workers of a job and its S servers have one numbering,
// workers first: worker r is number r, server s is number W + s. Ranks are numbers of workers.
#pragma once

#include <string>

namespace syncline::cluster {

// "rank 3" or "server 1".
inline std::string process_name(int number, int workers) {
  return number < workers ? "rank " + std::to_string(number)
                          : "server " + std::to_string(number - workers);
}

}  // namespace syncline::cluster
