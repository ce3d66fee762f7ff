// SPDX-License-Identifier: Apache-2.0
#include "pytorch/insight/Profiler.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <atomic>
#include <optional>
#include <sstream>

#include "hpu_torch/hpu_torch.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/record/Scope.h"

namespace hpu_torch {
namespace {

struct Span : at::ObserverContext {
  int64_t startNs = 0;
  bool isScope = false;  ///< It named the ops in it.
  std::string shapes;    ///< Inputs are only there when it begins.
};

std::atomic<bool> g_withShapes{false}, g_withNames{false};

std::string shapesOf(const at::RecordFunction& call) {
  std::ostringstream text;
  auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    text << (text.tellp() > 0 ? ", " : "") << c10::toString(tensor.scalar_type()) << tensor.sizes();
  };
  for (const c10::IValue& value : call.inputs()) {
    if (value.isTensor()) add(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) add(tensor);
  }
  return text.str();
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  auto span = std::make_unique<Span>();
  // An optimiser's step and the program's own blocks, outside of modules.
  if (g_withNames && call.scope() == at::RecordScope::USER_SCOPE && currentScope() == 0) {
    setScope(call.name());
    span->isScope = true;
  }
  if (g_withShapes) span->shapes = shapesOf(call);
  span->startNs = hpu::trace::nowNs();
  return span;
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  const auto* span = static_cast<const Span*>(context);
  if (!span) return;
  if (span->isScope) setScope("");
  std::vector<hpu::trace::Argument> arguments;
  if (!span->shapes.empty()) arguments.push_back({"inputs", span->shapes});
  hpu::trace::addSpan(call.name(), span->startNs, hpu::trace::nowNs(), arguments);
}

std::optional<at::CallbackHandle>& handle() {
  static auto& instance = *new std::optional<at::CallbackHandle>;
  return instance;
}

/// What was asked for before is done.
void synchronizeAll() {
  for (c10::DeviceIndex i = 0; i < deviceCount(); ++i)
    if (openOrNull(i)) synchronizeDevice(i);
}

}  // namespace

void startProfile(hpu::trace::Level level, bool withShapes, bool withNames) {
  hpu::trace::Options options;
  options.level = level;
  TORCH_CHECK(!hpu::trace::active(), "a trace is being recorded already, by another profiler or HPU_TRACE");
  synchronizeAll();
  check(hpu::trace::start(options), "starting the profiler");
  g_withShapes = withShapes;
  g_withNames = withNames;
  handle() = at::addGlobalCallback(
      at::RecordFunctionCallback(&begin, &end)
          .needsInputs(withShapes)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
}

hpu::trace::Recording stopProfile() {
  std::string failure;
  try {
    synchronizeAll();
  } catch (const c10::Error& error) {  // What ran until then is worth a trace.
    failure = error.what_without_backtrace();
  }
  if (handle()) at::removeCallback(*handle());
  handle().reset();
  hpu::trace::Recording recording = take(hpu::trace::stop(), "stopping the profiler");
  TORCH_CHECK(failure.empty(), failure);
  return recording;
}

}  // namespace hpu_torch
