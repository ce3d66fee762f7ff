// SPDX-License-Identifier: Apache-2.0
// Steps of optimisers as ONNX defines them (ai.onnx.preview.training).
// The one thing to know: rates and steps are tensors of one element, as they change from step to step; results have the
// types of what they replace.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

struct OptimizerOptions {
  double normCoefficient = 0;      ///< Of the L2 term: that much of the weights is added to the gradient.
  double normCoefficientPost = 0;  ///< How much of the new weights is taken away again (Adam).
  double decayFactor = 0;          ///< Of the rate, with the steps (Adagrad).
  double alpha = 0, beta = 0;      ///< What averages keep from step to step.
  double epsilon = 0;
  bool isNesterov = false;
};

/// What a step makes of the weights and of what the optimiser remembers of each; second is null where it remembers one.
struct OptimizerStep {
  Value weights, first, second;
};

/// `rate`: of floats, `step`: an integer that counts from 0.
OptimizerStep adagradStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value squares,
                          const OptimizerOptions& o);
OptimizerStep adamStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value mean, Value squares,
                       const OptimizerOptions& o);
OptimizerStep momentumStep(Emitter& c, Value rate, Value step, Value weights, Value gradient, Value momentum,
                           const OptimizerOptions& o);

}  // namespace hpu::compose
