// SPDX-License-Identifier: Apache-2.0
// The reference interpreter as the reference of random models: importer and interpreter, without the rest of the
// compiler. The one thing to know: it needs no other program, so what is compared with it runs everywhere.
#pragma once

#include "tests/random/Evaluate.h"

namespace hpu::randomtest {

/// `scratch`: a folder for the models of one node.
std::unique_ptr<Reference> interpreterReference(const std::string& scratch);

}  // namespace hpu::randomtest
