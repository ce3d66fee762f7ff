// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Importer.h"

#include "base/Clip.h"
#include "base/Format.h"
#include "base/MappedFile.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuDialect.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/ImportState.h"
#include "compiler/import/LocalFunctions.h"
#include "compiler/import/OnnxImporter.h"
#include "compiler/import/OnnxReader.h"
#include "compiler/mlir_import/CustomOps.h"
#include "compiler/mlir_import/ForeignModule.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;

void registerDialects(MLIRContext& context) {
  context.loadDialect<ir::HpuDialect, sched::SchedDialect, func::FuncDialect>();
}

ImportOptions importOptions(const CompileOptions& options) {
  ImportOptions made{options.shapes, options.dims, {}, {}, {}};
  made.plugins = options.plugins;
  for (const auto& [name, own] : options.dimBounds) made.bounds[name] = {own.min, own.max};
  return made;
}

StatusOr<OwningModule> importOnnxModule(MLIRContext& context, const std::string& path, const ImportOptions& options,
                                        std::vector<UnsupportedNode>* unsupported, OwningModule* partial,
                                        std::map<std::string, NodeOrigin>* origins) {
  HPU_ASSIGN(OnnxModel model, readOnnxModel(path));
  return importOnnxModule(context, std::move(model), options, unsupported, partial, origins);
}

/// `name` is `one` from now on, in all that was said before, too. False: that is known.
static bool join(std::map<std::string, std::string>& joined, const std::string& name, std::string one) {
  if (auto known = joined.find(one); known != joined.end()) one = known->second;
  if (name == one || joined.count(name)) return false;
  for (auto& [other, its] : joined)
    if (its == name) its = one;
  return joined.emplace(name, one).second;
}

StatusOr<OwningModule> importOnnxModule(MLIRContext& context, OnnxModel model, const ImportOptions& options,
                                        std::vector<UnsupportedNode>* unsupported, OwningModule* partial,
                                        std::map<std::string, NodeOrigin>* origins) {
  registerDialects(context);
  const std::string path = model.path;
  HPU_ASSIGN(const CustomOps customOps, CustomOps::load(context, options.plugins));
  HPU_RETURN_IF_ERROR(inlineFunctions(
      model, [&](const std::string& domain, const std::string& op) { return customOps.has(domain, op); }));
  ImportOptions own = options;
  std::optional<OnnxImporter> tried;
  std::optional<StatusOr<OwningModule>> result;
  for (bool again = true; again;) {
    tried.emplace(context, model, own, customOps);
    result.emplace(tried->run());
    again = false;
    // Each round fixes a dimension more.
    for (const auto& [name, size] : tried->fixedSizes()) again |= own.fixed.emplace(name, size).second;
    for (const auto& [name, one] : tried->joinedSizes()) again |= join(own.joined, name, one);
  }
  OnnxImporter& importer = *tried;
  StatusOr<OwningModule> module = std::move(*result);
  if (origins) *origins = importer.origins();
  if (unsupported) {
    for (Issue issue : importer.issues()) {
      if (issue.kind != Issue::Kind::kUnsupported) continue;
      const bool isPart = issue.op.empty();
      if (isPart && issue.part.empty()) issue.part = "model";
      if (issue.help.empty()) issue.help = "export the model in another form: the reason says what stands in the way";
      unsupported->push_back({isPart ? issue.part : issue.op,
                              isPart ? issue.partName : issue.node,
                              issue.reason + (issue.details.empty() ? "" : " (" + issue.details + ")"),
                              issue.domain,
                              issue.opset,
                              {},
                              {},
                              issue.help});
      for (const IssueValue& value : issue.inputs) unsupported->back().inputs.push_back({value.name, value.type});
      for (const IssueValue& value : issue.outputs) unsupported->back().outputs.push_back({value.name, value.type});
    }
  }
  if (!module.ok()) {
    if (partial && module.status().code() == StatusCode::kUnimplemented) *partial = importer.takePartial();
    return module.status();
  }
  ir::DiagnosticCapture capture(&context);
  if (failed(verify(module->get())))
    return capture.status(StatusCode::kInternal, strCat("'", path, "': the importer made an invalid module"));
  return module;
}

