// SPDX-License-Identifier: Apache-2.0
// copy_bench OP RANKS SIZES: how long plain memcpy takes for the bytes that an operation must at least read and write,
// on as many processes: the bound that memory sets to a shared-memory collective. One JSON object.
#include <cstring>

#include "Ranks.h"

namespace {

/// Bytes that one rank copies, (read + written) / 2, when every input is read where it lies and every output written
/// once: S is the largest buffer. Reductions of n inputs read n and write one.
double copiedBytes(const std::string& op, double size, double n) {
  double reads = 0, writes = 0;
  if (op == "all_reduce") {  // A part of each input, then the others' parts of the result.
    reads = size + (n - 1) / n * size;
    writes = size;
  } else if (op == "reduce_scatter") {
    reads = size;
    writes = size / n;
  } else if (op == "reduce") {  // Over all ranks: n inputs are read, one output written.
    reads = size;
    writes = size / n;
  } else {  // all_gather, all_to_all, broadcast: what a rank gets.
    reads = writes = size;
  }
  return (reads + writes) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: copy_bench OP RANKS SIZE,SIZE...\n");
    return 1;
  }
  std::string op = argv[1];
  int ranks = std::atoi(argv[2]);
  std::vector<size_t> sizes = wall::sizesOf(argv[3]);
  if (sizes.empty() || ranks < 1) return 1;
  size_t largest = 2 * *std::max_element(sizes.begin(), sizes.end());
  // Shared, as the devices' memory is.
  void* memory =
      mmap(nullptr, largest * static_cast<size_t>(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* all = static_cast<char*>(memory);
  return wall::forkRanks(ranks, [&](wall::Shared& shared, int rank) {
    // At the beginning of a page, as the other one: memcpy is slow at some distances on some CPUs.
    void* mine = mmap(nullptr, largest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine == MAP_FAILED) return 1;
    auto* own = static_cast<char*>(mine);
    std::memset(own, 1, largest);
    std::memset(all + static_cast<size_t>(rank) * largest, rank + 1, largest);
    pthread_barrier_wait(&shared.barrier);
    if (rank == 0)
      std::printf("{\"library\": \"memcpy\", \"op\": \"%s\", \"ranks\": %d, \"results\": [", op.c_str(), ranks);
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto bytes = static_cast<size_t>(copiedBytes(op, static_cast<double>(sizes[i]), ranks));
      const char* from = all + static_cast<size_t>((rank + 1) % ranks) * largest;
      double us = wall::timed(shared, rank, ranks, wall::iterationsFor(sizes[i]), [&] {
        std::memcpy(own, from, bytes);
        asm volatile("" : : "r"(own) : "memory");
      });
      if (rank == 0) std::printf("%s{\"bytes\": %zu, \"us\": %.3f}", i ? ", " : "", sizes[i], us);
    }
    if (rank == 0) std::printf("]}\n");
    return 0;
  });
}
