// SPDX-License-Identifier: Apache-2.0
// Cases of the matrix with the ranks as processes, each with its own device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ChildProcess.h"
#include "RankRunner.h"

namespace hpu::collectives::testing {
namespace {

class MatrixProcesses : public ::testing::TestWithParam<int> {};
TEST_P(MatrixProcesses, GiveTheSame) {
  const int ranks = GetParam();
  // Every third of the cases.
  constexpr size_t kFirst = 1, kStep = 3;
  std::vector<Case> cases = pairwiseCases(chosenSeed(), ranks);
  const auto deadline = ChildProcess::Clock::now() + std::chrono::seconds(240);
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int rank = 0; rank < ranks; ++rank)
    children.push_back(std::make_unique<ChildProcess>(
        HPU_MATRIX_RANK, std::vector<std::string>{std::to_string(rank), std::to_string(ranks), std::to_string(kFirst),
                                                  std::to_string(kStep)}));
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
INSTANTIATE_TEST_SUITE_P(Ranks, MatrixProcesses, ::testing::Values(2, 3, 8));

}  // namespace
}  // namespace hpu::collectives::testing
