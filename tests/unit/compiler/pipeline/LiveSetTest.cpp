// SPDX-License-Identifier: Apache-2.0
// The largest live set of random models, against the definition written out: for each op, every value that some op up
// to it has computed and some op from it on reads.
#include "compiler/pipeline/LiveSet.h"

#include <gtest/gtest.h>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/layout/Views.h"
#include "mlir/Parser/Parser.h"
#include "tests/unit/compiler/fuse/RandomGraph.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

bool isView(Operation* op) {
  auto hpuOp = dyn_cast_or_null<ir::HpuOp>(op);
  if (!hpuOp || !hpuOp.isView()) return false;
  if (!isa<ir::ReshapeOp>(op)) return true;
  // Repeated elements that strides cannot show among the others are copies.
  std::optional<ir::StridedView> in = ir::resolveView(op->getOperand(0));
  if (!in || ir::resolveView(op->getResult(0))) return true;
  bool repeated = false;
  for (size_t d = 0; d < in->sizes.size(); ++d) repeated |= in->sizes[d] > 1 && in->strides[d] == 0;
  return !repeated;
}

/// Every value that `value` is a view of, itself first.
SmallVector<Value> chain(Value value) {
  SmallVector<Value> values = {value};
  while (isView(values.back().getDefiningOp())) values.push_back(values.back().getDefiningOp()->getOperand(0));
  return values;
}

int64_t byDefinition(func::FuncOp function) {
  SmallVector<Operation*> ops;
  for (Operation& op : function.getBody().front())
    if (!isView(&op)) ops.push_back(&op);
  int64_t most = 0;
  for (size_t now = 0; now < ops.size(); ++now) {
    int64_t alive = 0;
    for (size_t def = 0; def <= now; ++def) {
      if (isa<ir::ConstantOp>(ops[def])) continue;
      for (Value value : ops[def]->getResults()) {
        auto type = cast<RankedTensorType>(value.getType());
        bool read = def == now, output = false;
        for (size_t later = now; later < ops.size(); ++later)
          for (Value operand : ops[later]->getOperands()) read |= chain(operand).back() == value;
        for (Value returned : ops.back()->getOperands())
          output |= chain(returned).back() == value &&
                    cast<RankedTensorType>(returned.getType()).getNumElements() == type.getNumElements();
        if (read && !output) alive += (type.getNumElements() * 4 + 255) / 256 * 256;
      }
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(LiveSet, IsWhatTheDefinitionSaysOnRandomModels) {
  int64_t total = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MLIRContext context(MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed, 3 + seed % 40);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    ASSERT_EQ(largestLiveSetBytes(function), byDefinition(function));
    total += byDefinition(function);
  }
  EXPECT_GT(total, 100000);
}

TEST(LiveSet, CountsOperandsAndResultTogetherButNoInputConstantOrOutput) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::HpuDialect, func::FuncDialect>();
  // At exp: %0 (through the view) and %2 are alive beside %1's successor; %3 is the output.
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<256xf32>) -> tensor<16x16xf32> {
      %0 = hpu.relu %x : (tensor<256xf32>) -> tensor<256xf32>
      %1 = hpu.reshape %0 {shape = array<i64: 16, 16>} : (tensor<256xf32>) -> tensor<16x16xf32>
      %2 = hpu.exp %1 : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %3 = hpu.add %2, %1 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      return %3 : tensor<16x16xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  EXPECT_EQ(largestLiveSetBytes(module->lookupSymbol<func::FuncOp>("main")), 2048);
}

TEST(LiveSet, CountsRepeatedElementsThatNoStridesCanShow) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::HpuDialect, func::FuncDialect>();
  // Four heads of keys for eight of queries: [4, 1, 64] repeated twice each, as 8 heads.
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<4x1x64xf32>) -> tensor<8x64xf32> {
      %0 = hpu.relu %x : (tensor<4x1x64xf32>) -> tensor<4x1x64xf32>
      %1 = hpu.expand %0 {shape = array<i64: 4, 2, 64>} : (tensor<4x1x64xf32>) -> tensor<4x2x64xf32>
      %2 = hpu.reshape %1 {shape = array<i64: 8, 64>} : (tensor<4x2x64xf32>) -> tensor<8x64xf32>
      %3 = hpu.exp %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
      return %3 : tensor<8x64xf32>
    })",
                                            &context);
  ASSERT_TRUE(module);
  EXPECT_EQ(largestLiveSetBytes(module->lookupSymbol<func::FuncOp>("main")), 1024 + 2048);
}

}  // namespace
}  // namespace hpu::pipeline
