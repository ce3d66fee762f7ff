// SPDX-License-Identifier: Apache-2.0
// Flattens the kernels' object files into one image that runs wherever it is mapped.
// An object may call kNativeName, which is then a function of the object that comes with it.
// The one thing to know: only references relative to the place of use are accepted (code to its
// constants); anything that would need the image's address, or a symbol from outside, is an error.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hpu::kernels {

struct LinkedImage {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> entries;  ///< Of `entryName`, one an object.
};

/// The undefined symbol of an object that is called for its native function.
inline constexpr llvm::StringLiteral kNativeName = "hpu_native";

struct LinkObject {
  llvm::ArrayRef<char> elf;
  llvm::StringRef native;       ///< The object that comes with it; empty: none.
  llvm::StringRef nativeEntry;  ///< Its function.
};

/// Code and read-only data of each object, in order; sections at multiples of 64 bytes. Pure; any
/// thread. Errors: kInternal naming the section, symbol or relocation that does not fit.
StatusOr<LinkedImage> linkImage(llvm::ArrayRef<LinkObject> objects, llvm::StringRef entryName);

}  // namespace hpu::kernels
