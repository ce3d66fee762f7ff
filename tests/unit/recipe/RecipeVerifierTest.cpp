// SPDX-License-Identifier: Apache-2.0
#include "recipe/RecipeVerifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "DynamicSample.h"
#include "SampleProgram.h"
#include "recipe/Container.h"
#include "recipe/ScheduleChecker.h"

namespace hpu::recipe {
namespace {

using ::testing::HasSubstr;
using namespace testing;

/// One way to break the sample, and what the error must say.
struct Break {
  const char* expected;
  std::function<void(Program&)> change;
};

void expectRefused(const std::vector<Break>& breaks) {
  for (const Break& b : breaks) {
    Program program = sampleProgram();
    b.change(program);
    Status status = verifyProgram(program);
    ASSERT_FALSE(status.ok()) << "accepted: " << b.expected;
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(b.expected));
  }
}

Command& at(Program& p, uint32_t queue, uint32_t command) {
  return p.queues[queue].commands[command];
}

TEST(RecipeVerifier, RefusesWrongSignaturesAndSections) {
  expectRefused({
      {"unknown target 9", [](Program& p) { p.target = static_cast<Target>(9); }},
      {"input 0 'x' has the invalid element type 99",
       [](Program& p) { p.inputs[0].type.element = static_cast<ElementType>(99); }},
      {"has rank 9, beyond 8", [](Program& p) { p.inputs[0].type.shape.assign(9, 1); }},
      {"with a negative size", [](Program& p) { p.inputs[0].type.shape[0] = -4; }},
      {"with a negative size", [](Program& p) { p.inputs[0].type.shape[0] = kDynamic; }},
      {"more than 2^48 elements", [](Program& p) { p.inputs[0].type.shape = {int64_t{1} << 40, 0, int64_t{1} << 40}; }},
      {"section 4 has the unknown kind 6",
       [](Program& p) { p.sections[kWorkspaceSection].kind = static_cast<SectionKind>(6); }},
      {"beyond 2^50 bytes", [](Program& p) { p.sections[kWorkspaceSection].bytes = UINT64_MAX; }},
      {"neither input nor output but is bound to tensor 0",
       [](Program& p) { p.sections[kWorkspaceSection].binding = 0; }},
      {"bound to output 5, but the program has 2", [](Program& p) { p.sections[kOutputSection].binding = 5; }},
      {"both bound to output 0", [](Program& p) { p.sections[kStateSection].binding = 0; }},
      {"has 100 bytes, but its input 0 'x' needs 4608", [](Program& p) { p.sections[kInputSection].bytes = 100; }},
      {"output 1 'state' has no section",
       [](Program& p) { p.sections[kStateSection] = {SectionKind::kWorkspace, kNone, 256}; }},
      {"but gaudi2 has", [](Program& p) { p.sections[kSramSection].bytes = 64u << 20; }},
      {"not a finite number", [](Program& p) { p.estimates.deviceTimeUs = NAN; }},
      {"is negative", [](Program& p) { p.estimates.lowerBoundUs = -1; }},
  });
}

TEST(RecipeVerifier, RefusesWrongDataSizes) {
  const Program good = dataSizesSample();
  ASSERT_TRUE(verifyProgram(good).ok()) << verifyProgram(good).message();
  auto refused = [&](auto change, const char* why) {
    Program program = good;
    change(program);
    const Status status = verifyProgram(program);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  refused([](Program& p) { p.dataSizes[0].output = 1; }, "data size 0 is of output 1, but only 1 have sizes");
  refused([](Program& p) { p.dataSizes[0].output = kNone; }, "but only 1 have sizes");
  refused([](Program& p) { p.dataSizes[1].dim = 2; }, "for dimension 2 of output 'y'");
  refused([](Program& p) { p.dataSizes[1].element = 2; }, "data size 1 is element 2 of");
  refused([](Program& p) { p.dataSizes[1] = p.dataSizes[0]; }, "does not come behind the one before it");
  refused([](Program& p) { p.outputs[1].type = p.outputs[0].type; }, "no vector of the sizes that depend on data");
  refused([](Program& p) { p.outputs.resize(1); }, "the program has 1 outputs, none of which says these sizes");
  refused([](Program& p) { p.states = {{0, 0, {16, 64}}}; }, "states have sizes of their own");
}

TEST(RecipeVerifier, RefusesWrongDefaults) {
  static const std::vector<uint8_t> bytes(1 << 20, 1);
  auto with = [](auto change) {
    return [change](Program& p) {
      p.defaults = {{0, bytes.data(), static_cast<uint64_t>(p.inputs[0].type.bytes()), nullptr}};
      change(p);
    };
  };
  Program good = sampleProgram();
  with([](Program&) {})(good);
  ASSERT_TRUE(verifyProgram(good).ok()) << verifyProgram(good).message();
  EXPECT_EQ(leastReaderMinor(good), 5);
  expectRefused({
      {"default 0 is of input 7", with([](Program& p) { p.defaults[0].input = 7; })},
      {"which does not follow the one before it", with([](Program& p) { p.defaults.push_back(p.defaults[0]); })},
      {"the default of input", with([](Program& p) { p.defaults[0].bytes -= 4; })},
      {"the default of input", with([](Program& p) { p.defaults[0].data = nullptr; })},
  });
}

TEST(RecipeVerifier, RefusesWrongStates) {
  // The sample's output 0 and input 0 have other shapes: state 0 is of the type of both, with room for both.
  auto stated = [](auto change) {
    return [change](Program& p) {
      p.outputs[0].type = p.inputs[0].type;
      p.states = {{0, 0, p.inputs[0].type.shape}};
      change(p);
    };
  };
  expectRefused({
      {"state 0 is input 7 and output 0, but the program has", stated([](Program& p) { p.states[0].input = 7; })},
      {"state 0 is input 0 and output 9, but the program has", stated([](Program& p) { p.states[0].output = 9; })},
      {"shares a tensor with another one", stated([](Program& p) { p.states.push_back(p.states[0]); })},
      {"has other types than its capacity", stated([](Program& p) { p.states[0].capacity.push_back(1); })},
      {"has other types than its capacity", stated([](Program& p) { p.outputs[0].type.element = ElementType::kF64; })},
      {"with a size below 1", stated([](Program& p) { p.states[0].capacity[0] = -1; })},
      {"more than 2^48 elements", stated([](Program& p) { p.states[0].capacity[0] = INT64_MAX; })},
      {"is larger than its capacity", stated([](Program& p) { p.states[0].capacity[0] -= 1; })},
      {"bytes, but its", stated([](Program& p) { p.states[0].capacity[0] *= 64; })},
      // Ops read the input's section, of which a state has nothing.
      {"section", stated([](Program&) {})},
  });
}

TEST(RecipeVerifier, RefusesWrongConstants) {
  expectRefused({
      {"constant 0 fills section 99", [](Program& p) { p.constants[0].section = 99; }},
      {"not a constant section", [](Program& p) { p.constants[0].section = kWorkspaceSection; }},
      {"leaves section 3", [](Program& p) { p.constants[2].offset = UINT64_MAX - 3; }},
      {"is empty", [](Program& p) { p.constants[1].bytes = 0; }},
      {"both fill byte", [](Program& p) { p.constants[1].offset -= 64; }},
      {"which no constant fills", [](Program& p) { p.constants.pop_back(); }},
  });
}

TEST(RecipeVerifier, RefusesWrongKernelsAndImages) {
  expectRefused({
      {"no kernel image", [](Program& p) { p.images.clear(); }},
      {"unknown CPU level 5", [](Program& p) { p.images[0].cpu = static_cast<CpuVariant>(5); }},
      {"two kernel images are for x86-64-v4", [](Program& p) { p.images[0].cpu = CpuVariant::kX86_64_v4; }},
      {"has 1 entries for 2 kernels", [](Program& p) { p.images[1].entries.pop_back(); }},
      {"starts at byte 1000 of kernel image 0 (x86-64-v3), which has 1000",
       [](Program& p) { p.images[0].entries[1] = 1000; }},
      {"is empty", [](Program& p) { p.images[0].bytes = 0; }},
      {"index space of rank 9", [](Program& p) { p.kernels[0].rank = 9; }},
      {"lacks", [](Program& p) { p.kernels[1].wholeDims = 4; }},
      {"bytes of scratch", [](Program& p) { p.kernels[1].scratchBytes = UINT64_MAX; }},
      {"has a cost", [](Program& p) { p.kernels[1].cost.loads = -INFINITY; }},
  });
}

TEST(RecipeVerifier, RefusesWrongOperands) {
  auto gemm = [](Program& p) -> MmeDesc& { return p.ops[kGemmOp].mme; };
  auto relu = [](Program& p) -> TpcDesc& { return p.ops[kReluOp].tpc; };
  expectRefused({
      {"operand a is in section 77, but the program has 7", [&](Program& p) { gemm(p).a.section = 77; }},
      {"operand a is in section 4294967295", [&](Program& p) { gemm(p).a.section = kNone; }},
      {"operand a has the invalid element type 0", [&](Program& p) { gemm(p).a.type = ElementType::kInvalid; }},
      {"operand a has 2 sizes but 1 strides", [&](Program& p) { gemm(p).a.strides.pop_back(); }},
      {"negative stride -576", [&](Program& p) { gemm(p).a.strides[0] = -576; }},
      {"with a size < 1", [&](Program& p) { gemm(p).a.sizes[0] = -1; }},
      {"with a size < 1", [&](Program& p) { relu(p).outputs[0].sizes[0] = 0; }},
      {"is a ring, but has no elements", [&](Program& p) { relu(p).inputs[0].sizes[0] = 0; }},
      {"M of a and c differ: 0 against 4", [&](Program& p) { gemm(p).a.sizes[0] = 0; }},
      {"K of a and b differ: 0 against 576", [&](Program& p) { gemm(p).a.sizes[1] = 0; }},
      {"2^64 or later", [&](Program& p) { gemm(p).a.strides[0] = INT64_MAX; }},
      {"2^64 or later", [&](Program& p) { gemm(p).a.offset = UINT64_MAX - 7; }},
      {"is not aligned to its f32 elements", [&](Program& p) { gemm(p).a.offset += 2; }},
      {"operand a ends at byte 18692 of section 4, which has 18688",
       [&](Program& p) { gemm(p).a.offset = 18692 - 4 * 576 * 4; }},
      {"operand output 0 is written, but section 0 is an input",
       [&](Program& p) { relu(p).outputs[0].section = kInputSection; }},
      {"operand output 0 is written, but section 3 is constant",
       [&](Program& p) { relu(p).outputs[0].section = kConstSection; }},
      {"makes points overlap", [&](Program& p) { relu(p).outputs[0].strides[1] = 0; }},
      {"makes points overlap", [&](Program& p) { relu(p).outputs[0].strides[3] = 15; }},
      // An output's section may be larger than its tensor, but the caller's buffer is not.
      {"of section 1, which has 160", [](Program& p) { p.ops[kSoftmaxOp].tpc.outputs[0].offset = 4; }},
  });
}

TEST(RecipeVerifier, WhatIsReadMayHaveNoElements) {
  Program p = sampleProgram();
  p.ops[kGemmOp].mme.a.sizes[1] = p.ops[kGemmOp].mme.b.sizes[0] = 0;
  p.ops[kSoftmaxOp].tpc.inputs[0].sizes = {4, 0};
  Status status = verifyProgram(p);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(checkSchedule(p).ok());
  EXPECT_EQ(leastReaderMinor(sampleProgram()), 0);
  EXPECT_EQ(leastReaderMinor(p), 2);
}

TEST(RecipeVerifier, RefusesWrongMmeDescriptors) {
  auto conv = [](Program& p) -> MmeDesc& { return p.ops[kConvOp].mme; };
  auto gemm = [](Program& p) -> MmeDesc& { return p.ops[kGemmOp].mme; };
  expectRefused({
      {"unknown MME kind 3", [&](Program& p) { gemm(p).kind = static_cast<MmeKind>(3); }},
      {"unknown packing 2", [&](Program& p) { gemm(p).packing = static_cast<BPacking>(2); }},
      {"K of a and b differ: 575 against 576", [&](Program& p) { gemm(p).a.sizes[1] = 575; }},
      {"M of a and c differ: 3 against 4", [&](Program& p) { gemm(p).a.sizes[0] = 3; }},
      {"N of b and c differ: 9 against 10", [&](Program& p) { gemm(p).b.sizes[1] = 9; }},
      {"must have one rank >= 2",
       [&](Program& p) {
         gemm(p).a.sizes = {4, 576, 1};
         gemm(p).a.strides = {576, 1, 1};
       }},
      {"multiplies f32 by bf16", [&](Program& p) { gemm(p).b.type = ElementType::kBF16; }},
      {"multiplies i32 by i32", [&](Program& p) { gemm(p).a.type = gemm(p).b.type = ElementType::kI32; }},
      {"into i32", [&](Program& p) { gemm(p).c.type = ElementType::kI32; }},
      {"a gemm has a stride", [&](Program& p) { gemm(p).groups = 0; }},
      {"a gemm has a stride", [&](Program& p) { gemm(p).dilations[1] = 2; }},
      {"3 groups do not divide", [&](Program& p) { conv(p).groups = 3; }},
      {"0 groups do not divide", [&](Program& p) { conv(p).groups = 0; }},
      {"dimension 1 of b against the channels of a group: 8 against 4", [&](Program& p) { conv(p).groups = 2; }},
      {"dimension 0 of b", [&](Program& p) { conv(p).b.sizes[0] = 17; }},
      {"N of a and c differ", [&](Program& p) { conv(p).a.sizes[0] = 3; }},
      {"spatial dimension 0 of c", [&](Program& p) { conv(p).strides[0] = 2; }},
      {"spatial dimension 1 of c", [&](Program& p) { conv(p).dilations[1] = 2; }},
      {"spatial dimension 0 of c", [&](Program& p) { conv(p).padEnd[0] = 0; }},
      {"is not in 1..2^31", [&](Program& p) { conv(p).strides[0] = 0; }},
      {"is not in 1..2^31", [&](Program& p) { conv(p).dilations[0] = INT64_MAX; }},
      {"is negative or beyond 2^31", [&](Program& p) { conv(p).padBegin[0] = -1; }},
      {"is negative or beyond 2^31", [&](Program& p) { conv(p).padEnd[0] = INT64_MIN; }},
      {"must have rank 4",
       [&](Program& p) {
         conv(p).b.sizes.pop_back();
         conv(p).b.strides.pop_back();
       }},
      {"is packed but not in a constant section", [&](Program& p) { conv(p).b.section = kWorkspaceSection; }},
      {"operand b ends at byte", [&](Program& p) { conv(p).b.offset = 25344; }},
      {"has the index space 4x11, but its operand c has the sizes 4x10",
       [](Program& p) { p.ops[kGemmOp].space = {4, 11}; }},
  });
}

TEST(RecipeVerifier, ComputesTheSizesOfTransposedConvolutions) {
  // [4, 8, 6, 6] through a 3x3 window with stride 2 and padding 1: 11, or 12 with one more row.
  auto make = [](int64_t out, int64_t padEnd) {
    Program p = sampleProgram();
    p.sections[kSramSection].bytes = 8 << 20;
    Op& op = p.ops[kConvOp];
    op.mme.kind = MmeKind::kConvTranspose2d;
    op.mme.packingFactor = 1;
    op.mme.b.sizes = {8, 16, 3, 3};
    op.space = {4, 16, out, out};
    op.mme.c = denseOperand(kSramSection, 0, ElementType::kF32, op.space);
    for (int i = 0; i < 2; ++i) {
      op.mme.strides[i] = 2;
      op.mme.padEnd[i] = padEnd;
    }
    for (Command& c : p.queues[kMmeQueue].commands) {
      if (c.op == kConvOp) c.hi = {c.lo[0] + 1, 16, out, out};
    }
    return verifyProgram(p);
  };
  EXPECT_TRUE(make(11, 1).ok()) << make(11, 1).message();
  EXPECT_TRUE(make(12, 1).ok()) << make(12, 1).message();
  EXPECT_TRUE(make(12, 0).ok()) << make(12, 0).message();
  EXPECT_FALSE(make(13, 1).ok());
  EXPECT_FALSE(make(10, 1).ok());
  EXPECT_FALSE(make(14, -2).ok());
}

TEST(RecipeVerifier, RefusesWrongPackings) {
  auto conv = [](Program& p) -> MmeDesc& { return p.ops[kConvOp].mme; };
  expectRefused({
      {"op 0 'conv' is packed by 7, but a row has 6 pixels", [&](Program& p) { conv(p).packingFactor = 7; }},
      {"is packed by 0, which is not in 1..64", [&](Program& p) { conv(p).packingFactor = 0; }},
      {"is packed by 65, which is not in 1..64", [&](Program& p) { conv(p).packingFactor = 65; }},
      {"is packed, but b is not a packed constant", [&](Program& p) { conv(p).packing = BPacking::kStrided; }},
      {"c is not channels last", [&](Program& p) { conv(p).c.strides = {1152, 36, 6, 1}; }},
      {"op 3 'fc' is packed, but b is not a packed constant", [](Program& p) { p.ops[kGemmOp].mme.packingFactor = 4; }},
  });
}

TEST(RecipeVerifier, SlicesOfAPackedTransposedConvolutionStartWhereItsWeightsFit) {
  auto make = [](int64_t cut) {
    Program p = sampleProgram();
    p.sections[kSramSection].bytes = 8 << 20;
    Op& op = p.ops[kConvOp];
    op.mme.kind = MmeKind::kConvTranspose2d;
    op.mme.b.sizes = {8, 16, 3, 3};
    op.space = {4, 16, 12, 12};
    op.mme.c = denseOperand(kSramSection, 0, ElementType::kF32, op.space);
    op.mme.c.strides = {16 * 144, 1, 16 * 12, 16};
    for (int i = 0; i < 2; ++i) op.mme.strides[i] = 2;
    std::vector<Command>& commands = p.queues[kMmeQueue].commands;
    for (Command& c : commands)
      if (c.op == kConvOp) c.hi = {c.lo[0] + 1, 16, 12, 12};
    Command rest = commands[3];
    commands[3].hi[3] = rest.lo[3] = cut;
    commands.insert(commands.begin() + 4, rest);
    return verifyProgram(p);
  };
  EXPECT_TRUE(make(6).ok()) << make(6).message();
  Status odd = make(5);
  ASSERT_FALSE(odd.ok());
  EXPECT_THAT(odd.message(), HasSubstr("starts at column 5, which is no multiple of the stride 2"));
}

TEST(RecipeVerifier, RefusesWrongTpcAndDmaDescriptors) {
  expectRefused({
      {"calls kernel 9, but the program has 2", [](Program& p) { p.ops[kReluOp].tpc.kernel = 9; }},
      {"has 1 inputs and 1 outputs, but its kernel 0 'bias_relu' takes 2 and 1",
       [](Program& p) { p.ops[kReluOp].tpc.inputs.pop_back(); }},
      {"has no output",
       [](Program& p) {
         p.ops[kReluOp].tpc.outputs.clear();
         p.kernels[0].numOutputs = 0;
       }},
      {"but its kernel 1 'softmax' has one of rank 3", [](Program& p) { p.kernels[1].rank = 3; }},
      {"output 0 has the sizes", [](Program& p) { p.ops[kReluOp].tpc.outputs[0].sizes[0] = 3; }},
      {"copies 4x16x6x5xf32", [](Program& p) { p.ops[kCopyOp].dma.src.sizes[3] = 5; }},
      {"copies 4x16x6x6xi32", [](Program& p) { p.ops[kCopyOp].dma.src.type = ElementType::kI32; }},
      {"fills with the pattern 0x100000000", [](Program& p) { p.ops[kFillOp].dma.fillPattern = uint64_t{1} << 32; }},
      {"runs on engine 3", [](Program& p) { p.ops[kFillOp].engine = Engine::kNic; }},
      {"runs on engine 200", [](Program& p) { p.ops[kFillOp].engine = static_cast<Engine>(200); }},
      {"comes from source node 4, but the program has 4", [](Program& p) { p.ops[kConvOp].provenance = {4}; }},
      {"has no DMA for compiled programs", [](Program& p) { p.target = Target::kGaudi3; }},
      {"index space of rank 9", [](Program& p) { p.ops[kFillOp].space.assign(9, 1); }},
      {"with a size < 1", [](Program& p) { p.ops[kFillOp].space = {0}; }},
  });
}

TEST(RecipeVerifier, RefusesWrongCommands) {
  expectRefused({
      {"command 4 of queue 0 (mme) runs op 99", [](Program& p) { at(p, 0, 4).op = 99; }},
      {"runs op 1 'bias+relu' of engine tpc", [](Program& p) { at(p, 0, 4).op = kReluOp; }},
      {"queue 2 is of engine 3", [](Program& p) { p.queues[2].engine = Engine::kNic; }},
      {"queue 2 is of engine 77", [](Program& p) { p.queues[2].engine = static_cast<Engine>(77); }},
      {"names bundle none, but op 0 'conv' is in bundle 0", [](Program& p) { at(p, 0, 0).bundle = kNone; }},
      {"names bundle 0, but op 3 'fc' is in bundle none", [](Program& p) { at(p, 0, 4).bundle = 0; }},
      {"is slice 4 of bundle 0", [](Program& p) { at(p, 0, 0).slice = 4; }},
      {"has a box of rank 1 to 2", [](Program& p) { at(p, 0, 4).lo.pop_back(); }},
      {"which is empty or leaves the index space 4x10", [](Program& p) { at(p, 0, 4).hi[1] = 11; }},
      {"which is empty or leaves", [](Program& p) { at(p, 0, 4).lo[1] = 10; }},
      {"which is empty or leaves", [](Program& p) { at(p, 0, 4).lo[1] = -1; }},
      {"compute point (3, 0) not at all", [](Program& p) { p.queues[1].commands.pop_back(); }},
      {"compute point (2, 0) more than once", [](Program& p) { at(p, 1, 5).lo[0] = 2; }},
      {"the 0 commands of op 4 'state' compute point (0) not at all",
       [](Program& p) { p.queues[2].commands.erase(p.queues[2].commands.begin()); }},
      {"splits dimension 1 of op 5 'softmax', which its kernel needs whole", [](Program& p) { at(p, 1, 4).hi[1] = 5; }},
  });
}

TEST(RecipeVerifier, RefusesWrongBundlesAndHostOrders) {
  expectRefused({
      {"bundle 0 'conv+bias+relu' has 0 ops", [](Program& p) { p.bundles[0].ops.clear(); }},
      {"and 0 slices", [](Program& p) { p.bundles[0].slices = 0; }},
      {"has 4000000000 slices, but only 8 commands", [](Program& p) { p.bundles[0].slices = 4000000000u; }},
      {"holds op 6, but the program has 6", [](Program& p) { p.bundles[0].ops[1] = 6; }},
      {"op 0 'conv' is twice in bundles", [](Program& p) { p.bundles[0].ops[1] = 0; }},
      {"hostOrder[5] is op 0, which is there twice", [](Program& p) { p.hostOrder[5] = 0; }},
      {"hostOrder[5] is op 6", [](Program& p) { p.hostOrder[5] = 6; }},
      {"hostOrder lists 5 of the program's 6", [](Program& p) { p.hostOrder.pop_back(); }},
      {"must stand together", [](Program& p) { std::swap(p.hostOrder[1], p.hostOrder[2]); }},
      {"hostOrder[0] should be op 0",
       [](Program& p) {
         p.hostOrder = {kCopyOp, kGemmOp, kFillOp, kSoftmaxOp, kConvOp, kReluOp};
         p.bundles[0].ops = {kConvOp, kReluOp, kCopyOp};
       }},
  });
}

TEST(RecipeVerifier, AcceptsARingWhoseSlotsAreSmallerThanTheWholeAlongAnyDimension) {
  // Row-major slots of an image each: no stride leads from one image to the next.
  Program p = sampleProgram();
  p.ops[kConvOp].mme.packingFactor = 1;
  Operand& c = p.ops[kConvOp].mme.c;
  ASSERT_EQ(c.ring.dim, 0u);
  for (Operand* o : {&c, &p.ops[kReluOp].tpc.inputs[0]}) o->strides = {1, 36, 6, 1};
  Status status = verifyProgram(p);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(RecipeVerifier, RefusesWrongRings) {
  auto rings = [](Program& p) { return std::vector<Operand*>{&p.ops[kConvOp].mme.c, &p.ops[kReluOp].tpc.inputs[0]}; };
  expectRefused({
      {"has a ring without slots", [](Program& p) { p.ops[kConvOp].mme.c.ring.slots = 0; }},
      {"along dimension 4 of 4", [](Program& p) { p.ops[kConvOp].mme.c.ring.dim = 4; }},
      {"slots of 0 bytes", [](Program& p) { p.ops[kConvOp].mme.c.ring.slotBytes = 0; }},
      {"slots of 2303 bytes, which do not hold whole elements",
       [](Program& p) { p.ops[kConvOp].mme.c.ring.slotBytes = 2303; }},
      {"operand c ends at byte 6912 of section 5", [](Program& p) { p.ops[kConvOp].mme.c.ring.slots = 3; }},
      {"2^64 or later",
       [](Program& p) {
         p.ops[kConvOp].mme.c.ring.slots = UINT32_MAX;
         p.ops[kConvOp].mme.c.ring.slotBytes = UINT64_MAX - 3;
       }},
      {"see 2 slots of 2304 and 1 of 2304 bytes", [](Program& p) { p.ops[kReluOp].tpc.inputs[0].ring.slots = 1; }},
      {"puts slices of 2304 bytes into the ring",
       [&](Program& p) {
         for (Operand* o : rings(p)) o->ring.slotBytes = 2300;
       }},
      {"is a ring, but section 4 is not SRAM", [](Program& p) { p.ops[kConvOp].mme.c.section = kWorkspaceSection; }},
      {"follow dimensions 0 and 2",
       [](Program& p) {
         Operand& input = p.ops[kReluOp].tpc.inputs[0];
         input.ring.dim = 2;
         input.strides = {0, 1, 96, 16};
       }},
      {"but is in no bundle",
       [&](Program& p) {
         p.bundles.clear();
         for (Queue& queue : p.queues) {
           for (Command& c : queue.commands) c.bundle = kNone;
         }
       }},
      {"in slice 1 use 1 to 2 and 0 to 1 of dimension 0",
       [](Program& p) { std::swap(at(p, 1, 0).slice, at(p, 1, 1).slice); }},
      {"operand a is a ring along dimension 1, which is not a dimension of the op's index space",
       [](Program& p) {
         Operand& a = p.ops[kGemmOp].mme.a;
         a.section = kSramSection;
         a.offset = 0;
         a.ring = {1, 1, 16};
       }},
  });
}

TEST(RecipeVerifier, RefusesWrongSignalsAndDeadlocks) {
  expectRefused({
      {"raises signal 4, but the program has 4", [](Program& p) { at(p, 0, 0).signal = 4; }},
      {"waits for signal 4, but the program has 4", [](Program& p) { at(p, 1, 0).waits[0].signal = 4; }},
      {"to reach 5, but it is raised only 4 times", [](Program& p) { at(p, 1, 0).waits[0].value = 5; }},
      {"the program has 4294967295 signals", [](Program& p) { p.numSignals = UINT32_MAX; }},
      {"the queues deadlock: command 0 of queue 0 (mme), of op 0 'conv', waits for signal 1 to "
       "reach 1, which stops at 0",
       [](Program& p) { at(p, 0, 0).waits = {{1, 1}}; }},
      {"the queues deadlock", [](Program& p) { at(p, 0, 2).waits[0].value = 3; }},
      {"the queues deadlock", [](Program& p) { std::swap(p.queues[0].commands[0], p.queues[0].commands[4]); }},
  });
}

TEST(RecipeVerifier, AcceptsWhatIsUnusualButRight) {
  // An input that nobody reads, an I/O tensor without elements, a rank-0 op, spare signals.
  Program p = sampleProgram();
  p.inputs.push_back({"unused", {ElementType::kI64, {0, 3}}});
  p.sections.push_back({SectionKind::kInput, 1, 0});
  p.numSignals += 3;
  Op scalar;
  scalar.engine = Engine::kDma;
  scalar.name = "scalar";
  scalar.dma.fill = true;
  scalar.dma.dst = denseOperand(kPersistentSection, 8, ElementType::kF64, {});
  p.hostOrder.push_back(static_cast<uint32_t>(p.ops.size()));
  Command command;
  command.op = static_cast<uint32_t>(p.ops.size());
  p.ops.push_back(scalar);
  p.queues[kDmaQueue].commands.push_back(command);
  Status status = verifyProgram(p);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(RecipeVerifier, PackedWeightsOfAGemmAreSharedByBatchesThroughASizeOfOne) {
  auto make = [](int64_t batch, int64_t weightBatch) {
    Program p = sampleProgram();
    p.sections[kWorkspaceSection].bytes = 1 << 20;
    Op& op = p.ops[kGemmOp];
    op.space = {batch, 4, 10};
    op.mme.packing = BPacking::kBlocked;
    op.mme.a = denseOperand(kWorkspaceSection, 0, ElementType::kF32, {batch, 4, 8});
    op.mme.b = denseOperand(kConstSection, 0, ElementType::kF32, {weightBatch, 8, 10});
    op.mme.c = denseOperand(kWorkspaceSection, 65536, ElementType::kF32, op.space);
    for (Command& c : p.queues[kMmeQueue].commands) {
      if (c.op != kGemmOp) continue;
      c.lo = {0, 0, 0};
      c.hi = op.space;
    }
    return verifyProgram(p);
  };
  EXPECT_TRUE(make(5, 1).ok()) << make(5, 1).message();
  EXPECT_TRUE(make(5, 5).ok()) << make(5, 5).message();
  EXPECT_THAT(make(5, 4).message(), HasSubstr("batch dimension 0 of b and c differ"));
  // 100 panels of 8 x 64 f32 do not fit into the constant.
  EXPECT_THAT(make(100, 100).message(), HasSubstr("operand b ends at byte 204800"));
}

}  // namespace
}  // namespace hpu::recipe
