// MPI's side of the comparison: built with mpicxx, run by mpirun.
#include <mpi.h>

#include "all_reduce.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const peers::Settings settings = peers::parse(argc, argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int result = peers::measure(
      settings, rank, ranks,
      [](float* data, std::size_t count) {
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      },
      [](double value) {
        MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        return value;
      });
  MPI_Finalize();
  return result;
}
