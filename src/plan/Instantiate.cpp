// SPDX-License-Identifier: Apache-2.0
// In this order: sizes are set (SizedProgram), units cut and memory placed (InstanceMemory), what has no points is left
// out, the whole is verified, commands are sliced and issued, and these are verified, too. So whatever a recipe says,
// an instance is safe to run.
#include "plan/Instantiate.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/Format.h"
#include "base/Parallel.h"
#include "base/StatusMacros.h"
#include "plan/InstanceMemory.h"
#include "plan/InstancePlan.h"
#include "plan/Issue.h"
#include "plan/Packing.h"
#include "plan/SharedWaits.h"
#include "plan/SizedProgram.h"
#include "plan/Slices.h"
#include "recipe/CommandAccess.h"
#include "recipe/VerifierParts.h"

namespace hpu::plan {

using base::strCat;
using recipe::Dynamic;
using recipe::DynamicUnit;
using recipe::kNone;
using recipe::Patch;
using recipe::Program;
using recipe::SizeValues;

namespace {

constexpr double kPicosecondsPerUs = 1e6;
/// Commands of all instances of some sizes that are priced beside the first one, at 10 us each.
constexpr int64_t kMostPriced = 4096;

size_t choiceFor(const Dynamic& dynamic, const Sizes& sizes) {
  for (size_t c = 0; c + 1 < dynamic.choices.size(); ++c) {
    const recipe::TileChoice& choice = dynamic.choices[c];
    bool holds = true;
    for (size_t s = 0; s < sizes.size(); ++s) holds &= choice.min[s] <= sizes[s] && sizes[s] <= choice.max[s];
    if (holds) return c;
  }
  return dynamic.choices.size() - 1;
}

/// The cuts that an instance may have: those of the choice for its sizes, then those of the other choices, and coarser
/// ones, for sizes that lie far below those that a choice was made at.
std::vector<Cuts> cutsFor(const Dynamic& dynamic, const Sizes& sizes) {
  constexpr int kCoarser = 1;
  const size_t first = choiceFor(dynamic, sizes);
  std::vector<Cuts> all = {dynamic.choices[first].slices};
  for (int halvings = 0; halvings <= kCoarser; ++halvings)
    for (const recipe::TileChoice& choice : dynamic.choices) {
      Cuts cuts = choice.slices;
      for (auto& unit : cuts)
        for (auto& part : unit)
          for (uint32_t& slices : part) slices = (slices + (1u << halvings) - 1) >> halvings;
      if (std::find(all.begin(), all.end(), cuts) == all.end()) all.push_back(std::move(cuts));
    }
  return all;
}

/// Makes one instance.
class Maker : SizedProgram {
 public:
  Maker(const Program& source, const SizeValues& values, const arch::TargetDesc& target,
        std::shared_ptr<Program> program = std::make_shared<Program>())
      : SizedProgram(source, values, target, std::move(program)) {}

  /// Those of the cuts that slice some unit as none before them does, the first one first, which must serve; of the
  /// others so many as do not make more than kMostPriced commands.
  StatusOr<std::vector<const Cuts*>> different(const std::vector<Cuts>& all) {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    std::vector<std::vector<std::vector<int64_t>>> known;  ///< The boxes of all parts.
    std::vector<const Cuts*> different;
    int64_t left = kMostPriced;
    for (const Cuts& cuts : all) {
      if (Status cut = memory.cut(cuts); !cut.ok()) {
        if (different.empty()) return cut;
        continue;
      }
      std::vector<std::vector<int64_t>> boxes;
      for (uint32_t u = 0; u < dynamic_.units.size(); ++u)
        for (uint32_t p = 0; p < dynamic_.units[u].parts.size(); ++p) boxes.push_back(memory.box(u, p));
      if (std::find(known.begin(), known.end(), boxes) != known.end()) continue;
      known.push_back(std::move(boxes));
      const int64_t commands = commandsOf(memory);
      if (!different.empty()) {
        if (commands > left) continue;
        left -= commands;
      }
      different.push_back(&cuts);
    }
    return different;
  }

