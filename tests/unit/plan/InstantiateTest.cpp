// SPDX-License-Identifier: Apache-2.0
// Instances of hand-made and of random programs of free dimensions: each is a right program, and has the numbers that
// the same program written for those sizes has.
#include "plan/Instantiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "DynamicSample.h"
#include "recipe/CommandAccess.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/ScheduleChecker.h"

namespace hpu::plan {
namespace {

using recipe::Dynamic;
using recipe::kNone;
using recipe::Op;
using recipe::Operand;
using recipe::Program;
using recipe::SectionKind;
using ::testing::HasSubstr;
using namespace recipe::testing;

const arch::TargetDesc& gaudi2() {
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
void expectStoragesApart(const Program& source, const Program& instance) {
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
void expectRight(const Program& source, const Sizes& sizes, const Program& instance) {
  Status status = recipe::verifyProgram(instance);
  ASSERT_TRUE(status.ok()) << status.message();
  const recipe::KernelReads reads = kernelReads(source, sizes, instance);
  status = recipe::checkSchedule(instance, &reads);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_FALSE(instance.dynamic);
  ASSERT_NO_FATAL_FAILURE(expectStoragesApart(source, instance));
}

const Op* findOp(const Program& program, const std::string& name) {
  for (const Op& op : program.ops)
    if (op.name == name) return &op;
  return nullptr;
}

int commandsOf(const Program& program, const std::string& name) {
  int count = 0;
  for (const recipe::Queue& queue : program.queues)
    for (const recipe::Command& command : queue.commands) count += program.ops[command.op].name == name;
  return count;
}

/// The numbers of `twin`, the same program with these sizes as its representatives, but for what the loader plans.
void expectNumbersOf(const Program& twin, const Program& instance) {
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

TEST(Instantiate, EverySizeGivesTheProgramWrittenForIt) {
  const Program program = dynamicSample();
  for (int64_t past : {0, 1, 2, 5, 17, 96})
    for (int64_t seq : {1, 2, 3, 6, 15, 16, 17, 33, 104}) {
      SCOPED_TRACE("past " + std::to_string(past) + ", seq " + std::to_string(seq));
      auto instance = instantiate(program, {past, seq}, gaudi2());
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, {past, seq}, **instance));
      ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(past, seq), **instance));
      EXPECT_EQ((*instance)->kernels[1].dims, (std::vector<int64_t>{seq, past + seq}));
      EXPECT_GT((*instance)->estimates.deviceTimeUs, 0);
      EXPECT_LE((*instance)->estimates.lowerBoundUs, (*instance)->estimates.deviceTimeUs);
      auto outputs = outputsFor(program, {past, seq});
      ASSERT_TRUE(outputs.ok());
      EXPECT_EQ((*outputs)[0].type.shape, (Shape{seq, past + seq}));
      auto bytes = workspaceBytes(program, {past, seq}, gaudi2());
      ASSERT_TRUE(bytes.ok());
      for (const recipe::Section& section : (*instance)->sections)
        if (section.kind == SectionKind::kWorkspace) {
          EXPECT_EQ(section.bytes, *bytes);
        }
    }
}

TEST(Instantiate, SlicesAreThoseOfTheChoice) {
  const Program program = dynamicSample();
  const std::vector<recipe::TileChoice>& choices = program.dynamic->choices;
  auto small = instantiate(program, {5, 16}, gaudi2(), &choices[0]),
       large = instantiate(program, {5, 64}, gaudi2(), &choices[1]);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(commandsOf(**small, "project"), 1);
  EXPECT_EQ(commandsOf(**small, "up"), 2);
  EXPECT_EQ(commandsOf(**large, "project"), 4);
  EXPECT_EQ(commandsOf(**large, "scores"), 4);
  EXPECT_EQ(commandsOf(**large, "up"), 8);
  EXPECT_EQ(findOp(**large, "project")->mme.c.ring, (recipe::Ring{2, 0, 16 * 64 * 4}));
  EXPECT_EQ(findOp(**large, "down")->mme.a.ring, (recipe::Ring{3, 0, 8 * 64 * 4}));
  EXPECT_EQ(findOp(**small, "project")->mme.c.ring, (recipe::Ring{1, 0, 16 * 64 * 4}));
  // 17 rows in 8 slices are 6 slices of 3.
  auto odd = instantiate(program, {5, 17}, gaudi2(), &choices[1]);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(commandsOf(**odd, "up"), 6);
  EXPECT_EQ(commandsOf(**odd, "down"), 6);
}

TEST(Instantiate, IsTheFastestOfWhatTheChoicesMake) {
  const Program program = dynamicSample();
  bool differ = false;
  for (const Sizes& sizes : {Sizes{5, 16}, Sizes{5, 64}, Sizes{90, 128}}) {
    auto fastest = instantiate(program, sizes, gaudi2());
    ASSERT_TRUE(fastest.ok()) << fastest.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **fastest));
    for (const recipe::TileChoice& choice : program.dynamic->choices) {
      auto one = instantiate(program, sizes, gaudi2(), &choice);
      ASSERT_TRUE(one.ok());
      EXPECT_LE((*fastest)->estimates.deviceTimeUs, (*one)->estimates.deviceTimeUs);
      differ |= (*fastest)->estimates.deviceTimeUs < (*one)->estimates.deviceTimeUs;
    }
  }
  EXPECT_TRUE(differ);
}

