// SPDX-License-Identifier: Apache-2.0
// What a collective costs a C client that calls it and waits for it, one at a time: ranks are processes with a device
// each, as launchers start them. Prints microseconds an operation, of the slowest rank, for each way to wait.
// blocking_from_c.py runs it beside hccl-perf --blocking, which does the same through the C++ API.
#define _POSIX_C_SOURCE 200809L
#include <habanalabs/hccl.h>
#include <habanalabs/hpu_synapse_ext.h>
#include <habanalabs/synapse_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SYN(call)                                                                   \
  do {                                                                              \
    synStatus status_ = (call);                                                     \
    if (status_ != synSuccess) {                                                    \
      fprintf(stderr, "%s: synStatus %d: %s\n", #call, status_, hpuSynLastError()); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)
#define HCCL(call)                                                                           \
  do {                                                                                       \
    hcclResult_t result_ = (call);                                                           \
    if (result_ != hcclSuccess) {                                                            \
      fprintf(stderr, "%s: hcclResult %d: %s\n", #call, result_, hcclGetLastErrorMessage()); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

enum { kStream, kEvent, kDevice, kWays };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void rankProgram(int rank, int ranks, hcclUniqueId id, uint64_t bytes, int iterations, int out) {
  synDeviceId device;
  synStreamHandle stream;
  synEventHandle event;
  hcclComm_t comm;
  uint64_t from, to;
  double us[kWays];
  SYN(synInitialize());
  SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  SYN(synStreamCreateGeneric(&stream, device, 0));
  SYN(synEventCreate(&event, device, 0));
  SYN(synDeviceMalloc(device, bytes, 0, 0, &from));
  SYN(synDeviceMalloc(device, bytes, 0, 0, &to));
  SYN(synMemsetD32Async(from, 0, bytes / 4, stream));
  HCCL(hcclCommInitRank(&comm, ranks, id, rank));
  for (int way = 0; way < kWays; ++way) {
    double start = 0;
    HCCL(hcclBarrier(comm, stream));
    for (int i = -5; i < iterations; ++i) {
      if (i == 0) start = now();
      HCCL(hcclAllReduce((const void*)(uintptr_t)from, (void*)(uintptr_t)to, bytes / 4, hcclFloat32, hcclSum, comm,
                         stream));
      if (way == kStream) SYN(synStreamSynchronize(stream));
      if (way == kEvent) {
        SYN(synEventRecord(event, stream));
        SYN(synEventSynchronize(event));
      }
      if (way == kDevice) SYN(synDeviceSynchronize(device));
    }
    us[way] = (now() - start) / iterations;
  }
  if (write(out, us, sizeof us) != (ssize_t)sizeof us) exit(1);
  HCCL(hcclCommDestroy(comm));
  SYN(synDestroy());
}

int main(int argc, char** argv) {
  int ranks = argc > 1 ? atoi(argv[1]) : 2, iterations = argc > 3 ? atoi(argv[3]) : 200;
  uint64_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 1 << 20;
  int ids[2], results[2];
  if (ranks < 1 || iterations < 1 || bytes < 4 || pipe(ids) != 0 || pipe(results) != 0) {
    fprintf(stderr, "usage: %s [RANKS [BYTES [ITERATIONS]]]\n", argv[0]);
    return 2;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    hcclUniqueId id;
    if (rank == 0) {
      HCCL(hcclGetUniqueId(&id));
      for (int i = 1; i < ranks; ++i)
        if (write(ids[1], &id, sizeof id) != (ssize_t)sizeof id) exit(1);
    } else if (read(ids[0], &id, sizeof id) != (ssize_t)sizeof id) {
      exit(1);
    }
    rankProgram(rank, ranks, id, bytes, iterations, results[1]);
    exit(0);
  }
  close(results[1]);
  double slowest[kWays] = {0};
  int failed = 0, status = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    double us[kWays];
    if (read(results[0], us, sizeof us) != (ssize_t)sizeof us) break;
    for (int way = 0; way < kWays; ++way)
      if (us[way] > slowest[way]) slowest[way] = us[way];
  }
  while (wait(&status) > 0) failed |= status;
  if (failed) return 1;
  printf("{\"stream\": %.2f, \"event\": %.2f, \"device\": %.2f}\n", slowest[kStream], slowest[kEvent],
         slowest[kDevice]);
  return 0;
}