  /// All with a plan of its own, which keepPlan() gives; its commands are not verified.
  StatusOr<std::shared_ptr<Program>> make(const Cuts& cuts) {
    HPU_RETURN_IF_ERROR(copy());
    memory_ = std::make_unique<InstanceMemory>(*program_, ops_, dynamic_, values_, target_);
    const InstanceMemory& memory = *memory_;
    HPU_RETURN_IF_ERROR(memory_->plan(cuts));
    HPU_RETURN_IF_ERROR(lay(memory));
    regions_ = memory.regions();
    dropEmpty(memory);
    HPU_RETURN_IF_ERROR(verifyLaid());
    HPU_RETURN_IF_ERROR(checkUnits(memory));
    const IssueContext context{*program_, reads_, target_, target_.clock()};
    std::vector<std::vector<SlicedCommand>> sliced;
    sliced.reserve(units_.size());
    for (const IssueUnit& unit : units_) sliced.push_back(sliceUnit(context, unit));
    for (auto& commands : sliced) pack(context, commands);
    std::vector<const std::vector<SlicedCommand>*> pointers;
    for (const auto& commands : sliced) pointers.push_back(&commands);
    HPU_ASSIGN(Issued issued, issueCommands(context, pointers, dynamic_.reorder));
    program_->queues = std::move(issued.queues);
    program_->estimates.deviceTimeUs = static_cast<double>(issued.time) / kPicosecondsPerUs;
    program_->estimates.lowerBoundUs = static_cast<double>(issued.lowerBound) / kPicosecondsPerUs;
    order_ = std::move(issued.order);
    return program_;
  }

  /// What make() has planned, for other sizes.
  std::shared_ptr<const InstancePlan> keepPlan() {
    auto made = std::make_shared<InstancePlan>();
    made->memory = memory_->decided();
    made->estimates = program_->estimates;
    std::vector<OperandRegion> own;
    for (const OperandRegion& region : regions_)
      if (now_[region.op] != kNone) {
        own.push_back(region);
        own.back().op = now_[region.op];
      }
    made->waits = SharedWaits::make(*program_, reads_, units_, order_, std::move(own));
    made->order = std::move(order_);
    made->packings.assign(source_.ops.size(), 1);
    for (size_t op = 0; op < now_.size(); ++op)
      if (now_[op] != kNone) made->packings[op] = program_->ops[now_[op]].mme.packingFactor;
    if (!made->waits) return made;
    numberContents();
    made->prototype = program_;
    made->numbers = values_.numbers();
    made->now = now_;
    made->dropped = dropped_;
    made->units = units_;
    made->unitParts = unitParts_;
    made->sliceDims = memory_->sliceDims();
    return made;
  }

  /// Makes the program of a copy of the plan's prototype, which was an instance of the plan for the sizes that have
  /// `before`: with the plan of larger sizes and its commands as they are. False when these do not serve. What is set
  /// is what depends on a number that is another one now.
  StatusOr<bool> makeLike(const InstancePlan& plan, const recipe::SizeNumbers& before) {
    HPU_RETURN_IF_ERROR(setAgain(plan, before));
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_ASSIGN(bool serves, memory.reuse(plan.memory));
    if (!serves || memory.sliceDims() != plan.sliceDims) return false;
    HPU_RETURN_IF_ERROR(lay(memory));
    HPU_RETURN_IF_ERROR(verifyLaid());
    std::vector<Tiles> tiles(plan.units.size());
    for (size_t u = 0; u < tiles.size(); ++u)
      for (const auto& [unit, part] : plan.unitParts[u]) tiles[u].push_back(&memory.box(unit, part));
    if (!plan.waits->setBoxes(*program_, plan.units, tiles, changed_)) return false;
    numberContents();
    HPU_RETURN_IF_ERROR(recipe::verifyBoxes(*program_, &changed_.list()));
    return plan.waits->holds(
        *program_, [&] { return readsOf(dynamic_, values_, *program_, &plan.waits->kernels()); }, &changed_);
  }

