// SPDX-License-Identifier: Apache-2.0
// Runs ONNX backend tests through the importer and the reference interpreter.
//
//   onnx_conformance [--expected FILE] [--update] [--verbose] [--free] FOLDER...
//
// --free imports models with free dimensions as they are, else they get the sizes of the data. FILE lists the tests
// that do not pass; any other outcome than listed fails. --update rewrites it.
#include <cstdio>

#include "base/StatusMacros.h"
#include "compiler/import/DataSizes.h"
#include "compiler/interp/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tests/conformance/onnx/OnnxTests.h"

using namespace hpu;

int main(int argc, char** argv) {
  std::vector<std::string> flags;
  onnxtest::Options options = onnxtest::parseOptions(argc, argv, flags);
  options.listNotImported = true;
  for (const std::string& flag : flags) {
    if (flag == "--free") options.freeDims = onnxtest::FreeDims::kDeclared;
    if (flag != "--free") return fprintf(stderr, "unknown option '%s'\n", flag.c_str()), 2;
  }
  return onnxtest::runTests(options,
                            [](auto, importer::OwningModule module,
                               const std::vector<interp::Tensor>& inputs) -> StatusOr<std::vector<interp::Tensor>> {
                              auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
                              HPU_ASSIGN(std::vector<interp::Tensor> outputs, interp::evaluateFunction(main, inputs));
                              return importer::withTrueSizes(*module, std::move(outputs));
                            });
}
