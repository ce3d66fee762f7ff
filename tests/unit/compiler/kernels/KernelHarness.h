// SPDX-License-Identifier: Apache-2.0
// Compiles kernels from hpu text and runs them in this process, on operands that end at an
// unreadable page. The one thing to know: expected values come from the test's own scalar code in
// double precision.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/kernels/KernelCompiler.h"
#include "hpu/types.h"
#include "recipe/KernelAbi.h"

namespace hpu::kernels::test {

using Index = std::vector<int64_t>;

/// A tensor in memory with any strides. Elements are read and written as double (exact but for big
/// i64).
class Tensor {
 public:
  Tensor(ElementType type, Index sizes, Index strides);
  /// Dense in the given physical order (slowest first; default row-major); `gap` extra elements
  /// between neighbours of the fastest dim and after each row.
  static Tensor dense(ElementType type, Index sizes, Index order = {}, int64_t gap = 0);
  /// Strides 0 where the size is 1 and an axis is named in `repeat` (whose size is then logical
  /// only).
  static Tensor scalar(ElementType type, double value);

  /// A copy that has memory of its own.
  Tensor clone() const;
  double at(const Index& index) const;
  /// Numbers beyond an integer type become its largest or least, NaN 0.
  void set(const Index& index, double value);
  void fill(const std::function<double(const Index&)>& value);
  /// Uniform in [low, high), the same for the same seed.
  Tensor& random(uint64_t seed, double low = -2, double high = 2);
  void* origin() const;
  int64_t bytes() const { return bytes_; }
  std::vector<uint8_t> contents() const;

  ElementType type;
  Index sizes, strides;

 private:
  struct Mapping;
  std::shared_ptr<Mapping> mapping_;
  uint8_t* origin_ = nullptr;
  int64_t bytes_ = 0;
};

/// Calls body for every index of a box.
void forEach(const Index& lo, const Index& hi, const std::function<void(const Index&)>& body);
inline void forEach(const Index& sizes, const std::function<void(const Index&)>& body) {
  forEach(Index(sizes.size(), 0), sizes, body);
}

/// "tensor<2x3xf32>".
std::string typeText(const Tensor& tensor);

/// One kernel: `body` computes from %0, %1, ... and ends in "hpu.yield ...". "$0" stands for the
/// type of input 0 and "$out0" for that of output 0.
class Kernel {
 public:
  /// `adjust` may change what is asked for.
  Kernel(std::string body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
         const KernelOptions& options = {}, const std::function<void(KernelRequest&)>& adjust = {});
  ~Kernel();
  Kernel(Kernel&&) noexcept;

  const Status& status() const { return status_; }
  const CompiledKernel& info() const { return info_; }
  /// Variants that this CPU can run, as indexes.
  int variants() const;
  /// Computes the box [lo, hi) of the index space. `dims`: HpuKernelArgs::dims.
  void run(int variant, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, const Index& lo,
           const Index& hi, const std::vector<int64_t>& dims = {}) const;
  size_t imageBytes(int variant) const;
  std::string ir() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  Status status_;
  CompiledKernel info_;
};

/// Parses a function with one cluster; null with a failed check when the text is wrong.
struct ParsedCluster {
  ParsedCluster(const std::string& body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  ~ParsedCluster();
  mlir::Block* block() const;
  /// The ops before hpu.yield.
  std::vector<mlir::Operation*> ops() const;
  KernelRequest request(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Tolerance {
  double relative = 2e-6, absolute = 1e-6;
};

/// Runs on all variants, whole and in slices, and compares with `expected(output, index)`; what
/// lies outside of a slice must stay as it was. Slices do not cut the kernel's whole dims.
void check(const std::string& body, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
           const std::function<double(int, const Index&)>& expected, Tolerance tolerance = {},
           const KernelOptions& options = {});

/// The same of the reference interpreter as well. Tensors must be dense and row-major.
void checkBoth(const std::string& body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::function<double(int, const Index&)>& expected, Tolerance tolerance = {});

}  // namespace hpu::kernels::test
