// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/ProgramExecutor.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/ExitGate.h"
#include "base/Parallel.h"
#include "base/StatusMacros.h"
#include "recipe/OutputWriters.h"
#include "runtime/driver/sim/functional/WorkSharing.h"

namespace hpu::sim {
namespace {

using recipe::SectionKind;

/// Between the scratch areas of two workers: away from the same cache sets, never on one line.
constexpr uint64_t kScratchGap = 4096 + 256;

/// Host memory for constant weights that are packed ahead. Device memory is a memfd of small pages:
/// f32 panels in huge pages stream faster (ResNet-50: 3-5 %), and bf16 ones need not be widened in
/// each run.
constexpr uint64_t kPreparedBudget = uint64_t{512} << 20;

}  // namespace

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options) {
  HPU_ASSIGN(std::shared_ptr<const KernelCode> code, KernelCode::map(*program));
  return create(std::move(program), options, std::move(code));
}

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options,
                                                                   std::shared_ptr<const KernelCode> code) {
  return create(std::move(program), options, std::move(code), std::make_shared<PreparedWeights>());
}

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options,
                                                                   const ProgramExecutor& like) {
  return create(std::move(program), options, like.code_, like.weights_);
}

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options,
                                                                   std::shared_ptr<const KernelCode> code,
                                                                   std::shared_ptr<PreparedWeights> weights) {
  if (code->size() < program->kernels.size())
    return invalidArgument("the program has " + std::to_string(program->kernels.size()) + " kernels, but code for " +
                           std::to_string(code->size()));
  std::unique_ptr<ProgramExecutor> executor(new ProgramExecutor);
  executor->program_ = std::move(program);
  executor->options_ = options;
  executor->code_ = std::move(code);
  executor->weights_ = std::move(weights);
  HPU_RETURN_IF_ERROR(executor->prepare());
  return executor;
}

Status ProgramExecutor::prepare() {
  const recipe::Program& program = *program_;
  const int threads = options_.threads > 0 ? options_.threads : base::numThreads();
  BuildContext context{program, *code_, *weights_, threads, kPreparedBudget};
  std::vector<uint32_t> bundleOf(program.ops.size(), recipe::kNone);
  for (uint32_t b = 0; b < program.bundles.size(); ++b)
    for (uint32_t op : program.bundles[b].ops) bundleOf[op] = b;
  std::vector<bool> emitted(program.bundles.size(), false);
  uint32_t previous = recipe::kNone;
  unitsUntil_.assign(program.outputs.size(), 0);
  for (uint32_t opIndex : program.hostOrder) {
    uint32_t bundle = bundleOf[opIndex];
    if (bundle == recipe::kNone) {
      const recipe::Op& op = program.ops[opIndex];
      HPU_ASSIGN(auto unit, makeOpUnit(context, op, wholeOp(op)));
      units_.push_back(std::move(unit));
      noteOutputs(op);
    } else if (!emitted[bundle]) {
      HPU_RETURN_IF_ERROR(appendBundleUnits(context, bundle, units_));
      emitted[bundle] = true;
      for (uint32_t other : program.bundles[bundle].ops) noteOutputs(program.ops[other]);
    } else if (bundle != previous) {
      return invalidArgument("the ops of bundle '" + program.bundles[bundle].name +
                             "' do not follow each other in the program's host order (op '" +
                             program.ops[opIndex].name + "' is apart)");
    }
    previous = bundle;
  }

  uint64_t shared = 0;
  for (const auto& unit : units_) {
    shared = std::max(shared, unit->sharedBytes());
    scratchStride_ = std::max(scratchStride_, unit->scratchBytes());
  }
  scratchStride_ = (scratchStride_ + 4095) / 4096 * 4096 + kScratchGap;
  HPU_ASSIGN(shared_, HostBuffer::create(shared));
  HPU_ASSIGN(handedOn_, HostBuffer::create(context.handedOnBytes));
  sram_.resize(program.sections.size());
  for (size_t i = 0; i < program.sections.size(); ++i) {
    if (program.sections[i].kind != SectionKind::kSram) continue;
    HPU_ASSIGN(sram_[i], HostBuffer::create(program.sections[i].bytes));
  }
  return reserveScratch(threads);
}

/// The units so far do all of `op`.
void ProgramExecutor::noteOutputs(const recipe::Op& op) {
  for (uint32_t output : recipe::outputsWritten(*program_, op)) unitsUntil_[output] = units_.size();
}

Status ProgramExecutor::reserveScratch(int threads) {
  int workers = std::clamp(threads, 1, kMaxWorkers);
  if (workers <= scratchWorkers_) return okStatus();
  HPU_ASSIGN(scratch_, HostBuffer::create(scratchStride_ * static_cast<uint64_t>(workers)));
  scratchWorkers_ = workers;
  return okStatus();
}

Status ProgramExecutor::run(const std::vector<std::byte*>& sectionBases, std::vector<double>* unitSeconds) {
  if (!unitSeconds) return runUnits(sectionBases, [](size_t) {});
  using Clock = std::chrono::steady_clock;
  unitSeconds->clear();
  Clock::time_point last;
  return runUnits(sectionBases, [&](size_t done) {
    Clock::time_point now = Clock::now();
    if (done > 0) unitSeconds->push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  });
}

Status ProgramExecutor::run(const std::vector<std::byte*>& sectionBases, base::FunctionRef<void(uint32_t)> written) {
  return runUnits(sectionBases, [&](size_t done) {
    for (uint32_t output = 0; output < unitsUntil_.size(); ++output)
      if (unitsUntil_[output] == done) written(output);
  });
}

Status ProgramExecutor::runUnits(const std::vector<std::byte*>& sectionBases,
                                 base::FunctionRef<void(size_t)> unitDone) {
  const recipe::Program& program = *program_;
  if (sectionBases.size() != program.sections.size())
    return invalidArgument("the program has " + std::to_string(program.sections.size()) +
                           " sections, but memory was given for " + std::to_string(sectionBases.size()));
  std::vector<std::byte*> bases = sectionBases;
  for (size_t i = 0; i < bases.size(); ++i) {
    if (!bases[i]) bases[i] = sram_[i].data();
    if (!bases[i] && program.sections[i].bytes > 0)
      return invalidArgument("section " + std::to_string(i) + " of the program has no memory");
  }
  bases.push_back(handedOn_.data());
  std::lock_guard lock(mutex_);
  base::ThreadLimit limit(options_.threads);
  RunContext context;
  context.threads = std::min(base::numThreads(), kMaxWorkers);
  HPU_RETURN_IF_ERROR(reserveScratch(context.threads));
  context.sections = bases.data();
  context.shared = shared_.data();
  context.scratch = scratch_.data();
  context.scratchStride = scratchStride_;
  unitDone(0);
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u]->run(context);
    if (base::isCutShortByExit()) return cancelled("the process exits, and does not wait for the launch any longer");
    unitDone(u + 1);
  }
  return okStatus();
}

}  // namespace hpu::sim
