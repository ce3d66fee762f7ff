// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

int64_t boundedProduct(const std::vector<int64_t>& sizes, int64_t limit) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 1 || size > limit / product) return -1;
    product *= size;
  }
  return product;
}

std::string opText(const Program& program, uint32_t op) {
  return strCat("op ", op, " '", program.ops[op].name, "'");
}

std::string commandText(const Program& program, uint32_t queue, uint32_t command) {
  return strCat("command ", command, " of queue ", queue, " (", engineName(program.queues[queue].engine), ")");
}

uint64_t usableBytes(const Program& program, const Section& section) {
  if (const State* state = stateOf(program, section))
    return section.kind == SectionKind::kInput ? 0 : stateBytes(program, *state);
  if (section.kind == SectionKind::kInput) {
    return static_cast<uint64_t>(program.inputs[section.binding].type.bytes());
  }
  if (section.kind == SectionKind::kOutput) {
    return static_cast<uint64_t>(program.outputs[section.binding].type.bytes());
  }
  return section.bytes;
}

namespace {

/// Static shape, known type, bytes in bounds. Dimensions of 0 are allowed: such a tensor has no
/// bytes.
Status verifySignature(const std::vector<TensorInfo>& tensors, std::string_view what) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType& type = tensors[i].type;
    auto where = [&] { return strCat(what, " ", i, " '", tensors[i].name, "'"); };
    if (elementSize(type.element) == 0) {
      return dataLoss(strCat(where(), " has the invalid element type ", type.element));
    }
    if (type.shape.size() > kMaxRank) {
      return dataLoss(strCat(where(), " has rank ", type.shape.size(), ", beyond ", kMaxRank));
    }
    int64_t elements = 1;
    bool fits = true;
    for (int64_t size : type.shape) {
      fits &= size >= 0 && elements <= kMaxPoints / std::max<int64_t>(size, 1);
      if (fits) elements *= std::max<int64_t>(size, 1);
    }
    if (!fits) {
      return dataLoss(strCat(where(), " has the shape ", shapeToString(type.shape),
                             ", with a negative size or more than 2^48 elements"));
    }
  }
  return okStatus();
}

/// Before sections, which are as large as states ask for.
Status verifyStates(const Program& program) {
  std::vector<bool> inputUse(program.inputs.size()), outputUse(program.outputs.size());
  for (size_t i = 0; i < program.states.size(); ++i) {
    const State& state = program.states[i];
    if (state.input >= program.inputs.size() || state.output >= program.outputs.size()) {
      return dataLoss(strCat("state ", i, " is input ", state.input, " and output ", state.output,
                             ", but the program has ", program.inputs.size(), " and ", program.outputs.size()));
    }
    const TensorInfo &input = program.inputs[state.input], &output = program.outputs[state.output];
    auto where = [&] { return strCat("state ", i, ", input '", input.name, "' and output '", output.name, "',"); };
    if (inputUse[state.input] || outputUse[state.output])
      return dataLoss(where() + " shares a tensor with another one");
    inputUse[state.input] = outputUse[state.output] = true;
    if (input.type.element != output.type.element || input.type.shape.size() != state.capacity.size() ||
        output.type.shape.size() != state.capacity.size()) {
      return dataLoss(strCat(where(), " of ", input.type.toString(), " and ", output.type.toString(),
                             " has other types than its capacity of rank ", state.capacity.size()));
    }
    if (boundedProduct(state.capacity, kMaxPoints) < 0) {
      return dataLoss(strCat(where(), " has the capacity ", shapeToString(state.capacity),
                             ", with a size below 1 or more than 2^48 elements"));
    }
    for (size_t d = 0; d < state.capacity.size(); ++d) {
      if (std::max(input.type.shape[d], output.type.shape[d]) > state.capacity[d]) {
        return dataLoss(strCat(where(), " of ", input.type.toString(), " and ", output.type.toString(),
                               " is larger than its capacity ", shapeToString(state.capacity)));
      }
    }
  }
  return okStatus();
}

/// Each is as large as its input.
Status verifyDefaults(const Program& program) {
  for (size_t i = 0; i < program.defaults.size(); ++i) {
    const InputDefault& own = program.defaults[i];
    if (own.input >= program.inputs.size() || (i > 0 && own.input <= program.defaults[i - 1].input)) {
      return dataLoss(strCat("default ", i, " is of input ", own.input,
                             ", which does not follow the one before it, or of ", program.inputs.size()));
    }
    const TensorInfo& input = program.inputs[own.input];
    const bool isState = std::any_of(program.states.begin(), program.states.end(),
                                     [&](const State& state) { return state.input == own.input; });
    if (isState || static_cast<uint64_t>(input.type.bytes()) != own.bytes || (own.bytes > 0 && !own.data)) {
      return dataLoss(strCat("the default of input '", input.name, "', ", input.type.toString(), ", has ", own.bytes,
                             " bytes, or is that of a state"));
    }
  }
  return okStatus();
}

