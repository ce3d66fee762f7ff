// SPDX-License-Identifier: Apache-2.0
// Call: one recorded call while it becomes hpu ops; what the functions of the table's rows work with.
// The one thing to know: arguments and results have the schema's numbers; element types are PyTorch's: a result is cast
// to the type that it has to have, and operands are read in the type that is asked for.
//
//   void sigmoidBackward(Call& c) {  // (Tensor grad_output, Tensor output)
//     Value g = c.wide(0), y = c.wide(1);
//     c.out(0, c.mul(g, c.mul(y, c.sub(c.scalarLike(y, 1), y))));
//   }
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compose/Emitter.h"
#include "pytorch/record/Signature.h"

namespace hpu_torch {

using hpu::ElementType;
using hpu::Shape;
using hpu::Value;
using Ints = std::vector<int64_t>;

class Call : public hpu::compose::Emitter {
 public:
  /// How the call reads its operands and run-time numbers.
  struct Source {
    std::function<Value(int operand)> read;
    std::function<Value(int number)> number;
  };
  /// `name` is what traces call the ops; the signature's when it is empty.
  Call(hpu::Graph& graph, const Signature& signature, Source source, std::string name = {});

  std::string_view variant() const { return signature_.row->variant; }
  const Signature& signature() const { return signature_; }

  // ---- arguments ----------------------------------------------------------------------------------
  size_t size() const { return signature_.arguments.size(); }
  /// Not None.
  bool has(size_t i) const { return i < size() && signature_.arguments[i].kind != Argument::Kind::kNone; }
  bool isTensor(size_t i) const { return has(i) && signature_.arguments[i].kind == Argument::Kind::kTensor; }
  /// A tensor, or a number as a value of rank 0, in its own type.
  Value in(size_t i);
  Value in(size_t i, ElementType type) { return cast(in(i), type); }
  /// In the type in which PyTorch computes with the promoted type: f32 for floats.
  Value wide(size_t i) { return in(i, computing(signature_.common)); }
  Value f32(size_t i) { return in(i, ElementType::kF32); }
  std::vector<Value> list(size_t i);
  /// Of list(i): whether there is a tensor.
  bool hasMember(size_t i, size_t member) const;
  const TensorMeta& meta(size_t i);  ///< Of a tensor.

  int64_t integer(size_t i);  ///< Also of a number that is part of what is compiled.
  double real(size_t i);
  bool flag(size_t i) { return integer(i) != 0; }
  /// Numbers of a list; `count` > 0: a list of one is repeated.
  Ints ints(size_t i, size_t count = 0);
  const std::vector<double>& reals(size_t i) { return argument(i).reals; }
  std::string_view text(size_t i);
  /// A dim, which may be negative, of `rank`.
  int64_t dimension(size_t i, int64_t rank);
  /// Dims of a list, sorted; all when it is empty or None.
  Ints dimensions(size_t i, int64_t rank);
  /// Whether a number is this for ever.
  bool isFixed(size_t i, double value) const;

  ElementType common() const { return signature_.common; }
  static ElementType computing(ElementType type) { return hpu::compose::isFloat(type) ? ElementType::kF32 : type; }

  // ---- results ------------------------------------------------------------------------------------
  /// The type that the result has to have; kInvalid while it is inferred.
  ElementType outType(size_t k) const;
  /// Sets a result; `otherwise` is its type where no one has said it yet (as the value has it when left out).
  void out(size_t k, Value v, ElementType otherwise = ElementType::kInvalid);
  /// Writes an operand that is no result.
  void write(size_t i, Value v);
  void writeMember(size_t i, size_t member, Value v);  ///< Of a list of tensors.

  /// What out() and write() were given; null for what was not.
  const std::vector<Value>& outs() const { return outs_; }
  const std::vector<std::pair<int, Value>>& writes() const { return writes_; }

 private:
  const Argument& argument(size_t i);
  Value fitted(Value v, const TensorMeta& meta);

  const Signature& signature_;
  Source source_;
  std::vector<Value> outs_;
  std::vector<std::pair<int, Value>> writes_;
};

}  // namespace hpu_torch
