// SPDX-License-Identifier: Apache-2.0
// Element types, shapes and tensor types as every part of OpenHPU sees them.
// The one thing to know: a dimension of kDynamic is free until a program is compiled or launched.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"

namespace hpu {

/// Element types. The values are stored in recipes and never change.
enum class ElementType : uint8_t {
  kInvalid = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF8E4M3 = 4,  ///< OCP's range: largest 448, no infinity.
  kF8E5M2 = 5,
  kI8 = 6,
  kU8 = 7,
  kI16 = 8,
  kU16 = 9,
  kI32 = 10,
  kU32 = 11,
  kI64 = 12,
  kU64 = 13,
  kBool = 14,  ///< One byte, 0 or 1.
  kF64 = 15,
  kF8E4M3Ieee = 16,  ///< Gaudi 2's range: largest 240, with infinity.
};

/// Bytes of one element; 0 for kInvalid.
constexpr int64_t elementSize(ElementType type) {
  constexpr int8_t sizes[] = {0, 4, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8, 1};
  auto index = static_cast<unsigned>(type);
  return index < 17 ? sizes[index] : 0;
}

/// The lower-case name: "f32", "bf16", "i64", "bool" ...
constexpr std::string_view elementTypeName(ElementType type) {
  constexpr std::string_view names[] = {"invalid", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8",  "u8",        "i16",
                                        "u16",     "i32", "u32", "i64",  "u64",    "bool",   "f64", "f8e4m3ieee"};
  auto index = static_cast<unsigned>(type);
  return index < 17 ? names[index] : "invalid";
}

/// A free dimension.
inline constexpr int64_t kDynamic = INT64_MIN;

using Shape = std::vector<int64_t>;

/// Number of elements, or kDynamic when a dimension is free. The product is not checked for overflow:
/// shapes that come from files are checked where they are read.
inline int64_t numElements(const Shape& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim == kDynamic) return kDynamic;
    count *= dim;
  }
  return count;
}

/// "1x3x224x224"; "scalar" for rank 0; "?" for a free dimension.
inline std::string shapeToString(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += 'x';
    text += shape[i] == kDynamic ? "?" : std::to_string(shape[i]);
  }
  return text;
}

struct TensorType {
  ElementType element = ElementType::kInvalid;
  Shape shape;
  bool operator==(const TensorType& other) const { return element == other.element && shape == other.shape; }
  bool operator!=(const TensorType& other) const { return !(*this == other); }
  /// Bytes of the dense row-major tensor; shape must be static.
  int64_t bytes() const { return numElements(shape) * elementSize(element); }
  /// "1x3x224x224xf32".
  std::string toString() const {
    return (shape.empty() ? std::string() : shapeToString(shape) + "x") + std::string(elementTypeName(element));
  }
};

/// A named input or output of a program.
struct TensorInfo {
  std::string name;
  TensorType type;
};

/// Sizes that a dimension may have in a launch, both inclusive.
struct DimBounds {
  int64_t min = 1;
  int64_t max = INT64_MAX;
};

/// A free dimension of a recipe: launches give its size.
struct FreeDim {
  std::string name;
  DimBounds bounds;
};

/// The number format that a model is compiled to. With fp8 the operands of matrix products are 8 bits
/// wide (E4M3 in the target's range, or E5M2) and everything else is bf16.
enum class Precision : uint8_t { kF32, kBF16, kF16, kFp8, kFp8E5M2 };
constexpr int kNumPrecisions = 5;

/// "f32", "bf16", "f16", "fp8", "fp8_e5m2".
constexpr std::string_view precisionName(Precision precision) {
  constexpr std::string_view names[] = {"f32", "bf16", "f16", "fp8", "fp8_e5m2"};
  auto index = static_cast<unsigned>(precision);
  return index < kNumPrecisions ? names[index] : "invalid";
}
constexpr bool isFp8(Precision precision) {
  return precision == Precision::kFp8 || precision == Precision::kFp8E5M2;
}

/// Parses a precision's name; the error lists the valid ones.
inline StatusOr<Precision> parsePrecision(std::string_view name) {
  std::string names;
  for (int i = 0; i < kNumPrecisions; ++i) {
    auto precision = static_cast<Precision>(i);
    if (name == precisionName(precision)) return precision;
    names += (i ? ", " : "") + std::string(precisionName(precision));
  }
  return invalidArgument("unknown precision '" + std::string(name) + "'; valid ones are " + names);
}

/// The engines of a device.
enum class Engine : uint8_t { kMme = 0, kTpc = 1, kDma = 2, kNic = 3 };
inline constexpr int kNumEngines = 4;
constexpr std::string_view engineName(Engine engine) {
  constexpr std::string_view names[] = {"mme", "tpc", "dma", "nic"};
  return names[static_cast<unsigned>(engine) & 3];
}

}  // namespace hpu
