// SPDX-License-Identifier: Apache-2.0
// The two macros that pass a failure on; internal, so that public headers define no short macros.
#pragma once

#include "hpu/status.h"

#define HPU_CONCAT_INNER(a, b) a##b
#define HPU_CONCAT(a, b) HPU_CONCAT_INNER(a, b)

/// Returns from the function when `expr` (a Status) is not ok.
#define HPU_RETURN_IF_ERROR(expr)                                               \
  do {                                                                          \
    if (::hpu::Status hpuStatus_ = (expr); !hpuStatus_.ok()) return hpuStatus_; \
  } while (false)

/// `HPU_ASSIGN(auto x, f());` where f returns StatusOr; returns its Status on failure.
#define HPU_ASSIGN(lhs, expr) HPU_ASSIGN_IMPL(HPU_CONCAT(hpuOr_, __LINE__), lhs, expr)
#define HPU_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                    \
  if (!tmp.ok()) return tmp.status();   \
  lhs = std::move(tmp).value()
