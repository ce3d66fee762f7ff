// SPDX-License-Identifier: Apache-2.0
// Runs ONNX backend tests through the importer, the compiler and the simulated device.
//
//   onnx_device_conformance [--expected FILE] [--update] [--verbose] [--target=gaudi2] [--level=2] [--free-dims]
//   FOLDER...
//
// FILE lists the tests that import but do not pass; any other outcome than listed fails. --update rewrites it.
// --free-dims: each dimension of an input above 1 is free, and one recipe has to do for all of its sizes; those of one
// size have one name, or with --free-dims=apart each its own.
#include <cstdio>
#include <cstdlib>

#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/ValueSizes.h"
#include "compiler/import/GraphImpl.h"
#include "hpu/compiler.h"
#include "tests/conformance/onnx/OnnxTests.h"
#include "tools/common/Session.h"

using namespace hpu;

namespace {

/// Sizes that are values of inputs stay free, between bounds around those of the data.
void boundValueSizes(mlir::ModuleOp module, const std::vector<interp::Tensor>& inputs, CompileOptions& options) {
  auto function = module.lookupSymbol<mlir::func::FuncOp>("main");
  for (const ir::ValueSize& size : ir::valueSizes(module))
    for (unsigned i = 0; i < function.getNumArguments() && i < inputs.size(); ++i)
      if (auto name = function.getArgAttrOfType<mlir::StringAttr>(i, "hpu.name");
          name && name.getValue() == size.input) {
        const int64_t value = inputs[i].integer(size.element);
        options.dimBounds[size.symbol] = {std::min<int64_t>(value, 0), std::max<int64_t>(value, 8)};
      }
}

/// Free dimensions may be from 1 to twice as large as those of the data, "s5" is 5 there.
void boundSizes(mlir::ModuleOp module, CompileOptions& options) {
  auto function = module.lookupSymbol<mlir::func::FuncOp>("main");
  for (mlir::Type type : function.getArgumentTypes())
    for (const ir::SymDim& dim : ir::symShape(mlir::cast<mlir::RankedTensorType>(type)))
      if (dim.isNamed() && dim.symbol.getValue().starts_with("s"))
        if (const int64_t size = std::atoll(dim.symbol.str().c_str() + 1); size > 1)
          options.dimBounds[dim.symbol.str()] = {1, 2 * size};
}

StatusOr<std::vector<interp::Tensor>> runOnDevice(CompileOptions options, std::shared_ptr<mlir::MLIRContext> context,
                                                  importer::OwningModule module,
                                                  const std::vector<interp::Tensor>& inputs) {
  boundValueSizes(*module, inputs, options);
  boundSizes(*module, options);
  Graph graph = GraphAccess::make(std::move(context), std::move(module));
  HPU_ASSIGN(CompileResult compiled, compile(graph, options));
  HPU_ASSIGN(tools::Session session, tools::Session::open(compiled.recipe, {}));
  std::vector<tools::HostTensor> given;
  for (const interp::Tensor& input : inputs)
    given.push_back({input.type(), {input.data(), input.data() + input.bytes()}, ""});
  HPU_ASSIGN(std::vector<tools::HostTensor> outputs, session.run(given));
  std::vector<interp::Tensor> results;
  for (const tools::HostTensor& output : outputs)
    results.push_back(interp::Tensor::copyOf(output.type, output.bytes.data()));
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> flags;
  onnxtest::Options options = onnxtest::parseOptions(argc, argv, flags);
  CompileOptions compileOptions;
  compileOptions.cpu = "native";  // One kernel variant is enough here and takes half the time.
  for (const std::string& flag : flags) {
    if (flag == "--free-dims" || flag == "--free-dims=apart") {
      options.freeDims = flag == "--free-dims" ? onnxtest::FreeDims::kAll : onnxtest::FreeDims::kApart;
      options.listNotImported = true;
    } else if (flag.starts_with("--level=")) {
      compileOptions.optLevel = std::atoi(flag.c_str() + 8);
    } else if (StatusOr<Target> target = parseTarget(flag.starts_with("--target=") ? flag.substr(9) : flag);
               target.ok()) {
      compileOptions.target = *target;
    } else {
      return fprintf(stderr, "unknown option '%s'\n", flag.c_str()), 2;
    }
  }
  return onnxtest::runTests(options, [&](auto context, importer::OwningModule module, const auto& inputs) {
    return runOnDevice(compileOptions, std::move(context), std::move(module), inputs);
  });
}
