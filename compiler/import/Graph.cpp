// SPDX-License-Identifier: Apache-2.0
// hpu::Graph over a module of the hpu dialect, and the importers that return one.
#include "hpu/graph.h"

#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuDialect.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/ShareGraph.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/KnownOptions.h"

namespace hpu {

using base::strCat;

namespace {

using namespace mlir;
namespace func = mlir::func;
using MlirValue = mlir::Value;

MlirValue unwrap(Value value) {
  return MlirValue::getFromOpaquePointer(value.handle);
}

TensorType tensorType(RankedTensorType type) {
  return {ir::elementType(type.getElementType()), Shape(type.getShape().begin(), type.getShape().end())};
}

/// Attributes that `value` may stand for, most likely first; the op's declaration chooses.
SmallVector<mlir::Attribute> candidates(Builder& builder, const hpu::Attribute& value) {
  SmallVector<mlir::Attribute> list;
  MLIRContext* context = builder.getContext();
  if (auto* integer = std::get_if<int64_t>(&value)) {
    list.push_back(builder.getI64IntegerAttr(*integer));
    if (*integer == 0 || *integer == 1) list.push_back(builder.getBoolAttr(*integer));
    list.push_back(builder.getF64FloatAttr(static_cast<double>(*integer)));
  } else if (auto* number = std::get_if<double>(&value)) {
    list.push_back(builder.getF64FloatAttr(*number));
  } else if (auto* text = std::get_if<std::string>(&value)) {
    if (auto mode = ir::symbolizeResizeMode(*text)) list.push_back(ir::ResizeModeAttr::get(context, *mode));
    if (auto mode = ir::symbolizeCoordMode(*text)) list.push_back(ir::CoordModeAttr::get(context, *mode));
    if (auto mode = ir::symbolizeNearestMode(*text)) list.push_back(ir::NearestModeAttr::get(context, *mode));
    if (auto mode = ir::symbolizeScatterMode(*text)) list.push_back(ir::ScatterModeAttr::get(context, *mode));
    for (int i = 1; i <= static_cast<int>(ElementType::kF8E4M3Ieee); ++i)  // The last of them.
      if (elementTypeName(static_cast<ElementType>(i)) == *text)
        list.push_back(TypeAttr::get(ir::mlirElementType(context, static_cast<ElementType>(i))));
    list.push_back(builder.getStringAttr(*text));
  } else if (auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    list.push_back(builder.getDenseI64ArrayAttr(*integers));
    std::vector<double> numbers(integers->begin(), integers->end());
    list.push_back(builder.getDenseF64ArrayAttr(numbers));
  } else if (auto* numbers = std::get_if<std::vector<double>>(&value)) {
    list.push_back(builder.getDenseF64ArrayAttr(*numbers));
    if (numbers->empty()) list.push_back(builder.getDenseI64ArrayAttr({}));
  }
  return list;
}

Status checkType(const TensorType& type, bool mayBeFree) {
  if (elementSize(type.element) == 0)
    return invalidArgument(strCat("the element type is ", static_cast<int>(type.element), ", which is none"));
  TensorType sized = type;
  for (int64_t& dim : sized.shape)
    if (dim == kDynamic && mayBeFree) dim = 1;
  return interp::checkSize(sized);
}

Status checkName(std::string_view name, const std::vector<TensorInfo>& taken, std::string_view what) {
  if (name.empty()) return invalidArgument(strCat("an ", what, " needs a name"));
  for (const TensorInfo& info : taken)
    if (info.name == name) return alreadyExists(strCat("there is an ", what, " '", name, "' already"));
  return okStatus();
}

}  // namespace

std::shared_ptr<MLIRContext> importer::makeContext() {
  auto context = std::make_shared<MLIRContext>(MLIRContext::Threading::DISABLED);
  registerDialects(*context);
  return context;
}

Graph::Graph() : impl_(std::make_unique<Impl>()) {}
Graph::~Graph() {
  GraphAccess::release(std::move(impl_));
}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept {
  GraphAccess::release(std::exchange(impl_, std::move(other.impl_)));
  return *this;
}

Graph::Graph(std::string_view name) : Graph(GraphAccess::empty(importer::makeContext(), name)) {}

Graph GraphAccess::empty(std::shared_ptr<MLIRContext> context, std::string_view name) {
  OpBuilder builder(context.get());
  Location location = NameLoc::get(builder.getStringAttr(name.empty() ? "graph" : name));
  importer::OwningModule module = ModuleOp::create(location);
  (*module)->setAttr("hpu.model", builder.getStringAttr(name));
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(builder, location, "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(builder, location);
  return make(std::move(context), std::move(module));
}

/// One of the graphs that share it goes.
void GraphAccess::release(std::unique_ptr<Graph::Impl> impl) {
  if (!impl) return;
  if (impl->sharers.fetch_sub(1) > 1)
    (void)impl.release();
  else
    impl->module = {};  // Before its context.
}

Status GraphAccess::check(const Graph& graph) {
  if (graph.impl_) return okStatus();
  return failedPrecondition("the Graph is empty: it was moved from; assign one to it, or use the one that it moved to");
}

StatusOr<Graph> importer::shareGraph(const Graph& graph) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(graph));
  return GraphAccess::share(graph);
}

