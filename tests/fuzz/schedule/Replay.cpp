// SPDX-License-Identifier: Apache-2.0
// Right schedules and tables, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Export.h"

namespace {

using namespace hpu::collectives;

/// A small schedule of every algorithm and operation, and a table.
std::vector<std::string> texts() {
  std::vector<std::string> all{"Tall-reduce 8 * 0 64K mesh-one-shot 1 # x\nbroadcast * 4 16M * scatter-exchange *\n"};
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; ++c)
      for (int32_t ranks : {1, 2, 3}) {
        Problem problem{static_cast<Collective>(c), ranks, c == 8 ? 0 : 6};
        problem.destination = ranks - 1;
        if (!algorithm.accepts(problem)) continue;
        std::string text;
        for (const std::string& document : exportChakra(algorithm.make(problem, {2}), linkModel(hpu::Target::kGaudi2)))
          text += (text.empty() ? std::string() : std::string(1, '\0')) + document;
        all.push_back(text);
      }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "schedule",
                 .samples = inputsOf(texts()),
                 .edits = {anotherByte, cutOff, repeatPiece, eraseSome, anotherNumber, anotherNumber, anotherNumber,
                           anotherNumber},
                 .mostEdits = 3});
}
