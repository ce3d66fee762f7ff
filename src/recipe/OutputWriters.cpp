// SPDX-License-Identifier: Apache-2.0
#include "recipe/OutputWriters.h"

#include <algorithm>

namespace hpu::recipe {

std::vector<uint32_t> outputsWritten(const Program& program, const Op& op) {
  std::vector<uint32_t> outputs;
  auto add = [&](const Operand& operand) {
    const Section& section = program.sections[operand.section];
    if (section.kind != SectionKind::kOutput) return;
    if (std::find(outputs.begin(), outputs.end(), section.binding) == outputs.end()) outputs.push_back(section.binding);
  };
  switch (op.engine) {
    case Engine::kMme:
      add(op.mme.c);
      break;
    case Engine::kTpc:
      for (const Operand& operand : op.tpc.outputs) add(operand);
      break;
    case Engine::kDma:
      add(op.dma.dst);
      break;
    case Engine::kNic:
      break;
  }
  return outputs;
}

std::vector<std::vector<CommandRef>> lastWriters(const Program& program) {
  std::vector<std::vector<uint32_t>> written;
  written.reserve(program.ops.size());
  for (const Op& op : program.ops) written.push_back(outputsWritten(program, op));
  std::vector<std::vector<CommandRef>> writers(program.outputs.size());
  for (uint32_t q = 0; q < program.queues.size(); ++q) {
    const auto& commands = program.queues[q].commands;
    std::vector<bool> seen(program.outputs.size(), false);
    for (auto c = static_cast<uint32_t>(commands.size()); c-- > 0;) {
      for (uint32_t output : written[commands[c].op]) {
        if (seen[output]) continue;
        seen[output] = true;
        writers[output].push_back({q, c});
      }
    }
  }
  return writers;
}

}  // namespace hpu::recipe
