// SPDX-License-Identifier: Apache-2.0
#include "compiler/mlir_import/NativeCode.h"

#include <filesystem>

#include "base/Format.h"
#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "compiler/import/ObjectFiles.h"
#include "compiler/kernels/ImageLinker.h"

namespace hpu::importer {

using base::strCat;
using mlir::func::FuncOp;

namespace {

/// Numbers of an attribute that is a list of integers, or an array of such lists, one behind the other.
bool appendInts(mlir::Attribute attribute, Ints& out) {
  if (auto list = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(attribute)) {
    out.append(list.asArrayRef().begin(), list.asArrayRef().end());
    return true;
  }
  if (auto number = mlir::dyn_cast<mlir::IntegerAttr>(attribute)) return out.push_back(number.getInt()), true;
  auto array = mlir::dyn_cast<mlir::ArrayAttr>(attribute);
  return array && llvm::all_of(array, [&](mlir::Attribute each) { return appendInts(each, out); });
}

StatusOr<std::string> readObject(const std::string& folder, llvm::StringRef name, llvm::StringRef entry) {
  if (!isObjectName(name))
    return invalidArgument(strCat("the object file '", name.str(),
                                  "' is no name of letters, digits, '_', '-' and '.' that ends in \".o\""));
  HPU_ASSIGN(auto file, base::MappedFile::open((std::filesystem::path(folder) / name.str()).string()));
  std::string bytes(reinterpret_cast<const char*>(file->data()), file->size());
  auto linked = kernels::linkImage({kernels::LinkObject{llvm::ArrayRef<char>(bytes), {}, {}}}, entry);
  if (!linked.ok())
    return invalidArgument(strCat("'", file->path(), "': ", linked.status().message(),
                                  "; docs/custom-ops.md has the flags to compile a kernel with"));
  return bytes;
}

}  // namespace

StatusOr<NativeCode> readNativeCode(FuncOp function, const std::string& path) {
  NativeCode code;
  auto text = [&](llvm::StringRef name) {
    auto attribute = function->getAttrOfType<mlir::StringAttr>(name);
    return attribute ? attribute.getValue() : llvm::StringRef();
  };
  const std::string folder = std::filesystem::path(path).parent_path().string();
  code.entry = text("hpu.entry").str();
  if (code.entry.empty()) return invalidArgument("it needs hpu.entry, the name of the object's function");
  HPU_ASSIGN(code.object, readObject(folder, text("hpu.object"), code.entry));
  if (function->hasAttr("hpu.object_v4")) {
    HPU_ASSIGN(code.objectV4, readObject(folder, text("hpu.object_v4"), code.entry));
  }

  size_t dims = 0;
  for (mlir::Type type : function.getArgumentTypes())
    if (auto tensor = mlir::dyn_cast<RankedTensorType>(type)) dims += static_cast<size_t>(tensor.getRank());
  if (function.getNumResults() != 1 || !mlir::isa<RankedTensorType>(function.getResultTypes()[0]))
    return invalidArgument("a kernel in object code gives one tensor");
  const auto rank = static_cast<unsigned>(mlir::cast<RankedTensorType>(function.getResultTypes()[0]).getRank());
  auto sizes = function->getAttrOfType<mlir::AffineMapAttr>("hpu.sizes");
  if (!sizes || sizes.getValue().getNumDims() != dims || sizes.getValue().getNumResults() != rank ||
      sizes.getValue().getNumSymbols() != 0)
    return invalidArgument(strCat("it needs hpu.sizes, an affine_map from the ", dims, " sizes of its operands to the ",
                                  rank, " of its result"));
  code.sizes = sizes.getValue();
  if (mlir::Attribute reads = function->getAttr("hpu.reads")) {
    if (!appendInts(reads, code.reads) || code.reads.size() != dims)
      return invalidArgument(strCat("hpu.reads says of each of the ", dims,
                                    " dimensions of its operands which dim of the result it goes with, or -1"));
  } else {
    code.reads.assign(dims, -1);
  }
  if (mlir::Attribute whole = function->getAttr("hpu.whole_dims"); whole && !appendInts(whole, code.whole))
    return invalidArgument("hpu.whole_dims is a list of dims of the result");
  auto isDim = [&](int64_t dim) { return dim >= 0 && dim < rank; };
  if (!llvm::all_of(code.whole, isDim) ||
      !llvm::all_of(code.reads, [&](int64_t dim) { return dim == -1 || isDim(dim); }))
    return invalidArgument(
        strCat("hpu.reads or hpu.whole_dims names a dim that the result of rank ", rank, " does not have"));
  auto cost = function->getAttrOfType<mlir::DictionaryAttr>("hpu.cost");
  if (!cost) return invalidArgument("it needs hpu.cost = {loads, stores, vector, scalar}: what a point takes on a TPC");
  for (mlir::NamedAttribute each : cost)
    if (!llvm::is_contained({"loads", "stores", "vector", "scalar"}, each.getName().strref()))
      return invalidArgument(strCat("hpu.cost has no '", each.getName().str(), "'"));
  for (const char* name : {"loads", "stores", "vector", "scalar"}) {
    auto fraction = cost.getAs<mlir::FloatAttr>(name);
    auto integer = cost.getAs<mlir::IntegerAttr>(name);
    const double value = fraction ? fraction.getValueAsDouble() : integer ? static_cast<double>(integer.getInt()) : 0;
    if ((cost.contains(name) && !fraction && !integer) || !(value >= 0 && value <= 1e9))
      return invalidArgument(strCat("hpu.cost: '", name, "' is no number from 0 to 1e9"));
    code.cost.push_back(value);
  }
  if (auto scratch = function->getAttrOfType<mlir::IntegerAttr>("hpu.scratch_bytes"))
    code.scratchBytes = scratch.getInt();
  constexpr int64_t kMostScratch = 80 * 1024;
  if (code.scratchBytes < 0 || code.scratchBytes > kMostScratch)
    return invalidArgument(strCat("hpu.scratch_bytes is ", code.scratchBytes, "; a TPC has ", kMostScratch));
  return code;
}

Value placeNative(NodeContext& node, const std::string& name, FuncOp function, const NativeCode& code,
                  const std::vector<Value>& operands, const Ints& params) {
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (operands[i] == operands[k]) {
        node.unsupported(
            strCat("inputs ", k, " and ", i, " are one tensor, and a kernel in object code takes each once"));
        return {};
      }
  mlir::Builder& b = node.builder();
  const mlir::Type element = mlir::cast<RankedTensorType>(function.getResultTypes()[0]).getElementType();
  return node.op(
      "native", operands,
      {{"name", mlir::Attribute(b.getStringAttr(name))},
       {"entry", mlir::Attribute(b.getStringAttr(code.entry))},
       {"object", mlir::Attribute(b.getStringAttr(code.object))},
       {"object_v4", code.objectV4.empty() ? mlir::Attribute() : mlir::Attribute(b.getStringAttr(code.objectV4))},
       {"sizes", mlir::Attribute(mlir::AffineMapAttr::get(code.sizes))},
       {"element", element},
       {"reads", mlir::Attribute(b.getDenseI64ArrayAttr(code.reads))},
       {"whole", mlir::Attribute(b.getDenseI64ArrayAttr(code.whole))},
       {"cost", llvm::ArrayRef<double>(code.cost)},
       {"scratch_bytes", code.scratchBytes},
       {"params", mlir::Attribute(b.getDenseI64ArrayAttr(params))}});
}

}  // namespace hpu::importer
