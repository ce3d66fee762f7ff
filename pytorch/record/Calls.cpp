// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Calls.h"

#include <ATen/ATen.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "pytorch/device/Fallback.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/record/Structured.h"
#include "pytorch/record/Translate.h"
#include "pytorch/record/WordMap.h"

namespace hpu_torch {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;
using Kind = Argument::Kind;

hpu::ElementType elementTypeOf(at::ScalarType type) {
  using hpu::ElementType;
  switch (type) {
    case at::kFloat:
      return ElementType::kF32;
    case at::kHalf:
      return ElementType::kF16;
    case at::kBFloat16:
      return ElementType::kBF16;
    case at::kChar:
      return ElementType::kI8;
    case at::kByte:
      return ElementType::kU8;
    case at::kShort:
      return ElementType::kI16;
    case at::kInt:
      return ElementType::kI32;
    case at::kLong:
      return ElementType::kI64;
    case at::kBool:
      return ElementType::kBool;
    default:
      return ElementType::kInvalid;
  }
}

/// An op's row, and what its schema says.
struct OpEntry {
  const Row* row = nullptr;
  std::string name;
  std::vector<bool> isWritten, isOut;
  std::vector<bool> isNumber;       ///< Of the schema's type Scalar, or an optional one.
  std::vector<int> resultArgument;  ///< The argument that a result is; -1: none.
  bool hasMeta = false;
};

constexpr size_t kMostSignatures = 65536;

struct Tables {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<OpEntry>> ops;
  WordMap<Signature> signatures{kMostSignatures};
  int64_t next = 1;
};
Tables& tables() {
  static Tables& instance = *new Tables;
  return instance;
}

const OpEntry& makeEntry(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  std::lock_guard<std::mutex> lock(tables().mutex);
  std::unique_ptr<OpEntry>& entry = tables().ops[&schema];
  if (entry) return *entry;
  entry = std::make_unique<OpEntry>();
  entry->name = toString(op.operator_name());
  if (entry->name.rfind("aten::", 0) == 0) entry->row = findRow(std::string_view(entry->name).substr(6));
  if (entry->name.rfind("hpu::", 0) == 0) entry->row = findRow(entry->name);
  if (!entry->row) entry->row = structuredRow(op);
  if (!entry->row) return *entry;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    // Who copies says so by the order of its arguments alone.
    const bool isCopied = entry->name == "aten::_copy_from" && i == 1;
    entry->isWritten.push_back((alias && alias->isWrite()) || isCopied || entry->row->writes(i));
    entry->isOut.push_back(schema.arguments()[i].is_out() || isCopied);
    c10::TypePtr type = schema.arguments()[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    entry->isNumber.push_back(type->kind() == c10::TypeKind::NumberType);
  }
  for (const c10::Argument& result : schema.returns()) {
    int found = entry->name == "aten::_copy_from" ? 1 : -1;
    for (size_t i = 0; result.alias_info() && i < schema.arguments().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias && alias->beforeSets() == result.alias_info()->beforeSets()) found = static_cast<int>(i);
    }
    entry->resultArgument.push_back(found);
  }
  entry->hasMeta = op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) &&
                   !(entry->row->flags & Row::kOwnShapes) && entry->name != "aten::_copy_from";
  return *entry;
}

/// Entries stay for ever, so a thread keeps those that it used last.
const OpEntry& entryOf(const c10::OperatorHandle& op) {
  struct Used {
    const c10::FunctionSchema* schema;
    const OpEntry* entry;
  };
  constexpr size_t kMost = 256;
  thread_local Used used[kMost] = {};
  const c10::FunctionSchema* schema = &op.schema();
  Used& found = used[reinterpret_cast<uintptr_t>(schema) / alignof(c10::FunctionSchema) / 8 % kMost];
  if (found.schema != schema) found = {schema, &makeEntry(op)};
  return *found.entry;
}

/// Numbers that tell signatures apart, gathered while a call's arguments are looked at.
class Key {
 public:
  void add(int64_t value) { words_.push_back(value); }
  void add(double value) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    words_.push_back(bits);
  }
  void add(c10::IntArrayRef list) {
    add(static_cast<int64_t>(list.size()));
    words_.append(list.begin(), list.end());
  }
  void add(const std::string& text) {
    add(static_cast<int64_t>(text.size()));
    for (char c : text) add(int64_t{c});
  }
  void add(const Tensor& tensor) {
    add(static_cast<int64_t>(tensor.scalar_type()));
    add(tensor.sizes());
    words_.append(tensor.strides().begin(), tensor.strides().end());
  }
  Words words() const { return wordsOf(words_); }

 private:
  c10::SmallVector<int64_t, 64> words_;
};

