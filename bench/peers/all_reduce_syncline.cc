// Syncline's side of the comparison: run by `syncline run`.
#include "all_reduce.h"
#include "syncline/syncline.h"

int main(int argc, char** argv) {
  const peers::Settings settings = peers::parse(argc, argv);
  try {
    syncline::Session session = syncline::init();
    syncline::Communicator& world = session.world();
    return peers::measure(
        settings, world.rank(), world.size(),
        [&](float* data, std::size_t count) {
          world.all_reduce({data, count}).wait();
        },
        [&](double value) {
          world.broadcast({&value, 1}, 0).wait();
          return value;
        });
  } catch (const syncline::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