Graph GraphAccess::share(const Graph& graph) {
  Graph shared;
  graph.impl().sharers.fetch_add(1);
  shared.impl_.reset(&graph.impl());
  return shared;
}

Graph GraphAccess::make(std::shared_ptr<MLIRContext> context, importer::OwningModule module) {
  Graph graph;
  graph.impl_->context = std::move(context);
  graph.impl_->module = std::move(module);
  return graph;
}

StatusOr<Value> Graph::input(std::string_view name, const TensorType& type) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(*this));
  HPU_RETURN_IF_ERROR(checkName(name, inputs(), "input"));
  if (Status status = checkType(type, /*mayBeFree=*/true); !status.ok())
    return status.withContext(strCat("input '", name, "'"));
  MLIRContext* context = impl_->context.get();
  Builder builder(context);
  ir::SymShape shape;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    ir::SymDim dim{type.shape[i]};
    if (dim.isFree()) dim.symbol = builder.getStringAttr(strCat(name, "_dim", i));
    shape.push_back(dim);
  }
  func::FuncOp function = impl_->main();
  RankedTensorType ranked = ir::tensorType(shape, ir::mlirElementType(context, type.element));
  MlirValue value = function.getBody().front().addArgument(ranked, ir::nodeLocation(context, name, "Input"));
  SmallVector<mlir::Type> types(function.getArgumentTypes());
  types.push_back(ranked);
  function.setType(builder.getFunctionType(types, function.getResultTypes()));
  function.setArgAttr(types.size() - 1, "hpu.name", builder.getStringAttr(name));
  impl_->handles.insert(value.getAsOpaquePointer());
  return Value{value.getAsOpaquePointer()};
}

StatusOr<Value> Graph::constant(const TensorType& type, const void* data, size_t bytes) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(*this));
  HPU_RETURN_IF_ERROR(checkType(type, /*mayBeFree=*/false));
  if (static_cast<int64_t>(bytes) != type.bytes())
    return invalidArgument(
        strCat("a constant of type ", type.toString(), " has ", type.bytes(), " bytes, got ", bytes));
  if (!data && bytes > 0) return invalidArgument(strCat("a constant of ", bytes, " bytes: its data is null"));
  MLIRContext* context = impl_->context.get();
  std::string name = strCat("constant_", impl_->handles.size());
  ElementsAttr value = interp::attributeOf(context, interp::Tensor::copyOf(type, data), name);
  OpBuilder builder(impl_->main().getBody().front().getTerminator());
  OperationState state(ir::nodeLocation(context, name, "constant"), "hpu.constant");
  state.addAttribute("value", value);
  state.addTypes(value.getType());
  MlirValue result = builder.create(state)->getResult(0);
  impl_->handles.insert(result.getAsOpaquePointer());
  return Value{result.getAsOpaquePointer()};
}