std::map<std::string, int64_t> fixedSizes(ModuleOp module) {
  std::map<std::string, int64_t> sizes;
  if (auto all = module->getAttrOfType<DictionaryAttr>(kFixedSizesAttr))
    for (NamedAttribute each : all) sizes[each.getName().str()] = cast<IntegerAttr>(each.getValue()).getInt();
  return sizes;
}

std::map<std::string, std::string> joinedSizes(ModuleOp module) {
  std::map<std::string, std::string> names;
  if (auto all = module->getAttrOfType<DictionaryAttr>(kJoinedSizesAttr))
    for (NamedAttribute each : all) names[each.getName().str()] = cast<StringAttr>(each.getValue()).str();
  return names;
}

std::string sizeOptions(const std::vector<std::string>& names) {
  std::vector<base::OptionEntry> entries;
  for (const std::string& name : names) entries.emplace_back(name, "SIZE");
  return base::optionEntries("dims", entries);
}

std::string programName(const std::string& graphName, const std::string& path) {
  const llvm::StringRef name = graphName;
  const bool says = !name.trim().empty() &&
                    llvm::none_of(llvm::ArrayRef<llvm::StringRef>({"torch_jit", "torch-jit-export", "main_graph",
                                                                   "main", "graph", "model", "onnx_graph", "onnx_model",
                                                                   "onnxgraph", "tf2onnx", "unnamed"}),
                                  [&](llvm::StringRef common) { return name.equals_insensitive(common); });
  const std::string stem = llvm::sys::path::stem(path).str();
  return says ? graphName : stem.empty() ? std::string("model") : stem;
}

StatusOr<bool> isMlirFile(const std::string& path) {
  HPU_ASSIGN(std::shared_ptr<const base::MappedFile> file, base::MappedFile::open(path));
  llvm::StringRef text(reinterpret_cast<const char*>(file->data()), std::min<size_t>(file->size(), 4096));
  if (text.starts_with("ML\xefR")) return true;
  // The first word that is not in a comment.
  while (true) {
    text = text.ltrim();
    if (!text.starts_with("//")) break;
    text = text.drop_until([](char c) { return c == '\n'; });
  }
  for (llvm::StringRef word : {"module", "func.func", "\"builtin.module\"", "#", "!", "builtin.module"})
    if (text.starts_with(word)) return true;
  return false;
}

