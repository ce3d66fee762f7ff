// SPDX-License-Identifier: Apache-2.0
// A rank in a process of its own: matrix_rank RANK RANKS FIRST STEP DEVICE [NODE] takes every STEP-th of the
// pairwise cases of RANKS ranks from the FIRST on, on that device of the node HPU_NODE.NODE. Rank 0 prints "id HEX",
// the others read that line; then "case INDEX HASH [what is wrong]" each, and "done".
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "RankRunner.h"
#include "UniqueIdText.h"

namespace {

using namespace hpu::collectives;

int fail(const hpu::Status& status) {
  std::printf("failed %s\n", status.toString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) return 2;
  if (argc == 7) {
    const char* own = std::getenv("HPU_NODE");
    ::setenv("HPU_NODE", (std::string(own ? own : "matrix") + "." + argv[6]).c_str(), 1);
  }
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  const auto first = static_cast<size_t>(std::atoi(argv[3]));
  const auto step = static_cast<size_t>(std::atoi(argv[4]));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<testing::Case> cases = testing::pairwiseCases(testing::chosenSeed(), ranks);

  hpu::DeviceOptions options;
  options.index = std::atoi(argv[5]);
  options.hbmBytes = int64_t{1} << 30;
  auto device = hpu::Device::open(options);
  if (!device.ok()) return fail(device.status());
  UniqueId id;
  if (rank == 0) {
    auto created = createUniqueId();
    if (!created.ok()) return fail(created.status());
    id = *created;
    std::printf("id %s\n", testing::idText(id).c_str());
  } else {
    std::string line;
    std::getline(std::cin, line);
    if (!testing::idFromText(line, id)) return 2;
  }
  auto comm = Communicator::create(id, rank, ranks, *device);
  if (!comm.ok()) return fail(comm.status());
  auto runner = testing::RankRunner::create(*comm, *device);
  if (!runner.ok()) return fail(runner.status());
  for (size_t i = first; i < cases.size(); i += step) {
    testing::RankReport report = runner->run(cases[i]);
    std::printf("case %zu %llu %s\n", i, static_cast<unsigned long long>(report.hash), report.wrong.c_str());
    if (report.broken) return 1;
  }
  if (hpu::Status status = comm->finalize(60000); !status.ok()) return fail(status);
  std::printf("done\n");
  return 0;
}
