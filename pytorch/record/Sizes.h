// SPDX-License-Identifier: Apache-2.0
// Structures that differ in sizes alone share a program of free sizes.
// The one thing to know: nothing is assumed of sizes that were not seen. Each new size is translated as what it is, and
// shares the program only if that is what the program is at this size.
#pragma once

#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/executable.h"
#include "pytorch/record/Signature.h"
#include "pytorch/record/Translate.h"

namespace hpu_torch {

struct SizedExecutable {
  hpu::Executable executable;
  std::vector<hpu::Shape> inputShapes;  ///< Of the launches of these sizes.
};

/// The program that `nodes` share with what was seen before; compiled when they are the second of their kind, or the
/// first that the program does not fit. False: they are the first of their kind, or are not like it; why is in `why`.
/// `translated` is what `nodes` are; its graph stays as it is. Any thread.
bool shareSizes(const hpu::Device& device, const std::vector<Node>& nodes, const std::vector<Storage>& storages,
                Translated& translated, SizedExecutable& shared, std::string& why);

}  // namespace hpu_torch
