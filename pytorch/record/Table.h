// SPDX-License-Identifier: Apache-2.0
// The table of aten ops that the device computes.
// The one thing to know: a row is the op's names and a function that writes it as ops of the hpu dialect; a family is
// one file of ops/ with one array of rows, listed in Table.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu_torch/api.h"

namespace hpu_torch {

class Call;

struct Row {
  enum Flags : uint32_t {
    /// Shapes of results are those that the function gives, whatever PyTorch's Meta kernel says.
    kOwnShapes = 1,
    /// Results of rank 4 have the memory format of the first operand.
    kKeepsFormat = 2,
    /// All numbers are part of what is compiled: the function chooses ops by them.
    kFixedNumbers = 4,
  };
  /// Separated by spaces, with overloads; without "aten::", with the namespace of others: "add.out hpu::fp8_gemm_v2".
  std::string_view names;
  void (*function)(Call&);
  std::string_view variant = {};  ///< For functions that serve several rows.
  uint32_t flags = 0;
  std::string_view written = {};  ///< Numbers of arguments that are written though the schema does not say so: "3 4".

  bool writes(size_t argument) const;
};

/// Of an op by its name with overload ("add.out"); null when there is none. Any thread.
const Row* findRow(std::string_view name);
/// All names, sorted.
HPU_TORCH_API std::vector<std::string> tableNames();

struct Limit {
  std::string_view names;  ///< Of ops, without overloads, separated by spaces.
  std::string_view text;   ///< What their rows refuse.
};
HPU_TORCH_API const std::vector<Limit>& tableLimits();

}  // namespace hpu_torch
