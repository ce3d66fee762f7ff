// SPDX-License-Identifier: Apache-2.0
// One kernel for every size, op by op.
#include <memory>

#include "SymbolicHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, I64 = ElementType::kI64;
constexpr ElementType I32 = ElementType::kI32, I8 = ElementType::kI8;

/// With one free dimension, "S", of 101 elements at compile time.
SymCase oneSymbol(std::string body, std::vector<SymTensor> inputs, std::vector<SymTensor> outputs, double tolerance = 0,
                  std::string result = "$out0") {
  return {body + "\nhpu.yield %r : " + result,
          std::move(inputs),
          std::move(outputs),
          {{"S", 101}},
          manySizes(),
          {},
          tolerance};
}

TEST(Symbolic, ElementwiseAlongTheFastestDimension) {
  for (ElementType type : {F32, BF16})
    checkSymbolic(oneSymbol("%r = hpu.gelu %0 : ($0) -> $out0", {{type, {"3", "S"}}}, {{type, {"3", "S"}}}));
}

TEST(Symbolic, ElementwiseOfSlowerDimensions) {
  checkSymbolic(
      oneSymbol("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {{F32, {"S", "24"}}, {F32, {"24"}}}, {{F32, {"S", "24"}}}));
  checkSymbolic(oneSymbol("%r = hpu.mul %0, %1 : ($0, $1) -> $out0", {{BF16, {"2", "S", "5"}}, {BF16, {"2", "1", "5"}}},
                          {{BF16, {"2", "S", "5"}}}));
}

TEST(Symbolic, BroadcastsOverAFreeDimension) {
  checkSymbolic(oneSymbol("%r = hpu.sub %0, %1 : ($0, $1) -> $out0", {{F32, {"3", "S"}}, {F32, {"3", "1"}}},
                          {{F32, {"3", "S"}}}));
  checkSymbolic(oneSymbol("%r = hpu.sub %0, %1 : ($0, $1) -> $out0", {{F32, {"4", "1", "S"}}, {F32, {"S", "1"}}},
                          {{F32, {"4", "S", "S"}}}));
}

TEST(Symbolic, StridesThatDependOnASize) {
  // A transposed operand, rows with gaps, and elements apart from each other.
  checkSymbolic(oneSymbol("%r = hpu.exp %0 : ($0) -> $out0", {{F32, {"S", "9"}, {1, 0}}}, {{F32, {"S", "9"}}}));
  checkSymbolic(oneSymbol("%r = hpu.neg %0 : ($0) -> $out0", {{BF16, {"5", "S"}, {1, 0}, 3}}, {{BF16, {"5", "S"}}}));
  checkSymbolic(oneSymbol("%r = hpu.neg %0 : ($0) -> $out0", {{I8, {"6", "S"}}}, {{I8, {"6", "S"}, {1, 0}}}));
  checkSymbolic(oneSymbol("%r = hpu.transpose %0 {perm = array<i64: 2, 0, 1>} : ($0) -> $out0",
                          {{F32, {"3", "S", "5"}}}, {{F32, {"5", "3", "S"}}}));
}

TEST(Symbolic, RowsOfAFreeLength) {
  for (const char* op : {"softmax", "log_softmax"})
    checkSymbolic(oneSymbol(std::string("%r = hpu.") + op + " %0 {axis = 1 : i64} : ($0) -> $out0", {{F32, {"3", "S"}}},
                            {{F32, {"3", "S"}}}, 2e-6));
  // Along a dim that is not the fastest one.
  checkSymbolic(oneSymbol("%r = hpu.softmax %0 {axis = 0 : i64} : ($0) -> $out0", {{F32, {"S", "20"}}},
                          {{F32, {"S", "20"}}}, 2e-6));
}

TEST(Symbolic, RowsThatStayInLocalMemory) {
  for (int64_t most : {512, 1 << 20}) {
    SymCase test = oneSymbol("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {{F32, {"3", "S"}}},
                             {{F32, {"3", "S"}}}, 2e-6);
    test.bounds = {{"S", {0, most}}};
    test.sizes.push_back({{"S", 512}});
    Kernel kernel = symbolicKernel(test);
    ASSERT_TRUE(kernel.status().ok()) << kernel.status().toString();
    // One row of the longest, and a vector; nothing where it does not fit.
    EXPECT_EQ(kernel.info().scratchBytes, most == 512 ? 4 * (512 + 64) : 0);
    checkSymbolic(test);
  }
  // Without a bound a row can be of any length.
  EXPECT_EQ(symbolicKernel(oneSymbol("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {{F32, {"3", "S"}}},
                                     {{F32, {"3", "S"}}}))
                .info()
                .scratchBytes,
            0u);
}

TEST(Symbolic, RowsOfTwoFreeDimensions) {
  SymCase test = oneSymbol("%r = hpu.reduce_sum %0 {axes = array<i64: 1, 2>, keepdims = true} : ($0) -> $out0",
                           {{F32, {"3", "S", "T"}}}, {{F32, {"3", "1", "1"}}}, 1e-5);
  test.representatives = {{"S", 101}, {"T", 37}};
  test.sizes.clear();
  for (int64_t s : {0, 1, 5, 64})
    for (int64_t t : {0, 1, 17, 65}) test.sizes.push_back({{"S", s}, {"T", t}});
  checkSymbolic(test);
  test.inputs[0].order = {2, 0, 1};
  checkSymbolic(test);
}

TEST(Symbolic, FixedRowsOfAFreeNumber) {
  checkSymbolic(
      oneSymbol("%r = hpu.layer_norm %0, %1, %2 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : "
                "($0, $1, $2) -> $out0",
                {{F32, {"S", "48"}}, {F32, {"48"}}, {F32, {"48"}}}, {{F32, {"S", "48"}}}, 2e-6));
}

TEST(Symbolic, NormsOverAFreeDimension) {
  checkSymbolic(
      oneSymbol("%r = hpu.layer_norm %0, %1, %2 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : "
                "($0, $1, $2) -> $out0",
                {{F32, {"4", "S"}}, {F32, {"S"}}, {F32, {"S"}}}, {{F32, {"4", "S"}}}, 1e-5));
  checkSymbolic(oneSymbol("%r = hpu.instance_norm %0, %1, %2 {epsilon = 1.0e-5 : f64} : ($0, $1, $2) -> $out0",
                          {{F32, {"2", "3", "S", "5"}}, {F32, {"3"}}, {F32, {"3"}}}, {{F32, {"2", "3", "S", "5"}}},
                          1e-5));
}

TEST(Symbolic, Reductions) {
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    SCOPED_TRACE(op);
    for (bool keep : {true, false}) {
      std::vector<std::string> sizes =
          keep ? std::vector<std::string>{"3", "1", "6"} : std::vector<std::string>{"3", "6"};
      const std::string text = std::string("%r = hpu.") + op +
                               " %0 {axes = array<i64: 1>, keepdims = " + (keep ? "true" : "false") +
                               "} : ($0) -> $out0";
      // An empty row has a sum of 0, a product of 1 and an infinite maximum.
      checkSymbolic(oneSymbol(text, {{F32, {"3", "S", "6"}}}, {{F32, sizes}}, 2e-5));
    }
    checkSymbolic(
        oneSymbol(std::string("%r = hpu.") + op + " %0 {axes = array<i64: 1>, keepdims = true} : ($0) -> $out0",
                  {{F32, {"S", "40"}}}, {{F32, {"S", "1"}}}, 2e-5));
  }
  SymCase integers = oneSymbol("%r = hpu.reduce_mean %0 {axes = array<i64: 1>, keepdims = false} : ($0) -> $out0",
                               {{I32, {"3", "S"}, {}, 0, -1000, 1000}}, {{I32, {"3"}}});
  checkSymbolic(integers);
}

TEST(Symbolic, PositionsOfTheLargest) {
  checkSymbolic(oneSymbol("%r = hpu.arg_max %0 {axis = 1 : i64, keepdims = false} : ($0) -> $out0", {{F32, {"4", "S"}}},
                          {{I64, {"4"}}}));
  checkSymbolic(oneSymbol("%r = hpu.arg_max %0 {axis = 0 : i64, keepdims = true} : ($0) -> $out0", {{F32, {"S", "9"}}},
                          {{I64, {"1", "9"}}}));
}

TEST(Symbolic, ReshapesOfComputedValues) {
  auto checkSplit = [](const SymTensor& from, const SymTensor& to, const char* shape) {
    SymCase test = oneSymbol(std::string("%a = hpu.neg %0 : ($0) -> $0\n%r = hpu.reshape %a {shape = array<i64: ") +
                                 shape + ">} : ($0) -> $out0",
                             {from}, {to});
    test.sizes.erase(test.sizes.begin());  // Static kernels of no elements are refused.
    checkSymbolic(test);
  };
  // A split of a free dimension, and of the one beside it.
  checkSplit({F32, {"S", "20"}}, {F32, {"S", "4", "5"}}, "`S`, 4, 5");
  checkSplit({F32, {"6*S"}}, {F32, {"2", "S", "3"}}, "2, `S`, 3");
  checkSplit({BF16, {"S", "8"}}, {BF16, {"1", "S", "1", "8"}}, "1, `S`, 1, 8");
}

TEST(Symbolic, SlicesThatStartAnywhere) {
  checkSymbolic(
      oneSymbol("%r = hpu.slice %0 {starts = array<i64: 1, 0>, sizes = array<i64: 2, `S`>, "
                "steps = array<i64: 1, 2>} : ($0) -> $out0",
                {{F32, {"4", "2*S + 1"}}}, {{F32, {"2", "S"}}}));
  checkSymbolic(
      oneSymbol("%r = hpu.slice %0 {starts = array<i64: `S + 2`, 3>, sizes = array<i64: `S`, 5>, "
                "steps = array<i64: 1, 1>} : ($0) -> $out0",
                {{F32, {"2*S + 2", "11"}}}, {{F32, {"S", "5"}}}));
}

TEST(Symbolic, Concatenations) {
  // Free and fixed parts along the fastest dimension and along another one.
  checkSymbolic(
      oneSymbol("%a = hpu.relu %1 : ($1) -> $1\n%r = hpu.concat %0, %a, %0 {axis = 1 : i64} : "
                "($0, $1, $0) -> $out0",
                {{F32, {"3", "S"}}, {F32, {"3", "5"}}}, {{F32, {"3", "2*S + 5"}}}));
  checkSymbolic(oneSymbol("%r = hpu.concat %0, %1 {axis = 0 : i64} : ($0, $1) -> $out0",
                          {{BF16, {"S", "6"}}, {BF16, {"1", "6"}}}, {{BF16, {"S + 1", "6"}}}));
  // Along a fixed one, of free rows.
  checkSymbolic(oneSymbol("%r = hpu.concat %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0",
                          {{F32, {"S", "6"}}, {F32, {"S", "3"}}}, {{F32, {"S", "9"}}}));
}

TEST(Symbolic, Pads) {
  checkSymbolic(
      oneSymbol("%r = hpu.pad %0 {low = array<i64: 1, 2>, high = array<i64: 0, 3>, value = 1.5 : f64} : "
                "($0) -> $out0",
                {{F32, {"3", "S"}}}, {{F32, {"4", "S + 5"}}}));
  checkSymbolic(
      oneSymbol("%r = hpu.pad %0 {low = array<i64: 0, 0>, high = array<i64: `S + 1`, 0>, value = 1.5 : f64} : "
                "($0) -> $out0",
                {{F32, {"7", "5"}}}, {{F32, {"S + 8", "5"}}}));
}

TEST(Symbolic, Gathers) {
  // Rows of a free table.
  SymCase rows = oneSymbol("%r = hpu.gather %0, %1 {axis = 0 : i64} : ($0, $1) -> $out0",
                           {{F32, {"S + 1", "6"}}, {I64, {"9"}, {}, 0, -120, 120}}, {{F32, {"9", "6"}}});
  checkSymbolic(rows);
  // As many as there are indices, and elements along the lanes.
  checkSymbolic(oneSymbol("%r = hpu.gather %0, %1 {axis = 0 : i64} : ($0, $1) -> $out0",
                          {{F32, {"40", "6"}}, {I64, {"S"}, {}, 0, 0, 40}}, {{F32, {"S", "6"}}}));
  checkSymbolic(oneSymbol("%r = hpu.gather %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0",
                          {{F32, {"4", "S + 3"}}, {I32, {"70"}, {}, 0, -40, 40}}, {{F32, {"4", "70"}}}));
  checkSymbolic(oneSymbol("%r = hpu.gather_elements %0, %1 {axis = 1 : i64} : ($0, $1) -> $out0",
                          {{F32, {"4", "S"}}, {I64, {"4", "S"}, {}, 0, 0, 300}}, {{F32, {"4", "S"}}}));
}

TEST(Symbolic, Scatters) {
  // A cache of a free length, rows of a free number, rows of a free length.
  checkSymbolic(oneSymbol("%r = hpu.scatter_nd %0, %1, %2 : ($0, $1, $2) -> $out0",
                          {{F32, {"S + 1", "40"}}, {I64, {"5", "1"}, {}, 0, -30, 30}, {F32, {"5", "40"}}},
                          {{F32, {"S + 1", "40"}}}));
  checkSymbolic(oneSymbol("%r = hpu.scatter_nd %0, %1, %2 : ($0, $1, $2) -> $out0",
                          {{F32, {"9", "S"}}, {I64, {"S", "1"}, {}, 0, -9, 8}, {F32, {"S", "S"}}},
                          {{F32, {"9", "S"}}}));
  checkSymbolic(
      oneSymbol("%r = hpu.scatter_elements %0, %1, %2 {axis = 1 : i64, advance = true, wraps = true} : ($0, "
                "$1, $2) -> $out0",
                {{F32, {"2", "S + 3", "40"}}, {I64, {"2", "1", "1"}, {}, 0, 0, 90}, {F32, {"2", "3", "40"}}},
                {{F32, {"2", "S + 3", "40"}}}));
  checkSymbolic(oneSymbol("%r = hpu.scatter_elements %0, %1, %2 {axis = 0 : i64} : ($0, $1, $2) -> $out0",
                          {{F32, {"6", "S + 2"}}, {I32, {"4", "S"}, {}, 0, -7, 6}, {F32, {"4", "S"}}},
                          {{F32, {"6", "S + 2"}}}));
}

TEST(Symbolic, SomeOfTheLargest) {
  checkSymbolic(oneSymbol("%r = hpu.top_indices %0 {axis = 1 : i64, sizes = array<i64: 5>} : ($0) -> $out0",
                          {{F32, {"4", "S + 5"}}}, {{I64, {"4", "5"}}}));
  checkSymbolic(
      oneSymbol("%r = hpu.top_indices %0 {axis = 1 : i64, sizes = array<i64: `S`>, largest = false} : ($0) -> "
                "$out0",
                {{F32, {"3", "S + 2"}}}, {{I64, {"3", "S"}}}));
  checkSymbolic(oneSymbol("%r = hpu.top_indices %0 {axis = 0 : i64, sizes = array<i64: 3>} : ($0) -> $out0",
                          {{F32, {"7", "S"}}}, {{I64, {"3", "S"}}}));
}

TEST(Symbolic, Ranges) {
  checkSymbolic(
      oneSymbol("%r = hpu.range {starts = array<i64: 3>, sizes = array<i64: `S`>, steps = array<i64: -2>, "
                "element = i64} : () -> $out0",
                {}, {{I64, {"S"}}}));
  checkSymbolic(
      oneSymbol("%r = hpu.range {starts = array<i64: `S + 2`>, sizes = array<i64: `S`>, "
                "steps = array<i64: 5>, element = i32} : () -> $out0",
                {}, {{I32, {"S"}}}));
  // A mask of positions.
  checkSymbolic(
      oneSymbol("%a = hpu.range {starts = array<i64: 0>, sizes = array<i64: `S`>, steps = array<i64: 1>, "
                "element = i64} : () -> tensor<`S`xi64>\n"
                "%r = hpu.less_equal %a, %0 : (tensor<`S`xi64>, $0) -> $out0",
                {{I64, {"7", "1"}, {}, 0, 0, 60}}, {{ElementType::kBool, {"7", "S"}}}));
}

/// Images of a free height and width.
SymCase images(std::string body, std::vector<SymTensor> inputs, SymTensor output) {
  SymCase test = oneSymbol(std::move(body), std::move(inputs), {std::move(output)}, 2e-6);
  test.representatives = {{"H", 29}, {"W", 43}};
  test.sizes.clear();
  for (int64_t h : {3, 4, 9, 17})
    for (int64_t w : {3, 5, 8, 32, 64, 67}) test.sizes.push_back({{"H", h}, {"W", w}});
  return test;
}

TEST(Symbolic, PoolingOfWindowsThatAreWhole) {
  for (const Index& order : {Index{}, Index{0, 2, 3, 1}})
    for (const char* op : {"max_pool2d", "avg_pool2d"})
      checkSymbolic(images(std::string("%r = hpu.") + op +
                               " %0 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, "
                               "pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : ($0) -> $out0",
                           {{F32, {"2", "5", "H", "W"}, order}},
                           {F32, {"2", "5", "floor((H - 3) / 2) + 1", "W - 1"}, order}));
}

TEST(Symbolic, PoolingAtTheEdges) {
  for (const Index& order : {Index{}, Index{0, 2, 3, 1}})
    for (const char* op : {"max_pool2d", "avg_pool2d"})
      for (const char* counted : {"false", "true"}) {
        const bool isMax = op[0] == 'm';
        if (isMax && counted[0] == 't') continue;
        SymCase test =
            images(std::string("%r = hpu.") + op +
                       " %0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 1>, "
                       "pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>" +
                       (isMax ? "" : std::string(", count_include_pad = ") + counted) + "} : ($0) -> $out0",
                   {{F32, {"2", "5", "H", "W"}, order}}, {F32, {"2", "5", "floor((H - 1) / 2) + 1", "W"}, order});
        test.costTolerance = 0.06;  // Fewer taps at the edges.
        checkSymbolic(test);
      }
}

TEST(Symbolic, PoolingWithDilationsAndRoundedUp) {
  SymCase test = images(
      "%r = hpu.max_pool2d %0 {kernel = array<i64: 2, 3>, strides = array<i64: 1, 2>, "
      "pads = array<i64: 1, 2, 0, 2>, dilations = array<i64: 2, 2>} : ($0) -> $out0",
      {{F32, {"1", "5", "H", "W"}, {0, 2, 3, 1}}}, {F32, {"1", "5", "H - 1", "floor((W - 1) / 2) + 1"}, {0, 2, 3, 1}});
  test.costTolerance = 0.06;
  checkSymbolic(test);
}

TEST(Symbolic, DepthwiseConvolutions) {
  for (ElementType type : {F32, BF16})
    for (const Index& order : {Index{}, Index{0, 2, 3, 1}}) {
      SymCase test = images(
          "%r = hpu.conv2d %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
          "dilations = array<i64: 1, 1>, groups = 40 : i64} : ($0, $1) -> $out0",
          {{type, {"2", "40", "H", "W"}, order}, {type, {"40", "1", "3", "3"}}}, {type, {"2", "40", "H", "W"}, order});
      if (type == BF16) test.tolerance = 1e-2;
      test.costTolerance = 0.06;
      checkSymbolic(test);
    }
}

TEST(Symbolic, Resizes) {
  struct Scaled {
    const char *sizes, *height, *width, *scales;
  };
  const Scaled scaled[] = {{"`2*H`, `3*W`", "2*H", "3*W", "2.0, 3.0"},
                           {"`floor(H / 2)`, `W`", "floor(H / 2)", "W", "0.5, 1.0"}};
  for (const Scaled& to : scaled)
    for (int coordinates = 0; coordinates < 5; ++coordinates)
      for (int mode = 0; mode < 2; ++mode)
        for (int nearest = 0; nearest < (mode == 0 ? 4 : 1); ++nearest) {
          const Index order = (coordinates + nearest) % 2 ? Index{} : Index{0, 2, 3, 1};
          SymCase test = images("%r = hpu.resize %0 {coordinates = " + std::to_string(coordinates) + " : i32, mode = " +
                                    std::to_string(mode) + " : i32, nearest = " + std::to_string(nearest) +
                                    " : i32, scales = array<f64: " + to.scales + ">, sizes = array<i64: " + to.sizes +
                                    ">} : ($0) -> $out0",
                                {{F32, {"1", "3", "H", "W"}, order}}, {F32, {"1", "3", to.height, to.width}, order});
          test.sizes = {{{"H", 3}, {"W", 5}}, {{"H", 9}, {"W", 32}}, {{"H", 16}, {"W", 67}}, {{"H", 5}, {"W", 403}}};
          test.tolerance = 0;
          // Static kernels see that equal sizes are copied where f32 products of any size may be rounded.
          const bool mayRound = coordinates == 2 && std::string(to.width) == "W";
          if (mayRound) test.costTolerance = 1e9;
          checkSymbolic(test);
          if (HasFailure()) return;
        }
}

TEST(Symbolic, RepresentativesThatFillTheirVectorsOrHardlyAny) {
  // Static code for these has no tail, or no loop over whole vectors; code for any size has both.
  for (int64_t representative : {128, 64, 5}) {
    SymCase test = oneSymbol("%r = hpu.softmax %0 {axis = 1 : i64} : ($0) -> $out0", {{F32, {"3", "S"}}},
                             {{F32, {"3", "S"}}}, 2e-6);
    test.representatives = {{"S", representative}};
    checkSymbolic(test);
    test = oneSymbol("%r = hpu.exp %0 : ($0) -> $out0", {{F32, {"3", "S"}, {}, 1}}, {{F32, {"3", "S"}}});
    test.representatives = {{"S", representative}};
    checkSymbolic(test);
  }
  SymCase windows = images(
      "%r = hpu.conv2d %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, "
      "dilations = array<i64: 1, 1>, groups = 40 : i64} : ($0, $1) -> $out0",
      {{F32, {"2", "40", "H", "W"}, {0, 2, 3, 1}}, {F32, {"40", "1", "3", "3"}}},
      {F32, {"2", "40", "H", "W"}, {0, 2, 3, 1}});
  windows.representatives = {{"H", 9}, {"W", 5}};
  windows.costTolerance = 0.5;  // Most windows lie at an edge.
  checkSymbolic(windows);
}

TEST(Symbolic, SizesThatAreNotKnownToAgreeAreRefused) {
  SymCase test =
      oneSymbol("%r = hpu.add %0, %1 : ($0, $1) -> $out0", {{F32, {"3", "S"}}, {F32, {"3", "T"}}}, {{F32, {"3", "S"}}});
  test.representatives = {{"S", 101}, {"T", 101}};
  Kernel kernel = symbolicKernel(test);
  // The body's text says S for both; the view is another number.
  EXPECT_FALSE(kernel.status().ok());
  EXPECT_NE(kernel.status().message().find("T"), std::string::npos) << kernel.status().toString();
}

TEST(Symbolic, EqualRequestsShareCodeAndOtherExpressionsDoNot) {
  // All of them are the same at the representatives.
  std::vector<std::unique_ptr<ParsedCluster>> clusters;
  std::vector<KernelRequest> requests;
  for (const char* size : {"S", "T", "101", "S", "2*T - S", "T"}) {
    SymCase test = oneSymbol("%r = hpu.neg %0 : ($0) -> $out0", {{F32, {"3", size}}}, {{F32, {"3", size}}});
    test.representatives = {{"S", 101}, {"T", 101}};
    clusters.push_back(std::make_unique<ParsedCluster>(bodyAt(test, test.representatives),
                                                       operandsAt(test.inputs, test.representatives),
                                                       operandsAt(test.outputs, test.representatives)));
    requests.push_back(clusters.back()->request(size));
    expressionsOf(test)(requests.back());
  }
  StatusOr<KernelSet> set = compileKernels(requests, {});
  ASSERT_TRUE(set.ok()) << set.status().toString();
  EXPECT_EQ(set->distinct, 4u);
  EXPECT_EQ(set->images[0].entries[0], set->images[0].entries[3]);
  EXPECT_NE(set->images[0].entries[0], set->images[0].entries[1]);
}

TEST(Symbolic, CodeReadsTheNumbersThatAreNoConstants) {
  auto facts = [](const char* size) {
    SymCase test = oneSymbol("%r = hpu.neg %0 : ($0) -> $out0", {{F32, {"3", size}}}, {{F32, {"3", size}}});
    test.representatives = {{"S", 101}, {"T", 101}};
    return symbolicKernel(test).info().symbolic;
  };
  EXPECT_EQ(facts("S").dims.at(0).text(), "S");
  EXPECT_EQ(facts("T").dims.at(0).text(), "T");
  EXPECT_TRUE(facts("101").dims.empty());
  EXPECT_TRUE(facts("101").cost.empty());
}

TEST(Symbolic, ReadsAreExpressions) {
  SymCase test = oneSymbol(
      "%r = hpu.slice %0 {starts = array<i64: `S + 2`, 3>, sizes = array<i64: `S`, 5>, "
      "steps = array<i64: 1, 2>} : ($0) -> $out0",
      {{F32, {"2*S + 2", "14"}}}, {{F32, {"S", "5"}}});
  const SymbolicFacts facts = symbolicKernel(test).info().symbolic;
  ASSERT_EQ(facts.reads.size(), 1u);
  EXPECT_EQ(facts.reads[0][0].dim, 0);
  EXPECT_EQ(facts.reads[0][0].low.text(), "S + 2");
  EXPECT_EQ(facts.reads[0][1].scale.text(), "2");
}

}  // namespace
}  // namespace hpu::kernels::test
