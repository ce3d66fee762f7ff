// SPDX-License-Identifier: Apache-2.0
// Random operands and parameters for every node type: the answer is a recipe or a message that names the node, never a
// crash, a hang or gigabytes of host memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "base/Format.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/lowering/Compile.h"
#include "bindings/synapse/lowering/GuidTable.h"

namespace hpu::synapse {
namespace {

using Random = std::mt19937_64;

/// Sizes of the structures that node types take, and some that none has.
constexpr size_t kParamSizes[] = {0,  1,  2,  3,  4,  8,  12, 16,  20,  24,  28,  32,  36,  40, 44,
                                  48, 51, 56, 60, 64, 72, 80, 104, 112, 128, 152, 208, 400, 704};

uint64_t pick(Random& random, std::initializer_list<uint64_t> values) {
  return *(values.begin() + random() % values.size());
}

/// Small numbers mostly, floats and extremes at times: what a user's uninitialised or mistyped field may hold.
std::vector<std::byte> randomParams(Random& random) {
  std::vector<std::byte> bytes(kParamSizes[random() % std::size(kParamSizes)]);
  unsigned style = random() % 4;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    uint32_t word = static_cast<uint32_t>(pick(random, {0, 1, 1, 2, 3}));
    if (style == 1 && random() % 6 == 0)
      word = static_cast<uint32_t>(pick(random, {0x7fffffff, 0x80000000, 0xffffffff, 1u << 20, 1000}));
    if (style == 2 && random() % 2 == 0)
      word = static_cast<uint32_t>(pick(random, {0x3f800000, 0x3f000000, 0x7f800000, 0x7fc00000, 0xbf800000}));
    if (style == 3) word = static_cast<uint32_t>(random());
    std::memcpy(bytes.data() + at, &word, 4);
  }
  return bytes;
}

std::vector<uint64_t> randomSizes(Random& random, const std::vector<uint64_t>& common) {
  if (random() % 2) return common;
  std::vector<uint64_t> sizes(random() % 6);
  for (uint64_t& size : sizes) size = pick(random, {1, 1, 2, 3, 4, 5, 7, 8});
  if (!sizes.empty() && random() % 20 == 0)
    sizes[random() % sizes.size()] = pick(random, {0, 1u << 16, uint64_t{1} << 33, UINT64_MAX});
  return sizes;
}

GraphDescription randomGraph(Random& random, const GuidInfo& info, const GuidRow* row) {
  GraphDescription graph;
  graph.name = "hostile";
  graph.eager = true;
  NodeDescription node;
  node.id = 1;
  node.name = "victim";
  node.guid = info.name;
  std::vector<std::string> types;
  if (row)
    for (size_t at = 0; at < row->types.size();) {
      size_t end = std::min(row->types.find(' ', at), row->types.size());
      types.emplace_back(row->types.substr(at, end - at));
      at = end + 1;
    }
  std::string suffix = types.empty() ? "f32" : types[random() % types.size()];
  uint32_t type = 4;
  if (StatusOr<ParsedGuid> parsed = parseGuid("add_" + suffix); parsed.ok()) type = parsed->type;
  if (info.name == "cast")
    node.guid = base::strCat("cast_", suffix, "_to_", types.empty() ? "i32" : types[random() % types.size()]);
  else if (!types.empty())
    node.guid += "_" + suffix;
  std::vector<uint64_t> common(1 + random() % 4);
  for (uint64_t& size : common) size = pick(random, {1, 2, 3, 4, 6});
  auto addTensor = [&](bool isInput) {
    TensorDescription tensor;
    tensor.id = graph.tensors.size() + 1;
    tensor.name = "t" + std::to_string(tensor.id);
    tensor.maxSizes = tensor.minSizes = randomSizes(random, common);
    if (!isInput && random() % 3) tensor.maxSizes.clear(), tensor.minSizes.clear();
    tensor.dataType = random() % 5 ? type : static_cast<uint32_t>(pick(random, {0, 1, 2, 4, 16, 32, 32768, 64}));
    if (random() % 12 == 0) tensor.type = static_cast<uint32_t>(pick(random, {1, 4, 6}));
    tensor.section = static_cast<uint32_t>(graph.sections.size());
    graph.sections.push_back({tensor.section, 0, true, false, false});
    graph.tensors.push_back(std::move(tensor));
    return random() % 15 ? static_cast<int32_t>(graph.tensors.size() - 1) : kNoTensor;
  };
  auto count = [&](uint16_t least, uint16_t most) {
    if (random() % 10 == 0) return random() % 6;
    return least + random() % (std::min<uint64_t>(most, least + 3u) - least + 1u);
  };
  for (uint64_t i = count(info.minInputs, info.maxInputs); i > 0; --i) node.inputs.push_back(addTensor(true));
  for (uint64_t i = count(info.minOutputs, info.maxOutputs); i > 0; --i) node.outputs.push_back(addTensor(false));
  node.params = randomParams(random);
  graph.nodes.push_back(std::move(node));
  return graph;
}

TEST(Hostile, EveryNodeTypeAnswers) {
#ifndef __SANITIZE_ADDRESS__  // Whose shadow takes terabytes of addresses.
  // A lowering that believes a huge number fails to allocate instead of taking the machine down.
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = uint64_t{6} << 30;
  setrlimit(RLIMIT_AS, &limit);
#endif
  const char* rounds = std::getenv("HPU_HOSTILE_ROUNDS");
  int compiled = 0, refused = 0;
  for (const GuidInfo& info : allGuids()) {
    if (info.kind == GuidClass::kInternal) continue;
    const GuidRow* row = nullptr;
    for (const GuidRow* candidate : guidRows())
      if (candidate->name == info.name) row = candidate;
    for (int i = 0, n = rounds ? std::atoi(rounds) : 3; i < n; ++i) {
      Random random(std::hash<std::string_view>()(info.name) + static_cast<uint64_t>(i));
      GraphDescription graph = randomGraph(random, info, row);
      SCOPED_TRACE(base::strCat(info.name, " round ", i));
      if (std::getenv("HPU_HOSTILE_TRACE")) fprintf(stderr, "%s %d\n", std::string(info.name).c_str(), i);
      GraphDescription inferred = graph;
      Status status = inferShapes(inferred);
      if (status.ok()) status = compileGraph(graph, {}).status();
      ++(status.ok() ? compiled : refused);
      if (status.ok()) continue;
      EXPECT_NE(status.code(), StatusCode::kInternal) << status.message();
      if (status.code() == StatusCode::kResourceExhausted) continue;  // The graph is right, the device too small.
      EXPECT_TRUE(status.message().find("victim") != std::string::npos ||
                  status.message().find("tensor 't") != std::string::npos ||
                  status.message().find("nothing of the graph") != std::string::npos)
          << status.message();
    }
  }
  // Neither all nonsense nor all harmless.
  EXPECT_GT(compiled, 30);
  EXPECT_GT(refused, 100);
  printf("%d compiled, %d refused\n", compiled, refused);
}

}  // namespace
}  // namespace hpu::synapse