  /// With the plan of larger sizes; null when it does not serve these.
  StatusOr<std::shared_ptr<Program>> makeFrom(const InstancePlan& plan) {
    std::shared_ptr<Program> none;
    HPU_RETURN_IF_ERROR(copy());
    packings_ = &plan.packings;
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    HPU_ASSIGN(bool serves, memory.reuse(plan.memory));
    if (!serves) return none;
    HPU_RETURN_IF_ERROR(lay(memory));
    dropEmpty(memory);
    HPU_RETURN_IF_ERROR(verifyLaid());
    HPU_RETURN_IF_ERROR(checkUnits(memory));
    HPU_ASSIGN(auto queues, issueInOrder(*program_, reads_, units_, plan.order));
    if (!queues) return none;
    program_->queues = std::move(*queues);
    program_->estimates = plan.estimates;
    HPU_RETURN_IF_ERROR(recipe::verifyCommands(*program_));
    return program_;
  }

  /// The most that any of the cuts needs.
  StatusOr<uint64_t> workspace(const std::vector<Cuts>& all) {
    HPU_RETURN_IF_ERROR(copy());
    InstanceMemory memory(*program_, ops_, dynamic_, values_, target_);
    int64_t most = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const Status planned = memory.plan(all[i]);
      if (planned.ok())
        most = std::max(most, memory.decided().workspaceBytes);
      else if (i == 0)
        return planned;
    }
    return static_cast<uint64_t>(most);
  }

 private:
  /// What is best for these sizes: what a product gains by it depends on them.
  void pack(const IssueContext& context, std::vector<SlicedCommand>& commands) {
    std::vector<std::pair<uint32_t, std::vector<SlicedCommand*>>> products;
    for (SlicedCommand& command : commands) {
      const recipe::Op& op = program_->ops[command.command.op];
      if (op.engine != Engine::kMme || op.mme.packing != recipe::BPacking::kBlocked) continue;
      auto own = std::find_if(products.begin(), products.end(),
                              [&](const auto& product) { return product.first == command.command.op; });
      if (own == products.end()) own = products.insert(own, {command.command.op, {}});
      own->second.push_back(&command);
    }
    for (const auto& [number, own] : products) {
      recipe::Op& op = program_->ops[number];
      const recipe::Command& first = own.front()->command;
      std::vector<int64_t> box;
      for (size_t d = 0; d < first.lo.size(); ++d) box.push_back(first.hi[d] - first.lo[d]);
      if (!isCutApart(op, box)) op.mme.packingFactor = packOp(context, number, own, true);
    }
  }

  /// Leaves out ops without points, and makes bundles, host order and units of those that stay.
  void dropEmpty(const InstanceMemory& memory) {
    Program& p = *program_;
    std::vector<uint32_t>& now = now_;
    now.assign(p.ops.size(), kNone);
    dropped_.resize(p.ops.size());
    uint32_t kept = 0;
    for (uint32_t op = 0; op < p.ops.size(); ++op) {
      if (!memory.hasPoints(op)) {
        dropped_[op] = p.ops[op].space;
        continue;
      }
      now[op] = kept;
      if (kept != op) p.ops[kept] = std::move(p.ops[op]);
      ++kept;
    }
    p.ops.resize(kept);
    ops_ = InstanceOps(p, now, dropped_);
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      const DynamicUnit& unit = dynamic_.units[u];
      std::vector<IssueUnit> parts;
      PartRefs refs;
      std::vector<uint32_t> ops;
      for (uint32_t part = 0; part < unit.parts.size(); ++part) {
        const DynamicUnit::Part& from = unit.parts[part];
        if (now[from.ops[0]] == kNone) {  // Its ops have one index space.
          if (!parts.empty()) parts.back().kept = 0;
          continue;
        }
        IssueUnit& made = parts.emplace_back();
        refs.emplace_back(u, part);
        for (uint32_t op : from.ops) made.ops.push_back(now[op]);
        made.tile = memory.box(u, part);
        made.slots = from.slots;
        made.kept = from.kept;
        made.reader = from.reader;
        ops.insert(ops.end(), made.ops.begin(), made.ops.end());
      }
      if (parts.empty()) continue;
      parts.back().kept = 0;
      p.hostOrder.insert(p.hostOrder.end(), ops.begin(), ops.end());
      IssueUnit whole = std::move(parts[0]);
      whole.chained.assign(std::make_move_iterator(parts.begin() + 1), std::make_move_iterator(parts.end()));
      if (unit.bundle != kNone) {
        whole.bundle = static_cast<uint32_t>(p.bundles.size());
        p.bundles.push_back(
            {source_.bundles[unit.bundle].name, std::move(ops), static_cast<uint32_t>(memory.slices(u))});
      }
      units_.push_back(std::move(whole));
      unitParts_.push_back(std::move(refs));
    }
  }

