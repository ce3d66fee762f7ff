// SPDX-License-Identifier: Apache-2.0
// Autocast. PyTorch 1.13 has no dispatch key for it on hpu: this uses AutocastXPU's (no tensor here is on an XPU), and
// switches it on among the keys that the thread includes in each call. What is in no list falls through.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "pytorch/precision/AutocastLists.h"

namespace hpu_torch {
namespace {

using at::Tensor;
using torch::jit::Stack;
constexpr auto kKey = c10::DispatchKey::AutocastXPU;

enum class Policy { kLower, kFp32, kPromote };

// ---- the thread's state -----------------------------------------------------------------------------

/// Threads of the autograd engine take over the keys of who called backward, not the type: it is the last that was set.
std::atomic<c10::ScalarType>& lastType() {
  static std::atomic<c10::ScalarType>& type = *new std::atomic<c10::ScalarType>(c10::kBFloat16);
  return type;
}
thread_local c10::ScalarType t_type = c10::ScalarType::Undefined;

/// A parameter that was cast, as long as it is what it was.
struct Cast {
  c10::weak_intrusive_ptr<c10::TensorImpl> source;  ///< Keeps its address from being another tensor's.
  uint32_t version;
  Tensor result;
};
using Casts = std::unordered_map<c10::TensorImpl*, Cast>;
Casts& casts() {
  static thread_local Casts& all = *new Casts;  // No tensor ends with a thread.
  return all;
}

// ---- casting ------------------------------------------------------------------------------------------

bool isEligible(const Tensor& tensor) {
  return tensor.defined() && tensor.device().is_hpu() && tensor.is_floating_point() &&
         tensor.scalar_type() != at::kDouble;
}

/// A cast that is made without gradients has none, and one of values that were replaced is wrong: neither is kept.
bool isKept(const Tensor& tensor, c10::ScalarType type) {
  return type != at::kFloat && tensor.scalar_type() == at::kFloat && tensor.requires_grad() && tensor.is_leaf() &&
         !tensor.is_view() && !tensor.is_inference() && c10::GradMode::is_enabled() &&
         at::autocast::is_autocast_cache_enabled();
}

Tensor castTo(const Tensor& tensor, c10::ScalarType type) {
  if (!isEligible(tensor) || tensor.scalar_type() == type) return tensor;
  if (!isKept(tensor, type)) return tensor.to(type);
  const auto version = static_cast<uint32_t>(tensor._version());
  auto found = casts().find(tensor.unsafeGetTensorImpl());
  if (found != casts().end() && found->second.version == version && found->second.result.scalar_type() == type)
    return found->second.result;
  Tensor result = tensor.to(type);
  casts().insert_or_assign(tensor.unsafeGetTensorImpl(),
                           Cast{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), version, result});
  return result;
}

template <typename Visit>
void forEachTensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

/// f32 where one operand is, else the type that all have; Undefined: nothing to do.
c10::ScalarType widest(const c10::FunctionSchema& schema, const Stack& stack) {
  c10::ScalarType type = c10::ScalarType::Undefined;
  for (size_t i = stack.size() - schema.arguments().size(); i < stack.size(); ++i)
    forEachTensor(stack[i], [&](const Tensor& tensor) {
      if (!isEligible(tensor)) return;
      const bool isFirst = type == c10::ScalarType::Undefined;
      type = isFirst || type == tensor.scalar_type() ? tensor.scalar_type() : at::kFloat;
    });
  return type;
}

/// Who asks for a type gets it.
bool asksForType(const c10::FunctionSchema& schema, const Stack& stack) {
  const size_t first = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].name() == "dtype" && !stack[first + i].isNone()) return true;
  return false;
}

template <Policy policy>
void castArguments(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard without(kKey);
  const c10::FunctionSchema& schema = op.schema();
  c10::ScalarType type = policy == Policy::kLower ? autocastType() : at::kFloat;
  if (policy == Policy::kPromote) type = widest(schema, *stack);
  const bool isAsked = policy == Policy::kFp32 && asksForType(schema, *stack);
  if (type != c10::ScalarType::Undefined && !isAsked) {
    for (size_t i = stack->size() - schema.arguments().size(); i < stack->size(); ++i) {
      c10::IValue& value = (*stack)[i];
      if (value.isTensor()) {
        value = castTo(value.toTensor(), type);
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& tensor : value.toTensorVector()) list.push_back(castTo(tensor, type));
        value = std::move(list);
      }
    }
  }
  op.callBoxed(stack);
}

// ---- lists --------------------------------------------------------------------------------------------

/// Python's names of ops, as lists for Gaudi's bridge have them.
std::string atenName(const std::string& name) {
  static const auto& known =
      *new std::map<std::string, std::string>{{"truediv", "div"},
                                              {"cross_entropy", "cross_entropy_loss"},
                                              {"iadd", "add_"},
                                              {"imul", "mul_"},
                                              {"isub", "sub_"},
                                              {"itruediv", "div_"},
                                              {"scaled_dot_product_attention", "_scaled_dot_product_attention"}};
  const std::string plain = name.rfind("aten::", 0) == 0 ? name.substr(6) : name;
  auto found = known.find(plain);
  return found == known.end() ? plain : found->second;
}

