// SPDX-License-Identifier: Apache-2.0
// What was recorded, without aten: calls of ops on memory.
// The one thing to know: a Signature is everything of a call that does not change from step to step (op, attributes,
// types, sizes, strides) and is there once; a Node is one call of it: which storages, where in them, which numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/types.h"
#include "pytorch/record/Table.h"

namespace hpu_torch {

/// A tensor without its memory. Strides count elements, as PyTorch's.
struct TensorMeta {
  hpu::ElementType type = hpu::ElementType::kInvalid;
  hpu::Shape sizes;
  std::vector<int64_t> strides;
  bool operator==(const TensorMeta& o) const { return type == o.type && sizes == o.sizes && strides == o.strides; }
};

/// One argument of the op's schema.
struct Argument {
  enum class Kind : uint8_t {
    kNone,
    kTensor,
    kTensors,
    kNumber,
    kInt,
    kInts,
    kReal,
    kReals,
    kBool,
    kBools,
    kType,
    kText
  };
  Kind kind = Kind::kNone;
  std::vector<int> operands;  ///< kTensor: one; kTensors: any, -1 for one that is absent.
  int number = -1;            ///< kNumber: which of the node's; -1: it is `integer` or `real` for ever.
  bool isReal = false;        ///< Of kNumber: a float, else an integer.
  int64_t integer = 0;
  double real = 0;
  std::vector<int64_t> integers;  ///< Also of kBools.
  std::vector<double> reals;
  std::string text;
  hpu::ElementType type = hpu::ElementType::kInvalid;
};

struct ResultMeta {
  TensorMeta meta;
  bool isDefined = true;  ///< false: the op returns no tensor there.
  int operand = -1;       ///< The operand that it is (in-place and out= forms); -1: a new tensor.
};

struct Signature {
  const Row* row = nullptr;
  std::string name;   ///< "aten::add.out".
  std::string where;  ///< The program's line that called it first.
  std::vector<Argument> arguments;
  std::vector<TensorMeta> operands;                      ///< Tensors of the device, in the order of the arguments.
  std::vector<bool> isRealNumber;                        ///< Of each run-time number.
  std::vector<ResultMeta> results;                       ///< As many as the schema has.
  std::vector<int> written;                              ///< Operands that are written and are no result.
  hpu::ElementType common = hpu::ElementType::kInvalid;  ///< What PyTorch promotes the operands to.
  bool hasSeveralTypes = false;                          ///< Of operands.
  int64_t id = 0;                                        ///< Of this process.
  std::string refused;                                   ///< Why it cannot be compiled; empty: it can.

  /// "aten::add.out(f32[2, 3], f32[3])".
  std::string text() const;
};

/// Where a tensor begins: a storage of the graph, and elements from its beginning.
struct Place {
  int storage = -1;
  int64_t offset = 0;
};

struct Node {
  std::shared_ptr<const Signature> signature;
  std::vector<Place> operands, results;  ///< Results that are operands have their place; undefined ones none.
  int64_t scope = 0;                     ///< Scope.h
};

}  // namespace hpu_torch
