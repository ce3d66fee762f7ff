// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/CreateOp.h"

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;

namespace hpu::ir {
namespace {

/// The op's properties outside of an op, as type inference wants them.
class DetachedProperties {
 public:
  explicit DetachedProperties(OperationName name)
      : name_(name), storage_((name.getOpPropertyByteSize() + sizeof(Word) - 1) / sizeof(Word) + 1) {
    if (get()) name_.initOpProperties(get(), OpaqueProperties(nullptr));
  }
  ~DetachedProperties() {
    if (get()) name_.destroyOpProperties(get());
  }
  /// Null for an op without attributes, which has no properties.
  OpaqueProperties get() { return OpaqueProperties(name_.getOpPropertyByteSize() ? storage_.data() : nullptr); }

  LogicalResult set(DictionaryAttr attributes, Location loc) {
    if (!get()) return success();
    if (failed(name_.setOpPropertiesFromAttribute(name_, get(), attributes, [&] { return emitError(loc); })))
      return failure();
    name_.populateDefaultProperties(get());
    return success();
  }

 private:
  using Word = std::max_align_t;
  OperationName name_;
  std::vector<Word> storage_;
};

FailureOr<OperationName> registeredName(MLIRContext* context, Location loc, StringRef mnemonic) {
  OperationName name(("hpu." + mnemonic).str(), context);
  if (!name.isRegistered() || !name.hasInterface<InferTypeOpInterface>())
    return emitError(loc) << "there is no tensor op '" << mnemonic << "' in the hpu dialect", failure();
  return name;
}

/// What the op's verifier has to say when its result type is a guess. Empty when the operands and
/// attributes are complete enough for inference to look at them.
std::string missingParts(OperationName name, Location loc, ValueRange operands, DictionaryAttr attributes) {
  DiagnosticCapture capture(loc.getContext());
  OperationState state(loc, name);
  state.addOperands(operands);
  Type guess =
      operands.empty() ? Type(RankedTensorType::get({}, Float32Type::get(loc.getContext()))) : operands[0].getType();
  state.addTypes(guess);
  state.addAttributes(attributes.getValue());
  Operation* op = Operation::create(state);
  (void)name.verifyInvariants(op);
  op->destroy();
  for (const DiagnosticCapture::Entry& entry : capture.entries())
    if (StringRef(entry.text).contains("requires attribute") || StringRef(entry.text).contains("operands, but found") ||
        StringRef(entry.text).contains("operands present, but expected") ||
        StringRef(entry.text).contains("failed to satisfy constraint") ||
        (StringRef(entry.text).contains("expected") && StringRef(entry.text).contains("operand")))
      return entry.text;
  return {};
}

/// Sizes that nothing could hold come from attributes beyond all reason.
LogicalResult checkExtent(Type type, Location loc) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked) return success();
  if (ranked.getRank() > kMostDims)
    return emitError(loc) << "its result would have more than " << kMostDims << " dimensions";
  if (!fitsMemory(ranked)) return emitError(loc) << "its result would be " << type << ", which no memory holds";
  return success();
}

}  // namespace

bool fitsMemory(RankedTensorType type) {
  constexpr int64_t kMostElements = int64_t{1} << 46;
  int64_t count = 1;
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size)) continue;
    if (size < 0 || size > kMostElements) return false;
    if (size > 0 && (__builtin_mul_overflow(count, size, &count) || count > kMostElements)) return false;
  }
  return true;
}

FailureOr<Operation*> createOp(OpBuilder& builder, Location loc, StringRef mnemonic, ValueRange operands,
                               ArrayRef<NamedAttribute> attributes) {
  MLIRContext* context = builder.getContext();
  FailureOr<OperationName> name = registeredName(context, loc, mnemonic);
  if (failed(name)) return failure();
  DictionaryAttr dictionary = DictionaryAttr::get(context, attributes);
  SmallVector<Type> types;
  {
    DetachedProperties properties(*name);
    if (failed(properties.set(dictionary, loc))) return failure();
    if (failed(name->getInterface<InferTypeOpInterface>()->inferReturnTypes(context, loc, operands, dictionary,
                                                                            properties.get(), RegionRange(), types)))
      return failure();
  }
  for (Type type : types)
    if (failed(checkExtent(type, loc))) return failure();
  OperationState state(loc, *name);
  state.addOperands(operands);
  state.addTypes(types);
  state.addAttributes(dictionary.getValue());
  Operation* op = Operation::create(state);
  if (failed(name->verifyInvariants(op))) {
    op->destroy();
    return failure();
  }
  return builder.insert(op);
}

FailureOr<Operation*> createCheckedOp(OpBuilder& builder, Location loc, StringRef mnemonic, ValueRange operands,
                                      ArrayRef<NamedAttribute> attributes) {
  FailureOr<OperationName> name = registeredName(builder.getContext(), loc, mnemonic);
  if (failed(name)) return failure();
  for (NamedAttribute attribute : attributes) {
    if (llvm::is_contained(name->getAttributeNames(), attribute.getName())) continue;
    std::string known;
    for (StringAttr other : name->getAttributeNames()) known += (known.empty() ? "" : ", ") + other.str();
    return emitError(loc) << "'" << mnemonic << "' has no attribute '" << attribute.getName().getValue() << "' ("
                          << (known.empty() ? std::string("it has none") : "it has " + known) << ")",
           failure();
  }
  DictionaryAttr dictionary = DictionaryAttr::get(builder.getContext(), attributes);
  if (std::string missing = missingParts(*name, loc, operands, dictionary); !missing.empty())
    return emitError(loc) << missing, failure();
  return createOp(builder, loc, mnemonic, operands, attributes);
}

bool attributeFits(OperationName op, StringRef name, Attribute attribute) {
  DiagnosticCapture capture(op.getContext());
  Location loc = UnknownLoc::get(op.getContext());
  NamedAttrList list;
  list.append(name, attribute);
  if (failed(op.verifyInherentAttrs(list, [&] { return emitError(loc); }))) return false;
  DetachedProperties properties(op);
  return succeeded(properties.set(DictionaryAttr::get(op.getContext(), list), loc));
}

Location nodeLocation(MLIRContext* context, StringRef node, StringRef op) {
  Location name = NameLoc::get(StringAttr::get(context, node));
  return FusedLoc::get(context, {name}, StringAttr::get(context, op));
}

}  // namespace hpu::ir
