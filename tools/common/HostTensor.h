// SPDX-License-Identifier: Apache-2.0
// HostTensor: a dense, row-major tensor in host memory, as the tools read, make, compare and write
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::tools {

struct HostTensor {
  TensorType type;
  std::vector<uint8_t> bytes;  ///< type.bytes() long; bool is one byte, bf16/f16/f8 are bit patterns.
  std::string name;            ///< From the file, may be empty.

  int64_t count() const { return numElements(type.shape); }
  /// One element as a number (i64 beyond 2^53 is rounded).
  double number(int64_t index) const;
  /// The elements of a tensor of i64 or i32; empty for other types.
  std::vector<int64_t> integers() const;
};

/// The bytes of a dense tensor. Errors: kInvalidArgument for a free or negative dimension and for
/// more than 2^40 bytes.
StatusOr<int64_t> checkedBytes(const TensorType& type);
/// Bytes of bool that are neither 0 nor 1, as files may have them, become 1.
void settleBools(HostTensor& tensor);
/// A tensor of zeros.
StatusOr<HostTensor> makeTensor(const TensorType& type);
/// A tensor of i64 or i32 with these elements. Errors: kInvalidArgument for another type or number of elements, or one
/// beyond the type.
StatusOr<HostTensor> integerTensor(const TensorType& type, const std::vector<int64_t>& elements);
/// bf16, f16 and f8 as f32; other types as they are.
HostTensor widened(HostTensor tensor);
/// f32 rounded to bf16 or f16, when that is `element`: states are as narrow as what is computed, and files of the
/// model's own type. Anything else as it is.
HostTensor narrowedTo(HostTensor tensor, ElementType element);

/// Reads "1x3x224x224" (also "1,3,224,224"; "" or "scalar" is rank 0).
StatusOr<Shape> parseShape(std::string_view text);

}  // namespace hpu::tools
