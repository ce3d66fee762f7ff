// SPDX-License-Identifier: Apache-2.0
// Program: a recipe that is loaded on a device, run with numpy arrays, and the memory of its states.
// The one thing to know: a run is one call (run), which takes the sizes from the arrays, makes those of the outputs and
// enqueues; what depends on the recipe alone is worked out once, when it is loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hpu/executable.h"
#include "src/bindings/python/Runs.h"

namespace hpu::python {

/// What runs change in place, and the shapes that it has now, both in the order of recipe.states(). Who uses it holds
/// the lock of openhpu.State.
struct StateMemory {
  std::vector<std::shared_ptr<DeviceBuffer>> buffers;
  std::vector<Shape> shapes;
};

/// Used with the GIL.
class Program {
 public:
  /// The types are those of the arrays that have a tensor's bits, in the order of the recipe's inputs and outputs.
  Program(std::shared_ptr<OpenDevice> device, const Recipe& recipe, std::vector<py::dtype> inputTypes,
          std::vector<py::dtype> outputTypes);

  /// The arrays of a dict by name or of a tuple, in the order of the inputs, as run() takes them; those of states are
  /// among them unless `held`. None when one is missing or would have to be converted, or there is one too many: what
  /// is wrong is not looked for here.
  py::object ready(const py::object& given, bool held) const;
  /// Copies in, a launch, copies out: (the request, the arrays of the outputs). Inputs and outputs that are states are
  /// none of the arrays: `state` has their memory, whose shapes from now on are those of the outputs; null for a recipe
  /// without states. The inputs are dense arrays in the order of the recipe, of the recipe's types, and are not changed
  /// until the request is done. Errors: kInvalidArgument (shapes that do not fit); the state is as before then.
  py::tuple run(const std::vector<py::array>& inputs, StateMemory* state);
  /// Names, types and shapes of the outputs for inputs of these shapes and values.
  std::vector<TensorInfo> outputsFor(const std::vector<Shape>& inputs, const InputValues& values) const;
  /// A launch with the caller's buffers, and the shapes and values of the inputs.
  std::shared_ptr<Request> launch(const std::vector<std::shared_ptr<DeviceBuffer>>& inputs,
                                  const std::vector<std::shared_ptr<DeviceBuffer>>& outputs,
                                  const std::vector<Shape>& inputShapes, const InputValues& values);
  /// The keys of hpu-run and, in "trace", those of `hpu-trace summary`. Every run begins with the same shapes of
  /// states.
  std::string profile(const std::vector<py::array>& inputs, const StateMemory* state, int iterations, int warmup,
                      int top);
  double loadMs() const { return loadMs_; }

 private:
  /// An input or output.
  struct Tensor {
    py::object name;
    py::dtype type;  ///< Of its bits.
    Shape shape;     ///< kDynamic where it is free.
    int state = -1;  ///< Which of the states it is; -1: none.
  };
  /// What a run reads and writes. The arrays of states are not there.
  struct Call {
    std::vector<py::array> inputs, outputs;
    std::vector<Shape> shapes;  ///< Of all inputs; empty when all sizes are fixed.
    InputValues values;
    std::vector<TensorInfo> outputInfos;
    const StateMemory* state = nullptr;
  };
  bool isReady(PyObject* given, const Tensor& input) const;
  Call prepare(const std::vector<py::array>& inputs, const StateMemory* state) const;
  InputValues valuesOf(const std::vector<py::array>& inputs) const;
  Event enqueue(const Call& call, const Event* marks);
  std::string what() const { return "the run of '" + recipe_.name() + "'"; }

  std::shared_ptr<OpenDevice> device_;
  Recipe recipe_;
  const std::vector<StateInfo> states_;
  const std::vector<int> valueInputs_;
  const bool fixed_;  ///< No dimension is free.
  std::vector<Tensor> inputs_, outputs_;
  Executable executable_;
  /// As large as the largest run has needed; empty for states. Guarded by the lane's order.
  std::vector<Buffer> inputBuffers_, outputBuffers_;
  std::shared_ptr<Lane> lane_;
  double loadMs_ = 0;
};

}  // namespace hpu::python
