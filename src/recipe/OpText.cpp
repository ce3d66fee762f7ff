// SPDX-License-Identifier: Apache-2.0
#include "recipe/OpText.h"

#include <algorithm>
#include <utility>

namespace hpu::recipe {
namespace {

const std::string& nodeName(const Program& program, const Op& op) {
  if (op.provenance.empty()) return op.name;
  const SourceNode& node = program.sourceNodes[op.provenance.front()];
  return node.name.empty() ? op.name : node.name;
}

}  // namespace

std::string opText(const Program& program, const Op& op) {
  std::string text;
  if (op.provenance.empty()) {
    text = "op '" + op.name + "'";
  } else {
    const SourceNode& node = program.sourceNodes[op.provenance.front()];
    text = "node '" + nodeName(program, op) + "' (" + node.op + ")";
    if (op.provenance.size() > 1) text += " and " + std::to_string(op.provenance.size() - 1) + " more";
  }
  return text + " on the " + std::string(engineName(op.engine));
}

Status failedAt(const Status& status, const Program& program, const Op& op) {
  WorkFailure failure = status.work() ? *status.work() : WorkFailure();
  failure.node = nodeName(program, op);
  return Status(status.code(), status.message() + " (at " + opText(program, op) + ")").withWork(std::move(failure));
}

const Op* firstUser(const Program& program, uint32_t section) {
  auto uses = [&](const Op& op) {
    auto is = [&](const Operand& operand) { return operand.section == section; };
    switch (op.engine) {
      case Engine::kMme:
        return is(op.mme.a) || is(op.mme.b) || is(op.mme.c);
      case Engine::kTpc:
        return std::any_of(op.tpc.inputs.begin(), op.tpc.inputs.end(), is) ||
               std::any_of(op.tpc.outputs.begin(), op.tpc.outputs.end(), is);
      case Engine::kDma:
        return (!op.dma.fill && is(op.dma.src)) || is(op.dma.dst);
      case Engine::kNic:
        break;
    }
    return false;
  };
  for (uint32_t index : program.hostOrder)
    if (uses(program.ops[index])) return &program.ops[index];
  return nullptr;
}

}  // namespace hpu::recipe
