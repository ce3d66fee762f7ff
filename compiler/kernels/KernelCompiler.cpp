// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelCompiler.h"

#include <map>
#include <mutex>
#include <optional>

#include "base/Parallel.h"
#include "base/StatusMacros.h"
#include "compiler/kernels/Codegen.h"
#include "compiler/kernels/ImageLinker.h"
#include "compiler/kernels/KernelCache.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/IdlePool.h"
#include "mlir/IR/BuiltinTypes.h"

namespace hpu::kernels {
namespace {

/// A kernel that is compiled once, for one or more requests.
struct Distinct {
  PlannedKernel plan;
  std::string key;  ///< Of the request; empty where the code comes from elsewhere and is not kept.
  double points = 1;
  std::string name;
  recipe::TpcCost cost;
  std::vector<CostTerm> terms;
};

std::string requestKey(const KernelGraph& graph, const KernelRequest& request) {
  std::string key = graphKey(graph);
  auto number = [&](int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const auto* views : {&request.inputs, &request.outputs}) {
    number(static_cast<int64_t>(views->size()));
    for (const OperandView& view : *views) {
      number(static_cast<int64_t>(view.type));
      number(static_cast<int64_t>(view.sizes.size()));
      for (const SymInt& size : view.sizes) appendKey(key, size);
      for (const SymInt& stride : view.strides) appendKey(key, stride);
      if (view.number) number(*view.number);
    }
  }
  for (const auto& [name, range] : request.symbols.bounds) {
    key.append(name).push_back('\0');
    number(range.low);
    number(range.high);
  }
  return key;
}

/// Never destroyed: compilations may run in exit handlers.
KernelCache<KernelObject>& objectCache() {
  static auto& cache = *new KernelCache<KernelObject>(size_t{48} << 20);
  return cache;
}
KernelCache<KernelFacts>& factsCache() {
  static auto& cache = *new KernelCache<KernelFacts>(size_t{8} << 20);
  return cache;
}

std::string objectKey(const std::string& request, recipe::CpuVariant variant, int optLevel) {
  std::string key = request;
  key.push_back(static_cast<char>(variant));
  key.push_back(static_cast<char>(optLevel));
  return key;
}

uint64_t scratchBytes(const PlannedKernel& kernel) {
  int64_t most = kernel.native ? kernel.native->scratchBytes : 0;
  for (const KernelPlan& piece : kernel.pieces) {
    const KernelPlan& plan = piece.hostPlan();
    most = std::max({most, plan.scratchSlots * slotBytes(plan), plan.hostBytes});
  }
  return static_cast<uint64_t>(most);
}

double pointsOf(const KernelRequest& request) {
  double points = 1;
  for (const SymInt& size : request.outputs[0].sizes) points *= static_cast<double>(size.value());
  return points;
}

bool isSymbolic(const PlannedKernel& kernel) {
  return !kernel.dims.empty();
}

Status checkTerms(llvm::ArrayRef<CostTerm> terms) {
  for (const CostTerm& term : terms)
    for (const SymInt& trips : term.trips)
      if (trips.isUnknown()) return unimplemented("its cost is no expression of the free dimensions");
  return okStatus();
}

using CodegenPool = support::IdlePool<Codegen>;
constexpr size_t kFactsBytes = 1024;  // About.

StatusOr<PlannedKernel> plan(const KernelGraph& graph, const KernelRequest& request) {
  StatusOr<PlannedKernel> planned = planKernel(graph, request.inputs, request.outputs, request.symbols.bounds);
  if (!planned.ok()) return planned.status().withContext("kernel " + request.name);
  return planned;
}

}  // namespace

StatusOr<KernelSet> compileKernels(llvm::ArrayRef<KernelRequest> requests, const KernelOptions& options) {
  KernelSet set;
  std::vector<Distinct> distinct;
  std::vector<size_t> of;
  std::map<std::string, size_t> byKey;
  for (const KernelRequest& request : requests) {
    if (support::isCancelled()) return support::cancelledStatus();
    StatusOr<KernelGraph> graph = importBlock(*request.body, request.symbols);
    if (!graph.ok()) return graph.status().withContext("kernel " + request.name);
    auto [it, inserted] = byKey.emplace(requestKey(*graph, request), distinct.size());
    of.push_back(it->second);
    if (!inserted) continue;
    Distinct kernel;
    HPU_ASSIGN(kernel.plan, plan(*graph, request));
    if (!kernel.plan.native) kernel.key = it->first;
    kernel.name = request.name;
    kernel.points = pointsOf(request);
    distinct.push_back(std::move(kernel));
  }
  set.distinct = distinct.size();

  size_t variants = options.variants.size();
  std::vector<std::shared_ptr<const KernelObject>> objects(distinct.size() * variants);
  size_t tasks = variants + 1;  // Of a kernel: its variants and its cost.
  std::mutex mutex;
  Status error;  // Guarded by mutex.
  support::Cancellation* const cancellation =
      support::Cancellation::current();  // Of this thread, for all that help it.
  std::vector<size_t> open;              // Tasks whose outcome is not known.
  for (size_t i = 0; i < distinct.size() * tasks; ++i) {
    Distinct& kernel = distinct[i / tasks];
    const size_t task = i % tasks;
    if (task == variants) {
      std::shared_ptr<const KernelFacts> facts = kernel.key.empty() ? nullptr : factsCache().find(kernel.key);
      if (facts) kernel.cost = facts->cost;
      if (facts) continue;
    } else if (!kernel.key.empty()) {
      auto& object = objects[(i / tasks) * variants + task];
      object = objectCache().find(objectKey(kernel.key, options.variants[task], options.optLevel));
      if (object) continue;
    }
    open.push_back(i);
  }
  if (!open.empty()) {
    base::ThreadLimit limit(options.threads);
    base::parallelFor(static_cast<int64_t>(open.size()), 1, [&](int64_t begin, int64_t end) {
      CodegenPool::Lease codegen = CodegenPool::take();
      for (int64_t o = begin; o < end; ++o) {
        if (cancellation && cancellation->isCancelled()) break;
        const size_t i = open[static_cast<size_t>(o)];
        Distinct& kernel = distinct[i / tasks];
        size_t task = i % tasks;
        if (task == variants) {
          kernel.cost = codegen->cost(kernel.plan, kernel.points, &kernel.terms);
          continue;
        }
        StatusOr<KernelObject> object =
            codegen->compile(kernel.plan, traitsOf(options.variants[task]), options.optLevel);
        if (object.ok()) {
          auto made = std::make_shared<const KernelObject>(*std::move(object));
          if (!kernel.key.empty())
            objectCache().keep(objectKey(kernel.key, options.variants[task], options.optLevel), made, made->elf.size());
          objects[(i / tasks) * variants + task] = std::move(made);
          continue;
        }
        std::lock_guard lock(mutex);
        if (error.ok()) error = object.status().withContext("kernel " + kernel.name);
      }
    });
  }
  if (support::isCancelled()) return support::cancelledStatus();
  if (!error.ok()) return error;
  for (const Distinct& kernel : distinct)
    if (Status status = checkTerms(kernel.terms); !status.ok()) return status.withContext("kernel " + kernel.name);

  for (size_t v = 0; v < variants; ++v) {
    llvm::SmallVector<LinkObject> parts;
    for (size_t k = 0; k < distinct.size(); ++k) {
      const KernelObject& object = *objects[k * variants + v];
      parts.push_back({object.elf, object.native, object.nativeEntry});
    }
    HPU_ASSIGN(LinkedImage linked, linkImage(parts, kEntryName));
    recipe::KernelImage image;
    image.cpu = options.variants[v];
    for (size_t index : of) image.entries.push_back(linked.entries[index]);
    auto bytes = std::make_shared<std::vector<uint8_t>>(std::move(linked.bytes));
    image.data = bytes->data();
    image.bytes = bytes->size();
    image.owner = bytes;
    set.images.push_back(std::move(image));
  }
  for (size_t index : of) {
    CompiledKernel kernel;
    kernel.cost = distinct[index].cost;
    kernel.scratchBytes = scratchBytes(distinct[index].plan);
    kernel.rank = distinct[index].plan.rank;
    kernel.wholeDims = distinct[index].plan.wholeDims;
    if (isSymbolic(distinct[index].plan))
      kernel.symbolic = {distinct[index].plan.dims, distinct[index].terms, distinct[index].plan.reads};
    set.kernels.push_back(kernel);
  }
  return set;
}

struct KernelPricer::State {
  std::optional<CodegenPool::Lease> codegen;  ///< Taken when it is needed: that may cost milliseconds.
  std::map<std::string, KernelFacts> known;
};

KernelPricer::KernelPricer() : state_(std::make_unique<State>()) {}
KernelPricer::~KernelPricer() = default;

StatusOr<KernelFacts> KernelPricer::facts(const KernelRequest& request) {
  StatusOr<KernelGraph> graph = importBlock(*request.body, request.symbols);
  if (!graph.ok()) return graph.status().withContext("kernel " + request.name);
  auto [it, inserted] = state_->known.emplace(requestKey(*graph, request), KernelFacts());
  if (!inserted) return it->second;
  if (auto facts = factsCache().find(it->first)) {
    it->second = *facts;
    return it->second;
  }
  StatusOr<PlannedKernel> planned = plan(*graph, request);
  if (!planned.ok()) {
    state_->known.erase(it);
    return planned.status();
  }
  if (!state_->codegen) state_->codegen.emplace(CodegenPool::take());
  KernelFacts facts;
  std::vector<CostTerm> terms;
  facts.cost = (*state_->codegen)->cost(*planned, pointsOf(request), &terms);
  facts.rank = planned->rank;
  facts.wholeDims = planned->wholeDims;
  facts.reads = readsAtRepresentatives(planned->reads);
  if (Status status = checkTerms(terms); !status.ok()) {
    state_->known.erase(it);
    return status.withContext("kernel " + request.name);
  }
  // Expressions of free dimensions stay with the compilation.
  const bool isKept = !isSymbolic(*planned) && !planned->native;
  if (isSymbolic(*planned)) facts.symbolic = {std::move(planned->dims), std::move(terms), std::move(planned->reads)};
  it->second = std::move(facts);
  if (isKept) factsCache().keep(it->first, std::make_shared<const KernelFacts>(it->second), kFactsBytes);
  return it->second;
}

StatusOr<std::string> kernelIr(const KernelRequest& request, recipe::CpuVariant variant) {
  HPU_ASSIGN(KernelGraph graph, importBlock(*request.body, request.symbols));
  HPU_ASSIGN(PlannedKernel planned, plan(graph, request));
  Codegen codegen;
  return codegen.vectorIr(planned, traitsOf(variant));
}

}  // namespace hpu::kernels