/// The sizes that the host reads are there, and each says how much of one dimension there is.
Status verifyDataSizes(const Program& program) {
  if (program.dataSizes.empty()) return okStatus();
  if (program.outputs.size() < 2) {
    return dataLoss(strCat("sizes depend on data, but the program has ", program.outputs.size(),
                           " outputs, none of which says these sizes"));
  }
  const uint32_t last = static_cast<uint32_t>(program.outputs.size()) - 1;
  const TensorInfo& sizes = program.outputs[last];
  if (sizes.type.element != ElementType::kI64 || sizes.type.shape.size() != 1) {
    return dataLoss(strCat("output ", last, " '", sizes.name, "' is ", sizes.type.toString(),
                           ", no vector of the sizes that depend on data"));
  }
  for (size_t i = 0; i < program.dataSizes.size(); ++i) {
    const DataSize& size = program.dataSizes[i];
    auto where = [&] { return strCat("data size ", i); };
    if (size.output >= last) {
      return dataLoss(strCat(where(), " is of output ", size.output, ", but only ", last, " have sizes"));
    }
    const TensorInfo& output = program.outputs[size.output];
    if (size.dim >= output.type.shape.size() || size.element >= static_cast<uint64_t>(sizes.type.shape[0])) {
      return dataLoss(strCat(where(), " is element ", size.element, " of ", sizes.type.toString(), " for dimension ",
                             size.dim, " of output '", output.name, "', ", output.type.toString()));
    }
    const DataSize* before = i > 0 ? &program.dataSizes[i - 1] : nullptr;
    if (before && std::pair(before->output, before->dim) >= std::pair(size.output, size.dim)) {
      return dataLoss(strCat(where(), " does not come behind the one before it"));
    }
    for (const State& state : program.states) {
      if (state.output == size.output || state.output == last) {
        return dataLoss(strCat(where(), " is one of output '", output.name, "', and states have sizes of their own"));
      }
    }
  }
  return okStatus();
}

Status verifySections(const Program& program) {
  std::vector<uint32_t> inputUse(program.inputs.size(), kNone);
  std::vector<uint32_t> outputUse(program.outputs.size(), kNone);
  uint64_t total = 0, sram = 0;
  for (uint32_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (section.kind > SectionKind::kPersistent) {
      return dataLoss(strCat("section ", i, " has the unknown kind ", section.kind));
    }
    if (section.bytes > kMaxSectionBytes || (total += section.bytes) > kMaxSectionBytes) {
      return dataLoss(
          strCat("section ", i, " with ", section.bytes, " bytes takes the program's memory beyond 2^50 bytes"));
    }
    if (section.kind == SectionKind::kSram) sram += section.bytes;
    bool input = section.kind == SectionKind::kInput;
    if (!input && section.kind != SectionKind::kOutput) {
      if (section.binding != kNone) {
        return dataLoss(strCat("section ", i, " is neither input nor output but is bound to tensor ", section.binding));
      }
      continue;
    }
    const auto& tensors = input ? program.inputs : program.outputs;
    auto& use = input ? inputUse : outputUse;
    std::string_view what = input ? "input" : "output";
    if (section.binding >= tensors.size()) {
      return dataLoss(
          strCat("section ", i, " is bound to ", what, " ", section.binding, ", but the program has ", tensors.size()));
    }
    if (use[section.binding] != kNone) {
      return dataLoss(
          strCat("sections ", use[section.binding], " and ", i, " are both bound to ", what, " ", section.binding));
    }
    use[section.binding] = i;
    const State* state = stateOf(program, section);
    const uint64_t needed =
        state ? stateBytes(program, *state) : static_cast<uint64_t>(tensors[section.binding].type.bytes());
    if (section.bytes < needed) {
      return dataLoss(strCat("section ", i, " has ", section.bytes, " bytes, but its ", what, " ", section.binding,
                             " '", tensors[section.binding].name, "' needs ", needed));
    }
  }
  for (size_t i = 0; i < outputUse.size(); ++i) {
    if (outputUse[i] == kNone) {
      return dataLoss(strCat("output ", i, " '", program.outputs[i].name, "' has no section"));
    }
  }
  auto sramBytes = static_cast<uint64_t>(arch::targetDesc(program.target).sramBytes);
  if (sram > sramBytes) {
    return dataLoss(
        strCat("the SRAM sections have ", sram, " bytes, but ", targetName(program.target), " has ", sramBytes));
  }
  return okStatus();
}

