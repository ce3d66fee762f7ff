// SPDX-License-Identifier: Apache-2.0
// Arrays of every type, and archives of them, to be mutated.
#include "tests/fuzz/Replay.h"
#include "tests/unit/base/TemporaryFolder.h"
#include "tools/common/Npy.h"

namespace {

std::vector<std::string> files() {
  using namespace hpu;
  std::vector<std::string> out;
  std::vector<tools::HostTensor> all;
  for (int e = 1; e <= static_cast<int>(ElementType::kF8E4M3Ieee); ++e)
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 4}, Shape{2, 3, 4}}) {
      tools::HostTensor tensor;
      tensor.name = "t" + std::to_string(all.size());
      tensor.type = {static_cast<ElementType>(e), shape};
      tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()), 1);
      const std::vector<uint8_t> bytes = tools::serializeNpy(tensor);
      out.emplace_back(bytes.begin(), bytes.end());
      all.push_back(std::move(tensor));
    }
  // In the other order of elements.
  std::string turned = out.back();
  if (const size_t at = turned.find("False"); at != std::string::npos) turned.replace(at, 5, "True ");
  out.push_back(turned);
  base::TemporaryFolder folder;
  for (size_t count : {size_t{0}, size_t{1}, size_t{5}, all.size()}) {
    const std::string path = folder.file("a.npz");
    if (!tools::writeNpz(path, {all.begin(), all.begin() + static_cast<ptrdiff_t>(count)}).ok()) std::abort();
    auto bytes = base::readFile(path);
    if (!bytes.ok()) std::abort();
    out.emplace_back(bytes->begin(), bytes->end());
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "npy",
                 .samples = inputsOf(files()),
                 .edits = {anotherByte, anotherBit, cutOff, insertRun, repeatPiece, anotherNumber, eraseSome}});
}