  int64_t commandsOf(const InstanceMemory& memory) const {
    int64_t commands = 0;
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      int64_t ops = 0;
      for (const DynamicUnit::Part& part : dynamic_.units[u].parts) ops += static_cast<int64_t>(part.ops.size());
      commands += memory.slices(u) * ops;
    }
    return commands;
  }

  /// What can be issued: not too many commands, parts of a unit in as many slices as one another.
  Status checkUnits(const InstanceMemory& memory) {
    const int64_t commands = commandsOf(memory);
    if (commands > recipe::kMaxInstanceCommands)
      return resourceExhausted(
          strCat("the program would have ", commands, " commands, more than ", recipe::kMaxInstanceCommands));
    for (const IssueUnit& unit : units_) HPU_RETURN_IF_ERROR(checkParts(unit));
    reads_ = readsOf(dynamic_, values_, *program_);
    return okStatus();
  }

  Status checkParts(const IssueUnit& unit) const {
    const int64_t slices = sliceCount(program_->ops[unit.ops[0]].space, unit.tile);
    for (const IssueUnit& part : unit.chained) {
      const recipe::Op& first = program_->ops[part.ops[0]];
      const int64_t own = sliceCount(first.space, part.tile);
      if (own != slices) return dataLoss(strCat("op '", first.name, "' has ", own, " slices, but its unit ", slices));
    }
    return okStatus();
  }

  std::vector<uint32_t> now_;                  ///< By op of the source its number; kNone: it was left out ...
  std::vector<std::vector<int64_t>> dropped_;  ///< ... with this space.
  std::vector<IssueUnit> units_;
  std::vector<PartRefs> unitParts_;  ///< By unit.
  recipe::KernelReads reads_;

  // What make() leaves for keepPlan().
  std::unique_ptr<InstanceMemory> memory_;
  std::vector<OperandRegion> regions_;
  std::vector<uint32_t> order_;
};

/// The fastest instance that any of the cuts makes, and its plan where that is asked for. The first of them must serve;
/// of the others only some are tried where all would be too many commands to price.
StatusOr<std::shared_ptr<Program>> makeFastest(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target, const std::vector<Cuts>& all,
                                               std::shared_ptr<const InstancePlan>* plan) {
  const SizeValues values(*program.dynamic, sizes);
  HPU_ASSIGN(const std::vector<const Cuts*> different, Maker(program, values, target).different(all));
  struct Made {
    std::unique_ptr<Maker> maker;
    Status status;
    std::shared_ptr<Program> program;
  };
  std::vector<Made> made(different.size());
  auto make = [&](Made& own, const Cuts& cuts) {
    try {
      own.maker = std::make_unique<Maker>(program, values, target);
      auto result = own.maker->make(cuts);
      own.status = result.status();
      if (result.ok()) own.program = *std::move(result);
    } catch (const std::exception& error) {  // No memory, or more elements than a vector can have.
      own.program = nullptr;
      own.status = resourceExhausted(strCat("an instance could not be made: ", error.what()));
    }
  };
  base::parallelFor(static_cast<int64_t>(made.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) make(made[i], *different[i]);
  });
  // Its own choice must serve; what another one cannot is left out.
  HPU_RETURN_IF_ERROR(made[0].status);
  std::vector<const Made*> order;
  for (const Made& each : made)
    if (each.program) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(), [](const Made* a, const Made* b) {
    return a->program->estimates.deviceTimeUs < b->program->estimates.deviceTimeUs;
  });
  for (const Made* each : order) {
    const Status verified = recipe::verifyCommands(*each->program);
    if (!verified.ok() && each == &made[0]) return verified;
    if (!verified.ok()) continue;
    if (plan) *plan = each->maker->keepPlan();
    return each->program;
  }
  return internalError("no choice of tiles serves these sizes");  // Not reached: the first choice returns or fails.
}

}  // namespace

