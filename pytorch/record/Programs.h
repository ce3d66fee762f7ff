// SPDX-License-Identifier: Apache-2.0
// What structures of calls were compiled to.
// The one thing to know: a Program belongs to one structure (ops, dataflow, sizes, what outlives it) on one device;
// programs whose structures differ in sizes alone may share an executable of free sizes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu_torch/api.h"
#include "pytorch/record/Signature.h"
#include "pytorch/record/Translate.h"
#include "pytorch/record/WordMap.h"

namespace hpu_torch {

struct Program {
  std::vector<Binding> inputs, outputs;
  std::vector<size_t>
      numbers;  ///< Inputs that are run-time numbers, 8 bytes of the launch's block each, in this order.
  mutable hpu::Executable executable;   ///< Nothing to launch where there are no outputs.
  std::vector<hpu::Shape> inputShapes;  ///< What a launch says to an executable of free sizes; else empty.
};

/// Of a structure by its key on a device; null when there is none. Any thread.
std::shared_ptr<const Program> findProgram(Words key);

/// Translates and compiles. `storages` as for translate(). What cannot be compiled is not tried again. Any thread;
/// threads that need the same structure compile it once.
hpu::StatusOr<std::shared_ptr<const Program>> tryProgram(const hpu::Device& device, Words key,
                                                         const std::vector<Node>& nodes,
                                                         const std::vector<Storage>& storages);
/// The same; throws c10::Error, which names the op, its shapes and the program's line.
std::shared_ptr<const Program> makeProgram(const hpu::Device& device, Words key, const std::vector<Node>& nodes,
                                           const std::vector<Storage>& storages);

/// For tests: graphs of more than `mostNodes` (0: of any number), and those with an op whose name has `op` in it ("":
/// none), cannot be compiled from now on. What is compiled already stays.
HPU_TORCH_API void injectCompileFaults(int64_t mostNodes, const std::string& op);

/// Counted and logged as a compilation of `nodes`; `options` say what is not the device's matter. `why` may say more
/// than what the nodes show.
hpu::StatusOr<hpu::Recipe> compileFor(const hpu::Device& device, const hpu::Graph& graph, hpu::CompileOptions options,
                                      const std::vector<Node>& nodes, const std::string& why);

/// "aten::add(f32[2]), called at .." or "a graph of 12 ops from aten::add(..)".
std::string describe(const std::vector<Node>& nodes);

struct RunCounters {
  std::atomic<int64_t> graphs{0}, compiles{0}, hits{0}, compileNs{0}, largest{0}, split{0};
};
RunCounters& runCounters();  ///< Of the process.

}  // namespace hpu_torch
