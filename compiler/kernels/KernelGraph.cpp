// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelGraph.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;

namespace hpu::kernels {
using namespace ir;
namespace {

std::string describe(Operation* op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getName().getStringRef() << " at " << op->getLoc();
  return text;
}

bool readAttr(Attribute attr, Attr& out) {
  if (auto a = dyn_cast<BoolAttr>(attr)) {
    out.ints.push_back(a.getValue());
  } else if (auto a = dyn_cast<IntegerAttr>(attr)) {
    out.ints.push_back(a.getValue().getSExtValue());
  } else if (auto a = dyn_cast<FloatAttr>(attr)) {
    out.floats.push_back(a.getValueAsDouble());
  } else if (auto a = dyn_cast<DenseI64ArrayAttr>(attr)) {
    out.ints.append(a.asArrayRef().begin(), a.asArrayRef().end());
  } else if (auto a = dyn_cast<DenseF64ArrayAttr>(attr)) {
    out.floats.append(a.asArrayRef().begin(), a.asArrayRef().end());
  } else if (auto a = dyn_cast<TypeAttr>(attr)) {
    out.ints.push_back(static_cast<int64_t>(ir::elementType(a.getValue())));
  } else {
    return false;
  }
  return true;
}

struct Importer {
  explicit Importer(const SymbolicNumbers& symbolic) : symbols(symbolic) {}
  const SymbolicNumbers& symbols;
  KernelGraph graph;
  llvm::DenseMap<Value, int> nodeOf;

  Status addType(Value value, Node& node) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type) return invalidArgument("a kernel works on ranked tensors only");
    node.type = ir::elementType(type.getElementType());
    node.shape.assign(type.getShape().begin(), type.getShape().end());
    if (!symbols.sizes) return okStatus();
    SymbolicNumbers::Numbers sizes = symbols.sizes(value);
    if (sizes.empty()) return okStatus();
    if (sizes.size() != node.shape.size()) return invalidArgument("a value of a kernel has too few or many sizes");
    node.shape = std::move(sizes);
    return okStatus();
  }

  Status addInput(Value value) {
    Node node;
    node.kind = Node::Kind::Input;
    node.input = graph.numInputs++;
    if (Status status = addType(value, node); !status.ok()) return status;
    nodeOf[value] = static_cast<int>(graph.nodes.size());
    graph.nodes.push_back(std::move(node));
    return okStatus();
  }

  Status addOp(Operation* op) {
    Node node;
    node.op = op->getName().getTypeID();
    node.name = op->getName().getStringRef().str();
    if (!isa_and_nonnull<HpuDialect>(op->getDialect()) || op->getNumResults() != 1)
      return unimplemented(describe(op) + " cannot be part of a TPC kernel");
    if (Status status = addType(op->getResult(0), node); !status.ok()) return status.withContext(describe(op));
    for (Value operand : op->getOperands()) {
      auto it = nodeOf.find(operand);
      if (it == nodeOf.end()) return internalError(describe(op) + " uses a value from outside its kernel");
      node.operands.push_back(it->second);
    }
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!dense || !dense.isSplat())
        return unimplemented(describe(op) +
                             ": only constants of one repeated value can be inside a kernel; "
                             "make it an operand");
      node.kind = Node::Kind::Splat;
      if (isa<FloatType>(dense.getElementType()))
        node.splat = dense.getSplatValue<APFloat>().convertToDouble();
      else
        node.splatInt = dense.getSplatValue<APInt>().getSExtValue();
      if (node.type == ElementType::kBool) node.splatInt &= 1;
    } else {
      for (NamedAttribute named : op->getAttrDictionary()) {
        Attr value;
        auto text = dyn_cast<StringAttr>(named.getValue());
        if (text && isa<NativeOp>(op))
          value.text = text.getValue().str();
        else if (!readAttr(named.getValue(), value))
          continue;
        if (symbols.attribute) value.symbolic = symbols.attribute(op, named.getName().strref());
        if (!value.symbolic.empty() && value.symbolic.size() != value.ints.size())
          return invalidArgument(describe(op) + ": too few or many numbers for " + named.getName().str());
        node.attrs.emplace_back(named.getName().str(), value);
      }
    }
    nodeOf[op->getResult(0)] = static_cast<int>(graph.nodes.size());
    graph.nodes.push_back(std::move(node));
    return okStatus();
  }
};

}  // namespace

