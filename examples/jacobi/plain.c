/* The same as jacobi.rs in plain MPI: `mpirun -n 4 plain COLUMNS STEPS [FILE]`. */
#include "step.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double first_value(long row, long column) {
  return row == 0 ? 1.0 : (double)((row * 7 + column * 13) % 101) / 128.0;
}

static void compute(const double *restrict from, double *restrict to, size_t columns, size_t rows) {
  size_t width = columns + 2;
  for (size_t row = 1; row <= rows; ++row)
    for (size_t at = row * width + 1; at <= row * width + columns; ++at)
      to[at] = jacobi_mean(from + at, width);
}

/* Exchanges the edge rows with the ranks above and below. */
static void exchange(double *cells, size_t columns, size_t rows, int above, int below) {
  size_t width = columns + 2;
  MPI_Request requests[4];
  MPI_Irecv(cells, (int)width, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(cells + (rows + 1) * width, (int)width, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(cells + width, (int)width, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(cells + rows * width, (int)width, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t columns = argc > 1 ? (size_t)atol(argv[1]) : 2048;
  int steps = argc > 2 ? atoi(argv[2]) : 200;
  size_t rows = columns / (size_t)size, width = columns + 2;
  size_t cells = (rows + 2) * width;
  double *from = malloc(cells * sizeof *from), *to = malloc(cells * sizeof *to);
  if (!from || !to) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t row = 0; row < rows + 2; ++row)
    for (size_t column = 0; column < width; ++column)
      from[row * width + column] = to[row * width + column] =
          first_value((long)(row + rows * (size_t)rank), (long)column);
  int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;

  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    compute(from, to, columns, rows);
    exchange(to, columns, rows, above, below);
    double *other = from;
    from = to;
    to = other;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double took = MPI_Wtime() - start;

  size_t part = rows * width;
  double *all = rank == 0 ? malloc(part * (size_t)size * sizeof *all) : NULL;
  if (rank == 0 && !all) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Gather(from + width, (int)part, MPI_DOUBLE, all, (int)part, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%.6f s for %d steps\n", took, steps);
    FILE *file = argc > 3 ? fopen(argv[3], "wb") : NULL;
    if (argc > 3 && (!file || fwrite(all, sizeof *all, part * (size_t)size, file) != part * (size_t)size || fclose(file)))
      MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(from);
  free(to);
  free(all);
  MPI_Finalize();
  return 0;
}
