/* SPDX-License-Identifier: Apache-2.0 */
/* A program as they are written for HCCL: every rank a process with a device of its own, HCCL_COMM_ID says where to
 * meet, only rank 0 has a real id, and nothing is included but the C headers. It forks four ranks, as a launcher would,
 * on as many nodes as its argument says (1). */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "habanalabs/hccl.h"
#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

#define RANKS 4
#define COUNT 5000

#define SYN(call)                                                \
  do {                                                           \
    if ((call) != synSuccess) {                                  \
      fprintf(stderr, "rank %d: %s\n", rank, hpuSynLastError()); \
      return 1;                                                  \
    }                                                            \
  } while (0)
#define HCCL(call)                                                       \
  do {                                                                   \
    if ((call) != hcclSuccess) {                                         \
      fprintf(stderr, "rank %d: %s\n", rank, hcclGetLastErrorMessage()); \
      return 1;                                                          \
    }                                                                    \
  } while (0)

static int runRank(int rank) {
  synDeviceId device;
  synStreamHandle stream;
  hcclUniqueId id;
  hcclComm_t comm;
  uint64_t buffer;
  static float host[COUNT];
  int i;

  SYN(synInitialize());
  SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi3));
  SYN(synStreamCreateGeneric(&stream, device, 0));
  memset(&id, 0, sizeof id);
  if (rank == 0) HCCL(hcclGetUniqueId(&id));
  HCCL(hcclCommInitRank(&comm, RANKS, id, rank));
  SYN(synDeviceMalloc(device, sizeof host, 0, 0, &buffer));
  for (i = 0; i < COUNT; ++i) host[i] = (float)(rank + i);
  SYN(synMemCopyAsync(stream, (uint64_t)(uintptr_t)host, sizeof host, buffer, HOST_TO_DRAM));
  HCCL(hcclAllReduce((const void*)(uintptr_t)buffer, (void*)(uintptr_t)buffer, COUNT, hcclFloat32, hcclSum, comm,
                     stream));
  SYN(synMemCopyAsync(stream, buffer, sizeof host, (uint64_t)(uintptr_t)host, DRAM_TO_HOST));
  SYN(synStreamSynchronize(stream));
  for (i = 0; i < COUNT; ++i)
    if (host[i] != (float)(RANKS * i + RANKS * (RANKS - 1) / 2)) {
      fprintf(stderr, "rank %d: element %d is %g\n", rank, i, host[i]);
      return 1;
    }
  HCCL(hcclCommDestroy(comm));
  SYN(synDestroy());
  return 0;
}

/* A port that nobody uses now. */
static int freePort(void) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  int port = -1, fd = socket(AF_INET, SOCK_STREAM, 0);
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && bind(fd, (struct sockaddr*)&address, sizeof address) == 0 &&
      getsockname(fd, (struct sockaddr*)&address, &length) == 0)
    port = ntohs(address.sin_port);
  if (fd >= 0) close(fd);
  return port;
}

int main(int argc, char** argv) {
  char where[64], node[96];
  const int nodes = argc > 1 ? atoi(argv[1]) : 1;
  const char* own = getenv("HPU_NODE");
  int rank, failed = 0, status;
  snprintf(where, sizeof where, "127.0.0.1:%d", freePort());
  setenv("HCCL_COMM_ID", where, 1);
  setenv("HPU_SIM_HBM_BYTES", "64M", 0);
  for (rank = 0; rank < RANKS; ++rank) {
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      snprintf(node, sizeof node, "%.64s.%d", own ? own : "rank_program", rank * nodes / RANKS);
      if (nodes > 1) setenv("HPU_NODE", node, 1);
      exit(runRank(rank));
    }
  }
  while (wait(&status) > 0) failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return failed;
}
