// SPDX-License-Identifier: Apache-2.0
// Ranks: local ranks as forked processes that meet at barriers in shared memory, for the programs that hccl-perf is
// compared with.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace wall {

inline constexpr int kMaxRanks = 64;
/// Calls before the timed ones; the same for all contenders: each maps memory when it first meets it.
inline constexpr int kWarmup = 20;

struct Shared {
  pthread_barrier_t barrier;
  double us[kMaxRanks];
};

/// The slowest rank's microseconds for one of `iterations` calls of `body`, after kWarmup of them. On every rank.
template <typename Body>
double timed(Shared& shared, int rank, int ranks, int iterations, Body&& body) {
  for (int i = 0; i < kWarmup; ++i) body();
  pthread_barrier_wait(&shared.barrier);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) body();
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  shared.us[rank] = took.count() / iterations;
  pthread_barrier_wait(&shared.barrier);
  double slowest = *std::max_element(shared.us, shared.us + ranks);
  pthread_barrier_wait(&shared.barrier);
  return slowest;
}

/// Forks `ranks` processes of `body(shared, rank)`; what rank 0 prints is the result. 0 when all succeed.
template <typename Body>
int forkRanks(int ranks, Body&& body) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || ranks < 1 || ranks > kMaxRanks) return 1;
  auto* shared = static_cast<Shared*>(memory);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      int result = body(*shared, rank);
      std::fflush(stdout);
      _exit(result);
    }
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return failed;
}

inline std::vector<size_t> sizesOf(const char* text) {
  std::vector<size_t> sizes;
  for (char* at = const_cast<char*>(text); *at;) {
    sizes.push_back(std::strtoull(at, &at, 10));
    if (*at == ',') ++at;
  }
  return sizes;
}

/// So many that the beginning and the end do not show. As ours() of compare.py and MpiBench.c.
inline int iterationsFor(size_t bytes) {
  return bytes <= (4u << 20) ? 100 : 20;
}

}  // namespace wall