Status verifyConstants(const Program& program) {
  std::vector<uint32_t> order(program.constants.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    const ConstantBlob& blob = program.constants[i];
    order[i] = i;
    if (blob.section >= program.sections.size() || program.sections[blob.section].kind != SectionKind::kConst) {
      return dataLoss(
          strCat("constant ", i, " fills section ", blob.section, ", which is not a constant section of the program"));
    }
    uint64_t size = program.sections[blob.section].bytes;
    if (blob.bytes == 0 || blob.data == nullptr || blob.offset > size || blob.bytes > size - blob.offset) {
      return dataLoss(strCat("constant ", i, " with ", blob.bytes, " bytes at byte ", blob.offset,
                             " is empty or leaves section ", blob.section, ", which has ", size));
    }
  }
  std::sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
    const ConstantBlob &a = program.constants[x], &b = program.constants[y];
    return a.section != b.section ? a.section < b.section : a.offset < b.offset;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const ConstantBlob &a = program.constants[order[i - 1]], &b = program.constants[order[i]];
    if (a.section == b.section && b.offset < a.offset + a.bytes) {
      return dataLoss(strCat("constants ", order[i - 1], " and ", order[i], " both fill byte ", b.offset,
                             " of section ", b.section));
    }
  }
  return okStatus();
}

}  // namespace

Status verifyMemory(const Program& program) {
  if (targetName(program.target) == "unknown") {
    return dataLoss(strCat("the program is for the unknown target ", program.target));
  }
  HPU_RETURN_IF_ERROR(verifySignature(program.inputs, "input"));
  HPU_RETURN_IF_ERROR(verifySignature(program.outputs, "output"));
  HPU_RETURN_IF_ERROR(verifyStates(program));
  HPU_RETURN_IF_ERROR(verifyDataSizes(program));
  HPU_RETURN_IF_ERROR(verifyDefaults(program));
  HPU_RETURN_IF_ERROR(verifySections(program));
  HPU_RETURN_IF_ERROR(verifyConstants(program));
  const Estimates& estimates = program.estimates;
  for (double value : {estimates.deviceTimeUs, estimates.lowerBoundUs}) {
    if (!std::isfinite(value) || value < 0) {
      return dataLoss("an estimate of the device time is negative or not a finite number");
    }
  }
  return okStatus();
}

Status verifyKernels(const Program& program) {
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const Kernel& kernel = program.kernels[i];
    auto where = [&] { return strCat("kernel ", i, " '", kernel.name, "'"); };
    for (double cost : {kernel.cost.loads, kernel.cost.stores, kernel.cost.vectorOps, kernel.cost.scalarOps}) {
      if (!std::isfinite(cost) || cost < 0) {
        return dataLoss(where() + " has a cost that is negative or not a finite number");
      }
    }
    if (kernel.rank > kMaxRank) {
      return dataLoss(strCat(where(), " has an index space of rank ", kernel.rank, ", beyond ", kMaxRank));
    }
    if (kernel.wholeDims >> kernel.rank) {
      return dataLoss(strCat(where(), " keeps dimensions whole (mask ", kernel.wholeDims,
                             ") that its index space of rank ", kernel.rank, " lacks"));
    }
    if (kernel.scratchBytes > kMaxScratchBytes) {
      return dataLoss(strCat(where(), " wants ", kernel.scratchBytes, " bytes of scratch, beyond ", kMaxScratchBytes));
    }
  }
  if (!program.kernels.empty() && program.images.empty()) {
    return dataLoss(strCat("the program has ", program.kernels.size(), " kernels but no kernel image"));
  }
  uint32_t seen = 0;
  for (size_t i = 0; i < program.images.size(); ++i) {
    const KernelImage& image = program.images[i];
    auto cpu = static_cast<unsigned>(image.cpu);
    if (image.cpu != CpuVariant::kX86_64_v3 && image.cpu != CpuVariant::kX86_64_v4) {
      return dataLoss(strCat("kernel image ", i, " is for the unknown CPU level ", cpu));
    }
    if (seen & (1u << cpu)) return dataLoss(strCat("two kernel images are for x86-64-v", cpu));
    seen |= 1u << cpu;
    if (image.bytes == 0 || image.data == nullptr) {
      return dataLoss(strCat("kernel image ", i, " (x86-64-v", cpu, ") is empty"));
    }
    if (image.entries.size() != program.kernels.size()) {
      return dataLoss(strCat("kernel image ", i, " (x86-64-v", cpu, ") has ", image.entries.size(), " entries for ",
                             program.kernels.size(), " kernels"));
    }
    for (size_t k = 0; k < image.entries.size(); ++k) {
      if (image.entries[k] >= image.bytes) {
        return dataLoss(strCat("kernel ", k, " '", program.kernels[k].name, "' starts at byte ", image.entries[k],
                               " of kernel image ", i, " (x86-64-v", cpu, "), which has ", image.bytes));
      }
    }
  }
  return okStatus();
}

}  // namespace hpu::recipe
