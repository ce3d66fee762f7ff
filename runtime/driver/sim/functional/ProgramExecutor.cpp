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
  return create(std::move(program), options, std::move(code), nullptr);
}

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options,
                                                                   const ProgramExecutor& like) {
  return create(std::move(program), options, like.code_, &like);
}

StatusOr<std::unique_ptr<ProgramExecutor>> ProgramExecutor::create(std::shared_ptr<const recipe::Program> program,
                                                                   const Options& options,
                                                                   std::shared_ptr<const KernelCode> code,
                                                                   const ProgramExecutor* like) {
  if (code->size() < program->kernels.size())
    return invalidArgument("the program has " + std::to_string(program->kernels.size()) + " kernels, but code for " +
                           std::to_string(code->size()));
  std::unique_ptr<ProgramExecutor> executor(new ProgramExecutor);
  executor->program_ = std::move(program);
  executor->options_ = options;
  executor->code_ = std::move(code);
  executor->shared_ = like ? like->shared_ : std::make_shared<Shared>();
  if (!like) executor->shared_->scratch = options.scratch ? options.scratch : std::make_shared<ScratchPool>();
  HPU_RETURN_IF_ERROR(executor->prepare(like != nullptr));
  return executor;
}

/// Of an op, or of a bundle; what it takes of the context is not taken yet.
StatusOr<std::shared_ptr<const UnitGroup>> ProgramExecutor::makeGroup(const BuildContext& context, uint32_t op,
                                                                      uint32_t bundle) const {
  auto group = std::make_shared<UnitGroup>();
  BuildContext own = context;
  own.handedOnBytes = 0;
  if (bundle != recipe::kNone) {
    HPU_RETURN_IF_ERROR(appendBundleUnits(own, bundle, group->units));
  } else {
    HPU_ASSIGN(auto unit, makeOpUnit(own, program_->ops[op], wholeOp(program_->ops[op])));
    group->units.push_back(std::move(unit));
  }
  group->handedOnBytes = own.handedOnBytes;
  group->preparedBytes = context.preparedBudget - own.preparedBudget;
  return std::shared_ptr<const UnitGroup>(std::move(group));
}

Status ProgramExecutor::prepare(bool sharesUnits) {
  const recipe::Program& program = *program_;
  const int threads = options_.threads > 0 ? options_.threads : base::numThreads();
  BuildContext context{program, *code_, shared_->weights, threads, kPreparedBudget};
  std::vector<uint32_t> bundleOf(program.ops.size(), recipe::kNone);
  for (uint32_t b = 0; b < program.bundles.size(); ++b)
    for (uint32_t op : program.bundles[b].ops) bundleOf[op] = b;
  std::vector<std::vector<const recipe::Command*>> commandsOf(sharesUnits ? program.bundles.size() : 0);
  if (sharesUnits)
    for (const recipe::Queue& queue : program.queues)
      for (const recipe::Command& command : queue.commands)
        if (command.bundle != recipe::kNone) commandsOf[command.bundle].push_back(&command);
  std::vector<bool> emitted(program.bundles.size(), false);
  uint32_t previous = recipe::kNone;
  unitsUntil_.assign(program.outputs.size(), 0);
  for (uint32_t opIndex : program.hostOrder) {
    const uint32_t bundle = bundleOf[opIndex];
    if (bundle != recipe::kNone && emitted[bundle]) {
      if (bundle != previous)
        return invalidArgument("the ops of bundle '" + program.bundles[bundle].name +
                               "' do not follow each other in the program's host order (op '" +
                               program.ops[opIndex].name + "' is apart)");
      continue;
    }
    const std::vector<uint32_t> own =
        bundle == recipe::kNone ? std::vector<uint32_t>{opIndex} : program.bundles[bundle].ops;
    auto make = [&] { return makeGroup(context, opIndex, bundle); };
    auto key = [&] {
      UnitKey key;
      if (std::all_of(own.begin(), own.end(), [&](uint32_t op) { return program.ops[op].content != 0; })) {
        for (uint32_t op : own) key.addContent(program.ops[op]);
        return key;
      }
      for (uint32_t op : own) key.add(program, program.ops[op]);
      if (bundle != recipe::kNone) {
        key.add(program.bundles[bundle]);
        for (const recipe::Command* command : commandsOf[bundle]) key.add(*command);
      }
      return key;
    };
    HPU_ASSIGN(const std::shared_ptr<const UnitGroup> group, sharesUnits ? shared_->units.get(key(), make) : make());
    context.handedOnBytes = std::max(context.handedOnBytes, group->handedOnBytes);
    context.preparedBudget -= std::min(context.preparedBudget, group->preparedBytes);
    units_.insert(units_.end(), group->units.begin(), group->units.end());
    groups_.push_back(group);
    if (bundle != recipe::kNone) emitted[bundle] = true;
    for (uint32_t op : own) noteOutputs(program.ops[op]);
    previous = bundle;
  }

  constexpr uint64_t kPage = 4096;
  auto place = [&](uint64_t bytes) {
    return std::exchange(fixedBytes_, fixedBytes_ + (bytes + kPage - 1) / kPage * kPage);
  };
  sramOffset_.resize(program.sections.size());
  for (size_t i = 0; i < program.sections.size(); ++i)
    if (program.sections[i].kind == SectionKind::kSram) sramOffset_[i] = place(program.sections[i].bytes);
  uint64_t shared = 0;
  for (const auto& unit : units_) {
    shared = std::max(shared, unit->sharedBytes());
    scratchStride_ = std::max(scratchStride_, unit->scratchBytes());
  }
  sharedOffset_ = place(shared);
  handedOnOffset_ = place(context.handedOnBytes);
  scratchStride_ = (scratchStride_ + kPage - 1) / kPage * kPage + kScratchGap;
  HPU_ASSIGN(HostBuffer memory, shared_->scratch->take(memoryBytes(std::clamp(threads, 1, kMaxWorkers))));
  shared_->scratch->give(std::move(memory));
  return okStatus();
}

/// The units so far do all of `op`.
void ProgramExecutor::noteOutputs(const recipe::Op& op) {
  for (uint32_t output : recipe::outputsWritten(*program_, op)) unitsUntil_[output] = units_.size();
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
  for (size_t i = 0; i < sectionBases.size(); ++i)
    if (!sectionBases[i] && program.sections[i].kind != SectionKind::kSram && program.sections[i].bytes > 0)
      return invalidArgument("section " + std::to_string(i) + " of the program has no memory");
  std::lock_guard lock(mutex_);
  base::ThreadLimit limit(options_.threads);
  RunContext context;
  context.threads = std::min(base::numThreads(), kMaxWorkers);
  HPU_ASSIGN(HostBuffer memory, shared_->scratch->take(memoryBytes(context.threads)));
  std::vector<std::byte*> bases = sectionBases;
  for (size_t i = 0; i < bases.size(); ++i)
    if (!bases[i]) bases[i] = memory.data() + sramOffset_[i];
  bases.push_back(memory.data() + handedOnOffset_);
  context.sections = bases.data();
  context.shared = memory.data() + sharedOffset_;
  context.scratch = memory.data() + fixedBytes_;
  context.scratchStride = scratchStride_;
  unitDone(0);
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u]->run(context);
    if (base::isCutShortByExit()) return cancelled("the process exits, and does not wait for the launch any longer");
    unitDone(u + 1);
  }
  shared_->scratch->give(std::move(memory));
  return okStatus();
}

}  // namespace hpu::sim
