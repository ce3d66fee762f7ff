// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/Fallback.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>

#include "pytorch/device/Copy.h"
#include "pytorch/device/Generator.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/Recorder.h"

namespace hpu_torch {
namespace {

using at::Tensor;
using c10::IValue;

struct Policy {
  std::mutex mutex;
  std::string text;
  bool all = true;
  std::set<std::string> ops;
  std::map<std::string, FallbackCount> counts;
  bool allows(const std::string& name) const {
    return ops.count(name.rfind("aten::", 0) == 0 ? name.substr(6) : name) > 0;
  }
  void set(const std::string& value) {
    text = value;
    all = value.empty() || value == "all" || value == "1";
    ops.clear();
    std::stringstream parts(value == "none" || value == "0" ? "" : value);
    for (std::string part; std::getline(parts, part, ',');)
      if (!part.empty()) ops.insert(part.rfind("aten::", 0) == 0 ? part.substr(6) : part);
  }
};
Policy& policy() {
  static Policy& instance = *[] {
    auto* made = new Policy;
    if (const char* value = std::getenv("PT_HPU_PLACE_ON_CPU")) made->set(value);
    return made;
  }();
  return instance;
}
std::atomic<std::string (*)()> g_callSite{nullptr};
/// Arguments that ops write though their schemas do not say so.
bool isWrittenUnsaid(const std::string& name, size_t argument) {
  static const auto& known = *new std::map<std::string, std::set<size_t>>{
      {"aten::native_batch_norm", {3, 4}},        // running_mean, running_var
      {"aten::batch_norm_update_stats", {1, 2}},  // running_mean, running_var
      {"aten::rrelu_with_noise", {1}},            // noise
      {"aten::rrelu_with_noise_", {1}},
  };
  auto found = known.find(name);
  return found != known.end() && found->second.count(argument);
}
/// Ops that take tensors of the CPU beside those of a device: lengths, and indices.
bool takesCpuTensors(const std::string& name) {
  static const auto& known = *new std::set<std::string>{"aten::_ctc_loss",
                                                        "aten::index",
                                                        "aten::index_put",
                                                        "aten::_index_put_impl",
                                                        "aten::_index_put_impl_",
                                                        "aten::index_put_",
                                                        "aten::_pack_padded_sequence",
                                                        "aten::_pack_padded_sequence_backward"};
  return known.count(name) > 0;
}

/// Ops that fill a tensor with numbers of a generator. These are drawn on the host, as the CPU's are: no fallback.
bool isDrawnOnHost(const std::string& name) {
  static const auto& known =
      *new std::set<std::string>{"aten::bernoulli_", "aten::uniform_",   "aten::normal_",     "aten::random_",
                                 "aten::cauchy_",    "aten::geometric_", "aten::log_normal_", "aten::exponential_"};
  return known.count(name) > 0;
}

std::string describe(const IValue& value) {
  std::ostringstream text;
  if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return "None";
    text << tensor.scalar_type() << tensor.sizes() << " on " << tensor.device();
  } else if (value.isTensorList()) {
    text << "[";
    size_t index = 0;
    for (const Tensor& tensor : value.toTensorVector()) text << (index++ ? ", " : "") << describe(tensor);
    text << "]";
  } else if (value.isGenerator()) {
    text << "a generator";
  } else {
    text << value;
  }
  return text.str();
}

/// What the op was given, for messages.
std::string describeCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  std::string text = toString(op.operator_name()) + "(";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const IValue& value = stack[stack.size() - arguments.size() + i];
    if (value.isNone()) continue;
    if (text.back() != '(') text += ", ";
    text += arguments[i].name() + "=" + describe(value);
  }
  return text + ")";
}

