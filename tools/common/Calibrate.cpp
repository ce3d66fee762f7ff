// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Calibrate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/calibration.h"
#include "tools/common/Inputs.h"
#include "tools/common/Interrupt.h"
#include "tools/common/ModelFile.h"
#include "tools/common/Session.h"

namespace hpu::tools {
Status calibrateIfAsked(Tool& tool, const CompileFlags& flags, const std::string& model, CompileOptions& options) {
  if (flags.calibrate.empty()) return okStatus();
  if (!isFp8(options.precision))
    return invalidArgument("--calibrate is for --precision=fp8 and fp8_e5m2; " + flags.precision + " needs no ranges");
  HPU_ASSIGN(std::vector<DataSet> sets, readDataSets(flags.calibrate));
  HPU_RETURN_IF_ERROR(protectData(tool, sets, {}));
  HPU_RETURN_IF_ERROR(takeShapesFrom(model, sets, {}, options));
  HPU_ASSIGN(CompileResult compiled, compileCalibration(model, options));
  HPU_ASSIGN(Session session, Session::open(compiled.recipe, {}));
  for (const DataSet& set : sets) {
    if (options.isCancelled && options.isCancelled()) return cancelled("the calibration was cancelled");
    HPU_ASSIGN(std::vector<HostTensor> inputs,
               matchInputs(compiled.recipe.inputs(), set.inputs, "'" + set.folder + "'"));
    HPU_ASSIGN(std::vector<HostTensor> ranges, session.run(inputs));
    for (const HostTensor& range : ranges) {
      const double value = range.number(0);
      // std::max would drop a NaN, and all that is behind it would have no range but 0.
      if (!std::isfinite(value))
        return invalidArgument(base::strCat("--calibrate: on '", set.folder, "' the activation '", range.name, "' is ",
                                            std::isnan(value) ? "NaN" : "infinite",
                                            ", of which no range can be made; correct the inputs or leave them out"));
      double& largest = options.ranges[range.name];
      largest = std::max(largest, value);
    }
  }
  tool.note(base::strCat("calibrated ", options.ranges.size(), " activations on ", sets.size(),
                         sets.size() == 1 ? " data set" : " data sets"));
  return okStatus();
}

StatusOr<CompileResult> compileInterruptibly(Tool& tool, const CompileFlags& flags, const std::string& model,
                                             CompileOptions& options, int& signal) {
  signal = 0;
  const Interrupt interrupt("ending the compilation", tool.quiet());
  CompileOptions own = options;
  own.isCancelled = [&] { return interrupt.signal() != 0; };
  auto compiled = [&]() -> StatusOr<CompileResult> {
    HPU_RETURN_IF_ERROR(calibrateIfAsked(tool, flags, model, own));
    return compileWithProgress(tool, model, own);
  };
  StatusOr<CompileResult> result = compiled();
  own.isCancelled = options.isCancelled;
  options = std::move(own);  // Calibration may have added ranges and sizes.
  const bool ends = result.ok() || result.status().code() == StatusCode::kCancelled;
  if (interrupt.signal() == 0 || !ends) return result;
  signal = interrupt.signal();
  return cancelled("the compilation was cancelled");
}

}  // namespace hpu::tools
