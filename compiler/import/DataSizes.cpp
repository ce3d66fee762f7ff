// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/DataSizes.h"

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/DataSizeResolver.h"
#include "compiler/import/OpTable.h"
#include "compiler/interp/Elements.h"
#include "compiler/support/Units.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

bool hasDataSize(const DimExpr& size) {
  return llvm::any_of(size.symbols(),
                      [](const std::string& name) { return llvm::StringRef(name).starts_with(kDataSizePrefix); });
}

Value cutToDataSize(NodeContext& node, Value x, int64_t dim, Value count) {
  if (!x || !count || node.failed()) return {};
  SymShape sizes = ir::symShape(NodeContext::typeOf(x));
  const std::optional<DimExpr> bound = ir::exprOf(sizes[static_cast<size_t>(dim)]);
  if (!bound) return node.needsSize("the size of its input"), Value();
  std::string output = node.def().outputs.empty() ? std::string() : node.def().outputs.front();
  llvm::replace(output, '\'', '_');  // Names with it have no text.
  Builder b(node.context());
  // A node in the body of a loop is there several times, and each has a count of its own.
  std::string name;
  for (size_t k = 1;; ++k) {
    name = strCat(kDataSizePrefix.str(), base::clipped(output), k == 1 ? std::string() : strCat(" (", k, ")"));
    const StringAttr own = b.getStringAttr(name);
    if (llvm::none_of(*count.getDefiningOp()->getBlock(), [&](Operation& op) {
          auto other = op.getAttrOfType<ArrayAttr>(kDataSizeAttr);
          return other && &op != count.getDefiningOp() && other[0] == own;
        }))
      break;
  }
  count.getDefiningOp()->setAttr(kDataSizeAttr,
                                 b.getArrayAttr({b.getStringAttr(name), b.getStringAttr(bound->text())}));
  sizes[static_cast<size_t>(dim)] = node.symDim(DimExpr::symbol(name));
  const Ints ones(sizes.size(), 1);
  return node.slice(x, SymShape(sizes.size(), SymDim{0}), sizes, ones);
}

Status resolveDataSizes(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return okStatus();
  bool isUsed = false;
  for (Operation& op : main.getOps()) {
    if (!op.hasAttr(kDataSizeAttr)) continue;
    isUsed = true;
    auto names = op.getAttrOfType<ArrayAttr>(kDataSizeAttr);
    const bool isCount = op.getNumResults() == 1 && ir::tensorOf(op.getResult(0)).getRank() == 0 &&
                         ir::tensorOf(op.getResult(0)).getElementType().isInteger(64);
    if (!isCount || !names || names.size() != 2 || !llvm::all_of(names, llvm::IsaPred<StringAttr>))
      return invalidArgument(strCat(ir::unitName(&op), ": ", kDataSizeAttr.str(),
                                    " is the name and the bound of a size, on an op that makes an i64 of rank 0"));
  }
  return isUsed ? DataSizeResolver(main).run() : okStatus();
}

namespace {

/// The elements at the start of each dimension.
interp::Tensor firstOf(const interp::Tensor& whole, const Shape& shape) {
  interp::Tensor part = interp::Tensor::zeros({whole.element(), shape});
  const auto unit = static_cast<size_t>(elementSize(whole.element()));
  const std::vector<int64_t> from = interp::rowMajorStrides(whole.shape());
  for (int64_t i = 0, count = part.count(); i < count; ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) offset += rest % shape[d] * from[d];
    std::memcpy(part.writable() + static_cast<size_t>(i) * unit, whole.data() + static_cast<size_t>(offset) * unit,
                unit);
  }
  return part;
}

}  // namespace

StatusOr<std::vector<interp::Tensor>> withTrueSizes(ModuleOp module, std::vector<interp::Tensor> outputs) {
  const std::vector<ir::DataSize> sizes = ir::dataSizes(module);
  if (sizes.empty() || outputs.empty()) return outputs;
  const interp::Tensor last = outputs.back();
  outputs.pop_back();
  std::vector<Shape> shapes;
  for (const interp::Tensor& output : outputs) shapes.push_back(output.shape());
  for (const ir::DataSize& size : sizes) {
    int64_t& bound = shapes.at(size.output).at(size.dim);
    const int64_t own = last.integer(size.element);
    if (own < 0 || own > bound)
      return internalError(strCat("dimension ", size.dim, " of output ", size.output, " has the size ", own,
                                  ", and at most ", bound, " were expected"));
    bound = own;
  }
  for (size_t k = 0; k < outputs.size(); ++k)
    if (shapes[k] != outputs[k].shape()) outputs[k] = firstOf(outputs[k], shapes[k]);
  return outputs;
}

// ---- sizes -------------------------------------------------------------------------------------

bool DataSizeResolver::isData(const SymDim& dim) {
  if (!dim.isNamed()) return false;
  const std::optional<DimExpr> size = ir::exprOf(dim);
  return size && hasDataSize(*size);
}

