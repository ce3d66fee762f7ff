// SPDX-License-Identifier: Apache-2.0
// Eager graphs of one op that come with ever new sizes: each op is compiled once (CountingCompiler.cpp), and computes
// what sums in double precision say.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "habanalabs/perf_lib_layer_params.h"
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {
namespace {

using Doubles = std::vector<double>;

class SynapseEagerSizes : public LaunchFixture {
 protected:
  struct Ran {
    Floats got;
    int compilations = 0;  ///< When its program was made; 0: not said.
    bool isShared = false;
  };
  /// One op on new tensors of these sizes; all of it is destroyed again.
  Ran run(const char* guid, const std::vector<Sizes>& inputs, const std::vector<Floats>& values, const Sizes& output,
          const void* params = nullptr, unsigned paramBytes = 0) {
    Ran ran;
    synGraphHandle eager = nullptr;
    EXPECT_SYN(synGraphCreateEager(&eager, synDeviceGaudi2));
    std::vector<synTensor> tensors;
    std::vector<std::string> names;
    for (size_t i = 0; i <= inputs.size(); ++i) {
      names.push_back("t" + std::to_string(next++));
      tensors.push_back(
          makeTensor(eager, names.back().c_str(), i < inputs.size() ? inputs[i] : output, syn_type_float));
      persist(eager, tensors.back());
    }
    EXPECT_EQ(synNodeCreate(eager, tensors.data(), &tensors.back(), static_cast<uint32_t>(inputs.size()), 1, params,
                            paramBytes, guid, "op", nullptr, nullptr),
              synSuccess)
        << hpuSynLastError();
    const std::string path = ::testing::TempDir() + "synapse_eager_" + std::to_string(getpid()) + ".log";
    synRecipeHandle recipe = nullptr;
    EXPECT_EQ(synGraphCompile(&recipe, eager, "eager", path.c_str()), synSuccess) << hpuSynLastError();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    std::remove(path.c_str());
    const std::string log = text.str();
    ran.isShared = log.find("free dimension ") != log.npos;
    if (size_t at = log.find("compilation "); at != log.npos) ran.compilations = std::atoi(log.c_str() + at + 12);
    std::vector<synLaunchTensorInfo> infos;
    std::vector<uint64_t> addresses;
    for (size_t i = 0; i <= inputs.size(); ++i) {
      const uint64_t count = countOf(i < inputs.size() ? inputs[i] : output);
      addresses.push_back(allocate(std::max<uint64_t>(count, 1) * 4));
      if (i < inputs.size() && count) write(addresses.back(), values[i]);
      infos.push_back(info(recipe, names[i].c_str(), addresses.back()));
    }
    uint64_t bytes = 0;
    EXPECT_SYN(synWorkspaceGetSize(&bytes, recipe));
    const uint64_t workspace = bytes ? allocate(bytes) : 0;
    EXPECT_EQ(synLaunch(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, 0), synSuccess)
        << hpuSynLastError();
    if (countOf(output)) ran.got = read<float>(addresses.back(), countOf(output));
    for (uint64_t address : addresses) EXPECT_SYN(synDeviceFree(device, address, 0));
    if (workspace) {
      EXPECT_SYN(synDeviceFree(device, workspace, 0));
    }
    EXPECT_SYN(synRecipeDestroy(recipe));
    EXPECT_SYN(synGraphDestroy(eager));
    return ran;
  }
  /// All ran on one program, which was compiled once.
  void expectOneCompilation(const std::vector<Ran>& all) {
    for (const Ran& one : all) {
      EXPECT_TRUE(one.isShared);
      EXPECT_EQ(one.compilations, all.front().compilations);
    }
  }
  static void expectNear(const Floats& got, const Doubles& wanted, const std::string& where) {
    ASSERT_EQ(got.size(), wanted.size()) << where;
    double scale = 1e-6;
    for (double one : wanted) scale = std::max(scale, std::abs(one));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::abs(got[i] - wanted[i]), 2e-5 * scale) << where << ", element " << i;
  }
  Floats random(uint64_t count) {
    std::uniform_real_distribution<float> value(-2, 2);
    Floats values(count);
    for (float& one : values) one = value(generator);
    return values;
  }
  uint64_t size() { return std::uniform_int_distribution<uint64_t>(2, 70)(generator); }

  std::mt19937 generator{11};
  int next = 0;
};

TEST_F(SynapseEagerSizes, FortySumsAreOneCompilation) {
  std::vector<Ran> all;
  for (int i = 0; i < 40; ++i) {
    const Sizes sizes = i == 3 ? Sizes{9, 9} : Sizes{size(), size()};  // Square ones are no other op.
    const Floats a = random(countOf(sizes)), b = random(countOf(sizes));
    all.push_back(run("add_fwd_f32", {sizes, sizes}, {a, b}, sizes));
    Doubles wanted;
    for (size_t k = 0; k < a.size(); ++k) wanted.push_back(double{a[k]} + b[k]);
    expectNear(all.back().got, wanted, "sum " + std::to_string(i));
  }
  expectOneCompilation(all);
}

TEST_F(SynapseEagerSizes, TheFirstSizesMayBeEqual) {
  std::vector<Ran> all;
  for (const auto& [m, k, n] : {std::array<uint64_t, 3>{8, 8, 8}, {8, 8, 5}, {3, 70, 21}, {64, 2, 64}}) {
    const Floats a = random(m * k), b = random(k * n);
    all.push_back(run("gemm", {{k, m}, {n, k}}, {a, b}, {n, m}));
    Doubles wanted(m * n, 0);
    for (uint64_t i = 0; i < m; ++i)
      for (uint64_t j = 0; j < n; ++j)
        for (uint64_t t = 0; t < k; ++t) wanted[i * n + j] += double{a[i * k + t]} * b[t * n + j];
    expectNear(all.back().got, wanted, "product of " + std::to_string(m) + ", " + std::to_string(k));
  }
  expectOneCompilation(all);
}

TEST_F(SynapseEagerSizes, FortyProductsAreOneCompilation) {
  std::vector<Ran> all;
  for (int i = 0; i < 40; ++i) {
    const uint64_t m = size(), k = size(), n = size();
    const Floats a = random(m * k), b = random(n * k);
    synGEMMParams params = {false, true};
    all.push_back(run("gemm", {{k, m}, {k, n}}, {a, b}, {n, m}, &params, sizeof params));
    Doubles wanted(m * n, 0);
    for (uint64_t r = 0; r < m; ++r)
      for (uint64_t c = 0; c < n; ++c)
        for (uint64_t t = 0; t < k; ++t) wanted[r * n + c] += double{a[r * k + t]} * b[c * k + t];
    expectNear(all.back().got, wanted, "product " + std::to_string(i));
  }
  expectOneCompilation(all);
}

TEST_F(SynapseEagerSizes, FortySoftmaxesAreOneCompilation) {
  std::vector<Ran> all;
  ns_Softmax::Params params = {0};
  for (int i = 0; i < 40; ++i) {
    const uint64_t rows = size(), columns = size();
    const Floats x = random(rows * columns);
    all.push_back(run("softmax_fwd_f32", {{columns, rows}}, {x}, {columns, rows}, &params, sizeof params));
    Doubles wanted;
    for (uint64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (uint64_t c = 0; c < columns; ++c) sum += std::exp(double{x[r * columns + c]});
      for (uint64_t c = 0; c < columns; ++c) wanted.push_back(std::exp(double{x[r * columns + c]}) / sum);
    }
    expectNear(all.back().got, wanted, "softmax " + std::to_string(i));
  }
  expectOneCompilation(all);
}

TEST_F(SynapseEagerSizes, NoneAndOneAreOpsOfTheirOwn) {
  const Ran many = run("add_fwd_f32", {{5, 3}, {5, 3}}, {Floats(15, 1), Floats(15, 2)}, {5, 3});
  EXPECT_EQ(many.got, Floats(15, 3));
  // A single row is broadcast.
  const Ran row = run("add_fwd_f32", {{5, 3}, {5, 1}}, {Floats(15, 1), {1, 2, 3, 4, 5}}, {5, 3});
  EXPECT_EQ(row.got, (Floats{2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6}));
  EXPECT_NE(row.compilations, many.compilations);
  const Ran other = run("add_fwd_f32", {{2, 4}, {2, 1}}, {Floats(8, 1), {1, 2}}, {2, 4});
  EXPECT_EQ(other.got, (Floats{2, 3, 2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(other.compilations, row.compilations);
  const Ran one = run("add_fwd_f32", {{1, 1}, {1, 1}}, {{4}, {5}}, {1, 1});
  EXPECT_EQ(one.got, (Floats{9}));
  const Ran none = run("add_fwd_f32", {{5, 0}, {5, 0}}, {{}, {}}, {5, 0});
  EXPECT_TRUE(none.got.empty());
}

TEST_F(SynapseEagerSizes, OpsWithoutASharedProgramAreCompiledForTheirSizes) {
  ns_CumSumKernel::Params params = {};
  for (uint64_t count : {4, 9, 4}) {
    Floats x(count, 1), wanted;
    for (uint64_t i = 1; i <= count; ++i) wanted.push_back(static_cast<float>(i));
    const Ran ran = run("cumsum_fwd_f32", {{count}}, {x}, {count}, &params, sizeof params);
    EXPECT_EQ(ran.got, wanted);
    EXPECT_FALSE(ran.isShared);
  }
}

}  // namespace
}  // namespace hpu::testing