StatusOr<Value> Graph::op(std::string_view mnemonic, const std::vector<Value>& operands, const Attributes& attributes,
                          std::string_view name) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(*this));
  MLIRContext* context = impl_->context.get();
  std::string node = name.empty() ? strCat(mnemonic, "_", impl_->handles.size()) : std::string(name);
  SmallVector<MlirValue> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!impl_->handles.contains(operands[i].handle))
      return invalidArgument(strCat("operand ", i, " of '", node, "' is not a value of this graph"));
    values.push_back(unwrap(operands[i]));
  }
  OpBuilder builder(impl_->main().getBody().front().getTerminator());
  OperationName opName(strCat("hpu.", mnemonic), context);
  SmallVector<NamedAttribute> list;
  for (const auto& [key, value] : attributes) {
    mlir::Attribute chosen;
    for (mlir::Attribute candidate : candidates(builder, value))
      if (!chosen || (opName.isRegistered() && !ir::attributeFits(opName, key, chosen))) chosen = candidate;
    list.push_back(builder.getNamedAttr(key, chosen));
  }
  ir::DiagnosticCapture capture(context);
  FailureOr<Operation*> made =
      ir::createCheckedOp(builder, ir::nodeLocation(context, node, mnemonic), mnemonic, values, list);
  if (failed(made)) return capture.status(StatusCode::kInvalidArgument, strCat("graph op '", mnemonic, "'"));
  MlirValue result = (*made)->getResult(0);
  impl_->handles.insert(result.getAsOpaquePointer());
  return Value{result.getAsOpaquePointer()};
}

Status Graph::output(std::string_view name, Value value) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(*this));
  HPU_RETURN_IF_ERROR(checkName(name, outputs(), "output"));
  if (!impl_->handles.contains(value.handle))
    return invalidArgument(strCat("output '", name, "' is not a value of this graph"));
  func::FuncOp function = impl_->main();
  Operation* terminator = function.getBody().front().getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), unwrap(value));
  Builder builder(impl_->context.get());
  function.setType(builder.getFunctionType(function.getArgumentTypes(), terminator->getOperandTypes()));
  function.setResultAttr(terminator->getNumOperands() - 1, "hpu.name", builder.getStringAttr(name));
  return okStatus();
}

StatusOr<TensorType> Graph::type(Value value) const {
  HPU_RETURN_IF_ERROR(GraphAccess::check(*this));
  if (!impl_->handles.contains(value.handle)) return invalidArgument("not a value of this graph");
  return tensorType(cast<RankedTensorType>(unwrap(value).getType()));
}

std::vector<TensorInfo> Graph::inputs() const {
  std::vector<TensorInfo> list;
  func::FuncOp function = impl_ ? impl_->main() : nullptr;
  if (!function) return list;  // Moved from, or a program of a late phase.
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto name = function.getArgAttrOfType<StringAttr>(i, "hpu.name");
    list.push_back({name ? name.str() : strCat("input", i), tensorType(cast<RankedTensorType>(type))});
  }
  return list;
}

std::vector<TensorInfo> Graph::outputs() const {
  std::vector<TensorInfo> list;
  func::FuncOp function = impl_ ? impl_->main() : nullptr;
  if (!function) return list;  // Moved from, or a program of a late phase.
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    auto name = function.getResultAttrOfType<StringAttr>(i, "hpu.name");
    list.push_back({name ? name.str() : strCat("output", i), tensorType(cast<RankedTensorType>(type))});
  }
  if (!ir::dataSizes(*impl_->module).empty()) list.pop_back();  // Of the others' sizes.
  return list;
}

std::string Graph::toString() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (impl_) impl_->module->print(stream);
  return text;
}

// ---- importers that return graphs --------------------------------------------------------------

StatusOr<Graph> importOnnx(const std::string& path, const CompileOptions& given, size_t givenBytes,
                           std::vector<UnsupportedNode>* unsupported) {
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  const CompileOptions& options = *known;
  base::FloatScope floats;
  std::shared_ptr<MLIRContext> context = importer::makeContext();
  HPU_ASSIGN(importer::OwningModule module,
             importer::importOnnxModule(*context, path, importer::importOptions(options), unsupported));
  return GraphAccess::make(std::move(context), std::move(module));
}

StatusOr<Graph> importMlir(const std::string& path) {
  base::FloatScope floats;
  std::shared_ptr<MLIRContext> context = importer::makeContext();
  HPU_ASSIGN(importer::OwningModule module, importer::importMlirModule(*context, path));
  return GraphAccess::make(std::move(context), std::move(module));
}

}  // namespace hpu
