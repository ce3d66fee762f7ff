// SPDX-License-Identifier: Apache-2.0
// A captured graph as a function: launches on tensors of the caller's, with results of their own each time.
// The one thing to know: it fits tensors that lie in memory as those of the capture did (sizes, strides, types, which
// of them share memory); where they lie does not matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hpu_torch/api.h"
#include "pytorch/record/Capture.h"

namespace hpu_torch {

/// Any thread may call anything; calls at a time on several streams are not for graphs that draw random numbers.
class HPU_TORCH_API RelocatedGraph {
 public:
  /// `graph` has captured what computes `outputs` from `inputs`, tensors of hpu all of them, and is empty afterwards.
  /// What it has of memory beside these is kept.
  RelocatedGraph(CapturedGraph& graph, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);

  /// Whether these can be the inputs.
  bool fits(const std::vector<at::Tensor>& inputs) const;
  /// Gives it to the current stream. Inputs are written where the captured code wrote them. Throws where they do not
  /// fit.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

  int64_t steps() const { return static_cast<int64_t>(steps_.size()); }

 private:
  /// Where an address comes from.
  struct Source {
    enum class Kind : uint8_t { kFixed, kInput, kOutput } kind = Kind::kFixed;
    int index = 0;         ///< Of the input, or of the output's memory.
    int64_t offset = 0;    ///< Bytes from the input's first element, or the memory's beginning.
    uint64_t address = 0;  ///< kFixed.
  };
  struct Like {
    at::ScalarType type;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;  ///< Elements, from the beginning of its memory.
    bool isNegated = false, isConjugated = false;
  };
  struct Input : Like {
    int sharesWith = -1;   ///< An input before it in the same storage.
    int64_t distance = 0;  ///< Bytes from that one's first element.
  };
  struct Output : Like {
    Source memory;  ///< kFixed: it is copied from `fixed`.
    at::Tensor fixed;
  };
  struct Launch {
    CapturedGraph::Step step;
    std::vector<Source> inputs, outputs;
  };

  c10::DeviceIndex device_ = 0;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  struct Memory {
    int64_t bytes = 0;
    c10::SmallVector<int64_t, 5> sizes;  ///< As Block's.
  };
  std::vector<Memory> memories_;  ///< The storages that results are made in.
  std::vector<Launch> steps_;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept_;
};

/// For the calling thread: calls become nodes of a graph until it ends, whatever the mode; then it runs.
class HPU_TORCH_API RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();  ///< Runs nothing; end() does.
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  void end();

 private:
  bool isOpen_ = true;
};

}  // namespace hpu_torch
