// Bandwidths of collectives as nccl-tests defines them. Pure.
//
// algbw = bytes / time, where bytes is the size of the whole vector: what every rank ends with for
// all_reduce, all_gather, broadcast; what every rank starts with for reduce_scatter and reduce.
// busbw = algbw * factor, comparable with the speed of a link: 2(n-1)/n for all_reduce, (n-1)/n for
// reduce_scatter, all_gather and all_to_all, 1 for broadcast and reduce. 1 GB = 1e9 bytes.
#pragma once

#include <string_view>
#include <vector>

namespace syncline::tools {

// `operation` by its name, "all_reduce" to "all_to_all"; 0 for a barrier or an unknown name.
double bus_factor(std::string_view operation, int ranks);

struct Bandwidth {
  double algbw_gbs = 0;
  double busbw_gbs = 0;
};
Bandwidth bandwidth(std::string_view operation, int ranks, double bytes, double seconds);

// The value below which `fraction` of the samples lie, by nearest rank; 0 for no samples.
double percentile(std::vector<double> samples, double fraction);

}  // namespace syncline::tools
