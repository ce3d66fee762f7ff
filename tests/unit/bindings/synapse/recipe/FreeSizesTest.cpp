// SPDX-License-Identifier: Apache-2.0
// Graphs whose tensors have least and largest sizes: one program for all of them, which a process without a compiler
// launches, too. Values are compared with sums in double precision.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "habanalabs/perf_lib_layer_params.h"
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

namespace hpu::testing {
namespace {

class SynapseFreeSizes : public LaunchFixture {
 protected:
  synTensor makeFree(const char* name, const Sizes& least, const Sizes& largest, bool persistent = true) {
    synTensor tensor = makeTensor(graph, name, largest, syn_type_float);
    setSizes(tensor, least, synGeometryMinSizes);
    if (persistent) persist(graph, tensor);
    return tensor;
  }
  template <typename Params>
  synStatus addNodeWith(const Params& params, const char* guid, synTensor in, synTensor out) {
    return synNodeCreate(graph, &in, &out, 1, 1, &params, sizeof params, guid, guid, nullptr, nullptr);
  }
  /// Compiles; `log` has what the build log says.
  synRecipeHandle compileLogged() {
    const std::string path = ::testing::TempDir() + "synapse_free_" + std::to_string(getpid()) + ".log";
    synRecipeHandle recipe = nullptr;
    EXPECT_EQ(synGraphCompile(&recipe, graph, "free", path.c_str()), synSuccess) << hpuSynLastError();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    std::remove(path.c_str());
    log = text.str();
    return recipe;
  }
  bool isOneProgram() const {
    return log.find("free dimension ") != log.npos && log.find("note: each set of sizes") == log.npos;
  }
  uint64_t upload(const Floats& values) {
    uint64_t address = allocate(std::max<size_t>(values.size(), 1) * 4);
    if (!values.empty()) write(address, values);
    return address;
  }
  Floats random(uint64_t count) {
    std::uniform_real_distribution<float> value(-2, 2);
    Floats values(count);
    for (float& one : values) one = value(generator);
    return values;
  }
  uint64_t size(uint64_t least, uint64_t largest) {
    return std::uniform_int_distribution<uint64_t>(least, largest)(generator);
  }
  struct Given {
    const char* name;
    uint64_t address;
    Sizes sizes = {};
  };
  synStatus launch(synRecipeHandle recipe, const std::vector<Given>& given, synStreamHandle on = nullptr,
                   uint64_t memory = 0) {
    std::vector<synLaunchTensorInfo> infos;
    for (const Given& one : given) infos.push_back(info(recipe, one.name, one.address, one.sizes));
    uint64_t bytes = 0;
    EXPECT_EQ(synWorkspaceGetSize(&bytes, recipe), synSuccess);
    if (!memory && bytes > workspaceBytes) {
      EXPECT_EQ(synDeviceMalloc(device, bytes, 0, 0, &workspace), synSuccess);
      workspaceBytes = bytes;
    }
    return synLaunchWithExternalEvents(on ? on : stream, infos.data(), static_cast<uint32_t>(infos.size()),
                                       memory ? memory : workspace, recipe, nullptr, 0, SYN_FLAGS_TENSOR_NAME);
  }
  static void expectNear(const Floats& got, const std::vector<double>& wanted, const std::string& where) {
    ASSERT_EQ(got.size(), wanted.size()) << where;
    double scale = 1e-6;
    for (double one : wanted) scale = std::max(scale, std::abs(one));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::abs(got[i] - wanted[i]), 2e-5 * scale) << where << ", element " << i;
  }

  std::string log;
  std::mt19937 generator{7};
  uint64_t workspace = 0, workspaceBytes = 0;
};

/// relu(A B)
std::vector<double> productOf(const Floats& a, const Floats& b, uint64_t rows, uint64_t inner, uint64_t columns) {
  std::vector<double> y(rows * columns, 0);
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t j = 0; j < columns; ++j) {
      for (uint64_t k = 0; k < inner; ++k) y[i * columns + j] += double{a[i * inner + k]} * b[k * columns + j];
      y[i * columns + j] = std::max(y[i * columns + j], 0.0);
    }
  return y;
}

