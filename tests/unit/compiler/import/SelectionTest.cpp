// SPDX-License-Identifier: Apache-2.0
// How the places of elements that hold are found: by products or by pairs, and once for each mask.
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "tests/unit/compiler/import/ImporterFixture.h"

namespace hpu::importer {
namespace {

class Selection : public Importer {
 protected:
  /// Products and scatters of NonZero, twice of one mask of these sizes, when equal ops are one.
  std::pair<int, int> searches(const std::vector<BuilderDim>& shape, const ImportOptions& options = {}) {
    OnnxBuilder builder;
    builder.input("x", ElementType::kF32, shape)
        .floats("zero", {}, {0})
        .node("Greater", "mask", {"x", "zero"}, {"m"})
        .node("NonZero", "first", {"m"}, {"a"})
        .node("NonZero", "second", {"m"}, {"b"})
        .output("a")
        .output("b");
    auto module = import(builder, options);
    EXPECT_TRUE(module.ok()) << module.status().message();
    if (!module.ok()) return {-1, -1};
    mlir::PassManager manager(context_.get());
    manager.addPass(mlir::createCSEPass());
    EXPECT_TRUE(mlir::succeeded(manager.run(module->get())));
    std::pair<int, int> found;
    for (mlir::Operation& op : main(*module).getBody().front()) {
      found.first += op.getName().getStringRef() == "hpu.matmul";
      found.second += op.getName().getStringRef() == "hpu.scatter_elements";
    }
    return found;
  }
  static ImportOptions bounds(int64_t most) {
    ImportOptions options;
    options.bounds = {{"n", {1, most}}};
    return options;
  }
};

TEST_F(Selection, OfOneMaskIsMadeOnce) {
  EXPECT_EQ(searches({int64_t{1000}}), std::pair(1, 1));
  EXPECT_EQ(searches({"n"}), std::pair(2, 1));
}

TEST_F(Selection, FewElementsAreCountedByPairs) {
  EXPECT_EQ(searches({int64_t{256}}).first, 0);
  EXPECT_EQ(searches({int64_t{257}}).first, 1);
  EXPECT_EQ(searches({int64_t{64 * 256}}).first, 1);
  EXPECT_EQ(searches({int64_t{64 * 256 + 1}}).first, 2);
}

TEST_F(Selection, BoundsSayHowManyElementsThereAreAtMost) {
  EXPECT_EQ(searches({"n"}, bounds(256)).first, 0);
  EXPECT_EQ(searches({"n"}, bounds(64 * 256)).first, 1);
  EXPECT_EQ(searches({"n"}, bounds(64 * 256 + 1)).first, 2);
  EXPECT_EQ(searches({"n", int64_t{4}}, bounds(64)).first, 0);
  EXPECT_EQ(searches({"n", int64_t{4}}, bounds(65)).first, 1);
}

}  // namespace
}  // namespace hpu::importer
