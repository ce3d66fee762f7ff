// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/Workload.h"

#include <algorithm>

#include "base/Format.h"
#include "base/Suggest.h"
#include "collectives/schedule/Schedule.h"
#include "numerics/SmallFloat.h"

namespace hpu::tools {
namespace {

struct TypeName {
  const char* name;   ///< nccl-tests'.
  const char* alias;  ///< Ours; may be null.
  ElementType type;
};
constexpr TypeName kTypes[] = {{"int8", "i8", ElementType::kI8},          {"uint8", "u8", ElementType::kU8},
                               {"int32", "i32", ElementType::kI32},       {"uint32", "u32", ElementType::kU32},
                               {"int64", "i64", ElementType::kI64},       {"uint64", "u64", ElementType::kU64},
                               {"half", "f16", ElementType::kF16},        {"float", "f32", ElementType::kF32},
                               {"double", "f64", ElementType::kF64},      {"bfloat16", "bf16", ElementType::kBF16},
                               {"f8e4m3", nullptr, ElementType::kF8E4M3}, {"f8e5m2", nullptr, ElementType::kF8E5M2}};
constexpr const char* kOps[] = {"sum", "prod", "min", "max", "avg"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const std::vector<std::string>& perfOpNames() {
  static const std::vector<std::string> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                 "broadcast",  "reduce",     "send_recv"};
  return names;
}

StatusOr<PerfOp> parsePerfOp(const std::string& name) {
  const auto& names = perfOpNames();
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    return invalidArgument(
        base::strCat("there is no collective '", name, "'; there are ", joined(names), base::didYouMean(name, names)));
  return static_cast<PerfOp>(it - names.begin());
}

bool Workload::reduces() const {
  return op == PerfOp::kAllReduce || op == PerfOp::kReduceScatter || op == PerfOp::kReduce;
}
int64_t Workload::inputElements() const {
  return op == PerfOp::kReduceScatter || op == PerfOp::kAllToAll ? count * ranks : count;
}
int64_t Workload::outputElements() const {
  return op == PerfOp::kAllGather || op == PerfOp::kAllToAll ? count * ranks : count;
}
int64_t Workload::bytes() const {
  return std::max(inputElements(), outputElements()) * elementSize(type);
}

double Workload::busFactor() const {
  if (op == PerfOp::kSendRecv) return 1;
  return collectives::busFactor(static_cast<collectives::Collective>(operation()), ranks);
}

collectives::Operation Workload::operation() const {
  using collectives::Operation;
  switch (op) {
    case PerfOp::kAllReduce:
      return Operation::kAllReduce;
    case PerfOp::kAllGather:
      return Operation::kAllGather;
    case PerfOp::kReduceScatter:
      return Operation::kReduceScatter;
    case PerfOp::kAllToAll:
      return Operation::kAllToAll;
    case PerfOp::kBroadcast:
      return Operation::kBroadcast;
    case PerfOp::kReduce:
      return Operation::kReduce;
    case PerfOp::kSendRecv:
      break;
  }
  return Operation::kPointToPoint;
}

Workload workloadOf(PerfOp op, ElementType type, collectives::ReduceOp redop, int root, int ranks, int64_t bytes) {
  Workload work{op, type, redop, root, ranks, 0};
  int64_t elements = bytes / elementSize(type);
  bool shared = op == PerfOp::kAllGather || op == PerfOp::kReduceScatter || op == PerfOp::kAllToAll;
  work.count = shared ? elements / ranks : elements;
  if (bytes > 0) work.count = std::max<int64_t>(work.count, 1);
  return work;
}

StatusOr<std::vector<int64_t>> sizesBetween(int64_t minBytes, int64_t maxBytes, int64_t stepBytes, double factor) {
  if (minBytes < 0 || maxBytes < minBytes) return invalidArgument("--max-bytes must not be below --min-bytes");
  if (stepBytes < 0 || (stepBytes == 0 && !(factor > 1)))
    return invalidArgument("--factor must be above 1 (or give --step-bytes)");
  std::vector<int64_t> sizes;
  for (double size = static_cast<double>(minBytes); size <= static_cast<double>(maxBytes);) {
    sizes.push_back(static_cast<int64_t>(size));
    if (sizes.size() > 4096) return invalidArgument("more than 4096 sizes; raise --factor or --step-bytes");
    size = stepBytes > 0 ? size + static_cast<double>(stepBytes) : std::max(size * factor, size + 1);
  }
  return sizes;
}

StatusOr<ElementType> parseDataType(const std::string& name, Target target) {
  for (const TypeName& entry : kTypes)
    if (name == entry.name || (entry.alias && name == entry.alias) || name == elementTypeName(entry.type) ||
        (name == "float32" && entry.type == ElementType::kF32) ||
        (name == "float16" && entry.type == ElementType::kF16) ||
        (name == "float64" && entry.type == ElementType::kF64))
      return entry.type == ElementType::kF8E4M3 ? numerics::elementTypeOf(numerics::e4m3Format(target)) : entry.type;
  return invalidArgument(base::strCat("there is no data type '", name, "'; there are ", joined(allDataTypeNames()),
                                      base::didYouMean(name, allDataTypeNames())));
}

std::string dataTypeName(ElementType type) {
  if (type == ElementType::kF8E4M3Ieee) type = ElementType::kF8E4M3;
  for (const TypeName& entry : kTypes)
    if (entry.type == type) return entry.name;
  return std::string(elementTypeName(type));
}

StatusOr<collectives::ReduceOp> parseReduceOp(const std::string& name) {
  for (size_t i = 0; i < std::size(kOps); ++i)
    if (name == kOps[i]) return static_cast<collectives::ReduceOp>(i);
  return invalidArgument(base::strCat("there is no reduction '", name, "'; there are ", joined(allReduceOpNames()),
                                      base::didYouMean(name, allReduceOpNames())));
}

std::string reduceOpName(collectives::ReduceOp op) {
  return kOps[static_cast<size_t>(op)];
}

std::vector<std::string> allDataTypeNames() {
  std::vector<std::string> names;
  for (const TypeName& entry : kTypes) names.emplace_back(entry.name);
  return names;
}
std::vector<std::string> allReduceOpNames() {
  return {std::begin(kOps), std::end(kOps)};
}

}  // namespace hpu::tools
