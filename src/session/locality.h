// Which processes of a job share a host.
#pragma once

#include <vector>

#include "cluster/rendezvous.h"

namespace syncline::session {

// Of some of the processes, the first ones of the view.
struct HostCount {
  int before = 0;  // on this process's host, with lower numbers
  int here = 0;    // on this process's host
  int max = 0;     // on the fullest host
  int hosts = 0;
};

struct Locality {
  HostCount workers;
  HostCount processes;            // servers too
  std::vector<int> host_of;       // by rank
  std::vector<int> server_hosts;  // by server
};

// `number`: this process.
Locality locality_of(const cluster::View& view, int number, int workers);

}  // namespace syncline::session