namespace {

/// The dialect that the parser or we do not take, from a parse error; empty if it is another error.
std::string foreignDialect(llvm::StringRef message) {
  size_t at = message.find("Dialect `");
  if (at == llvm::StringRef::npos) return {};
  return message.drop_front(at + 9).take_until([](char c) { return c == '\''; }).str();
}

/// Sizes of a file are not to be trusted: their product may be no number at all.
Status checkSizes(ModuleOp module, const std::string& path) {
  Status status = okStatus();
  auto check = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || ir::fitsMemory(type)) return WalkResult::advance();
    const std::string where = ir::locationText(value.getLoc());
    status = invalidArgument(
        strCat("'", path, "': ", where.empty() ? "" : where + ": ", ir::typeToString(type), ", which no memory holds"));
    return WalkResult::interrupt();
  };
  module.walk([&](Operation* op) {
    for (Region& region : op->getRegions())
      for (Block& block : region)
        for (Value argument : block.getArguments())
          if (check(argument).wasInterrupted()) return WalkResult::interrupt();
    for (Value result : op->getResults())
      if (check(result).wasInterrupted()) return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return status;
}

/// Dumps leave large constants out unless they are asked for.
Status checkData(ModuleOp module, const std::string& path) {
  std::string lost;
  module.walk([&](Operation* op) {
    for (NamedAttribute attribute : op->getAttrs()) {
      auto resource = dyn_cast<DenseResourceElementsAttr>(attribute.getValue());
      if (!resource || resource.getRawHandle().getBlob()) continue;
      lost = resource.getRawHandle().getKey().str();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (lost.empty()) return okStatus();
  return invalidArgument(strCat("'", path, "': the constant '", base::clipped(lost),
                                "' has no data: the file is a dump without its large constants; "
                                "write it with ",
                                base::optionName("dumpConstants")));
}

Status checkModule(ModuleOp module, const std::string& path) {
  func::FuncOp main;
  for (Operation& op : *module.getBody()) {
    // A dump of a late phase, to continue from, is a program instead of a function.
    if (isa<sched::ProgramOp>(op)) return okStatus();
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return invalidArgument(strCat("'", path, "': only functions may be at the top level, not '",
                                    op.getName().getStringRef().str(), "'"));
    if (function.getName() == "main") main = function;
  }
  if (!main || main.isExternal() || !main.getBody().hasOneBlock())
    return invalidArgument(strCat("'", path, "': needs a function @main with one block"));
  Builder builder(module.getContext());
  auto name = [&](llvm::StringRef prefix, unsigned i) { return builder.getStringAttr(prefix + llvm::Twine(i)); };
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    if (!isa<RankedTensorType>(type))
      return invalidArgument(strCat("'", path, "': argument ", i, " of @main is no ranked tensor"));
    if (!main.getArgAttr(i, "hpu.name")) main.setArgAttr(i, "hpu.name", name("input", i));
  }
  for (auto [i, type] : llvm::enumerate(main.getResultTypes())) {
    if (!isa<RankedTensorType>(type))
      return invalidArgument(strCat("'", path, "': result ", i, " of @main is no ranked tensor"));
    if (!main.getResultAttr(i, "hpu.name")) main.setResultAttr(i, "hpu.name", name("output", i));
  }
  return okStatus();
}

}  // namespace

namespace {

template <typename Parse>
StatusOr<OwningModule> importParsed(MLIRContext& context, const std::string& path, Parse parse) {
  registerDialects(context);
  allowForeignDialects(context);
  ir::DiagnosticCapture capture(&context);
  OwningModule module = parse();
  if (!module) {
    std::string message = capture.message(), dialect = foreignDialect(message);
    if (!dialect.empty())
      return unimplemented(strCat("'", path, "': uses the '", dialect,
                                  "' dialect; OpenHPU reads MLIR in the dialects hpu, tosa, linalg, "
                                  "tensor, arith and math"));
    return invalidArgument(strCat("'", path, "': not a valid module: ", message));
  }
  HPU_RETURN_IF_ERROR(checkData(*module, path));
  HPU_RETURN_IF_ERROR(checkSizes(*module, path));
  if (isForeign(*module)) {
    HPU_ASSIGN(module, convertForeignModule(*module, path));
  }
  HPU_RETURN_IF_ERROR(checkModule(*module, path));
  HPU_RETURN_IF_ERROR(resolveDataSizes(*module).withContext(strCat("'", path, "'")));
  if (auto name = (*module)->getAttrOfType<StringAttr>("hpu.model"); !name || name.empty())
    (*module)->setAttr("hpu.model", StringAttr::get(&context, programName("", path)));
  return module;
}

}  // namespace

StatusOr<OwningModule> importMlirModule(MLIRContext& context, const std::string& path) {
  HPU_RETURN_IF_ERROR(base::MappedFile::open(path).status());
  return importParsed(context, path, [&] { return OwningModule(parseSourceFile<ModuleOp>(path, &context)); });
}

StatusOr<OwningModule> parseMlirModule(MLIRContext& context, std::string_view bytes, const std::string& path) {
  return importParsed(context, path, [&] { return OwningModule(parseSourceString<ModuleOp>(bytes, &context, path)); });
}

namespace {

/// " test | types | engines |" of each op that has a line: its parts are parted by tabs.
std::map<std::string, std::string> cellsOf(std::string_view found) {
  std::map<std::string, std::string> cells;
  llvm::SmallVector<llvm::StringRef> lines, parts;
  llvm::StringRef(found.data(), found.size()).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    parts.clear();
    if (line.starts_with("#")) continue;
    line.split(parts, '\t');
    if (parts.size() != 4) continue;
    std::string text;
    for (llvm::StringRef part : llvm::drop_begin(parts)) text += strCat(" ", part.str(), " |");
    cells[parts[0].str()] = text;
  }
  return cells;
}

}  // namespace

std::string coverageDocument(std::string_view found) {
  const std::map<std::string, std::string> cells = cellsOf(found);
  auto cellsFor = [&](const std::string& op) {
    auto own = cells.find(op);
    return own == cells.end() ? std::string("  |  |  |") : own->second;
  };
  std::string text =
      "# ONNX operators\n\n"
      "Generated from the importer's table (`compiler/import/OpTable.h`); `hpu-compile --list-ops` prints the same "
      "list.\n"
      "Nodes whose operands are known at import are evaluated there, so shape arithmetic costs nothing at run "
      "time.\n\n"
      "*Tested by* is one of the tests that run the operator (ONNX's own, a case of a script beside ONNX Runtime, "
      "random "
      "models, a unit test).\n*Types* are those of its first operand with which that case compiles, *runs on* are the "
      "engines of the commands that its cases compile to\n(host: none, its result is a constant). Nothing of it is "
      "written "
      "by hand: `tests/conformance/onnx/op_coverage.py` finds it and checks it.\n\n";
  std::vector<const OpRow*> rows = allRows();
  const auto others = std::find_if(rows.begin(), rows.end(), [](const OpRow* row) { return *row->domain != 0; });
  text += strCat(others - rows.begin(), " operators of the default domain import, up to opset ", kNewestOpset,
                 "; every other one is reported by name before compilation starts.\n\n"
                 "| operator | opsets | tested by | types | runs on | limits |\n|---|---|---|---|---|---|\n");
  for (auto row = rows.begin(); row != others; ++row)
    text += strCat("| ", (*row)->op, " | ", (*row)->minOpset, "–", (*row)->maxOpset, " |", cellsFor((*row)->op), " ",
                   (*row)->limits, " |\n");
  text += strCat("\n", rows.end() - others,
                 " operators of other domains, as ONNX Runtime's optimiser and exporters write them, and steps of "
                 "optimisers:\n\n"
                 "| operator | tested by | types | runs on | limits |\n|---|---|---|---|---|\n");
  for (auto row = others; row != rows.end(); ++row)
    text += strCat("| ", (*row)->domain, ".", (*row)->op, " |", cellsFor(strCat((*row)->domain, ".", (*row)->op)), " ",
                   (*row)->limits, " |\n");
  text +=
      "\nFunctions that are local to a model are imported as the nodes of their bodies, `call/node`, in their own "
      "opsets; "
      "one comes before an\noperator of its name.\n";
  text +=
      "\n`If`, `Loop` and `Scan` become the ops of their bodies, once for each iteration. Where a condition or a "
      "number "
      "of iterations is known\non the device only, both branches or all possible iterations are computed, and the "
      "device chooses what counts.\n";
  text +=
      "\nOf a sequence `s` among a model's inputs or outputs each element is a tensor of its own: `s[0]`, `s[1]`, ... "
      "The free dimension `s[]` is\ntheir number (`--dim 's[]=3'`); of an optional input `s[]` is 0 where it is not "
      "there "
      "(-1 for an optional sequence).\n";
  text += "\nWhat comes of infinities, NaN and numbers out of range is in `accuracy.md`.\n";
  return text;
}

}  // namespace hpu::importer

namespace hpu {

std::vector<std::string> supportedOnnxOps() {
  std::vector<std::string> ops;
  for (const importer::OpRow* row : importer::allRows())
    ops.push_back(base::strCat(row->domain, *row->domain ? "." : "", row->op, " (opset ", row->minOpset, "..",
                               row->maxOpset, ")"));
  return ops;
}

}  // namespace hpu
