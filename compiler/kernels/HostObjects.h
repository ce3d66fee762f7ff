// SPDX-License-Identifier: Apache-2.0
// Object code of the host that is compiled with the compiler itself, by CPU variant: what NativeKernel links.
// The one thing to know: the bytes are those of relocatable files, in this library's constants (CMakeLists.txt).
#pragma once

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace hpu::kernels {

struct HostObject {
  llvm::StringRef v3, v4;
};
/// OrderCode.cpp for elements of so many bytes: 1, 2, 4 or 8.
HostObject orderObject(int64_t bytes);
/// BoxesCode.cpp.
HostObject boxesObject();

}  // namespace hpu::kernels
