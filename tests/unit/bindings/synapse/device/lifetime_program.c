// SPDX-License-Identifier: Apache-2.0
// A program that releases its device in an exit handler, and one that forks: where the library is called outside of the
// ordinary life of main's thread.
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

#define CHECK(call, wanted)                                                                              \
  do {                                                                                                   \
    synStatus status_ = (call);                                                                          \
    if (status_ != (wanted)) {                                                                           \
      fprintf(stderr, "%s:%d: %s gave %d: %s\n", __FILE__, __LINE__, #call, status_, hpuSynLastError()); \
      _exit(1);                                                                                          \
    }                                                                                                    \
  } while (0)

typedef struct {
  synDeviceId device;
  synStreamHandle stream;
  uint64_t memory;
} Owned;
static Owned owned;

static void acquire(Owned* o) {
  CHECK(synDeviceAcquireByDeviceType(&o->device, synDeviceGaudi2), synSuccess);
  CHECK(synStreamCreateGeneric(&o->stream, o->device, 0), synSuccess);
  CHECK(synDeviceMalloc(o->device, 4096, 0, 0, &o->memory), synSuccess);
}

static void use(const Owned* o, unsigned char value) {
  unsigned char back[64] = {0};
  CHECK(synMemsetD8Async(o->memory, value, sizeof back, o->stream), synSuccess);
  CHECK(synMemCopyAsync(o->stream, o->memory, sizeof back, (uint64_t)(uintptr_t)back, DRAM_TO_HOST), synSuccess);
  CHECK(synStreamSynchronize(o->stream), synSuccess);
  if (back[0] != value || back[63] != value) {
    fprintf(stderr, "wrong bytes on the device\n");
    _exit(1);
  }
}

static void failLongWindedly(void) {
  uint64_t none = 0;
  CHECK(synDeviceMalloc(owned.device, UINT64_C(1) << 60, 0, 0, &none), synOutOfDeviceMemory);
  if (!strstr(hpuSynLastError(), "largest holders")) _exit(1);
}

// C++ has destroyed the thread-local objects of this thread before it gets here.
static void atExit(void) {
  uint32_t count = 0;
  failLongWindedly();
  CHECK(synDeviceGetCountByDeviceType(&count, synDeviceGaudi2), synSuccess);
  use(&owned, 3);
  CHECK(synDeviceRelease(owned.device), synSuccess);
  acquire(&owned);
  use(&owned, 4);
  CHECK(synDestroy(), synSuccess);
}

/* How often the other threads were switched to and from; -1: one of them runs. */
static long switchesOfOthers(void) {
  long sum = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return -1;
  for (struct dirent* task; sum >= 0 && (task = readdir(tasks));) {
    char path[300], line[128];
    if (task->d_name[0] == '.' || atol(task->d_name) == (long)getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE* file = fopen(path, "r");
    while (sum >= 0 && file && fgets(line, sizeof line, file)) {
      const char* count = strstr(line, "ctxt_switches:");
      if (count) sum += atol(count + strlen("ctxt_switches:"));
      if (!strncmp(line, "State:", 6) && !strchr(line, 'S')) sum = -1;
    }
    if (file) fclose(file);
  }
  closedir(tasks);
  return sum;
}

/* What a thread that works has on its stack only is nobody's in a child, and looks leaked there. */
static void waitUntilOthersSleep(void) {
  const struct timespec moment = {0, 1000000};
  for (int tries = 0; tries < 30000; ++tries) {
    long before = switchesOfOthers();
    if (before >= 0 && switchesOfOthers() == before) return;
    nanosleep(&moment, NULL);
  }
  fprintf(stderr, "the library's threads do not come to rest\n");
  _exit(1);
}

static void inChild(void) {
  Owned mine;
  synStreamHandle parents = owned.stream;
  alarm(60);
  CHECK(synStreamSynchronize(parents), synInvalidArgument);
  CHECK(synMemsetD8Async(owned.memory, 0, 16, parents), synInvalidArgument);
  CHECK(synDeviceSynchronize(owned.device), synInvalidArgument);
  acquire(&mine);
  CHECK(synStreamSynchronize(parents), synInvalidArgument);
  use(&mine, 5);
  owned = mine;  // For the exit handler.
}

int main(void) {
  CHECK(synConfigurationSet("HPU_SIM_HBM_BYTES", "256M"), synSuccess);
  CHECK(synInitialize(), synSuccess);
  acquire(&owned);
  use(&owned, 1);
  failLongWindedly();
  if (atexit(atExit) != 0) return 1;
#ifdef __SANITIZE_THREAD__
  return 0;  // TSan ends a forked child of a program with threads as soon as it starts one.
#endif
  waitUntilOthersSleep();
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    inChild();
    return 0;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    fprintf(stderr, "the child ended with %#x\n", (unsigned)status);
    return 1;
  }
  use(&owned, 2);
  return 0;
}