const Attr* Node::attr(llvm::StringRef name) const {
  for (const auto& [key, value] : attrs)
    if (key == name) return &value;
  return nullptr;
}
int64_t Node::intAttr(llvm::StringRef name, int64_t otherwise) const {
  const Attr* a = attr(name);
  return a && a->ints.size() == 1 ? a->ints[0] : otherwise;
}
double Node::floatAttr(llvm::StringRef name, double otherwise) const {
  const Attr* a = attr(name);
  if (a && a->floats.size() == 1) return a->floats[0];
  return a && a->ints.size() == 1 ? static_cast<double>(a->ints[0]) : otherwise;
}
llvm::ArrayRef<int64_t> Node::intsAttr(llvm::StringRef name) const {
  const Attr* a = attr(name);
  return a ? llvm::ArrayRef<int64_t>(a->ints) : llvm::ArrayRef<int64_t>();
}

llvm::ArrayRef<double> Node::floatsAttr(llvm::StringRef name) const {
  const Attr* a = attr(name);
  return a ? llvm::ArrayRef<double>(a->floats) : llvm::ArrayRef<double>();
}
llvm::StringRef Node::textAttr(llvm::StringRef name) const {
  const Attr* a = attr(name);
  return a ? llvm::StringRef(a->text) : llvm::StringRef();
}

SymbolicNumbers::Numbers Node::numbersAttr(llvm::StringRef name) const {
  const Attr* a = attr(name);
  if (!a) return {};
  if (!a->symbolic.empty()) return a->symbolic;
  return SymbolicNumbers::Numbers(a->ints.begin(), a->ints.end());
}

StatusOr<KernelGraph> importBlock(Block& block, const SymbolicNumbers& symbols) {
  Importer importer(symbols);
  for (BlockArgument argument : block.getArguments())
    if (Status status = importer.addInput(argument); !status.ok()) return status;
  for (Operation& op : block) {
    if (isa<YieldOp>(op)) {
      for (Value value : op.getOperands()) importer.graph.results.push_back(importer.nodeOf.lookup(value));
      return std::move(importer.graph);
    }
    if (Status status = importer.addOp(&op); !status.ok()) return status;
  }
  return internalError("a kernel's body does not end in hpu.yield");
}

StatusOr<KernelGraph> importOps(ArrayRef<Operation*> ops) {
  const SymbolicNumbers none;
  Importer importer(none);
  llvm::SmallPtrSet<Operation*, 16> members(ops.begin(), ops.end());
  for (Operation* op : ops) {
    for (Value operand : op->getOperands()) {
      Operation* def = operand.getDefiningOp();
      if ((def && members.contains(def)) || importer.nodeOf.count(operand)) continue;
      if (Status status = importer.addInput(operand); !status.ok()) return status;
    }
  }
  for (Operation* op : ops)
    if (Status status = importer.addOp(op); !status.ok()) return status;
  for (Operation* op : ops) {
    bool outside =
        op->use_empty() || llvm::any_of(op->getUsers(), [&](Operation* user) { return !members.contains(user); });
    if (outside) importer.graph.results.push_back(importer.nodeOf.lookup(op->getResult(0)));
  }
  return std::move(importer.graph);
}

void appendKey(std::string& key, const shape::SymInt& number) {
  // Texts have no zero bytes.
  key += number.isConstant() ? 'c' : 's';
  const int64_t value = number.value();
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
  if (!number.isConstant()) key.append(number.text()).push_back('\0');
}

std::string graphKey(const KernelGraph& graph) {
  std::string key;
  auto number = [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  for (const Node& node : graph.nodes) {
    number(node.kind);
    number(node.type);
    key += node.name;
    key += '\0';
    number(node.input);
    number(node.splat);
    number(node.splatInt);
    number(node.operands.size());
    for (int operand : node.operands) number(operand);
    number(node.shape.size());
    for (const shape::SymInt& size : node.shape) appendKey(key, size);
    number(node.attrs.size());
    for (const auto& [name, value] : node.attrs) {
      key += name;
      key += '\0';
      number(value.ints.size());
      for (int64_t i : value.ints) number(i);
      number(value.symbolic.size());
      for (const shape::SymInt& i : value.symbolic) appendKey(key, i);
      number(value.floats.size());
      for (double f : value.floats) number(f);
      number(value.text.size());
      key += value.text;
    }
  }
  for (int result : graph.results) number(result);
  return key;
}

}  // namespace hpu::kernels