/// What a view that parts or joins dimensions says by strides is what one of whole dimensions says by these.
TEST(Instantiate, UsersOfTilesMayHaveStridesOfTheirOwn) {
  const Program program = dynamicSample();
  auto dynamic = std::make_shared<recipe::Dynamic>(*program.dynamic);
  auto number = [&](int64_t value) {
    dynamic->exprs.push_back({recipe::SizeExpr::Kind::kConstant, value, {}});
    return static_cast<uint32_t>(dynamic->exprs.size() - 1);
  };
  size_t changed = 0;
  for (recipe::TileStorage& tile : dynamic->tiles)
    for (recipe::TileStorage::User& user : tile.users) {
      if (tile.slots != 3 || tile.order.front() != tile.dim || user.op == tile.users[0].op) continue;
      const Operand& operand = *recipe::operandAt(const_cast<Program&>(program).ops[user.op], user.operand);
      for (uint32_t& dim : user.dims) {
        user.strides.push_back(number(operand.strides[user.strides.size()]));
        if (dim != tile.dim) dim = recipe::kNone;
      }
      user.offset = number(0);
      ++changed;
    }
  ASSERT_EQ(changed, 1u);
  Program other = program;
  other.dynamic = dynamic;
  ASSERT_TRUE(recipe::verifyProgram(other).ok()) << recipe::verifyProgram(other).message();
  for (const Sizes& sizes : {Sizes{5, 17}, Sizes{5, 64}}) {
    const recipe::TileChoice& choice = program.dynamic->choices[1];
    auto by = instantiate(program, sizes, gaudi2(), &choice), with = instantiate(other, sizes, gaudi2(), &choice);
    ASSERT_TRUE(by.ok() && with.ok()) << with.status().message();
    EXPECT_EQ(findOp(**by, "down")->mme.a.strides, findOp(**with, "down")->mme.a.strides);
    EXPECT_EQ(findOp(**by, "down")->mme.a.ring, findOp(**with, "down")->mme.a.ring);
    EXPECT_EQ(findOp(**by, "down")->mme.a.offset, findOp(**with, "down")->mme.a.offset);
  }
  // An offset beyond the tile, or strides that leave it, are refused.
  for (recipe::TileStorage& tile : dynamic->tiles)
    for (recipe::TileStorage::User& user : tile.users)
      if (!user.strides.empty()) user.offset = number(int64_t{1} << 40);
  EXPECT_EQ(instantiate(other, {5, 64}, gaudi2(), &program.dynamic->choices[1]).status().code(), StatusCode::kDataLoss);
}

TEST(Instantiate, WithoutAnyPastItIsLeftOutButTheProductOverItStays) {
  const Program program = dynamicSample();
  auto instance = instantiate(program, {0, 6}, gaudi2());
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  EXPECT_FALSE(findOp(**instance, "keep"));
  const Op* old = findOp(**instance, "old");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->mme.a.sizes, (std::vector<int64_t>{6, 0}));
  const Op* join = findOp(**instance, "join");
  ASSERT_TRUE(join);
  EXPECT_EQ(join->tpc.inputs[0].sizes, (std::vector<int64_t>{0, 64}));
}

TEST(Instantiate, SharesConstantsAndImages) {
  const Program program = dynamicSample();
  auto instance = instantiate(program, {5, 64}, gaudi2());
  ASSERT_TRUE(instance.ok());
  EXPECT_EQ((*instance)->constants[0].data, program.constants[0].data);
  EXPECT_EQ((*instance)->images[0].data, program.images[0].data);
}

