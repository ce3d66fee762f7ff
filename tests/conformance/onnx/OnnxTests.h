// SPDX-License-Identifier: Apache-2.0
// ONNX's backend tests (a folder with model.onnx and test_data_set_k/{input,output}_i.pb each): found, imported, given
// to a runner and judged. The one thing to know: node tests feed shapes, axes and the like at run time; when a node
// does not import so, its last inputs are bound as constants until it does.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/import/Importer.h"
#include "compiler/interp/Tensor.h"
#include "mlir/IR/MLIRContext.h"

namespace hpu::onnxtest {

enum class Outcome { kPassed, kPassedWithConstants, kNotImported, kUnsupported, kFailed };

struct Result {
  Outcome outcome = Outcome::kFailed;
  std::string reason;

  bool passed() const { return outcome == Outcome::kPassed || outcome == Outcome::kPassedWithConstants; }
};

/// What is done with an imported model: gives its outputs for `inputs`. kUnimplemented is an honest refusal.
using Runner = std::function<StatusOr<std::vector<interp::Tensor>>(std::shared_ptr<mlir::MLIRContext> context,
                                                                   importer::OwningModule module,
                                                                   const std::vector<interp::Tensor>& inputs)>;

/// Which dimensions of inputs are free.
enum class FreeDims {
  kNone,      ///< All get the sizes of the data.
  kDeclared,  ///< Those that the model says.
  /// All of tensors that are above 1 in the data: one of the size 3 is "s3". Then only numbers and lists, which say
  /// shapes, scales or axes, are bound as constants.
  kAll,
  /// The same with a name of its own for each: "s3_0_1" is dimension 1 of input 0.
  kApart
};

/// All data sets of one test.
Result runTest(const std::filesystem::path& folder, FreeDims freeDims, const Runner& runner);

/// The test folders in `roots`, each of which is one or holds some; sorted.
std::vector<std::filesystem::path> findTests(const std::vector<std::string>& roots);

struct Options {
  std::string expectedFile;  ///< Tests that do not pass, one a line with the reason; empty: nothing is expected.
  std::vector<std::string> roots;
  bool update = false, verbose = false;
  FreeDims freeDims = FreeDims::kNone;
  bool listNotImported = false;  ///< Those belong into the file as well.
};

/// Runs everything and compares with the list of expectedFile. Reasons are not compared, but whether a test is refused,
/// fails or differs is. Gives the program's exit code; 77 (ctest: skipped) when there is no test.
int runTests(const Options& options, const Runner& runner);

/// Takes --expected FILE, --update, --verbose and folders out of the arguments; others are left in `rest`.
Options parseOptions(int argc, char** argv, std::vector<std::string>& rest);

}  // namespace hpu::onnxtest
