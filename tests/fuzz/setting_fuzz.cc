// Small texts that come from the environment, from files and from Slurm.
#include "cluster/interfaces.h"
#include "cluster/key.h"
#include "cluster/rendezvous_file.h"
#include "cluster/slurm.h"
#include "tests/fuzz/fuzz_target.h"
#include "transport/tcp/address.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text = fuzz::text_of(data + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      if (auto file = cluster::parse_rendezvous_file(text)) {
        // Writing replaces control characters, once.
        const std::string written = cluster::format(*file);
        const auto again = cluster::parse_rendezvous_file(written);
        fuzz::require(again && cluster::format(*again) == written,
                      "a rendezvous file reads back as it was written");
      }
      break;
    case 1:
      if (auto key = cluster::JobKey::parse(text); key.ok()) {
        const auto again = cluster::JobKey::parse(key->line());
        fuzz::require(again.ok() && again->bytes() == key->bytes(), "a key reads back");
      }
      break;
    case 2:
      if (auto hosts = cluster::expand_nodelist(text); hosts.ok())
        fuzz::require(hosts->size() <= cluster::kSlurmEntriesMax, "node lists are bounded");
      break;
    case 3:
      if (auto tasks = cluster::expand_tasks_per_node(text); tasks.ok())
        fuzz::require(tasks->size() <= cluster::kSlurmEntriesMax, "task lists are bounded");
      break;
    case 4:
      (void)cluster::InterfaceFilter::parse(text);
      break;
    default:
      (void)transport::tcp::parse_host_port(text);
  }
  return 0;
}