void countOrRefuse(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string name = toString(op.operator_name());
  const std::string where = callSite();
  Policy& rules = policy();
  bool isAllowed;
  {
    std::lock_guard<std::mutex> lock(rules.mutex);
    isAllowed = rules.all || rules.allows(name) || rules.allows(op.operator_name().name);
    if (isAllowed) {
      FallbackCount& count = rules.counts[name];
      ++count.calls;
      if (!where.empty()) ++count.sites[where];
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(isAllowed, "hpu has no kernel for ", describeCall(op, stack),
                              where.empty() ? "" : ", called at " + where, ", and PT_HPU_PLACE_ON_CPU=", placeOnCpu(),
                              " does not let it run on the CPU");
}

bool isGenerator(const c10::Argument& argument) {
  const c10::TypePtr& type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>())
    return optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
  return type->kind() == c10::TypeKind::GeneratorType;
}

/// One call on its way to the CPU and back.
class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op), stack_(stack), name_(op.operator_name().name), first_(stack.size() - op.schema().arguments().size()) {}

  void run() {
    collect();
    download();
    replaceArguments();
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    copyBack();
    replaceResults();
  }

 private:
  struct Moved {
    Tensor hpu, cpu;
    bool isRead = true, isWritten = false;
  };

  size_t note(const Tensor& tensor, bool isRead, bool isWritten) {
    auto [found, isNew] = index_.emplace(tensor.unsafeGetTensorImpl(), moved_.size());
    if (isNew) {
      moved_.push_back({tensor, {}, isRead, isWritten});
      checkDevice(tensor);
    } else {
      moved_[found->second].isRead |= isRead;
      moved_[found->second].isWritten |= isWritten;
    }
    return found->second;
  }
  void checkDevice(const Tensor& tensor) {
    if (!device_) device_ = tensor.device();
    TORCH_CHECK(*device_ == tensor.device(), toString(op_.operator_name()),
                ": expected all tensors to be on the same device, but found ", *device_, " and ", tensor.device());
  }
  static bool isHpu(const Tensor& tensor) { return tensor.defined() && tensor.device().is_hpu(); }
  /// Calls visit(tensor) for the tensors in an argument, of whatever kind it is.
  template <typename Visit>
  static void forEachTensor(const IValue& value, Visit&& visit) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorVector()) visit(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const c10::optional<Tensor>& tensor : value.toOptionalTensorVector())
        if (tensor) visit(*tensor);
    }
  }

  void collect() {
    const auto& arguments = op_.schema().arguments();
    bool hasCpuTensor = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const IValue& value = stack_[first_ + i];
      const auto* alias = arguments[i].alias_info();
      const bool isWritten = (alias && alias->isWrite()) || isWrittenUnsaid(name_, i);
      forEachTensor(value, [&](const Tensor& tensor) {
        if (isHpu(tensor)) {
          note(tensor, !arguments[i].is_out() && !(isWritten && isDrawnOnHost(name_)), isWritten);
        } else if (tensor.defined() && tensor.dim() > 0) {
          hasCpuTensor = true;
        }
      });
      if (value.isDevice() && value.toDevice().is_hpu()) asked_ = value.toDevice();
      if (value.isGenerator() && value.toGenerator().defined()) engine_ = engineOf(value.toGenerator(), name_);
    }
    TORCH_CHECK(!engine_ || device_ || asked_, name_, ": expected a 'cpu' device type for generator but found 'hpu'");
    TORCH_CHECK(!hasCpuTensor || !device_ || takesCpuTensors(name_), describeCall(op_, stack_),
                ": expected all tensors to be on the same device, but found some on ", *device_,
                " and some on the CPU");
  }

  void download() {
    // Tensors that share a storage, of which one is written, are views of one copy of it.
    std::map<c10::StorageImpl*, std::vector<Moved*>> groups;
    for (Moved& one : moved_)
      if (one.hpu.numel() > 0) groups[one.hpu.storage().unsafeGetStorageImpl()].push_back(&one);
    std::vector<Tensor> alone;
    std::vector<Moved*> aloneIn;
    for (auto& [storage, members] : groups) {
      bool isWritten = false;
      for (const Moved* one : members) isWritten |= one->isWritten;
      if (members.size() > 1 && isWritten) {
        downloadTogether(members);
        continue;
      }
      for (Moved* one : members) {
        if (!one->isRead) continue;
        alone.push_back(one->hpu);
        aloneIn.push_back(one);
      }
    }
    std::vector<Tensor> host = toHost(alone);
    for (size_t i = 0; i < host.size(); ++i) aloneIn[i]->cpu = host[i];
    for (Moved& one : moved_) {
      if (one.cpu.defined()) continue;
      // The CPU draws no f16 numbers.
      const bool isWide = isDrawnOnHost(name_) && one.hpu.scalar_type() == at::kHalf;
      const at::ScalarType type = isWide ? at::kFloat : one.hpu.scalar_type();
      one.cpu = at::empty_strided(one.hpu.sizes(), one.hpu.strides(), one.hpu.options().device(at::kCPU).dtype(type));
    }
  }

  static void downloadTogether(const std::vector<Moved*>& members) {
    int64_t begin = INT64_MAX, end = 0;
    for (const Moved* one : members) {
      const auto item = static_cast<int64_t>(one->hpu.itemsize());
      begin = std::min(begin, one->hpu.storage_offset() * item);
      end = std::max<int64_t>(
          end, at::detail::computeStorageNbytes(one->hpu.sizes(), one->hpu.strides(), item, one->hpu.storage_offset()));
    }
    begin = begin / 16 * 16;  // A multiple of every type's size.
    at::Storage storage = storageToHost(members[0]->hpu.storage(), begin, end);
    for (Moved* one : members) {
      const auto item = static_cast<int64_t>(one->hpu.itemsize());
      one->cpu = at::empty({0}, one->hpu.options().device(at::kCPU))
                     .set_(storage, one->hpu.storage_offset() - begin / item, one->hpu.sizes(), one->hpu.strides());
      one->cpu._set_conj(one->hpu.is_conj());
      one->cpu._set_neg(one->hpu.is_neg());
    }
  }

  Tensor onCpu(const Tensor& tensor) {
    return isHpu(tensor) ? moved_[index_.at(tensor.unsafeGetTensorImpl())].cpu : tensor;
  }

  void replaceArguments() {
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      IValue& value = stack_[first_ + i];
      if (value.isTensor()) {
        value = onCpu(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& tensor : value.toTensorVector()) list.push_back(onCpu(tensor));
        value = list;
      } else if (value.isOptionalTensorList()) {
        c10::List<c10::optional<Tensor>> list;
        for (const c10::optional<Tensor>& tensor : value.toOptionalTensorVector())
          list.push_back(tensor ? c10::optional<Tensor>(onCpu(*tensor)) : c10::nullopt);
        value = list;
      } else if (value.isDevice() && value.toDevice().is_hpu()) {
        value = c10::Device(at::kCPU);
      } else if (value.isGenerator() || (value.isNone() && isGenerator(arguments[i]))) {
        // Without one, numbers come from the device's own generator.
        value = engine_ ? *engine_ : engineOf(defaultGenerator(target().index()), name_);
      }
    }
  }

  c10::Device target() const {
    if (asked_) return {kHpu, checkedIndex(asked_->index())};
    return device_ ? *device_ : c10::Device(kHpu, currentDevice());
  }

  void copyBack() {
    for (Moved& one : moved_) {
      if (!one.isWritten) continue;
      if (one.cpu.sizes() != one.hpu.sizes()) {
        one.hpu.resize_(one.cpu.sizes());
        if (one.cpu.is_non_overlapping_and_dense())
          one.hpu.unsafeGetTensorImpl()->set_sizes_and_strides(one.cpu.sizes(), one.cpu.strides());
      }
      uploadOwned(one.cpu, one.hpu);
    }
  }

  Tensor onDevice(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.device().is_cpu()) return tensor;
    for (const Moved& one : moved_)
      if (one.isWritten && one.cpu.is_same(tensor)) return one.hpu;
    return toDevice(tensor, target());
  }

  void replaceResults() {
    const auto& returns = op_.schema().returns();
    const size_t first = stack_.size() - returns.size();
    for (size_t i = 0; i < returns.size(); ++i) {
      IValue& value = stack_[first + i];
      const auto* alias = returns[i].alias_info();
      TORCH_CHECK_NOT_IMPLEMENTED(!alias || alias->isWrite() || moved_.empty(), toString(op_.operator_name()),
                                  " returns a view, and hpu has no kernel for it: a copy would not be one");
      if (value.isTensor()) {
        value = onDevice(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& tensor : value.toTensorVector()) list.push_back(onDevice(tensor));
        value = list;
      }
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  const std::string name_;
  const size_t first_;  ///< Of the arguments, in the stack.
  std::vector<Moved> moved_;
  std::map<c10::TensorImpl*, size_t> index_;
  c10::optional<c10::Device> device_, asked_;
  c10::optional<at::Generator> engine_;
};

/// Ops of lists that libtorch's CPU kernels write as ops of their tensors, which then come here one by one.
bool isLoopOnCpu(const std::string& name) {
  return name.rfind("aten::_foreach_", 0) == 0;
}

void boxedKernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (isLoopOnCpu(op.operator_name().name))
    return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  recordCall(op, stack);
}

