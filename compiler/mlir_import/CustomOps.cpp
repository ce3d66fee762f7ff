// SPDX-License-Identifier: Apache-2.0
#include "compiler/mlir_import/CustomOps.h"

#include <bit>

#include "base/Format.h"
#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "compiler/mlir_import/ForeignModule.h"
#include "compiler/mlir_import/MlirNode.h"
#include "compiler/mlir_import/NativeCode.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/Parser/Parser.h"

namespace hpu::importer {

using base::strCat;
using mlir::func::FuncOp;

struct CustomOps::File {
  std::string path;
  OwningModule module;
};

struct CustomOps::Op {
  struct Argument {
    std::string attribute;     ///< Of the node; empty: an operand.
    mlir::Attribute fallback;  ///< Of an attribute; null: it has to be given.
  };
  std::string domain, name;
  const File* file = nullptr;
  FuncOp function;
  std::vector<Argument> arguments;
  size_t operands = 0;
  /// Of a function without a body; null of one with a body.
  std::unique_ptr<const NativeCode> native;
};

/// The operands and attributes of a node, in the order of the function's arguments.
struct CustomOps::Arguments {
  std::vector<ForeignValue> values;
  std::vector<Value> tensors;
  Ints params;  ///< Attributes, as kernels in object code get them.
};

CustomOps::CustomOps() = default;
CustomOps::~CustomOps() = default;
CustomOps::CustomOps(CustomOps&&) noexcept = default;

namespace {

std::string textOf(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

bool isNumber(mlir::Type type) {
  return mlir::isa<mlir::FloatType, mlir::IntegerType>(type) && ir::elementType(type) != ElementType::kInvalid;
}

}  // namespace

StatusOr<CustomOps> CustomOps::load(mlir::MLIRContext& context, const std::vector<std::string>& paths) {
  CustomOps loaded;
  if (!paths.empty()) allowForeignDialects(context);
  for (const std::string& path : paths) {
    HPU_RETURN_IF_ERROR(base::MappedFile::open(path).status());
    auto file = std::make_unique<File>();
    file->path = path;
    ir::DiagnosticCapture capture(&context);
    file->module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
    if (!file->module) return invalidArgument(strCat("'", path, "': not a valid module: ", capture.message()));
    auto version = (*file->module)->getAttrOfType<mlir::IntegerAttr>("hpu.custom_ops");
    if (!version || version.getInt() != kCustomOpsVersion)
      return failedPrecondition(strCat(
          "'", path, "': ", version ? strCat("custom ops of version ", version.getInt()) : std::string("no custom ops"),
          "; a module of them says {hpu.custom_ops = ", kCustomOpsVersion, " : i64}"));
    const size_t before = loaded.ops_.size();
    for (FuncOp function : file->module->getOps<FuncOp>())
      if (function->hasAttr("hpu.op")) HPU_RETURN_IF_ERROR(loaded.addOp(*file, function));
    if (loaded.ops_.size() == before)
      return invalidArgument(strCat("'", path, "': no function has the attribute hpu.op"));
    loaded.files_.push_back(std::move(file));
  }
  return loaded;
}

Status CustomOps::addOp(const File& file, FuncOp function) {
  const std::string where = strCat("'", file.path, "': function '", function.getName().str(), "'");
  auto name = function->getAttrOfType<mlir::StringAttr>("hpu.op");
  if (!name) return invalidArgument(strCat(where, ": hpu.op is no text"));
  const auto [domain, op] = name.getValue().split("::");
  if (domain.empty() || op.empty())
    return invalidArgument(strCat(where, ": hpu.op is '", name.getValue().str(), "', not \"domain::Name\""));
  if (has(domain, op)) return invalidArgument(strCat(where, ": there is already an op '", name.getValue().str(), "'"));
  for (mlir::NamedAttribute attribute : function->getAttrs()) {
    const llvm::StringRef known = attribute.getName().strref();
    const bool isOfCode = llvm::is_contained({"hpu.object", "hpu.object_v4", "hpu.entry", "hpu.sizes", "hpu.reads",
                                              "hpu.whole_dims", "hpu.cost", "hpu.scratch_bytes"},
                                             known);
    if (known.starts_with("hpu.") && known != "hpu.op" && !(isOfCode && function.isExternal()))
      return invalidArgument(strCat(where, ": the attribute ", known.str(), " is not known",
                                    isOfCode ? " of a function with a body" : ""));
  }
  Op made{domain.str(), op.str(), &file, function, {}, 0, nullptr};
  if (function.isExternal()) {
    if (!function->hasAttr("hpu.object"))
      return invalidArgument(strCat(where, " needs a body, or object code (hpu.object)"));
    StatusOr<NativeCode> code = readNativeCode(function, file.path);
    if (!code.ok()) return code.status().withContext(where);
    made.native = std::make_unique<const NativeCode>(*std::move(code));
  } else if (!function.getBody().hasOneBlock()) {
    return invalidArgument(strCat(where, " needs a body of one block"));
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Op::Argument argument;
    const mlir::Type type = function.getArgumentTypes()[i];
    if (auto attribute = function.getArgAttrOfType<mlir::StringAttr>(i, "hpu.attribute")) {
      argument.attribute = attribute.getValue().str();
      argument.fallback = function.getArgAttr(i, "hpu.default");
      if (!isNumber(type))
        return invalidArgument(strCat(where, ": the attribute '", argument.attribute, "' is of type ", textOf(type),
                                      ", and only numbers can be"));
      auto typed = mlir::dyn_cast_or_null<mlir::TypedAttr>(argument.fallback);
      if (argument.fallback && (!typed || typed.getType() != type))
        return invalidArgument(
            strCat(where, ": the default of '", argument.attribute, "' is not of type ", textOf(type)));
    } else if (!mlir::isa<RankedTensorType>(type)) {
      return invalidArgument(strCat(where, ": argument ", i, " is of type ", textOf(type),
                                    "; operands are tensors, and attributes have the name hpu.attribute"));
    } else {
      ++made.operands;
    }
    made.arguments.push_back(std::move(argument));
  }
  ops_.push_back(std::move(made));
  return okStatus();
}

const CustomOps::Op* CustomOps::find(llvm::StringRef domain, llvm::StringRef op) const {
  for (const Op& one : ops_)
    if (one.domain == domain && one.name == op) return &one;
  return nullptr;
}

void CustomOps::convert(NodeContext& node) const {
  const NodeDef& def = node.def();
  const Op& op = *find(def.domain, def.op);
  FuncOp function = op.function;
  if (node.numInputs() != op.operands)
    return node.invalid(strCat("it has ", node.numInputs(), " inputs, and the op takes ", op.operands));
  if (node.numOutputs() > function.getNumResults())
    return node.invalid(strCat("it has ", node.numOutputs(), " outputs, and the op gives ", function.getNumResults()));
  std::string names;
  for (const Op::Argument& argument : op.arguments)
    if (!argument.attribute.empty()) names += (names.empty() ? "" : ", ") + argument.attribute;
  for (const NodeAttribute& attribute : def.attributes)
    if (llvm::none_of(op.arguments, [&](const Op::Argument& one) { return one.attribute == attribute.name; }))
      return node.invalid(strCat("the attribute '", attribute.name, "' is not known (there ",
                                 names.empty() ? "is none" : strCat("are: ", names), ")"));
  Arguments arguments;
  size_t next = 0;
  for (auto [i, argument] : llvm::enumerate(op.arguments)) {
    const mlir::Type type = function.getArgumentTypes()[i];
    if (argument.attribute.empty()) {
      Value value = node.input(next++);
      if (!value) return;
      auto have = NodeContext::typeOf(value), want = mlir::cast<RankedTensorType>(type);
      if (have.getElementType() != want.getElementType() ||
          mlir::failed(mlir::verifyCompatibleShape(have.getShape(), want.getShape())))
        return node.invalid(
            strCat("input ", next - 1, " is of type ", ir::typeToString(have), ", and the op takes ", textOf(want)));
      arguments.values.push_back({.tensor = value});
      arguments.tensors.push_back(value);
      continue;
    }
    const bool isFloat = mlir::isa<mlir::FloatType>(type);
    double number = 0;
    if (const NodeAttribute* given = node.find(argument.attribute)) {
      const auto kind = isFloat ? NodeAttribute::Kind::kFloat : NodeAttribute::Kind::kInt;
      if (given->kind != kind)
        return node.invalid(
            strCat("the attribute '", argument.attribute, "' must be ", isFloat ? "a number" : "an integer"));
      number = isFloat ? given->f : static_cast<double>(given->i);
    } else if (auto fraction = mlir::dyn_cast_or_null<mlir::FloatAttr>(argument.fallback)) {
      number = fraction.getValueAsDouble();
    } else if (auto integer = mlir::dyn_cast_or_null<mlir::IntegerAttr>(argument.fallback)) {
      number = static_cast<double>(integer.getValue().getSExtValue());
    } else {
      return node.invalid(strCat("the attribute '", argument.attribute, "' is not given and has no default"));
    }
    arguments.params.push_back(isFloat ? std::bit_cast<int64_t>(number) : static_cast<int64_t>(number));
    if (!op.native) arguments.values.push_back({.tensor = node.scalar(type, number), .splat = number});
  }
  if (op.native) {
    if (Value result = placeNative(node, op.name, function, *op.native, arguments.tensors, arguments.params))
      node.setOutput(0, result);
    return;
  }
  std::vector<Issue> issues;
  const std::vector<Value> results =
      placeForeignFunction(function, op.file->path, node.builder(), def, arguments.values, issues);
  if (!issues.empty()) {
    std::string reasons;
    for (const Issue& issue : issues)
      reasons += strCat(reasons.empty() ? "" : "; ", issue.op, issue.node.empty() ? "" : " at " + issue.node, ": ",
                        issue.reason);
    return node.unsupported(reasons);
  }
  for (size_t i = 0; i < node.numOutputs(); ++i) node.setOutput(i, results[i]);
}

}  // namespace hpu::importer