class Reader {
 public:
  Reader(const c10::OperatorHandle& op, const OpEntry& entry, const Stack& stack, RecordedCall& call)
      : op_(op), entry_(entry), stack_(stack), call_(call), first_(stack.size() - entry.isWritten.size()) {}

  bool run() {
    key_.add(reinterpret_cast<int64_t>(&entry_));
    for (size_t i = 0; i < entry_.isWritten.size(); ++i)
      if (!argument(i)) return false;
    if (!device_) return false;
    call_.device = *device_;
    {
      std::lock_guard<std::mutex> lock(tables().mutex);
      call_.signature = tables().signatures.find(key_.words());
    }
    if (!call_.signature) call_.signature = make();
    if (!call_.signature->refused.empty() || (call_.signature->hasSeveralTypes && isSharedByTypes())) return false;
    return resizeOutputs();
  }

 private:
  const IValue& at(size_t i) const { return stack_[first_ + i]; }

  /// Whether a storage is read as elements of two types, which a graph has no way to express.
  bool isSharedByTypes() const {
    for (const Tensor* one : call_.operands)
      for (const Tensor* other : call_.operands)
        if (one->storage().is_alias_of(other->storage()) && one->scalar_type() != other->scalar_type()) return true;
    return false;
  }

  /// A tensor of the device. False: not one that can be recorded.
  bool operand(const Tensor& tensor, size_t i) {
    if (!device_) device_ = tensor.device();
    // Mixed devices, lazily negated and conjugated views, and layouts: the fallback knows what to say.
    if (*device_ != tensor.device() || tensor.layout() != at::kStrided || tensor.is_conj() || tensor.is_neg())
      return false;
    if (elementTypeOf(tensor.scalar_type()) == hpu::ElementType::kInvalid) return false;
    key_.add(tensor);
    call_.operands.push_back(&tensor);
    call_.writesOperands |= entry_.isWritten[i];
    return true;
  }

  bool number(bool isReal, int64_t integer, double real, bool isFixed) {
    key_.add(int64_t{isReal ? 'r' : 'i'});
    if (isFixed) {
      key_.add(isReal ? c10::IValue(real).toDouble() : static_cast<double>(integer));
      key_.add(integer);
      return true;
    }
    call_.numbers.push_back({integer, real});
    return true;
  }
  bool isFixed(const at::Scalar& value) const {
    // An integer is what the program says, a float may be a learning rate.
    return (entry_.row->flags & Row::kFixedNumbers) || !value.isFloatingPoint() || value.toDouble() == 0 ||
           value.toDouble() == 1;
  }
  bool scalar(const at::Scalar& value) {
    if (value.isComplex()) return false;
    const bool isReal = value.isFloatingPoint();
    key_.add(int64_t{value.isBoolean()} * 2 + int64_t{isFixed(value)});
    return number(isReal, isReal ? 0 : value.toLong(), value.toDouble(), isFixed(value));
  }
  /// A tensor of the CPU is a number where it has no dims.
  bool cpuNumber(const Tensor& tensor) {
    if (!tensor.device().is_cpu() || tensor.dim() != 0 || tensor.is_complex()) return false;
    const bool isReal = tensor.is_floating_point();
    const bool fixed = (entry_.row->flags & Row::kFixedNumbers) != 0;
    key_.add(int64_t{tensor.unsafeGetTensorImpl()->is_wrapped_number()});
    key_.add(static_cast<int64_t>(tensor.scalar_type()) * 2 + int64_t{fixed});
    const at::Scalar value = tensor.item();
    return number(isReal, isReal ? 0 : value.toLong(), value.toDouble(), fixed);
  }

