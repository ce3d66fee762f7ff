// SPDX-License-Identifier: Apache-2.0
#include "PartsSample.h"

#include <utility>

#include "SampleProgram.h"
#include "recipe/Parts.h"

namespace hpu::recipe::testing {
namespace {

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint32_t addTensor(Program& program, SectionKind kind, ElementType type, Shape shape) {
  auto& tensors = kind == SectionKind::kInput ? program.inputs : program.outputs;
  TensorInfo info{(kind == SectionKind::kInput ? "in" : "out") + std::to_string(tensors.size()),
                  {type, std::move(shape)}};
  const auto bytes = static_cast<uint64_t>(info.type.bytes());
  program.sections.push_back({kind, static_cast<uint32_t>(tensors.size()), bytes});
  tensors.push_back(std::move(info));
  return static_cast<uint32_t>(program.sections.size() - 1);
}

}  // namespace

PartBuilder::PartBuilder(std::string name) {
  program.name = std::move(name);
  program.producer = "test";
}

uint32_t PartBuilder::input(ElementType type, Shape shape) {
  return addTensor(program, SectionKind::kInput, type, std::move(shape));
}
uint32_t PartBuilder::output(ElementType type, Shape shape) {
  return addTensor(program, SectionKind::kOutput, type, std::move(shape));
}
uint32_t PartBuilder::section(SectionKind kind, uint64_t bytes) {
  program.sections.push_back({kind, kNone, aligned(bytes)});
  return static_cast<uint32_t>(program.sections.size() - 1);
}

PartBuilder& PartBuilder::copy(uint32_t src, uint32_t dst, ElementType type, int64_t count, uint64_t from,
                               uint64_t to) {
  Op op;
  op.engine = Engine::kDma;
  op.dma.src = denseOperand(src, from, type, {count});
  op.dma.dst = denseOperand(dst, to, type, {count});
  add(std::move(op));
  return *this;
}

PartBuilder& PartBuilder::passOn(ElementType type, int64_t count) {
  const uint32_t in = input(type, {count});
  return copy(in, output(type, {count}), type, count);
}

PartBuilder& PartBuilder::fill(uint32_t dst, ElementType type, int64_t count, uint64_t pattern) {
  Op op;
  op.engine = Engine::kDma;
  op.dma.fill = true;
  op.dma.fillPattern = pattern;
  op.dma.dst = denseOperand(dst, 0, type, {count});
  add(std::move(op));
  return *this;
}

PartBuilder& PartBuilder::multiply(uint32_t a, uint32_t b, uint32_t c, int64_t n) {
  Op op;
  op.engine = Engine::kMme;
  op.mme.a = denseOperand(a, 0, ElementType::kF32, {n, n});
  op.mme.b = denseOperand(b, 0, ElementType::kF32, {n, n});
  op.mme.c = denseOperand(c, 0, ElementType::kF32, {n, n});
  add(std::move(op));
  return *this;
}

/// In a queue of its own, behind the op before it.
void PartBuilder::add(Op op) {
  const auto index = static_cast<uint32_t>(program.ops.size());
  op.space = op.engine == Engine::kMme ? op.mme.c.sizes : op.dma.dst.sizes;
  op.name = "op " + std::to_string(index);
  op.provenance = {static_cast<uint32_t>(program.sourceNodes.size())};
  program.sourceNodes.push_back({program.name + " " + op.name, "Node"});
  Command command;
  command.op = index;
  command.lo.assign(op.space.size(), 0);
  command.hi = op.space;
  if (index > 0) command.waits = {{index - 1, 1}};
  command.signal = index;
  program.numSignals = index + 1;
  program.hostOrder.push_back(index);
  program.queues.push_back({op.engine, {std::move(command)}});
  program.ops.push_back(std::move(op));
}

void PartBuilder::addTo(Program& holder, Part part) const {
  auto own = std::make_shared<Program>(program);
  own->target = holder.target;
  part.program = own;
  own->constants = partConstants(holder, part);
  holder.parts.push_back(std::move(part));
}

PartPlace at(uint32_t section, uint64_t offset) {
  PartPlace place;
  place.section = section;
  place.offset = offset;
  return place;
}
PartPlace moving(uint32_t section, uint64_t offset, int64_t step) {
  PartPlace place = at(section, offset);
  place.step = step;
  return place;
}
PartPlace turning(uint32_t turns, PartPlace even, PartPlace odd) {
  even.turns = turns;
  even.oddSection = odd.section;
  even.oddOffset = odd.offset;
  return even;
}

uint32_t addInput(Program& holder, ElementType type, Shape shape) {
  return addTensor(holder, SectionKind::kInput, type, std::move(shape));
}
uint32_t addOutput(Program& holder, ElementType type, Shape shape) {
  return addTensor(holder, SectionKind::kOutput, type, std::move(shape));
}
uint32_t addSection(Program& holder, SectionKind kind, uint64_t bytes) {
  holder.sections.push_back({kind, kNone, aligned(bytes)});
  return static_cast<uint32_t>(holder.sections.size() - 1);
}
uint32_t addConstants(Program& holder, std::vector<uint8_t> bytes) {
  const uint32_t section = addSection(holder, SectionKind::kConst, bytes.size());
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  holder.constants.push_back({section, 0, owner->data(), owner->size(), owner});
  return section;
}

Program partsSample() {
  constexpr ElementType kType = ElementType::kI32;
  constexpr int64_t kCount = 64;
  constexpr uint64_t kBytes = kCount * 4;
  Program holder;
  holder.name = "parts";
  holder.producer = "test";
  holder.target = Target::kGaudi2;
  const uint32_t start = addInput(holder, kType, {kCount});
  const uint32_t slices = addInput(holder, kType, {5, kCount});
  const uint32_t limit = addInput(holder, ElementType::kI64, {1});
  const uint32_t flags = addInput(holder, ElementType::kBool, {8});
  const uint32_t last = addOutput(holder, kType, {kCount});
  const uint32_t all = addOutput(holder, kType, {5, kCount});
  const uint32_t chosen = addOutput(holder, kType, {kCount});
  const uint32_t work = addSection(holder, SectionKind::kWorkspace, 8 * kBytes);
  const uint32_t table = addConstants(holder, std::vector<uint8_t>(2 * kBytes, 7));

  // 0: into the first of the two places of what is carried.
  PartBuilder first("first");
  {
    const uint32_t in = first.input(kType, {kCount}), out = first.output(kType, {kCount});
    const uint32_t scratch = first.section(SectionKind::kWorkspace, kBytes);
    first.copy(in, scratch, kType, kCount).copy(scratch, out, kType, kCount);
    first.addTo(holder, {nullptr, {at(start), at(work), at(work, 2 * kBytes)}});
  }
  // 1: out = carried, carried = slice; slices from behind.
  PartBuilder body("body");
  {
    const uint32_t carried = body.input(kType, {kCount}), slice = body.input(kType, {kCount});
    const uint32_t next = body.output(kType, {kCount}), out = body.output(kType, {kCount});
    const uint32_t sram = body.section(SectionKind::kSram, kBytes);
    body.copy(carried, sram, kType, kCount).copy(sram, out, kType, kCount).copy(slice, next, kType, kCount);
    Part part{nullptr,
              {turning(1, at(work), at(work, kBytes)),
               moving(slices, 4 * kBytes, -static_cast<int64_t>(kBytes)),
               turning(1, at(work, kBytes), at(work)),
               moving(all, 0, kBytes),
               {}},
              5};
    part.count = at(limit);
    body.addTo(holder, std::move(part));
  }
  // 2, 3: what was carried, or a constant.
  for (bool inverted : {false, true}) {
    PartBuilder branch(inverted ? "else" : "then");
    const uint32_t in = inverted ? branch.section(SectionKind::kConst, kBytes) : branch.input(kType, {kCount});
    const uint32_t out = branch.output(kType, {kCount});
    branch.copy(in, out, kType, kCount);
    Part part{nullptr, {inverted ? at(table, kBytes) : turning(1, at(work), at(work, kBytes)), at(chosen)}};
    part.condition = at(flags, 3);
    part.conditionInverted = inverted;
    branch.addTo(holder, std::move(part));
  }
  // 4: a loop of a program with parts of its own: a sequence of a copy and a loop that flags end.
  {
    Program nested;
    nested.name = "nested";
    nested.producer = "test";
    nested.target = holder.target;
    const uint32_t in = addInput(nested, kType, {kCount}), ends = addInput(nested, ElementType::kBool, {8});
    const uint32_t out = addOutput(nested, kType, {kCount});
    const uint32_t own = addSection(nested, SectionKind::kWorkspace, kBytes);
    PartBuilder copy("copy");
    copy.passOn(kType, kCount);
    copy.addTo(nested, {nullptr, {at(in), at(own)}});
    Part loop{nullptr, {at(own), at(out)}, 8};
    loop.condition = moving(ends, 0, 1);
    copy.addTo(nested, std::move(loop));
    Part part{
        std::make_shared<const Program>(std::move(nested)), {at(chosen), at(flags), at(last), at(work, 4 * kBytes)}, 2};
    holder.parts.push_back(std::move(part));
  }
  return holder;
}

Program nestedSample(uint32_t depth) {
  constexpr ElementType kType = ElementType::kI32;
  PartBuilder copy("copy");
  copy.passOn(kType, 16);
  Program inner = copy.program;
  inner.target = Target::kGaudi2;
  for (uint32_t d = 0; d < depth; ++d) {
    Program holder;
    holder.name = "depth " + std::to_string(d);
    holder.target = Target::kGaudi2;
    const uint32_t in = addInput(holder, kType, {16}), out = addOutput(holder, kType, {16});
    holder.parts.push_back({std::make_shared<const Program>(std::move(inner)), {at(in), at(out)}, 2});
    inner = std::move(holder);
  }
  return inner;
}

}  // namespace hpu::recipe::testing
