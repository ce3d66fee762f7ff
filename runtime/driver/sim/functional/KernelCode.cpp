// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/KernelCode.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/CpuFeatures.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"

namespace hpu::sim {
namespace {

base::CpuLevel neededLevel(recipe::CpuVariant variant) {
  return variant == recipe::CpuVariant::kX86_64_v4 ? base::CpuLevel::kV4 : base::CpuLevel::kV3;
}

}  // namespace

StatusOr<std::shared_ptr<const KernelCode>> KernelCode::map(const recipe::Program& program) {
  std::shared_ptr<KernelCode> code(new KernelCode);
  if (program.kernels.empty()) return std::shared_ptr<const KernelCode>(std::move(code));
  HPU_ASSIGN(base::CpuLevel cpu, base::usableCpuLevel());
  const recipe::KernelImage* best = nullptr;
  std::string variants;
  for (const recipe::KernelImage& image : program.images) {
    variants += (variants.empty() ? "" : ", ") + std::string(base::cpuLevelName(neededLevel(image.cpu)));
    if (neededLevel(image.cpu) <= cpu && (!best || image.cpu > best->cpu)) best = &image;
  }
  if (!best)
    return failedPrecondition("the recipe '" + program.name + "' has kernels for " +
                              (variants.empty() ? "no CPU" : variants) + ", but this CPU (" + base::cpuModelName() +
                              ") runs only " + std::string(base::cpuLevelName(cpu)) +
                              "; compile it here: " + base::compileCall("", {base::optionValue("cpu", "native")}));
  if (best->entries.size() != program.kernels.size())
    return dataLoss("the kernel image has " + std::to_string(best->entries.size()) + " entries for " +
                    std::to_string(program.kernels.size()) + " kernels");
  for (size_t i = 0; i < best->entries.size(); ++i)
    if (best->entries[i] >= best->bytes)
      return dataLoss("kernel " + std::to_string(i) + " starts at byte " + std::to_string(best->entries[i]) +
                      " of an image of " + std::to_string(best->bytes) + " bytes");

  void* memory = mmap(nullptr, best->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return resourceExhausted("no memory for " + std::to_string(best->bytes) +
                             " bytes of kernels: " + std::strerror(errno));
  code->memory_ = memory;
  code->bytes_ = best->bytes;
  std::memcpy(memory, best->data, best->bytes);
  if (mprotect(memory, best->bytes, PROT_READ | PROT_EXEC) != 0)
    return Status(StatusCode::kPermissionDenied,
                  std::string("the system does not allow executable memory for kernels: ") + std::strerror(errno));
  for (uint64_t entry : best->entries)
    code->functions_.push_back(reinterpret_cast<HpuKernelFn>(reinterpret_cast<uintptr_t>(memory) + entry));
  return std::shared_ptr<const KernelCode>(std::move(code));
}

std::shared_ptr<const KernelCode> KernelCode::fromFunctions(std::vector<HpuKernelFn> functions) {
  std::shared_ptr<KernelCode> code(new KernelCode);
  code->functions_ = std::move(functions);
  return code;
}

KernelCode::~KernelCode() {
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace hpu::sim