TEST(Instantiate, CostsOfKernelsAreThoseOfTheirTrips) {
  // Each term counts the whole space: seq trips of 1 load, of seq * 64 points.
  const Program program = dynamicSample();
  for (int64_t seq : {4, 100}) {
    auto instance = instantiate(program, {3, seq}, gaudi2());
    ASSERT_TRUE(instance.ok());
    EXPECT_DOUBLE_EQ((*instance)->kernels[0].cost.loads, 1.0 / 64);
    EXPECT_DOUBLE_EQ((*instance)->kernels[1].cost.vectorOps, 2.0);
  }
}

TEST(Instantiate, RefusesSizesOutOfBounds) {
  const Program program = dynamicSample();
  for (const Sizes& sizes : {Sizes{97, 6}, Sizes{-1, 6}, Sizes{5, 0}, Sizes{5}, Sizes{5, 6, 7}}) {
    EXPECT_EQ(instantiate(program, sizes, gaudi2()).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(outputsFor(program, sizes).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(workspaceBytes(program, sizes, gaudi2()).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(instantiate(program, {97, 6}, gaudi2()).status().message(),
            "dimension 'past' is 97, outside of its bounds 0 to 96");
}

// ---- SRAM --------------------------------------------------------------------------------------------

TEST(Instantiate, CutsFinerWhatWouldNotFitIntoSram) {
  const Program program = dynamicSample();
  arch::TargetDesc small = gaudi2();
  small.sramBytes = 4096;  // Slots of 16 rows have 4 KB each.
  auto instance = instantiate(program, {5, 64}, small);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  EXPECT_EQ(commandsOf(**instance, "project"), 8);
  EXPECT_EQ(findOp(**instance, "project")->mme.c.ring, (recipe::Ring{2, 0, 2048}));
  EXPECT_EQ(commandsOf(**instance, "up"), 16);
  for (const recipe::Section& section : (*instance)->sections)
    if (section.kind == SectionKind::kSram) {
      EXPECT_LE(section.bytes, 4096u);
    }
}

TEST(Instantiate, WhatCannotBeCutFinerLiesInTheWorkspace) {
  const Program program = dynamicSample();
  arch::TargetDesc tiny = gaudi2();
  tiny.sramBytes = 100;
  auto instance = instantiate(program, {5, 64}, tiny);
  ASSERT_TRUE(instance.ok()) << instance.status().message();
  ASSERT_NO_FATAL_FAILURE(expectRight(program, {5, 64}, **instance));
  const Operand& c = findOp(**instance, "project")->mme.c;
  EXPECT_EQ((*instance)->sections[c.section].kind, SectionKind::kWorkspace);
  EXPECT_EQ(c.ring.slots, 0u);
}

// ---- Random programs ---------------------------------------------------------------------------------

/// Layers over [n * k, 32] and [m, 32] tensors, in units of all kinds, cut at random.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed), b_(Target::kGaudi2) {
    n_ = b_.symbol("n", between(0, 1), 40, between(1, 40));
    m_ = b_.symbol("m", 1, 24, between(1, 24));
  }

  Program make() {
    if (between(0, 1)) b_.choice({between(1, 40), between(1, 24)});
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
        b_.unit({{gemm, add}}, {alongRows(1), alongRows(1)});
        live_.push_back(to);
        return;
      }
      case 3: {  // Units that take turns.
        const View ring = b_.tiles({rows_, b_.number(32)}, 0, static_cast<uint32_t>(between(2, 4))), to = result(last);
        const uint32_t up = b_.gemm(name(), from, weights_, ring);
        const bool kernel = between(0, 1) != 0;
        const uint32_t down = kernel ? b_.tpc(name(), relu_, {ring}, to) : b_.gemm(name(), ring, weights_, to);
        b_.unit({{up}, {down}}, {same(alongRows(2)), same(alongRows(2))});
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
  std::vector<View> live_;
};

TEST(Instantiate, RandomProgramsAreRightForAllSizes) {
  std::mt19937 random(11);
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Program program = RandomProgram(seed).make();
    Status status = recipe::verifyProgram(program);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    arch::TargetDesc target = gaudi2();
    if (seed % 3 == 0) target.sramBytes = std::uniform_int_distribution<int64_t>(0, 20000)(random);
    Instances instances(std::make_shared<const Program>(program), target);
    for (int i = 0; i < 12; ++i) {
      Sizes sizes;
      for (const recipe::Symbol& symbol : program.dynamic->symbols)
        sizes.push_back(std::uniform_int_distribution<int64_t>(symbol.min, symbol.max)(random));
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + recipe::sizesText(*program.dynamic, sizes));
      auto instance = instantiate(program, sizes, target);
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **instance));
      auto kept = instances.get(sizes);
      ASSERT_TRUE(kept.ok()) << kept.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **kept));
      EXPECT_EQ((*kept)->ops.size(), (*instance)->ops.size());
    }
  }
}

