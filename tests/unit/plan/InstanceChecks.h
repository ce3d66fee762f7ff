// SPDX-License-Identifier: Apache-2.0
// What is asked of every instance, and random programs of free dimensions to make some of.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "DynamicSample.h"
#include "plan/Instantiate.h"
#include "recipe/CommandAccess.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/ScheduleChecker.h"

namespace hpu::plan::testing {

using recipe::Dynamic;
using recipe::kNone;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;
using namespace recipe::testing;

inline const arch::TargetDesc& gaudi2() {
  return arch::targetDesc(Target::kGaudi2);
}

/// Calls visit(byte) for the elements of an operand that is no ring.
template <typename Visit>
void forEachElement(const Operand& operand, Visit&& visit) {
  std::vector<int64_t> at(operand.sizes.size(), 0);
  if (recipe::isEmpty(operand)) return;
  for (;;) {
    int64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) element += at[d] * operand.strides[d];
    visit(operand.offset + static_cast<uint64_t>(element) * 4);
    size_t d = at.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < operand.sizes[d - 1]) break;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// What an op reads in the workspace or in SRAM was last written for the same storage: run in host order, which the
/// schedule is proved to equal, nothing that is still needed is written over.
inline void expectStoragesApart(const Program& source, const Program& instance) {
  const Dynamic& dynamic = *source.dynamic;
  constexpr int kTiles = 100000;
  std::vector<std::vector<std::pair<uint32_t, int>>> ownersOf(source.ops.size());
  for (const recipe::StoragePlacement& placement : dynamic.placements)
    ownersOf[placement.op].emplace_back(placement.operand, static_cast<int>(placement.storage));
  for (size_t t = 0; t < dynamic.tiles.size(); ++t)
    for (const recipe::TileStorage::User& user : dynamic.tiles[t].users)
      ownersOf[user.op].emplace_back(user.operand, kTiles + static_cast<int>(t));
  std::vector<std::vector<int>> written;  // By section and 4 bytes.
  for (const recipe::Section& section : instance.sections) written.emplace_back(section.bytes / 4 + 1, -1);
  for (uint32_t index : instance.hostOrder) {
    const Op& op = instance.ops[index];
    const auto from =
        std::find_if(source.ops.begin(), source.ops.end(), [&](const Op& o) { return o.name == op.name; });
    for (bool write : {false, true})
      for (const auto& [number, owner] : ownersOf[static_cast<size_t>(from - source.ops.begin())]) {
        const Operand& operand = *operandAt(op, number);
        const bool isOutput = operandAt(op, number + 1) == nullptr;
        const SectionKind kind = instance.sections[operand.section].kind;
        if (write != isOutput || operand.ring.slots > 0 || kind == SectionKind::kOutput) continue;
        size_t wrong = 0;
        forEachElement(operand, [&](uint64_t byte) {
          int& last = written[operand.section].at(byte / 4);
          wrong += !write && last != owner;
          if (write) last = owner;
        });
        ASSERT_EQ(wrong, 0u) << "op '" << op.name << "' operand " << number;
      }
  }
}

/// Verified, without hazards, and memory in use once at a time.
inline void expectRight(const Program& source, const Sizes& sizes, const Program& instance) {
  Status status = recipe::verifyProgram(instance);
  ASSERT_TRUE(status.ok()) << status.message();
  const recipe::KernelReads reads = kernelReads(source, sizes, instance);
  status = recipe::checkSchedule(instance, &reads);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_FALSE(instance.dynamic);
  ASSERT_NO_FATAL_FAILURE(expectStoragesApart(source, instance));
}

inline const Op* findOp(const Program& program, const std::string& name) {
  for (const Op& op : program.ops)
    if (op.name == name) return &op;
  return nullptr;
}

inline int commandsOf(const Program& program, const std::string& name) {
  int count = 0;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands) count += program.ops[command.op].name == name;
  return count;
}

/// The numbers of `twin`, the same program with these sizes as its representatives, but for what the loader plans.
inline void expectNumbersOf(const Program& twin, const Program& instance) {
  auto sameTensors = [](const std::vector<TensorInfo>& a, const std::vector<TensorInfo>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].type, b[i].type) << a[i].name;
  };
  sameTensors(twin.inputs, instance.inputs);
  sameTensors(twin.outputs, instance.outputs);
  size_t points = 0;
  for (const Op& op : twin.ops) {
    const bool empty = std::count(op.space.begin(), op.space.end(), 0) > 0;
    points += !empty;
    const Op* made = findOp(instance, op.name);
    ASSERT_EQ(made == nullptr, empty) << op.name;
    if (empty) continue;
    EXPECT_EQ(made->space, op.space) << op.name;
    for (uint32_t o = 0; const Operand* expected = operandAt(op, o); ++o) {
      const Operand& operand = *operandAt(*made, o);
      EXPECT_EQ(operand.sizes, expected->sizes) << op.name;
      const SectionKind kind = twin.sections[expected->section].kind;
      if (kind != SectionKind::kSram) {
        EXPECT_EQ(operand.strides, expected->strides) << op.name;
      }
      if (kind == SectionKind::kOutput || kind == SectionKind::kConst) {
        EXPECT_EQ(operand.offset, expected->offset);
      }
    }
  }
  EXPECT_EQ(instance.ops.size(), points);
}

