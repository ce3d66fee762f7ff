// SPDX-License-Identifier: Apache-2.0
// Precompiled for the files of this folder: the dialects that kernels are written in.
#pragma once

#include "compiler/support/Pch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