  bool argument(size_t i) {
    const IValue& value = at(i);
    key_.add(static_cast<int64_t>(i));
    if (value.isNone()) return true;
    if (value.isTensor()) {
      const Tensor& tensor = value.toTensor();
      if (!tensor.defined()) return true;
      key_.add(int64_t{'t'});
      if (tensor.device().is_hpu()) return operand(tensor, i);
      return cpuNumber(tensor);
    }
    if (value.isTensorList() || value.isOptionalTensorList()) {
      key_.add(int64_t{'l'});
      for (const IValue& member : value.toListRef()) {
        if (member.isNone() || !member.toTensor().defined()) {
          key_.add(int64_t{'-'});
          continue;
        }
        if (!member.toTensor().device().is_hpu()) return false;
        key_.add(int64_t{'t'});
        if (!operand(member.toTensor(), i)) return false;
      }
      return true;
    }
    if (value.isGenerator()) return false;
    if (entry_.isNumber[i] && value.isScalar()) return scalar(value.toScalar());
    if (value.isInt()) return key_.add(value.toInt()), true;
    if (value.isBool()) return key_.add(int64_t{value.toBool()}), true;
    if (value.isDouble()) return key_.add(value.toDouble()), true;
    if (value.isIntList()) return key_.add(value.toIntVector()), true;
    if (value.isDoubleList()) {
      for (double one : value.toDoubleVector()) key_.add(one);
      return true;
    }
    if (value.isBoolList()) {
      for (bool one : value.toBoolList()) key_.add(int64_t{one});
      return true;
    }
    if (value.isString()) return key_.add(value.toStringRef()), true;
    if (value.isDevice()) {
      if (value.toDevice().is_hpu() && !device_) device_ = c10::Device(kHpu, checkedIndex(value.toDevice().index()));
      return true;
    }
    return false;
  }
  // ---- the first call of a kind -------------------------------------------------------------------

  std::shared_ptr<Signature> make() {
    auto made = std::make_shared<Signature>();
    made->row = entry_.row;
    made->name = entry_.name;
    made->where = callSite();
    describe(*made);
    for (const TensorMeta& operand : made->operands)
      made->hasSeveralTypes = made->hasSeveralTypes || operand.type != made->operands[0].type;
    if (entry_.hasMeta)
      inferByMeta(*made);
    else
      presetOuts(*made);
    if (made->refused.empty()) {
      const bool isInferred = !made->results.empty() && made->results[0].meta.type == hpu::ElementType::kInvalid;
      const hpu::Status status = infer(*made);
      if (!status.ok()) made->refused = std::string(status.message());
      if (status.ok()) checkTypes(*made);
      if (isInferred) keepFormat(*made);
    }
    std::lock_guard<std::mutex> lock(tables().mutex);
    made->id = tables().next++;
    return tables().signatures.insert(key_.words(), made);
  }

  TensorMeta metaOf(const Tensor& tensor) const {
    return {elementTypeOf(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec()};
  }

  void describe(Signature& made) {
    at::native::ResultTypeState state = {};
    int numbers = 0;
    auto addNumber = [&](Argument& a, const at::Scalar& value, bool fixed) {
      a.kind = Kind::kNumber;
      a.isReal = value.isFloatingPoint();
      a.real = value.toDouble();
      a.integer = a.isReal ? 0 : value.toLong();
      if (fixed) return;
      a.number = numbers++;
      made.isRealNumber.push_back(a.isReal);
    };
    for (size_t i = 0; i < op_.schema().arguments().size(); ++i) {
      const IValue& value = at(i);
      Argument a;
      auto addOperand = [&](const Tensor& tensor) {
        a.operands.push_back(static_cast<int>(made.operands.size()));
        made.operands.push_back(metaOf(tensor));
        if (!entry_.isOut[i]) state = at::native::update_result_type_state(tensor, state);
        const bool isResult = std::find(entry_.resultArgument.begin(), entry_.resultArgument.end(),
                                        static_cast<int>(i)) != entry_.resultArgument.end();
        if (entry_.isWritten[i] && !isResult) made.written.push_back(a.operands.back());
      };
      if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) {
      } else if (value.isTensor() && value.toTensor().device().is_hpu()) {
        a.kind = Kind::kTensor;
        addOperand(value.toTensor());
      } else if (value.isTensor()) {
        state = at::native::update_result_type_state(value.toTensor(), state);
        addNumber(a, value.toTensor().item(), (entry_.row->flags & Row::kFixedNumbers) != 0);
      } else if (value.isTensorList() || value.isOptionalTensorList()) {
        a.kind = Kind::kTensors;
        for (const IValue& member : value.toListRef()) {
          if (member.isNone() || !member.toTensor().defined())
            a.operands.push_back(-1);
          else
            addOperand(member.toTensor());
        }
      } else if (entry_.isNumber[i] && value.isScalar()) {
        const at::Scalar number = value.toScalar();
        // Factors (alpha, value, ..) do not promote.
        const std::string& called = op_.schema().arguments()[i].name();
        if (called == "self" || called == "other" || called == "exponent")
          state = at::native::update_result_type_state(number, state);
        addNumber(a, number, isFixed(number));
      } else if (value.isInt()) {
        const std::string& called = op_.schema().arguments()[i].name();
        const bool isType = called == "dtype" || called == "out_dtype";
        a.kind = isType ? Kind::kType : Kind::kInt;
        a.integer = value.toInt();
        if (isType) a.type = elementTypeOf(static_cast<at::ScalarType>(a.integer));
      } else if (value.isBool()) {
        a.kind = Kind::kBool;
        a.integer = value.toBool();
      } else if (value.isDouble()) {
        a.kind = Kind::kReal;
        a.real = value.toDouble();
      } else if (value.isIntList()) {
        a.kind = Kind::kInts;
        a.integers = value.toIntVector();
      } else if (value.isDoubleList()) {
        a.kind = Kind::kReals;
        a.reals = value.toDoubleVector();
      } else if (value.isBoolList()) {
        a.kind = Kind::kBools;
        for (bool one : value.toBoolList()) a.integers.push_back(one);
      } else if (value.isString()) {
        a.kind = Kind::kText;
        a.text = value.toStringRef();
      }
      made.arguments.push_back(std::move(a));
    }
    at::ScalarType common = at::native::result_type(state);
    if (common == at::ScalarType::Undefined && !call_.operands.empty()) common = call_.operands[0]->scalar_type();
    made.common = elementTypeOf(common);
    made.results.resize(op_.schema().returns().size());
    // An op without operands has no common type.
    if (made.common == hpu::ElementType::kInvalid && common != at::ScalarType::Undefined)
      made.refused = std::string("it computes in ") + c10::toString(common);
  }

