// SPDX-License-Identifier: Apache-2.0
// Recorded traces, to be mutated.
#include "tests/fuzz/Replay.h"
#include "tests/unit/trace/TraceFixture.h"

namespace {

/// Traces of a small program at each level.
std::vector<std::string> traces() {
  using namespace hpu::trace;
  hpu::base::TemporaryFolder folder;
  std::vector<std::string> out;
  Example example(3);
  for (Level level : {Level::kApi, Level::kNode, Level::kSlice}) {
    Options options;
    options.level = level;
    if (!start(options).ok()) std::abort();
    example.record();
    std::string path = folder.file("sample.hputrace");
    if (!stop(path).ok()) std::abort();
    auto bytes = hpu::base::readFile(path);
    if (!bytes.ok()) std::abort();
    out.emplace_back(bytes->begin(), bytes->end());
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "trace",
                 .samples = inputsOf(traces()),
                 .edits = {anotherByte, anotherBit, cutOff, insertRun, repeatPiece}});
}