SymShape DataSizeResolver::shapeOf(Value value) const {
  auto found = truth_.find(value);
  return found == truth_.end() ? ir::symShape(ir::tensorOf(value)) : found->second;
}

bool DataSizeResolver::agree(const SymDim& a, const SymDim& b) {
  if (a == b) return true;
  const std::optional<DimExpr> one = ir::exprOf(a), other = ir::exprOf(b);
  return one && other && DimExpr::equal(*one, *other) == true;
}

SymDim DataSizeResolver::boundDim(const SymDim& dim) const {
  if (!isData(dim)) return dim;
  const std::optional<DimExpr> size = bound(*ir::exprOf(dim));
  return ir::dimOf(dim.symbol.getContext(), size);
}

Value DataSizeResolver::numberOfSymbol(NodeContext& node, const std::string& name) {
  if (auto found = counts_.find(name); found != counts_.end()) return found->second;
  return node.reshape(node.range(node.symDim(DimExpr::symbol(name)), SymDim{1}, 1, ElementType::kI64),
                      llvm::ArrayRef<int64_t>{});
}

Value DataSizeResolver::numberOfPart(NodeContext& node, const DimExpr::Part& part) {
  using Kind = DimExpr::Part::Kind;
  if (part.kind == Kind::kSymbol) return numberOfSymbol(node, part.name);
  llvm::SmallVector<Value> args;
  for (const DimExpr& arg : part.args) args.push_back(number(node, arg));
  if (part.kind == Kind::kQuotient) {  // Rounded down, also below 0.
    Value rest = node.op("mod", {args[0], args[1]});
    return node.op("div", {node.op("sub", {args[0], rest}), args[1]});
  }
  if (part.kind == Kind::kSelectEqual || part.kind == Kind::kSelectLess) {
    Value chosen = node.op(part.kind == Kind::kSelectEqual ? "equal" : "less", {args[0], args[1]});
    return node.op("where", {chosen, args[2], args[3]});
  }
  Value result = args[0];
  for (Value arg : llvm::ArrayRef(args).drop_front())
    result = node.op(part.kind == Kind::kMax ? "max" : "min", {result, arg});
  return result;
}