TORCH_LIBRARY_IMPL(_, HPU, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxedKernel>());
}

// For devices that libtorch does not know these would go on to ops that only say that they are not there, or to
// compositions that do not take empty tensors.
TORCH_LIBRARY_IMPL(aten, HPU, m) {
  for (const char* op : {"convolution", "convolution_backward", "native_group_norm", "native_layer_norm"})
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&boxedKernel>());
}

// libtorch's composition calls the CPU's or CUDA's kernel by itself, with whatever tensor it has.
Tensor linalgEigvals(const Tensor& self) {
  return std::get<0>(at::linalg_eig(self));
}
TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("linalg_eigvals", TORCH_FN(linalgEigvals));
}
TORCH_LIBRARY_IMPL(aten, AutogradHPU, m) {
  m.impl("linalg_eigvals", TORCH_FN(linalgEigvals));
}

}  // namespace

namespace {
/// While a graph is captured: numbers that are drawn in place are drawn at each replay, and nothing else can run on the
/// CPU. False: nothing is captured.
bool captureDrawing(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const Tensor* target = nullptr;
  const size_t arguments = op.schema().arguments().size();
  c10::DeviceIndex device = currentDevice();
  for (size_t i = stack.size() - arguments; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().device().is_hpu()) {
      if (!target) target = &stack[i].toTensor();
      device = target->device().index();
    }
  if (!isCapturing(device)) return false;
  const bool isDrawn = target && isDrawnOnHost(op.operator_name().name);
  const std::string where = isDrawn ? "" : callSite();
  TORCH_CHECK_NOT_IMPLEMENTED(isDrawn, "hpu has no kernel for ", describeCall(op, stack),
                              where.empty() ? "" : ", called at " + where,
                              ", and what runs on the CPU cannot be captured");
  torch::jit::Stack call(stack.end() - static_cast<int64_t>(arguments), stack.end());
  const std::vector<c10::Storage> storages = {target->storage()};
  Tensor result = *target;
  captureWork(device, storages, [op, call] {
    torch::jit::Stack again = call;
    cpuFallback(op, &again);
  });
  torch::jit::drop(stack, arguments);
  stack.emplace_back(std::move(result));
  return true;
}
}  // namespace

void cpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (captureDrawing(op, *stack)) return;
  if (!isDrawnOnHost(op.operator_name().name)) countOrRefuse(op, *stack);
  CpuCall(op, *stack).run();
}

void setPlaceOnCpu(const std::string& ops) {
  Policy& rules = policy();
  std::lock_guard<std::mutex> lock(rules.mutex);
  rules.set(ops);
}
std::string placeOnCpu() {
  Policy& rules = policy();
  std::lock_guard<std::mutex> lock(rules.mutex);
  return rules.text;
}
std::map<std::string, FallbackCount> fallbackCounts() {
  Policy& rules = policy();
  std::lock_guard<std::mutex> lock(rules.mutex);
  return rules.counts;
}
void resetFallbackCounts() {
  Policy& rules = policy();
  std::lock_guard<std::mutex> lock(rules.mutex);
  rules.counts.clear();
}
std::string callSite() {
  std::string (*site)() = g_callSite.load();
  return site ? site() : "";
}
void setCallSite(std::string (*site)()) {
  g_callSite = site;
}

}  // namespace hpu_torch