/// Layers over [n * k, 32] and [m, 32] tensors, in units of all kinds, cut at random.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed), b_(Target::kGaudi2) {
    n_ = b_.symbol("n", between(0, 1), 40, between(1, 40));
    m_ = b_.symbol("m", 1, 24, between(1, 24));
  }

  Program make() {
    hasChoice_ = between(0, 1) != 0;
    if (hasChoice_) b_.choice({between(1, 40), between(1, 24)});
    const Num rows = between(0, 1) ? b_.add(n_, m_) : b_.times(n_, between(1, 3));
    const Num width = b_.number(32);
    relu_ = b_.kernel("relu", 1, 2, 0, {rows});
    b_.readsPointwise(relu_, 0, 2);
    softmax_ = b_.kernel("softmax", 1, 2, 2, {rows});
    if (between(0, 1)) b_.readsPointwise(softmax_, 0, 1);
    add_ = b_.kernel("add", 2, 2, 0, {rows});
    b_.readsPointwise(add_, 0, 2);
    if (between(0, 1)) b_.readsPointwise(add_, 1, 2);
    weights_ = b_.constant({32, 32});
    live_ = {b_.input("x", {rows, width})};
    b_.input("n", {n_});
    b_.input("m", {m_});
    rows_ = rows;
    const int64_t layers = between(1, 10);
    for (int64_t layer = 0; layer < layers; ++layer) addLayer(layer + 1 == layers);
    return b_.finish();
  }

 private:
  using View = DynamicBuilder::View;

  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  uint32_t slices() { return static_cast<uint32_t>(between(1, 6)); }
  const View& someLive() {
    return live_[static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(live_.size()) - between(1, 3)))];
  }
  View result(bool last) {
    const Nums sizes = {rows_, b_.number(32)};
    return last ? b_.output("y", sizes) : b_.workspace(sizes);
  }
  std::vector<std::vector<uint32_t>> alongRows(size_t parts) {
    return std::vector<std::vector<uint32_t>>(parts, {slices(), 1});
  }
  /// Of a choice that is not the last one: perhaps along columns, across the tiles of rows.
  std::vector<std::vector<uint32_t>> acrossRows(size_t parts) {
    return std::vector<std::vector<uint32_t>>(
        parts, hasChoice_ && between(0, 1) ? std::vector<uint32_t>{1, slices()} : std::vector<uint32_t>{slices(), 1});
  }
  static std::vector<std::vector<uint32_t>> same(std::vector<std::vector<uint32_t>> parts) {
    for (auto& part : parts) part = parts[0];
    return parts;
  }

  void addLayer(bool last) {
    const View from = someLive();
    switch (between(0, 5)) {
      case 0: {  // A kernel, cut both ways.
        const View to = result(last);
        const uint32_t op = b_.tpc(name(), relu_, {from}, to);
        b_.unit({{op}}, {{{slices(), slices()}}, {{slices(), slices()}}});
        live_.push_back(to);
        return;
      }
      case 1: {  // Row by row.
        const View to = result(last);
        const uint32_t op = b_.tpc(name(), softmax_, {from}, to);
        b_.unit({{op}}, {alongRows(1), alongRows(1)});
        live_.push_back(to);
        return;
      }
      case 2: {  // A product and a kernel behind it, through SRAM.
        const View tile = b_.tiles({rows_, b_.number(32)}, 0, static_cast<uint32_t>(between(1, 3))), to = result(last);
        const uint32_t gemm = b_.gemm(name(), from, weights_, tile);
        const uint32_t add = b_.tpc(name(), add_, {tile, someLive()}, to);
        b_.unit({{gemm, add}}, {acrossRows(1), alongRows(1)});
        live_.push_back(to);
        return;
      }
      case 3: {  // Units that take turns.
        const View ring = b_.tiles({rows_, b_.number(32)}, 0, static_cast<uint32_t>(between(2, 4))), to = result(last);
        const uint32_t up = b_.gemm(name(), from, weights_, ring);
        const bool kernel = between(0, 1) != 0;
        const uint32_t down = kernel ? b_.tpc(name(), relu_, {ring}, to) : b_.gemm(name(), ring, weights_, to);
        b_.unit({{up}, {down}}, {same(kernel ? acrossRows(2) : alongRows(2)), same(alongRows(2))});
        live_.push_back(to);
        return;
      }
      case 4: {  // Two units with the whole result in SRAM between them.
        const View tile = b_.tiles({rows_, b_.number(32)}, 0, 1), to = result(last);
        const uint32_t up = b_.tpc(name(), relu_, {from}, tile);
        const uint32_t down = b_.gemm(name(), tile, weights_, to);
        b_.unit({{up}}, {alongRows(1)});
        b_.unit({{down}}, {{{slices(), slices()}}});
        live_.push_back(to);
        return;
      }
      default: {  // A copy.
        const View to = result(last);
        b_.unit({{b_.copy(name(), from, to)}});
        live_.push_back(to);
      }
    }
  }

  std::string name() { return "op" + std::to_string(b_.program.ops.size()); }

  std::mt19937 random_;
  DynamicBuilder b_;
  Num n_, m_, rows_;
  View weights_;
  uint32_t relu_ = 0, softmax_ = 0, add_ = 0;
  bool hasChoice_ = false;
  std::vector<View> live_;
};

}  // namespace hpu::plan::testing