Value DataSizeResolver::number(NodeContext& node, const DimExpr& size) {
  const std::string text = size.text();
  if (auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  auto constant = [&](int64_t value) {
    return node.constantTensor(interp::Tensor::of<int64_t>(ElementType::kI64, {}, {value}));
  };
  Value sum;
  if (const std::optional<int64_t> known = size.constant()) {
    sum = constant(*known);
  } else if (!hasDataSize(size)) {
    sum = node.reshape(node.range(node.symDim(size), SymDim{1}, 1, ElementType::kI64), llvm::ArrayRef<int64_t>{});
  } else {
    for (const DimExpr::Term& term : size.terms()) {
      Value product;
      for (const DimExpr::Part& part : term.factors) {
        Value factor = numberOfPart(node, part);
        product = product ? node.op("mul", {product, factor}) : factor;
      }
      if (!product)
        product = constant(term.coefficient);
      else if (term.coefficient != 1)
        product = node.op("mul", {product, constant(term.coefficient)});
      sum = sum ? node.op("add", {sum, product}) : product;
    }
  }
  if (sum) numbers_[text] = sum;
  return sum;
}

// ---- elements that there are -------------------------------------------------------------------

llvm::SmallVector<int64_t> DataSizeResolver::dataDims(Value value, Dims dims) const {
  const SymShape shape = shapeOf(value);
  llvm::SmallVector<int64_t> found;
  for (int64_t d : dims)
    if (isData(shape[static_cast<size_t>(d)])) found.push_back(d);
  return found;
}

llvm::SmallVector<int64_t> DataSizeResolver::dataDims(Value value) const {
  return dataDims(value, llvm::to_vector(llvm::seq<int64_t>(0, ir::tensorOf(value).getRank())));
}

Value DataSizeResolver::positions(NodeContext& node, Value x, int64_t dim, int64_t rank) {
  const SymDim size = ir::symShape(ir::tensorOf(x))[static_cast<size_t>(dim)];
  SymShape shape(static_cast<size_t>(rank), SymDim{1});
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = size;
  return node.reshape(node.range(SymDim{0}, size, 1, ElementType::kI64), shape);
}

Value DataSizeResolver::present(NodeContext& node, Value x, Dims dims) {
  const SymShape shape = shapeOf(x);
  Value mask;
  for (int64_t d : dims) {
    Value size = number(node, *ir::exprOf(shape[static_cast<size_t>(d)]));
    Value inside = node.op("less", {positions(node, x, d, static_cast<int64_t>(shape.size())), size});
    mask = mask ? node.op("and", {mask, inside}) : inside;
  }
  return mask;
}

Value DataSizeResolver::filled(NodeContext& node, Value x, Dims dims, Value value) {
  return dims.empty() ? x : node.op("where", {present(node, x, dims), x, value});
}

// ---- the function ------------------------------------------------------------------------------

Status DataSizeResolver::run() {
  Block& block = main_.getBody().front();
  joinCounts();
  auto note = [&](Value value) {
    SymShape shape = ir::symShape(ir::tensorOf(value));
    if (llvm::none_of(shape, isData)) return;
    for (SymDim& dim : shape)
      if (isData(dim)) dim = ir::dimOf(main_.getContext(), known(*ir::exprOf(dim)));
    truth_[value] = shape;
  };
  for (BlockArgument argument : block.getArguments())
    for (const SymDim& dim : ir::symShape(ir::tensorOf(argument)))
      if (isData(dim))
        return invalidArgument(strCat("an input has the free dimension '", base::clipped(dim.symbol.str()),
                                      "', which is the name of a size that the model computes; name it otherwise"));
  for (Operation& op : block) llvm::for_each(op.getResults(), note);
  for (Operation& op : llvm::make_early_inc_range(block.without_terminator())) HPU_RETURN_IF_ERROR(visit(&op));
  return addOutputs();
}

void DataSizeResolver::joinCounts() {
  std::map<Operation*, ArrayAttr> counts;
  std::multimap<unsigned, Operation*> seen;
  Block& block = main_.getBody().front();
  for (Operation& op : llvm::make_early_inc_range(block.without_terminator())) {
    auto names = op.getAttrOfType<ArrayAttr>(kDataSizeAttr);
    op.removeAttr(kDataSizeAttr);
    const auto flags = OperationEquivalence::IgnoreLocations;
    const unsigned hash = OperationEquivalence::computeHash(&op, OperationEquivalence::directHashValue,
                                                            OperationEquivalence::ignoreHashValue, flags);
    Operation* same = nullptr;
    for (auto [slot, end] = seen.equal_range(hash); slot != end && !same; ++slot)
      if (OperationEquivalence::isEquivalentTo(slot->second, &op, flags)) same = slot->second;
    if (names && same && counts.count(same))
      same_[cast<StringAttr>(names[0]).str()] = cast<StringAttr>(counts[same][0]).str();
    else if (names)
      counts[same ? same : &op] = names;
    if (same) {
      op.replaceAllUsesWith(same);
      op.erase();
    } else {
      seen.emplace(hash, &op);
    }
  }
  for (auto& [op, names] : counts) op->setAttr(kDataSizeAttr, names);
}

void DataSizeResolver::learn(Operation* op) {
  auto names = op->getAttrOfType<ArrayAttr>(kDataSizeAttr);
  if (!names) return;
  const std::string name = cast<StringAttr>(names[0]).str();
  counts_[name] = op->getResult(0);
  // Of a count of elements that are themselves counted: how many there can be.
  const DimExpr most = known(DimExpr::parse(cast<StringAttr>(names[1]).getValue()));
  bounds_.emplace(name, bound(most).value_or(most));
  op->removeAttr(kDataSizeAttr);
}

Status DataSizeResolver::addOutputs() {
  Operation* end = main_.getBody().front().getTerminator();
  NodeDef def;
  def.name = ir::kDataSizesName.str();
  def.op = "graph output";
  builder_.setInsertionPoint(end);
  NodeContext node(builder_, def, kNewestOpset, {}, {}, /*folding=*/false);
  std::vector<ir::DataSize> sizes;
  llvm::SmallVector<Value> pieces;
  std::map<std::string, uint32_t> elements;
  for (OpOperand& operand : end->getOpOperands()) {
    const SymShape shape = shapeOf(operand.get());
    for (auto [d, dim] : llvm::enumerate(shape)) {
      if (!isData(dim)) continue;
      const DimExpr size = *ir::exprOf(dim);
      auto [slot, isNew] = elements.try_emplace(size.text(), static_cast<uint32_t>(pieces.size()));
      if (isNew) pieces.push_back(node.reshape(number(node, size), llvm::ArrayRef<int64_t>{1}));
      sizes.push_back({operand.getOperandNumber(), static_cast<uint32_t>(d), slot->second});
    }
  }
  if (!pieces.empty()) {
    Value all = pieces.size() == 1 ? pieces[0] : node.op("concat", pieces, {{"axis", 0}});
    if (node.failed()) return internalError("sizes that depend on data: " + node.issue()->reason);
    end->insertOperands(end->getNumOperands(), all);
  }
  Builder b(main_.getContext());
  const unsigned before = main_.getNumResults();
  llvm::SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < before; ++i) attributes.push_back(main_.getResultAttrDict(i));
  if (!pieces.empty())
    attributes.push_back(b.getDictionaryAttr(b.getNamedAttr("hpu.name", b.getStringAttr(ir::kDataSizesName))));
  main_.setType(FunctionType::get(main_.getContext(), main_.getBody().getArgumentTypes(), end->getOperandTypes()));
  main_.setAllResultAttrs(attributes);
  ir::setDataSizes(main_->getParentOfType<ModuleOp>(), sizes);
  return okStatus();
}

}  // namespace hpu::importer
