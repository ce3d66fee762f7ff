// SPDX-License-Identifier: Apache-2.0
// Bit casts in kernels: every code of the narrow types and difficult ones of f32 must come through as they are, whether
// a kernel only moves them or computes with them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "KernelHarness.h"

namespace hpu::kernels::test {
namespace {

struct Pair {
  ElementType number, bits;
  const char *numberName, *bitsName;
};
constexpr Pair kPairs[] = {
    {ElementType::kF32, ElementType::kI32, "f32", "i32"},
    {ElementType::kF32, ElementType::kU32, "f32", "ui32"},
    {ElementType::kBF16, ElementType::kI16, "bf16", "i16"},
    {ElementType::kF16, ElementType::kU16, "f16", "ui16"},
    {ElementType::kF8E4M3, ElementType::kI8, "f8E4M3FN", "i8"},
    {ElementType::kF8E5M2, ElementType::kU8, "f8E5M2", "ui8"},
    {ElementType::kF8E4M3Ieee, ElementType::kI8, "f8E4M3", "i8"},
    {ElementType::kF64, ElementType::kI64, "f64", "i64"},
};
constexpr int64_t kCount = 65536;

/// All codes of the narrow types; of f32 denormals, signalling NaNs and infinities among numbers from all over.
uint64_t code(const Pair& pair, int64_t i) {
  if (elementSize(pair.number) < 4) return static_cast<uint64_t>(i);
  if (elementSize(pair.number) == 8) return static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
  constexpr uint32_t kSpecial[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffffffff,
                                   0x00000001, 0x807fffff, 0x80000000, 0x7fc00000};
  return i < 8 ? kSpecial[i] : static_cast<uint32_t>(i) * 2654435761u;
}

void write(const Tensor& tensor, int64_t i, uint64_t value) {
  auto size = static_cast<size_t>(elementSize(tensor.type));
  std::memcpy(static_cast<uint8_t*>(tensor.origin()) + static_cast<size_t>(i) * size, &value, size);
}
uint64_t read(const Tensor& tensor, int64_t i) {
  auto size = static_cast<size_t>(elementSize(tensor.type));
  uint64_t value = 0;
  std::memcpy(&value, static_cast<uint8_t*>(tensor.origin()) + static_cast<size_t>(i) * size, size);
  return value;
}
uint64_t masked(ElementType type, uint64_t value) {
  return elementSize(type) == 8 ? value : value & ((uint64_t{1} << (8 * elementSize(type))) - 1);
}

/// Runs `body` on all variants; expected(code) of each element.
template <typename Expected>
void expectBits(const Pair& pair, const std::string& body, ElementType from, ElementType to, Expected expected) {
  Tensor x = Tensor::dense(from, {kCount});
  for (int64_t i = 0; i < kCount; ++i) write(x, i, code(pair, i));
  std::vector<Tensor> outputs = {Tensor::dense(to, {kCount})};
  Kernel kernel(body, {x}, outputs);
  ASSERT_TRUE(kernel.status().ok()) << kernel.status().message();
  for (int variant = 0; variant < kernel.variants(); ++variant) {
    for (int64_t i = 0; i < kCount; ++i) write(outputs[0], i, ~uint64_t{0});
    kernel.run(variant, {x}, outputs, {0}, {kCount});
    int64_t wrong = 0, first = 0;
    for (int64_t i = kCount; i-- > 0;)
      if (read(outputs[0], i) != expected(masked(from, code(pair, i)))) ++wrong, first = i;
    EXPECT_EQ(wrong, 0) << pair.numberName << ": first " << std::hex << masked(from, code(pair, first)) << " gives "
                        << read(outputs[0], first);
  }
}

TEST(Bitcast, MovesEveryCode) {
  for (const Pair& pair : kPairs) {
    auto same = [](uint64_t bits) { return bits; };
    expectBits(pair,
               std::string("%r = hpu.bitcast %0 {to = ") + pair.bitsName + "} : ($0) -> $out0\nhpu.yield %r : $out0",
               pair.number, pair.bits, same);
    expectBits(pair,
               std::string("%r = hpu.bitcast %0 {to = ") + pair.numberName + "} : ($0) -> $out0\nhpu.yield %r : $out0",
               pair.bits, pair.number, same);
  }
}

TEST(Bitcast, ComputesOnTheBitsBetweenTwoCasts) {
  for (const Pair& pair : kPairs) {
    std::string bits = "tensor<65536x" + std::string(pair.bitsName) + ">",
                number = "tensor<65536x" + std::string(pair.numberName) + ">";
    std::string body = "%a = hpu.bitcast %0 {to = " + std::string(pair.bitsName) + "} : ($0) -> " + bits +
                       "\n%b = hpu.bit_not %a : (" + bits + ") -> " + bits +
                       "\n%r = hpu.bitcast %b {to = " + pair.numberName + "} : (" + bits + ") -> " + number +
                       "\nhpu.yield %r : $out0";
    expectBits(pair, body, pair.number, pair.number, [&](uint64_t code) { return masked(pair.number, ~code); });
  }
}

TEST(Bitcast, TakesTheBitsOfTheRoundedValue) {
  // 1 + i / 256 of bf16: every second one lies between two numbers.
  Tensor x = Tensor::dense(ElementType::kBF16, {256}), y = Tensor::dense(ElementType::kBF16, {256});
  for (int64_t i = 0; i < 256; ++i) {
    x.set({i}, 1 + static_cast<double>(i / 2) / 128);
    y.set({i}, static_cast<double>(i % 2) / 256);
  }
  auto expected = [&](int, const Index& i) {
    Tensor rounded = Tensor::scalar(ElementType::kBF16, x.at(i) + y.at(i));
    uint16_t bits;
    std::memcpy(&bits, rounded.origin(), 2);
    return static_cast<double>(bits);
  };
  check(
      "%s = hpu.add %0, %1 : ($0, $1) -> tensor<256xbf16>\n%r = hpu.bitcast %s {to = ui16} : ($0) -> $out0\nhpu.yield "
      "%r : $out0",
      {x, y}, {Tensor::dense(ElementType::kU16, {256})}, expected, {0, 0});
}

TEST(Bitcast, OfASumIsOfItsType) {
  // A row's sum is an f32 in the kernel, and a number of 16 bits for everybody else.
  for (ElementType type : {ElementType::kBF16, ElementType::kF16}) {
    const std::string name(elementTypeName(type));
    Tensor x = Tensor::dense(type, {12, 8});
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t k = 0; k < 8; ++k) x.set({i, k}, static_cast<double>((i * 8 + k) % 13) / 8 - 0.5);
    auto expected = [&](int, const Index& i) {
      double sum = 0;
      for (int64_t k = 0; k < 8; ++k) sum += x.at({i[0], k});
      Tensor rounded = Tensor::scalar(type, sum);
      uint16_t bits;
      std::memcpy(&bits, rounded.origin(), 2);
      return static_cast<double>(bits);
    };
    check("%s = hpu.reduce_sum %0 {axes = array<i64: 1>, keepdims = true} : ($0) -> tensor<12x1x" + name +
              ">\n%r = hpu.bitcast %s {to = ui16} : (tensor<12x1x" + name + ">) -> $out0\nhpu.yield %r : $out0",
          {x}, {Tensor::dense(ElementType::kU16, {12, 1})}, expected, {0, 0});
  }
}

TEST(Bitcast, IsNotWhatIsStoredWhereItsNumberIsRounded) {
  // Codes of fp8 and of f32 as bf16: the number, in a type of another width than the bits have.
  Tensor codes = Tensor::dense(ElementType::kI8, {64}), words = Tensor::dense(ElementType::kI32, {64});
  for (int64_t i = 0; i < 64; ++i) {
    codes.set({i}, static_cast<double>(i));
    words.set({i}, static_cast<double>(i << 23));
  }
  auto expected = [](int output, const Index& i) {
    const int64_t exponent = i[0] >> 2, fraction = i[0] & 3;
    if (output == 1) return i[0] == 0 ? 0 : std::ldexp(1, static_cast<int>(i[0]) - 127);
    return exponent == 0 ? std::ldexp(static_cast<double>(fraction), -16)
                         : std::ldexp(1 + static_cast<double>(fraction) / 4, static_cast<int>(exponent) - 15);
  };
  check(
      "%f = hpu.bitcast %0 {to = f8E5M2} : ($0) -> tensor<64xf8E5M2>\n"
      "%a = hpu.cast %f {to = bf16} : (tensor<64xf8E5M2>) -> $out0\n"
      "%g = hpu.bitcast %1 {to = f32} : ($1) -> tensor<64xf32>\n"
      "%b = hpu.cast %g {to = bf16} : (tensor<64xf32>) -> $out1\nhpu.yield %a, %b : $out0, $out1",
      {codes, words}, {Tensor::dense(ElementType::kBF16, {64}), Tensor::dense(ElementType::kBF16, {64})}, expected,
      {0, 0});
}

TEST(Bitcast, OfBitsIsADoubleThatIsComputedWith) {
  Tensor x = Tensor::dense(ElementType::kI64, {8}), y = Tensor::dense(ElementType::kF64, {8});
  for (int64_t i = 0; i < 8; ++i) x.set({i}, static_cast<double>((1023 + i) << 52));  // 2^i.
  check("%d = hpu.bitcast %0 {to = f64} : ($0) -> $out0\n%r = hpu.neg %d : ($out0) -> $out0\nhpu.yield %r : $out0", {x},
        {y}, [](int, const Index& i) { return -std::ldexp(1, static_cast<int>(i[0])); }, {0, 0});
}

}  // namespace
}  // namespace hpu::kernels::test
