/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_bench OP SIZES: MPI's collectives; started by mpirun. Rank 0 prints one JSON object. f32 sums; sizes are those of
 * the largest buffer, as hccl-perf has them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As kWarmup of Ranks.h. */
#define WARMUP 20

static float *in, *out;

static int call(const char* op, int count, int ranks) {
  int part = count / ranks;
  if (!strcmp(op, "all_reduce")) return MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (!strcmp(op, "all_gather")) return MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  if (!strcmp(op, "all_to_all")) return MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  if (!strcmp(op, "broadcast")) return MPI_Bcast(in, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  if (!strcmp(op, "reduce")) return MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (!strcmp(op, "reduce_scatter")) return MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return -1;
}

int main(int argc, char** argv) {
  int rank, ranks, first = 1;
  char* at;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3) {
    if (rank == 0) fprintf(stderr, "usage: mpirun -n RANKS mpi_bench OP SIZE,SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) printf("{\"library\": \"openmpi\", \"op\": \"%s\", \"ranks\": %d, \"results\": [", argv[1], ranks);
  for (at = argv[2]; *at; first = 0) {
    size_t bytes = strtoull(at, &at, 10), count = bytes / sizeof(float), i;
    int iterations = bytes <= (4u << 20) ? 100 : 20, k;
    double start, mine, slowest = 0;
    if (*at == ',') ++at;
    in = malloc(bytes + 64);
    out = malloc(bytes + 64);
    if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 1);
    for (i = 0; i < count; ++i) in[i] = out[i] = 1;
    for (k = 0; k < WARMUP; ++k)
      if (call(argv[1], (int)count, ranks) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (k = 0; k < iterations; ++k) call(argv[1], (int)count, ranks);
    mine = (MPI_Wtime() - start) * 1e6 / iterations;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s{\"bytes\": %zu, \"us\": %.3f}", first ? "" : ", ", bytes, slowest);
    free(in);
    free(out);
  }
  if (rank == 0) printf("]}\n");
  MPI_Finalize();
  return 0;
}
