// SPDX-License-Identifier: Apache-2.0
// The steps of verifyProgram, in the order in which they must run: each relies on what those before
// it have proved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Limits that keep the products of sizes in 64 bits for whoever computes with them.
inline constexpr uint64_t kMaxSectionBytes = uint64_t{1} << 50;
inline constexpr int64_t kMaxPoints = int64_t{1} << 48;
inline constexpr int64_t kMaxMacs = int64_t{1} << 60;
/// Of strides, dilations, pads: beyond any tensor's size.
inline constexpr int64_t kMaxWindow = int64_t{1} << 31;
/// Of one kernel call; real TPCs have 80 KB.
inline constexpr uint64_t kMaxScratchBytes = uint64_t{64} << 20;

/// Signature, sections and their bindings, constants.
Status verifyMemory(const Program& program);
/// Kernels and their images.
Status verifyKernels(const Program& program);
/// Operands and descriptors of every op; of some only, where a program is one that was accepted with other numbers in
/// these (and where an op's section or kernel has other numbers, it is one of them).
Status verifyOps(const Program& program, const std::vector<bool>* only = nullptr);
/// Bundles, hostOrder, commands' boxes and rings.
Status verifyCommands(const Program& program);

/// What of verifyCommands depends on sizes, for a program that has other boxes than one which verifyCommands accepted,
/// and is the same in all else that it looks at. The boxes must cover their spaces: that is not looked at. `only`: the
/// ops that have other numbers than in that program, themselves or in their commands.
Status verifyBoxes(const Program& program, const std::vector<bool>* only = nullptr);

/// Program::dynamic, if there is one: what it says is in range, and at the samples is what the program has.
Status verifyDynamic(const Program& program);

/// Program::variants: sizes and tensors fit the program, memory is shared as Variant says, and each verifies by itself.
Status verifyVariants(const Program& program);

/// Program::parts: in all iterations their memory is within the program's, what they read has been written, and none
/// writes what the same iteration reads; and each verifies by itself.
Status verifyParts(const Program& program);

/// The shape algebra of an MME op whose operands' sizes are all > 0 and whose product of sizes is
/// bounded.
Status verifyMmeShapes(const Op& op, const std::string& where);

/// Bytes of a section that operands may touch: for an input or output, those of its tensor.
uint64_t usableBytes(const Program& program, const Section& section);

/// "op 12 'conv1'".
std::string opText(const Program& program, uint32_t op);
/// "command 3 of queue 1 (mme)".
std::string commandText(const Program& program, uint32_t queue, uint32_t command);

/// Why two points of a written operand are one element, to follow its name in a message; empty when no two are. The
/// dimension along which a ring is cut counts as one point: only the commands say how large a slice is.
std::string selfOverlap(const Operand& operand);

/// Product of sizes, or -1 when a size is < 1 or the product is beyond `limit`.
int64_t boundedProduct(const std::vector<int64_t>& sizes, int64_t limit);

}  // namespace hpu::recipe