/// The commands of a bucket serve what is near, or are made anew: in both cases the schedule is proved.
TEST(Instances, OfOneBucketAreRightWhateverTheirSizes) {
  std::mt19937 random(5);
  uint64_t alike = 0, made = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Program program = RandomProgram(seed).make();
    arch::TargetDesc target = gaudi2();
    if (seed % 3 == 0) target.sramBytes = std::uniform_int_distribution<int64_t>(0, 20000)(random);
    Instances instances(std::make_shared<const Program>(program), target);
    Sizes last;
    for (const recipe::Symbol& symbol : program.dynamic->symbols)
      last.push_back(std::uniform_int_distribution<int64_t>(symbol.min, symbol.max)(random));
    for (int i = 0; i < 12; ++i) {
      Sizes sizes = last;
      for (size_t s = 0; s < sizes.size(); ++s)
        sizes[s] =
            std::max(program.dynamic->symbols[s].min, sizes[s] - std::uniform_int_distribution<int64_t>(0, 4)(random));
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + recipe::sizesText(*program.dynamic, sizes));
      auto instance = instances.get(sizes);
      ASSERT_TRUE(instance.ok()) << instance.status().message();
      ASSERT_NO_FATAL_FAILURE(expectRight(program, sizes, **instance));
      auto alone = instantiate(program, sizes, target);
      ASSERT_TRUE(alone.ok()) << alone.status().message();
      ASSERT_EQ((*instance)->kernels.size(), (*alone)->kernels.size());
      for (size_t k = 0; k < (*alone)->kernels.size(); ++k)
        EXPECT_EQ((*instance)->kernels[k].dims, (*alone)->kernels[k].dims);
      ASSERT_EQ((*instance)->ops.size(), (*alone)->ops.size());
      for (size_t op = 0; op < (*alone)->ops.size(); ++op)
        EXPECT_EQ((*instance)->ops[op].space, (*alone)->ops[op].space);
      ++made;
    }
    alike += instances.stats().alike;
  }
  // Else this looks at nothing.
  EXPECT_GT(alike, made / 4);
}

/// Rows [0, m) by the MME and [n, n + m) by the TPC: they meet where m is larger than n, and nothing orders them where
/// it is not.
Program twoWriters() {
  DynamicBuilder b;
  const Num n = b.symbol("n", 1, 40, 24), m = b.symbol("m", 1, 40, 23), width = b.number(32), zero = b.number(0);
  const uint32_t relu = b.kernel("relu", 1, 2, 0, {m});
  b.readsPointwise(relu, 0, 2);
  using View = DynamicBuilder::View;
  const View x = b.input("x", {m, width}), hidden = b.workspace({b.add(n, m), width});
  b.input("n", {n});
  b.unit({{b.gemm("first", x, b.constant({32, 32}), b.part(hidden, 0, zero, m))}});
  b.unit({{b.tpc("second", relu, {x}, b.part(hidden, 0, n, m))}});
  b.unit({{b.copy("out", b.part(hidden, 0, n, m), b.output("y", {m, width}))}});
  return b.finish();
}

TEST(Instances, WaitForWhatMeetsAtTheirSizesOnly) {
  const auto program = std::make_shared<const Program>(twoWriters());
  ASSERT_TRUE(recipe::verifyProgram(*program).ok()) << recipe::verifyProgram(*program).message();
  Instances instances(program, gaudi2());
  auto waitsOfSecond = [&](const Program& instance) {
    for (const recipe::Queue& queue : instance.queues)
      for (const recipe::Command& command : queue.commands)
        if (instance.ops[command.op].name == "second") return command.waits.size();
    return size_t{99};
  };
  // All of one bucket, that of 20 and 20, where the two do not meet.
  for (const auto& [sizes, meets] : std::vector<std::pair<Sizes, bool>>{
           {{20, 20}, false}, {{19, 17}, false}, {{17, 20}, true}, {{18, 18}, false}, {{18, 19}, true}}) {
    SCOPED_TRACE(recipe::sizesText(*program->dynamic, sizes));
    const uint64_t before = instances.stats().alike;
    auto instance = instances.get(sizes);
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(*program, sizes, **instance));
    EXPECT_EQ(waitsOfSecond(**instance), meets ? 1u : 0u);
    // That of the bucket's end is planned, and found again for the others.
    if (sizes != Sizes{20, 20}) {
      EXPECT_EQ(instances.stats().alike - before, meets ? 0u : 1u);
    }
  }
}

