// SPDX-License-Identifier: Apache-2.0
// Tensors of every type, to be mutated.
#include "tests/fuzz/Replay.h"
#include "tools/common/TensorProtoIo.h"

namespace {

/// One field of protobuf: a tag, a length and bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}

std::vector<std::string> files() {
  using namespace hpu;
  std::vector<std::string> out;
  for (int e = 1; e <= static_cast<int>(ElementType::kF8E4M3Ieee); ++e)
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 4}, Shape{2, 3}}) {
      tools::HostTensor tensor;
      tensor.name = "t";
      tensor.type = {static_cast<ElementType>(e), shape};
      tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()), 1);
      const std::vector<uint8_t> bytes = tools::serializeTensorProto(tensor);
      out.emplace_back(bytes.begin(), bytes.end());
    }
  // Typed fields in place of raw data, for each type that has one; external data, and a segment.
  const std::string dims = number(1, 2);
  for (int type = 1; type <= 24; ++type) {
    const std::string head = dims + number(2, type);
    out.push_back(head + field(4, std::string(8, '\1')));
    out.push_back(head + field(5, "\1\2"));
    out.push_back(head + field(7, "\3\4"));
    out.push_back(head + field(10, std::string(16, '\1')));
    out.push_back(head + field(11, "\5\6"));
    out.push_back(head + field(6, "a") + field(6, "b"));
  }
  const std::string external = field(13, field(1, "location") + field(2, "w.bin"));
  out.push_back(dims + number(2, 1) + external + number(14, 1));
  out.push_back(dims + number(2, 1) + external + field(13, field(1, "offset") + field(2, "-3")) + number(14, 1));
  out.push_back(dims + number(2, 1) + field(3, number(1, 0) + number(2, 2)) + field(9, std::string(8, '\0')));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "tensor",
                 .samples = inputsOf(files()),
                 .edits = {anotherByte, anotherBit, cutOff, insertRun, repeatPiece, eraseSome}});
}