/// Calls that give a new result; ops in place and with out= keep their types, as in PyTorch.
bool isFunctional(const c10::FunctionSchema& schema) {
  if (schema.returns().empty()) return false;
  for (const c10::Argument& argument : schema.arguments())
    if (argument.is_out() || (argument.alias_info() && argument.alias_info()->isWrite())) return false;
  return true;
}

/// Overloads of all aten ops by their names.
std::multimap<std::string, std::string> atenOps() {
  std::multimap<std::string, std::string> ops;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.name.rfind("aten::", 0) == 0) ops.emplace(name.name.substr(6), name.overload_name);
  return ops;
}

struct Registered {
  std::mutex mutex;
  bool isMade = false;
  AutocastLists lists;
  std::unique_ptr<torch::Library> library;
};
Registered& registered() {
  static Registered& instance = *new Registered;
  return instance;
}

/// With the mutex held.
void registerLists(Registered& state, const AutocastLists& lists) {
  const std::multimap<std::string, std::string> ops = atenOps();
  std::map<std::string, Policy> policies;  // Names with overloads.
  std::string unknown;
  auto add = [&](const std::vector<std::string>& names, Policy policy) {
    for (const std::string& name : names) {
      const std::string asked = atenName(name);
      const size_t dot = asked.find('.');
      const std::string base = asked.substr(0, dot);
      bool isFound = false;
      for (auto [one, end] = ops.equal_range(base); one != end; ++one) {
        if (dot != asked.npos && one->second != asked.substr(dot + 1)) continue;
        isFound = true;
        const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + base, one->second});
        if (!handle || !isFunctional(handle->schema())) continue;
        policies.emplace(base + (one->second.empty() ? "" : "." + one->second), policy);
      }
      if (!isFound) unknown += (unknown.empty() ? "" : ", ") + name;
    }
  };
  add(lists.lower, Policy::kLower);
  add(lists.fp32, Policy::kFp32);
  add(lists.promote, Policy::kPromote);
  TORCH_CHECK_VALUE(unknown.empty(), "autocast's lists of ops name what is no aten op of this PyTorch: ", unknown);
  state.library.reset();
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  for (const auto& [name, policy] : policies) {
    using Function = torch::CppFunction;
    library->impl(name.c_str(),
                  policy == Policy::kLower  ? Function::makeFromBoxedFunction<&castArguments<Policy::kLower>>()
                  : policy == Policy::kFp32 ? Function::makeFromBoxedFunction<&castArguments<Policy::kFp32>>()
                                            : Function::makeFromBoxedFunction<&castArguments<Policy::kPromote>>());
  }
  state.library = std::move(library);
  state.lists = lists;
  state.isMade = true;
}

void registerOnce() {
  Registered& state = registered();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.isMade) registerLists(state, listsOfEnvironment());
}

TORCH_LIBRARY_IMPL(_, AutocastXPU, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace

bool isAutocastEnabled() {
  return c10::impl::tls_is_dispatch_key_included(kKey) && !c10::impl::tls_is_dispatch_key_excluded(kKey);
}

void setAutocastEnabled(bool enabled) {
  if (enabled) registerOnce();
  at::autocast::set_xpu_enabled(enabled);
  c10::impl::tls_set_dispatch_key_included(kKey, enabled);
}

c10::ScalarType autocastType() {
  return t_type == c10::ScalarType::Undefined ? lastType().load() : t_type;
}

void setAutocastType(c10::ScalarType type) {
  TORCH_CHECK_VALUE(type == at::kBFloat16 || type == at::kHalf, "autocast on hpu casts to bfloat16 or float16, not to ",
                    c10::toString(type));
  t_type = type;
  lastType() = type;
}

void clearAutocastCache() {
  casts().clear();
}

AutocastLists autocastLists() {
  registerOnce();
  std::lock_guard<std::mutex> lock(registered().mutex);
  return registered().lists;
}

void setAutocastLists(const AutocastLists& lists) {
  std::lock_guard<std::mutex> lock(registered().mutex);
  registerLists(registered(), lists);
}

AutocastGuard::AutocastGuard(c10::ScalarType type, bool enabled, bool cacheEnabled)
    : wasEnabled_(isAutocastEnabled()), wasCached_(at::autocast::is_autocast_cache_enabled()), before_(autocastType()) {
  if (enabled) registerOnce();
  setAutocastType(type);
  setAutocastEnabled(enabled);
  at::autocast::set_autocast_cache_enabled(cacheEnabled);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) clearAutocastCache();
  setAutocastEnabled(wasEnabled_);
  t_type = before_;
  at::autocast::set_autocast_cache_enabled(wasCached_);
}

}  // namespace hpu_torch