/// A program that nobody uses any more becomes the next one of its bucket; one that is in use stays as it is.
TEST(Instances, TakeUpProgramsThatAreNotInUse) {
  const auto program = std::make_shared<const Program>(dynamicSample());
  Instances instances(program, gaudi2());
  auto first = instances.get({40, 64}), kept = instances.get({40, 60});
  ASSERT_TRUE(first.ok() && kept.ok());
  auto released = instances.get({40, 59});
  ASSERT_TRUE(released.ok());
  const Program* address = released->get();
  *released = nullptr;
  auto next = instances.get({40, 61});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->get(), address);
  ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, 61}, **next));
  ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, 61), **next));
  ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, 60), **kept));
  ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, 60}, **kept));
}

// ---- Buckets -----------------------------------------------------------------------------------------

TEST(Instances, BucketsAreFourAnOctave) {
  EXPECT_EQ(bucketEnd(0), 0);
  EXPECT_EQ(bucketEnd(1), 1);
  EXPECT_EQ(bucketEnd(8), 8);
  EXPECT_EQ(bucketEnd(9), 10);
  EXPECT_EQ(bucketEnd(16), 16);
  EXPECT_EQ(bucketEnd(17), 20);
  EXPECT_EQ(bucketEnd(129), 160);
  EXPECT_EQ(bucketEnd(160), 160);
  for (int64_t size = 1; size < 5000; ++size) {
    EXPECT_GE(bucketEnd(size), size);
    EXPECT_LE(bucketEnd(size), size + size / 4 + 1);
    EXPECT_EQ(bucketEnd(bucketEnd(size)), bucketEnd(size));
  }
}

TEST(Instances, PlanOncePerBucket) {
  const auto program = std::make_shared<const Program>(dynamicSample());
  Instances instances(program, gaudi2());
  for (int64_t seq : {57, 64, 60, 59}) {
    auto instance = instances.get({40, seq});
    ASSERT_TRUE(instance.ok()) << instance.status().message();
    ASSERT_NO_FATAL_FAILURE(expectRight(*program, {40, seq}, **instance));
    ASSERT_NO_FATAL_FAILURE(expectNumbersOf(dynamicSample(40, seq), **instance));
    EXPECT_EQ((*instance)->kernels[1].dims, (std::vector<int64_t>{seq, 40 + seq}));
  }
  EXPECT_EQ(instances.stats().reused + instances.stats().planned, 4u);
  EXPECT_GE(instances.stats().reused, 3u);
}

TEST(Instances, OfAKnownBucketAreMadeMoreQuickly) {
  using Clock = std::chrono::steady_clock;
  auto microseconds = [](Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
  };
  for (int64_t layers : {17, 170}) {
    const auto program = std::make_shared<const Program>(layersProgram(layers));
    const int64_t commands = layers * 6;
    std::vector<double> planned, again, direct;
    Instances instances(program, gaudi2());
    for (int64_t seq = 100; seq < 4000; seq += seq / 3) {
      auto start = Clock::now();
      ASSERT_TRUE(instances.get({2, seq}).ok());
      planned.push_back(microseconds(start));
      for (int64_t near : {seq, bucketEnd(seq)}) {
        start = Clock::now();
        ASSERT_TRUE(instances.get({2, near}).ok());
        again.push_back(microseconds(start));
      }
      start = Clock::now();
      ASSERT_TRUE(instantiate(*program, {2, seq}, gaudi2()).ok());
      direct.push_back(microseconds(start));
    }
    auto median = [](std::vector<double>& times) {
      std::sort(times.begin(), times.end());
      return times[times.size() / 2];
    };
    std::printf("%lld commands: first sizes of a bucket %.0f us, others %.0f us, without buckets %.0f us\n",
                static_cast<long long>(commands), median(planned), median(again), median(direct));
    EXPECT_GT(instances.stats().reused, instances.stats().planned);
    EXPECT_LT(median(again), median(planned));  // Which holds on busy machines and with sanitizers, too.
  }
}

}  // namespace
}  // namespace hpu::plan