Status checkSizes(const Program& program, const Sizes& sizes) {
  if (program.dynamic) return recipe::checkBounds(*program.dynamic, sizes);
  if (sizes.empty()) return okStatus();
  return invalidArgument(strCat(sizes.size(), " sizes are given for a program without free dimensions"));
}

std::string making(const Program& program, const Sizes& sizes) {
  return "making the program for " + recipe::sizesText(*program.dynamic, sizes);
}

StatusOr<std::vector<TensorInfo>> outputsFor(const Program& program, const Sizes& sizes) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  std::vector<TensorInfo> outputs = program.outputs;
  if (!program.dynamic) return outputs;
  const SizeValues values(*program.dynamic, sizes);
  HPU_RETURN_IF_ERROR(patchTensors(outputs, Patch::Field::kOutputSize, *program.dynamic, values));
  return outputs;
}

StatusOr<uint64_t> workspaceBytes(const Program& program, const Sizes& sizes, const arch::TargetDesc& target) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  if (program.dynamic)
    return Maker(program, SizeValues(*program.dynamic, sizes), target).workspace(cutsFor(*program.dynamic, sizes));
  uint64_t bytes = 0;
  for (const recipe::Section& section : program.sections)
    if (section.kind == recipe::SectionKind::kWorkspace) bytes += section.bytes;
  return bytes;
}

StatusOr<std::shared_ptr<Program>> instantiate(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target, const recipe::TileChoice* only) {
  HPU_RETURN_IF_ERROR(checkSizes(program, sizes));
  if (!program.dynamic) return std::make_shared<Program>(program);
  const Dynamic& dynamic = *program.dynamic;
  auto made =
      makeFastest(program, sizes, target, only ? std::vector<Cuts>{only->slices} : cutsFor(dynamic, sizes), nullptr);
  if (!made.ok()) return made.status().withContext(making(program, sizes));
  return made;
}

StatusOr<std::shared_ptr<Program>> makePlanned(const Program& program, const Sizes& sizes,
                                               const arch::TargetDesc& target,
                                               std::shared_ptr<const InstancePlan>& plan) {
  return makeFastest(program, sizes, target, cutsFor(*program.dynamic, sizes), &plan);
}

StatusOr<std::shared_ptr<Program>> makeFrom(const InstancePlan& plan, const Program& program, const Sizes& sizes,
                                            const arch::TargetDesc& target) {
  const SizeValues values(*program.dynamic, sizes);
  return Maker(program, values, target).makeFrom(plan);
}

StatusOr<bool> makeLike(const std::shared_ptr<const InstancePlan>& plan, const Program& program, const Sizes& sizes,
                        const arch::TargetDesc& target, LikeInstance& like) {
  if (like.plan != plan) {
    like.program = *plan->prototype;
    like.numbers = plan->numbers;
  }
  like.plan = nullptr;
  const SizeValues values(*program.dynamic, sizes);
  // The caller's: nobody counts here.
  const std::shared_ptr<Program> own(std::shared_ptr<void>(), &like.program);
  HPU_ASSIGN(bool serves, Maker(program, values, target, own).makeLike(*plan, like.numbers));
  if (!serves) return false;
  like.plan = plan;
  like.numbers = values.numbers();
  return true;
}

recipe::KernelReads kernelReads(const Program& program, const Sizes& sizes, const Program& instance) {
  return readsOf(*program.dynamic, SizeValues(*program.dynamic, sizes), instance);
}

}  // namespace hpu::plan
