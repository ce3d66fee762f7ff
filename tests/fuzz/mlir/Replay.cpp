// SPDX-License-Identifier: Apache-2.0
// The functions of the tests in text, to be mutated: of files that hold several, each is one.
#include "tests/fuzz/Replay.h"

namespace {

std::vector<std::string> texts() {
  std::vector<std::string> out;
  std::error_code error;
  for (const char* folder : {"/tests/lit", "/tests/data", "/docs", "/tests/unit"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(HPU_SOURCE_DIR + std::string(folder), error)) {
      if (entry.path().extension() != ".mlir") continue;
      auto bytes = hpu::base::readFile(entry.path().string());
      if (!bytes.ok()) std::abort();
      const std::string text(bytes->begin(), bytes->end());
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find("// -----", at), text.size());
        if (end - at < 20000) out.push_back(text.substr(at, end - at));
        at = end + 8;
      }
    }
  // The other door.
  out.push_back(
      "func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>, %z: tensor<1xf32>) -> tensor<2x3x5xf32> {\n"
      "  %0 = tosa.matmul %a, %b, %z, %z : (tensor<2x3x4xf32>, tensor<2x4x5xf32>, tensor<1xf32>, tensor<1xf32>) -> "
      "tensor<2x3x5xf32>\n"
      "  %1 = tosa.tanh %0 : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>\n"
      "  return %1 : tensor<2x3x5xf32>\n}\n");
  out.push_back(
      "func.func @main(%x: tensor<2x8xf32>) -> tensor<8x2xf32> {\n"
      "  %s = tosa.const_shape {values = dense<[8, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
      "  %0 = tosa.reshape %x, %s : (tensor<2x8xf32>, !tosa.shape<2>) -> tensor<8x2xf32>\n"
      "  return %0 : tensor<8x2xf32>\n}\n");
  out.push_back(
      "func.func @main(%x: tensor<4x6xf32>, %i: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], "
      "iterator_types = "
      "[\"parallel\", \"reduction\"]} ins(%x : tensor<4x6xf32>) outs(%i : tensor<4xf32>) {\n"
      "  ^bb0(%a: f32, %b: f32):\n    %s = arith.addf %a, %b : f32\n    linalg.yield %s : f32\n  } -> tensor<4xf32>\n"
      "  return %0 : tensor<4xf32>\n}\n");
  out.push_back(
      "func.func @main(%x: tensor<4x6xf32>, %y: tensor<6x5xf32>) -> tensor<4x5xf32> {\n"
      "  %c = arith.constant 0.0 : f32\n  %e = tensor.empty() : tensor<4x5xf32>\n"
      "  %f = linalg.fill ins(%c : f32) outs(%e : tensor<4x5xf32>) -> tensor<4x5xf32>\n"
      "  %0 = linalg.matmul ins(%x, %y : tensor<4x6xf32>, tensor<6x5xf32>) outs(%f : tensor<4x5xf32>) -> "
      "tensor<4x5xf32>\n"
      "  return %0 : tensor<4x5xf32>\n}\n");
  return out;
}

/// A word of the text in place of another one: names of ops, types and values that there are.
void anotherWord(hpu::fuzz::Input& input, hpu::fuzz::Random& random) {
  constexpr std::string_view kEnds = " \n\t,()<>{}[]:=";
  const auto word = [&]() -> std::pair<size_t, size_t> {
    const size_t begin = input.bytes.find_first_not_of(kEnds, random() % input.bytes.size());
    if (begin == std::string::npos) return {0, 0};
    return {begin, std::min(input.bytes.find_first_of(kEnds, begin), input.bytes.size()) - begin};
  };
  const auto [from, length] = word();
  const std::string text = input.bytes.substr(from, length);
  const auto [to, other] = word();
  input.bytes.replace(to, other, text);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "mlir",
                 .samples = inputsOf(texts()),
                 .edits = {anotherWord, anotherWord, anotherNumber, anotherNumber, anotherByte, cutOff, eraseSome,
                           insertRun, repeatPiece}});
}
