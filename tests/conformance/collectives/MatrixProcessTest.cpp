// SPDX-License-Identifier: Apache-2.0
// Cases of the matrix with the ranks as processes, each with its own device, on one node or on several.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ChildProcess.h"
#include "RankRunner.h"

namespace hpu::collectives::testing {
namespace {

/// By rank: the node. Every `step`-th case.
struct Layout {
  const char* name;
  std::vector<int> nodes;
  const char* network;  ///< HPU_COMM_NETWORK.
  size_t step;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

class MatrixProcesses : public ::testing::TestWithParam<Layout> {};
TEST_P(MatrixProcesses, GiveTheSame) {
  const Layout& layout = GetParam();
  const int ranks = static_cast<int>(layout.nodes.size());
  const bool several = *std::max_element(layout.nodes.begin(), layout.nodes.end()) > 0;
  const size_t kFirst = layout.step / 3, kStep = layout.step;
  ::setenv("HPU_COMM_NETWORK", layout.network, 1);
  std::vector<Case> cases = pairwiseCases(chosenSeed(), ranks);
  const auto deadline = ChildProcess::Clock::now() + std::chrono::seconds(240);
  std::vector<std::unique_ptr<ChildProcess>> children;
  std::vector<int> devices(static_cast<size_t>(ranks));  // Used, by node.
  for (int rank = 0; rank < ranks; ++rank) {
    const int node = layout.nodes[static_cast<size_t>(rank)];
    std::vector<std::string> arguments;
    for (int64_t number : {int64_t{rank}, int64_t{ranks}, static_cast<int64_t>(kFirst), static_cast<int64_t>(kStep),
                           int64_t{devices[static_cast<size_t>(node)]++}})
      arguments.push_back(std::to_string(number));
    if (several) arguments.push_back(std::to_string(node));
    children.push_back(std::make_unique<ChildProcess>(HPU_MATRIX_RANK, arguments));
  }
  auto first = children[0]->line(deadline);
  ASSERT_TRUE(first && first->rfind("id ", 0) == 0) << first.value_or("rank 0 says nothing");
  for (size_t rank = 1; rank < children.size(); ++rank) children[rank]->tell(first->substr(3));
  std::vector<std::vector<RankReport>> reports(cases.size(), std::vector<RankReport>(static_cast<size_t>(ranks)));
  size_t seen = 0;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    std::string last;
    while (auto line = children[rank]->line(deadline)) {
      last = *line;
      size_t index = 0;
      unsigned long long hash = 0;
      int textAt = 0;
      if (std::sscanf(line->c_str(), "case %zu %llu %n", &index, &hash, &textAt) < 2) continue;
      ASSERT_LT(index, cases.size());
      reports[index][rank].hash = hash;
      reports[index][rank].wrong = line->substr(std::min(line->size(), static_cast<size_t>(textAt)));
      ++seen;
    }
    EXPECT_EQ(last, "done") << "rank " << rank;
    EXPECT_EQ(children[rank]->wait(deadline), "exit 0") << "rank " << rank;
  }
  EXPECT_EQ(seen, static_cast<size_t>(ranks) * ((cases.size() - kFirst + kStep - 1) / kStep));
  for (size_t i = kFirst; i < cases.size(); i += kStep) {
    std::string wrong = combine(cases[i], reports[i]);
    EXPECT_TRUE(wrong.empty()) << cases[i].name() << "\n  " << wrong;
  }
}
std::string nameOf(const ::testing::TestParamInfo<Layout>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(OneNode, MatrixProcesses,
                         ::testing::Values(Layout{"r2", {0, 0}, "tcp", 3}, Layout{"r3", {0, 0, 0}, "tcp", 3},
                                           Layout{"r8", {0, 0, 0, 0, 0, 0, 0, 0}, "tcp", 3}),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Nodes, MatrixProcesses,
                         ::testing::Values(Layout{"tcp2x4", {0, 0, 0, 0, 1, 1, 1, 1}, "tcp", 1},
                                           Layout{"tcp3x2", {0, 0, 1, 1, 2, 2}, "tcp", 1},
                                           Layout{"tcpUnequal", {0, 1, 0, 1, 0}, "tcp", 2},
                                           Layout{"roce2x4", {0, 0, 0, 0, 1, 1, 1, 1}, "roce", 1},
                                           Layout{"roce3x2", {0, 0, 1, 1, 2, 2}, "roce", 1}),
                         nameOf);

}  // namespace
}  // namespace hpu::collectives::testing
