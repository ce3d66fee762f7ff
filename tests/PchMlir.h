// SPDX-License-Identifier: Apache-2.0
// Precompiled for tests with MLIR.
#pragma once

#include "compiler/support/Pch.h"
#include "tests/Pch.h"
