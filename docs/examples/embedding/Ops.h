// SPDX-License-Identifier: Apache-2.0
// Operations: each kind is compiled once for each combination of shapes, then only launched.
#pragma once

#include "Backend.h"

namespace mini::ops {

Tensor matmul(const Tensor& a, const Tensor& b, bool transposeA = false, bool transposeB = false);
Tensor add(const Tensor& a, const Tensor& b);  ///< Broadcast as numpy does.
Tensor relu(const Tensor& x);
Tensor reluGrad(const Tensor& dy, const Tensor& y);           ///< dy where y > 0.
Tensor lossGrad(const Tensor& y, const Tensor& t, double n);  ///< Of sum((y - t)^2) / n.
Tensor sumRows(const Tensor& x);
void subtractScaled(const Tensor& w, const Tensor& g, double factor);  ///< w -= factor * g, in place.

}  // namespace mini::ops
