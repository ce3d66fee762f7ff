// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Structured.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "pytorch/record/Recorder.h"

namespace hpu_torch {
namespace {

using c10::DispatchKey;

const std::string kAten = "aten::";

/// "add_" as "add".
std::string functionalName(const std::string& name) {
  return !name.empty() && name.back() == '_' && name.rfind("__", 0) != 0 ? name.substr(0, name.size() - 1) : name;
}

/// Whether `out` has the arguments of `form`, and behind them those for its results.
bool isOutFormOf(const c10::FunctionSchema& out, const c10::FunctionSchema& form) {
  const auto& longer = out.arguments();
  const auto& arguments = form.arguments();
  if (longer.size() != arguments.size() + form.returns().size()) return false;
  for (size_t i = 0; i < longer.size(); ++i) {
    if (longer[i].is_out() != (i >= arguments.size())) return false;
    if (i < arguments.size() &&
        (longer[i].name() != arguments[i].name() || *longer[i].type() != *arguments[i].type() || arguments[i].is_out()))
      return false;
  }
  return true;
}

struct Structured {
  Structured() {
    auto& dispatcher = c10::Dispatcher::singleton();
    std::unordered_multimap<std::string, c10::OperatorHandle> outs;
    for (const std::string& name : tableNames()) {
      const Row* row = findRow(name);
      if ((row->flags & Row::kOwnShapes) || !row->written.empty()) continue;
      const size_t dot = name.find('.');
      if (dot == name.npos || name.find("::") != name.npos) continue;
      if (const auto op = dispatcher.findOp({kAten + name.substr(0, dot), name.substr(dot + 1)}))
        if (!op->schema().arguments().empty() && op->schema().arguments().back().is_out())
          outs.emplace(kAten + name.substr(0, dot), *op);
    }
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      if (name.name.rfind(kAten, 0) != 0) continue;
      const auto [first, last] = outs.equal_range(functionalName(name.name));
      if (first == last) continue;
      const auto op = dispatcher.findSchema(name);
      if (!op || !op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)) continue;
      for (auto out = first; out != last; ++out)
        if (isOutFormOf(out->second.schema(), op->schema()))
          rows.emplace(toString(name), findRow(toString(out->second.operator_name()).substr(kAten.size())));
    }
  }
  std::unordered_map<std::string, const Row*> rows;  ///< By the name with "aten::".
};
const Structured& structured() {
  static const Structured& instance = *new Structured;
  return instance;
}

bool hasNames(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().has_names();
}

void record(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // Names of dims are libtorch's to carry over: its own kernel of the form, which the recorder's hides at HPU only.
  const auto first = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  if (C10_UNLIKELY(std::any_of(first, stack->end(), hasNames)))
    return op.redispatchBoxed(c10::DispatchKeySet(DispatchKey::IPU), stack);
  recordCall(op, stack);
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  for (const auto& [name, row] : structured().rows)
    m.impl(name.c_str() + kAten.size(), torch::CppFunction::makeFromBoxedFunction<&record>());
}

}  // namespace

const Row* structuredRow(const c10::OperatorHandle& op) {
  const auto& rows = structured().rows;
  const auto found = rows.find(toString(op.operator_name()));
  return found == rows.end() ? nullptr : found->second;
}

}  // namespace hpu_torch