  /// Results that are arguments are as these, without a Meta kernel.
  void presetOuts(Signature& made) {
    for (size_t k = 0; k < made.results.size(); ++k) {
      const int i = entry_.resultArgument[k];
      if (i < 0) continue;
      made.results[k].operand = made.arguments[static_cast<size_t>(i)].operands.at(0);
      const TensorMeta& meta = made.operands[static_cast<size_t>(made.results[k].operand)];
      // libtorch's own compositions hand in empty tensors of one dim: these become as large as the function says.
      if ((entry_.row->flags & Row::kOwnShapes) && entry_.isOut[static_cast<size_t>(i)] && meta.sizes == hpu::Shape{0})
        continue;
      made.results[k].meta = meta;
    }
  }

  /// Results whose sizes the function alone said have the type of the argument that they are.
  void checkTypes(Signature& made) {
    for (const ResultMeta& result : made.results)
      if (result.operand >= 0 && result.isDefined &&
          result.meta.type != made.operands[static_cast<size_t>(result.operand)].type)
        made.refused = "the argument for its result has another type";
  }

  static Tensor onMeta(const Tensor& tensor) {
    // Numbers go with any device; Python's kernels take those that are wrapped from the CPU only.
    if (!tensor.defined() || tensor.device().is_cpu()) return tensor;
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  }

