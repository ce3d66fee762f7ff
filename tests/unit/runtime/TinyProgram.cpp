// SPDX-License-Identifier: Apache-2.0
#include "TinyProgram.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "recipe/RecipeVerifier.h"

namespace hpu::testing {
namespace {

using recipe::Command;
using recipe::DmaDesc;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::Queue;
using recipe::Section;
using recipe::SectionKind;

uint64_t aligned(uint64_t bytes) {
  return (bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
}

Operand vectorOperand(uint32_t section, int64_t count, uint64_t offset = 0) {
  Operand operand;
  operand.section = section;
  operand.offset = offset;
  operand.type = ElementType::kI32;
  operand.sizes = {count};
  operand.strides = {1};
  return operand;
}

/// A program whose inputs and outputs are vectors of i32.
struct Builder {
  Program program;

  Builder(std::string name, Target target) {
    program.name = std::move(name);
    program.producer = "test";
    program.target = target;
  }

  uint32_t section(SectionKind kind, int64_t count) {
    Section section;
    section.kind = kind;
    section.bytes = aligned(static_cast<uint64_t>(count) * 4);
    if (kind == SectionKind::kInput || kind == SectionKind::kOutput) {
      auto& tensors = kind == SectionKind::kInput ? program.inputs : program.outputs;
      section.binding = static_cast<uint32_t>(tensors.size());
      section.bytes = static_cast<uint64_t>(count) * 4;
      tensors.push_back({(kind == SectionKind::kInput ? "in" : "out") + std::to_string(tensors.size()),
                         {ElementType::kI32, {count}}});
    }
    program.sections.push_back(section);
    return static_cast<uint32_t>(program.sections.size() - 1);
  }

  uint32_t op(std::string name, DmaDesc dma) {
    Op op;
    op.engine = Engine::kDma;
    op.name = std::move(name);
    op.provenance = {static_cast<uint32_t>(program.sourceNodes.size())};
    program.sourceNodes.push_back({op.name, dma.fill ? "Fill" : "Copy"});
    op.space = dma.dst.sizes;
    op.dma = std::move(dma);
    program.ops.push_back(std::move(op));
    uint32_t index = static_cast<uint32_t>(program.ops.size() - 1);
    program.hostOrder.push_back(index);
    recipe::Bundle bundle;
    bundle.name = program.ops.back().name;
    bundle.ops = {index};
    program.bundles.push_back(bundle);
    return index;
  }

  uint32_t copy(std::string name, Operand src, Operand dst) {
    DmaDesc dma;
    dma.src = std::move(src);
    dma.dst = std::move(dst);
    return op(std::move(name), std::move(dma));
  }

  /// A queue with `slices` commands of one op; each waits for `waits` and counts a new signal up.
  uint32_t queue(uint32_t opIndex, int slices, std::vector<recipe::Wait> waits = {}) {
    Queue queue;
    queue.engine = program.ops[opIndex].engine;
    int64_t extent = program.ops[opIndex].space[0];
    uint32_t signal = program.numSignals++;
    program.bundles[opIndex].slices = static_cast<uint32_t>(slices);
    for (int s = 0; s < slices; ++s) {
      Command command;
      command.op = opIndex;
      command.bundle = opIndex;
      command.slice = static_cast<uint32_t>(s);
      command.lo.assign(program.ops[opIndex].space.size(), 0);
      command.hi = program.ops[opIndex].space;
      command.lo[0] = extent * s / slices;
      command.hi[0] = extent * (s + 1) / slices;
      command.waits = waits;
      // Slice s of the second op needs slice s of the first.
      for (recipe::Wait& wait : command.waits) wait.value = static_cast<uint32_t>(s) + 1;
      command.signal = signal;
      queue.commands.push_back(std::move(command));
    }
    program.queues.push_back(std::move(queue));
    return signal;
  }

  std::shared_ptr<const Program> finish() {
    Status status = recipe::verifyProgram(program);
    if (!status.ok()) {
      std::fprintf(stderr, "a test's own program is wrong: %s\n", status.message().c_str());
      std::abort();
    }
    return std::make_shared<const Program>(std::move(program));
  }
};

}  // namespace

std::shared_ptr<const Program> copyProgram(int64_t count, int slices, Target target) {
  Builder b("copy", target);
  uint32_t in = b.section(SectionKind::kInput, count);
  uint32_t scratch = b.section(SectionKind::kWorkspace, count);
  uint32_t out = b.section(SectionKind::kOutput, count);
  uint32_t first = b.copy("load", vectorOperand(in, count), vectorOperand(scratch, count));
  uint32_t second = b.copy("store", vectorOperand(scratch, count), vectorOperand(out, count));
  uint32_t signal = b.queue(first, slices);
  b.queue(second, slices, {{signal, 1}});
  return b.finish();
}

std::shared_ptr<const Program> fillProgram(int64_t count, uint32_t value, Target target) {
  Builder b("fill", target);
  uint32_t out = b.section(SectionKind::kOutput, count);
  DmaDesc dma;
  dma.fill = true;
  dma.fillPattern = value;
  dma.dst = vectorOperand(out, count);
  b.queue(b.op("fill", std::move(dma)), 1);
  return b.finish();
}

std::shared_ptr<const Program> constantProgram(const std::vector<int32_t>& values, Target target) {
  Builder b("constant", target);
  auto count = static_cast<int64_t>(values.size());
  uint32_t constants = b.section(SectionKind::kConst, count + 64);
  uint32_t out = b.section(SectionKind::kOutput, count);
  auto bytes = std::make_shared<std::vector<uint8_t>>(values.size() * 4);
  std::memcpy(bytes->data(), values.data(), bytes->size());
  recipe::ConstantBlob blob;
  blob.section = constants;
  blob.offset = 256;
  blob.data = bytes->data();
  blob.bytes = bytes->size();
  blob.owner = bytes;
  b.program.constants.push_back(blob);
  b.queue(b.copy("copy", vectorOperand(constants, count, 256), vectorOperand(out, count)), 1);
  return b.finish();
}

std::shared_ptr<const Program> swapProgram(int64_t count, Target target) {
  Builder b("swap", target);
  uint32_t in0 = b.section(SectionKind::kInput, count), in1 = b.section(SectionKind::kInput, count);
  uint32_t out0 = b.section(SectionKind::kOutput, count);
  uint32_t out1 = b.section(SectionKind::kOutput, count);
  b.queue(b.copy("first", vectorOperand(in1, count), vectorOperand(out0, count)), 1);
  b.queue(b.copy("second", vectorOperand(in0, count), vectorOperand(out1, count)), 1);
  return b.finish();
}

std::shared_ptr<const Program> delayProgram(int64_t count, Target target) {
  Builder b("delay", target);
  uint32_t in = b.section(SectionKind::kInput, count);
  uint32_t state = b.section(SectionKind::kPersistent, count);
  uint32_t out = b.section(SectionKind::kOutput, count);
  uint32_t first = b.copy("emit", vectorOperand(state, count), vectorOperand(out, count));
  uint32_t second = b.copy("keep", vectorOperand(in, count), vectorOperand(state, count));
  uint32_t signal = b.queue(first, 1);
  b.queue(second, 1, {{signal, 1}});
  return b.finish();
}

std::shared_ptr<const Program> fanOutProgram(int64_t count, const std::vector<int>& order, Target target) {
  Builder b("fan out", target);
  uint32_t in = b.section(SectionKind::kInput, count);
  std::vector<uint32_t> outs;
  for (size_t i = 0; i < order.size(); ++i) outs.push_back(b.section(SectionKind::kOutput, count));
  uint32_t signal = recipe::kNone;
  for (int output : order) {
    uint32_t copy = b.copy("copy " + std::to_string(output), vectorOperand(in, count),
                           vectorOperand(outs[static_cast<size_t>(output)], count));
    std::vector<recipe::Wait> waits;
    if (signal != recipe::kNone) waits.push_back({signal, 1});
    signal = b.queue(copy, 1, waits);
  }
  return b.finish();
}

std::shared_ptr<const Program> copyThenMultiplyProgram(int64_t n, bool throughWorkspace) {
  Builder b("copy then multiply", Target::kGaudi2);
  uint32_t in = b.section(SectionKind::kInput, n * n);
  uint32_t first = b.section(throughWorkspace ? SectionKind::kWorkspace : SectionKind::kOutput, n * n);
  uint32_t second = b.section(SectionKind::kOutput, n * n);
  for (auto* tensors : {&b.program.inputs, &b.program.outputs})
    for (TensorInfo& tensor : *tensors) tensor.type = {ElementType::kF32, {n, n}};
  auto matrix = [&](uint32_t section) {
    Operand operand;
    operand.section = section;
    operand.type = ElementType::kF32;
    operand.sizes = {n, n};
    operand.strides = {n, 1};
    return operand;
  };
  uint32_t signal = b.queue(b.copy("copy", matrix(in), matrix(first)), 1);
  uint32_t gemm = b.op("multiply", {});
  Op& op = b.program.ops[gemm];
  op.engine = Engine::kMme;
  op.space = {n, n};
  op.mme.a = matrix(first);
  op.mme.b = matrix(in);
  op.mme.c = matrix(second);
  b.program.sourceNodes.back().op = "MatMul";
  b.queue(gemm, 1, {{signal, 1}});
  return b.finish();
}

}  // namespace hpu::testing
