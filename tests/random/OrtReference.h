// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime as the reference of random models. The one thing to know: a node is a model of its own whose operands
// are all inputs, so that ONNX Runtime folds nothing.
#pragma once

#include <memory>

#include "tests/random/Evaluate.h"
#include "tests/random/Ort.h"

namespace hpu::randomtest {

std::unique_ptr<Reference> ortReference(Ort& ort);

}  // namespace hpu::randomtest