TEST_F(SynapseFreeSizes, OneProgramServesFortySizes) {
  synTensor a = makeFree("a", {24, 1}, {24, 80}), b = makeFree("b", {1, 24}, {80, 24});
  synTensor y = makeFree("y", {1, 1}, {80, 80}), product = makeFree("product", {1, 1}, {80, 80}, false);
  ASSERT_EQ(addNode("gemm", {a, b}, {product}, "gemm"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("relu_fwd_f32", {product}, {y}, "relu"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  // Rows and columns have one bound, and are two sizes.
  EXPECT_NE(log.find("free dimension a_d1: 1 to 80"), log.npos) << log;
  EXPECT_NE(log.find("free dimension b_d0: 1 to 80"), log.npos) << log;
  uint64_t ys = upload(Floats(6400));
  for (int i = 0; i < 40; ++i) {
    const uint64_t rows = i == 0 ? 80 : i == 1 ? 1 : size(1, 80), columns = i == 0 ? 80 : i == 2 ? 1 : size(1, 80);
    Floats as = random(rows * 24), bs = random(24 * columns);
    write(ys, Floats(6400, 77));
    ASSERT_EQ(launch(recipe, {{"a", upload(as), {24, rows}}, {"b", upload(bs), {columns, 24}}, {"y", ys}}), synSuccess)
        << hpuSynLastError();
    Floats got = read<float>(ys, 6400);
    for (size_t k = rows * columns; k < got.size(); ++k) ASSERT_EQ(got[k], 77) << "beyond the result";
    got.resize(rows * columns);
    expectNear(got, productOf(as, bs, rows, 24, columns), std::to_string(rows) + " x " + std::to_string(columns));
  }
}

TEST_F(SynapseFreeSizes, SizesThatMustBeEqualAreOne) {
  synTensor a = makeFree("a", {4, 1}, {4, 8}), b = makeFree("b", {4, 2}, {4, 8}), y = makeFree("y", {4, 1}, {4, 8});
  ASSERT_EQ(addNode("sub_fwd_f32", {a, b}, {y}, "sub"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  EXPECT_NE(log.find("free dimension a_d1: 2 to 8"), log.npos) << log;
  uint64_t as = upload(Floats(32, 3)), bs = upload(Floats(32, 1)), ys = upload(Floats(32));
  ASSERT_EQ(launch(recipe, {{"a", as, {4, 5}}, {"b", bs, {4, 5}}, {"y", ys, {4, 5}}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read<float>(ys, 20), Floats(20, 2));
  // Nothing is launched for sizes that are not there.
  write(ys, Floats(32, 9));
  EXPECT_SYN_ERROR(launch(recipe, {{"a", as, {4, 5}}, {"b", bs, {4, 6}}, {"y", ys}}), synFailedDynamicPatching,
                   "tensor 'b': size 1 is 6, and size 1 of tensor 'a', which is 5, must be the same");
  EXPECT_SYN_ERROR(launch(recipe, {{"a", as, {4, 5}}, {"b", bs, {4, 5}}, {"y", ys}, {"a", as, {4, 4}}}),
                   synFailedSectionValidation, "tensor 'a' is given twice, by entries 0 and 3, with other sizes");
  EXPECT_SYN_ERROR(launch(recipe, {{"a", as, {4, 9}}, {"b", bs, {4, 9}}, {"y", ys}}), synFailedDynamicPatching,
                   "tensor 'a': size 1 is 9, and the recipe was compiled for 1 to 8");
  EXPECT_SYN_ERROR(launch(recipe, {{"a", as, {4, 3}}, {"b", bs, {4, 1}}, {"y", ys}}), synFailedDynamicPatching,
                   "tensor 'b': size 1 is 1, and the recipe was compiled for 2 to 8");
  EXPECT_SYN_ERROR(launch(recipe, {{"a", as, {4, 5}}, {"b", bs, {4, 5}}, {"y", ys, {4, 4}}}), synFailedDynamicPatching,
                   "output 0 (y): size 1 is given as 4, and 5 follows from the inputs");
  EXPECT_EQ(read<float>(ys, 32), Floats(32, 9));
}

TEST_F(SynapseFreeSizes, SoftmaxAndReductionsOfFreeRows) {
  synTensor x = makeFree("x", {1, 1}, {300, 40}), y = makeFree("y", {1, 1}, {300, 40});
  ns_Softmax::Params params = {0};
  ASSERT_EQ(addNodeWith(params, "softmax_fwd_f32", x, y), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  for (int i = 0; i < 40; ++i) {
    const uint64_t rows = i == 0 ? 40 : size(1, 40), columns = i == 0 ? 300 : i == 1 ? 1 : size(1, 300);
    Floats xs = random(rows * columns);
    uint64_t ys = upload(Floats(rows * columns));
    ASSERT_EQ(launch(recipe, {{"x", upload(xs), {columns, rows}}, {"y", ys}}), synSuccess) << hpuSynLastError();
    std::vector<double> wanted;
    for (uint64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (uint64_t c = 0; c < columns; ++c) sum += std::exp(double{xs[r * columns + c]});
      for (uint64_t c = 0; c < columns; ++c) wanted.push_back(std::exp(double{xs[r * columns + c]}) / sum);
    }
    expectNear(read<float>(ys, rows * columns), wanted, std::to_string(rows) + " x " + std::to_string(columns));
    ASSERT_EQ(synDeviceFree(device, ys, 0), synSuccess);
  }
}

TEST_F(SynapseFreeSizes, ResultsFitTheirDeclaration) {
  synTensor x = makeFree("x", {4, 1}, {4, 8}), y = makeFree("y", {4, 3}, {4, 8});
  ASSERT_EQ(addNode("exp_fwd_f32", {x}, {y}, "exp"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  EXPECT_NE(log.find("note: tensor 'y': size 1 can be 1, less than its declared minimum 3"), log.npos) << log;
  uint64_t xs = upload(Floats(32, 0)), ys = upload(Floats(32, 5));
  ASSERT_EQ(launch(recipe, {{"x", xs, {4, 2}}, {"y", ys}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read<float>(ys, 8), Floats(8, 1));
}

TEST_F(SynapseFreeSizes, ResultsBeyondTheirDeclarationDoNotCompile) {
  synTensor x = makeFree("x", {4, 1}, {4, 8}), y = makeFree("y", {4, 1}, {4, 7});
  ASSERT_EQ(addNode("exp_fwd_f32", {x}, {y}, "exp"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = nullptr;
  EXPECT_SYN_ERROR(synGraphCompile(&recipe, graph, "free", nullptr), synInvalidArgument,
                   "output 0 (y) has sizes {4, 7}, the node gives {4, 8}");
}

TEST_F(SynapseFreeSizes, NoRowsAreNoWork) {
  synTensor x = makeFree("x", {4, 0}, {4, 8}), y = makeFree("y", {4, 0}, {4, 8});
  ASSERT_EQ(addNode("exp_fwd_f32", {x}, {y}, "exp"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  uint64_t xs = upload(Floats(32, 0)), ys = upload(Floats(32, 5));
  ASSERT_EQ(launch(recipe, {{"x", xs, {4, 0}}, {"y", ys, {4, 0}}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read<float>(ys, 32), Floats(32, 5));
  ASSERT_EQ(launch(recipe, {{"x", xs, {4, 2}}, {"y", ys}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read<float>(ys, 8), Floats(8, 1));
}

TEST_F(SynapseFreeSizes, ThreadsLaunchDifferentSizes) {
  synTensor a = makeFree("a", {24, 1}, {24, 40}), b = makeFree("b", {1, 24}, {40, 24}),
            y = makeFree("y", {1, 1}, {40, 40});
  synTensor product = makeFree("product", {1, 1}, {40, 40}, false);
  ASSERT_EQ(addNode("gemm", {a, b}, {product}, "gemm"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("relu_fwd_f32", {product}, {y}, "relu"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  uint64_t bytes = 0;
  ASSERT_EQ(synWorkspaceGetSize(&bytes, recipe), synSuccess);
  struct Job {
    uint64_t rows, columns, a, b, y, memory;
    Floats as, bs, got;
    synStreamHandle stream;
  };
  std::vector<std::vector<Job>> jobs(4);
  for (auto& own : jobs) {
    synStreamHandle other = nullptr;
    ASSERT_SYN(synStreamCreateGeneric(&other, device, 0));
    const uint64_t memory = bytes ? allocate(bytes) : 0;
    for (int i = 0; i < 12; ++i) {
      Job job{size(1, 40), size(1, 40), 0, 0, 0, memory, {}, {}, {}, other};
      job.as = random(job.rows * 24), job.bs = random(24 * job.columns);
      job.a = upload(job.as), job.b = upload(job.bs), job.y = upload(Floats(1600));
      own.push_back(std::move(job));
    }
  }
  std::vector<std::thread> threads;
  for (auto& own : jobs)
    threads.emplace_back([this, recipe, &own] {
      for (Job& job : own) {
        ASSERT_EQ(launch(recipe, {{"a", job.a, {24, job.rows}}, {"b", job.b, {job.columns, 24}}, {"y", job.y}},
                         job.stream, job.memory),
                  synSuccess)
            << hpuSynLastError();
        job.got = read<float>(job.y, job.rows * job.columns, job.stream);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (auto& own : jobs)
    for (Job& job : own)
      expectNear(job.got, productOf(job.as, job.bs, job.rows, 24, job.columns), "a thread's product");
}

/// Of the test below, in a process of its own.
TEST_F(SynapseFreeSizes, RunsAFileWithoutACompiler) {
  const char* path = std::getenv("HPU_TEST_FREE_RECIPE");
  if (!path) GTEST_SKIP() << "for FilesNeedNoCompiler";
  synRecipeHandle recipe = nullptr;
  ASSERT_EQ(synRecipeDeSerialize(&recipe, path), synSuccess) << hpuSynLastError();
  for (uint64_t rows : {1, 7, 80, 7}) {
    Floats as = random(rows * 24), bs = random(24 * 5);
    uint64_t ys = upload(Floats(400));
    ASSERT_EQ(launch(recipe, {{"a", upload(as), {24, rows}}, {"b", upload(bs)}, {"y", ys, {5, rows}}}), synSuccess)
        << hpuSynLastError();
    expectNear(read<float>(ys, rows * 5), productOf(as, bs, rows, 24, 5), std::to_string(rows) + " rows");
  }
  uint64_t any = upload(Floats(4096));
  // Without a compiler what is wrong is what the program says.
  EXPECT_SYN_ERROR(launch(recipe, {{"a", any, {24, 3}}, {"b", any}, {"y", any, {5, 4}}}), synFailedDynamicPatching,
                   "size 1 is given as 4, and 3 follows");
  EXPECT_SYN_ERROR(launch(recipe, {{"a", any, {24, 81}}, {"b", any}, {"y", any}}), synFailedDynamicPatching,
                   "size 1 is 81");
}

TEST_F(SynapseFreeSizes, FilesNeedNoCompiler) {
  synTensor a = makeFree("a", {24, 1}, {24, 80}), b = makeTensor(graph, "b", {5, 24}, syn_type_float);
  persist(graph, b);
  synTensor y = makeFree("y", {5, 1}, {5, 80}), product = makeFree("product", {5, 1}, {5, 80}, false);
  ASSERT_EQ(addNode("gemm", {a, b}, {product}, "gemm"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("relu_fwd_f32", {product}, {y}, "relu"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  ASSERT_TRUE(isOneProgram()) << log;
  const std::string path = ::testing::TempDir() + "synapse_free_" + std::to_string(getpid()) + ".recipe";
  ASSERT_EQ(synRecipeSerialize(recipe, path.c_str()), synSuccess) << hpuSynLastError();
  // What was compiled for this CPU is for older ones, too, once it is in a file.
  for (const std::string cpu : {"native", "x86-64-v3"}) {
    const std::string command = "HPU_MAX_CPU=" + cpu + " HPU_SYNAPSE_COMPILER=/nonexistent HPU_TEST_FREE_RECIPE='" +
                                path + "' '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                                "' --gtest_filter=SynapseFreeSizes.RunsAFileWithoutACompiler >'" + path + ".txt' 2>&1";
    const int ended = std::system(command.c_str());
    std::ostringstream said;
    said << std::ifstream(path + ".txt").rdbuf();
    EXPECT_EQ(ended, 0) << cpu << ": " << said.str();
    EXPECT_EQ(said.str().find("SKIPPED"), std::string::npos);
  }
  std::remove(path.c_str());
  std::remove((path + ".txt").c_str());
}

TEST_F(SynapseFreeSizes, AGraphWithoutOneProgramStillLaunches) {
  // That z has twice as many elements as x has rows is more than its bounds say.
  synTensor x = makeFree("x", {2, 2}, {2, 8}), flat = makeFree("flat", {4}, {16}, false);
  synTensor z = makeFree("z", {4}, {16}), y = makeFree("y", {4}, {16});
  ASSERT_EQ(addNode("reshape", {x}, {flat}, "flatten"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("add_fwd_f32", {flat, z}, {y}, "sum"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compileLogged();
  EXPECT_NE(log.find("note: each set of sizes is compiled at its first launch: "), log.npos) << log;
  const Floats values = random(16), others = random(16);
  uint64_t xs = upload(values), zs = upload(others), ys = upload(Floats(16));
  for (uint64_t count : {8, 3, 5}) {
    ASSERT_EQ(launch(recipe, {{"x", xs, {2, count}}, {"z", zs, {2 * count}}, {"y", ys}}), synSuccess)
        << hpuSynLastError();
    Floats got = read<float>(ys, 2 * count);
    for (uint64_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], values[i] + others[i]) << count;
  }
}

}  // namespace
}  // namespace hpu::testing