  void inferByMeta(Signature& made) {
    Stack stack;
    for (size_t i = 0; i < op_.schema().arguments().size(); ++i) {
      const IValue& value = at(i);
      if (value.isTensor()) {
        stack.emplace_back(onMeta(value.toTensor()));
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& tensor : value.toTensorVector()) list.push_back(onMeta(tensor));
        stack.emplace_back(list);
      } else if (value.isOptionalTensorList()) {
        c10::List<c10::optional<Tensor>> list;
        for (const c10::optional<Tensor>& tensor : value.toOptionalTensorVector())
          list.push_back(tensor ? c10::optional<Tensor>(onMeta(*tensor)) : c10::nullopt);
        stack.emplace_back(list);
      } else if (value.isDevice()) {
        stack.emplace_back(c10::Device(at::kMeta));
      } else {
        stack.push_back(value);
      }
    }
    std::vector<Tensor> arguments(stack.size());
    for (size_t i = 0; i < stack.size(); ++i)
      if (stack[i].isTensor()) arguments[i] = stack[i].toTensor();
    // Of a loss that is reduced, a Meta kernel warns that the result has another size on the way. It is the program's
    // to know only where its own tensor becomes another.
    struct Keep : c10::WarningHandler {
      void process(const c10::SourceLocation& where, const std::string& text, bool verbatim) override {
        warnings.emplace_back(where, text, verbatim);
      }
      std::vector<std::tuple<c10::SourceLocation, std::string, bool>> warnings;
    } kept;
    try {
      c10::Warning::WarningHandlerGuard guard(&kept);
      at::AutoDispatchBelowADInplaceOrView below;
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } catch (const c10::NotImplementedError&) {
      return presetOuts(made);
    }
    bool isResized = false;
    for (size_t k = 0; k < made.results.size(); ++k) {
      const int i = entry_.resultArgument[k];
      isResized = isResized || (i >= 0 && stack[k].isTensor() && at(static_cast<size_t>(i)).isTensor() &&
                                stack[k].toTensor().sizes() != at(static_cast<size_t>(i)).toTensor().sizes());
    }
    for (const auto& [where, text, verbatim] : kept.warnings)
      if (isResized) c10::Warning::warn(where, text, verbatim);
    for (size_t k = 0; k < made.results.size(); ++k) {
      ResultMeta& result = made.results[k];
      if (!stack[k].isTensor()) {
        made.refused = "it returns what is no tensor";
        return;
      }
      const Tensor& tensor = stack[k].toTensor();
      const int i = entry_.resultArgument[k];
      if (i >= 0) result.operand = made.arguments[static_cast<size_t>(i)].operands.at(0);
      result.isDefined = tensor.defined();
      if (!result.isDefined) continue;
      result.meta = metaOf(tensor);
      if (result.meta.type == hpu::ElementType::kInvalid) {
        made.refused = std::string("its result is ") + c10::toString(tensor.scalar_type());
        return;
      }
      // Results without elements of their own place, as an expanded one, are PyTorch's mistake to make.
      if (i < 0 && !tensor.is_non_overlapping_and_dense()) result.meta.strides = denseStrides(result.meta.sizes);
    }
  }

  /// Where the function alone said what results are: in the memory format of the first operand of rank 4.
  void keepFormat(Signature& made) {
    if (!(entry_.row->flags & Row::kKeepsFormat)) return;
    c10::MemoryFormat format = c10::MemoryFormat::Contiguous;
    for (const Tensor* tensor : call_.operands)
      if (tensor->dim() == 4 && tensor->suggest_memory_format() == c10::MemoryFormat::ChannelsLast)
        format = c10::MemoryFormat::ChannelsLast;
    for (ResultMeta& result : made.results)
      if (result.operand < 0 && result.isDefined && result.meta.sizes.size() == 4 &&
          format == c10::MemoryFormat::ChannelsLast)
        result.meta.strides = c10::get_channels_last_strides_2d(result.meta.sizes);
  }

  /// out= arguments of other sizes than the result's become what the Meta kernel made of theirs; the call is then one
  /// of another kind.
  bool resizeOutputs() {
    bool isChanged = false;
    const Signature& signature = *call_.signature;
    for (const ResultMeta& result : signature.results) {
      if (result.operand < 0) continue;
      const TensorMeta& now = signature.operands[static_cast<size_t>(result.operand)];
      if (result.meta.sizes == now.sizes && (result.meta.strides == now.strides || hpu::numElements(now.sizes) == 0))
        continue;
      const Tensor& tensor = *call_.operands[static_cast<size_t>(result.operand)];
      for (size_t i = 0; i < call_.operands.size(); ++i)
        TORCH_CHECK(static_cast<int>(i) == result.operand || !call_.operands[i]->is_same(tensor), "output with shape ",
                    tensor.sizes(), " doesn't match the broadcast shape ", c10::IntArrayRef(result.meta.sizes));
      tensor.resize_(result.meta.sizes);
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(result.meta.sizes, result.meta.strides);
      isChanged = true;
    }
    if (!isChanged) return true;
    RecordedCall again;
    if (!describeCall(op_, stack_, again)) return false;
    call_ = std::move(again);
    return true;
  }

  const c10::OperatorHandle& op_;
  const OpEntry& entry_;
  const Stack& stack_;
  RecordedCall& call_;
  const size_t first_;
  Key key_;
  std::optional<c10::Device> device_;
};

}  // namespace

bool describeCall(const c10::OperatorHandle& op, const Stack& stack, RecordedCall& call) {
  const OpEntry& entry = entryOf(op);
  if (!entry.row) return false;
  return Reader(op, entry, stack, call).run();
}

at::ScalarType scalarTypeOf(hpu::ElementType type) {
  for (at::ScalarType one :
       {at::kFloat, at::kHalf, at::kBFloat16, at::kChar, at::kByte, at::kShort, at::kInt, at::kLong, at::kBool})
    if (elementTypeOf(one) == type) return one;
  TORCH_CHECK(false, "PyTorch has no type ", std::string(hpu::elementTypeName(type)));
}

void countSignatures(RecordCounts& counts) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  counts.signatures = static_cast<int64_t>(tables().signatures.size());
  tables().signatures.forEach([&](const Signature& signature) {
    if (!signature.refused.empty()) counts.refused[signature.text()] = signature.refused;
  });
}

}  // namespace hpu_torch
