// SPDX-License-Identifier: Apache-2.0
// Compiles and launches the graphs of a case file (tests/conformance/synapse, head of CaseRunner.cpp) through the C API
// and says how long it took; conformance_time.py beside it writes the file and the commands.
//
//   synapse_case_timer FILE [--target=gaudi2] [--eager] < COMMANDS
//
// A command a line, an answer a line:
//   compile N      "compiled MS CPU_MS" or "failed TEXT": synGraphCompile of case N, without what builds the graph, as
//                  wall time and as processor time of all threads
//   launch N       "launched US": the first launch of case N and the wait for it, which load the recipe; its memory and
//                  uploads are not timed
//   repeat N K     "launched US": the mean of K launches, each waited for
//   drop N         "dropped": its memory and recipe
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

struct Failure {
  std::string text;
};

void check(synStatus status) {
  if (status == synSuccess) return;
  std::string text = hpuSynLastError();
  for (char& c : text) c = c == '\n' ? ' ' : c;
  throw Failure{text};
}

double since(Clock::time_point start, double unit) {
  return std::chrono::duration<double>(Clock::now() - start).count() * unit;
}

Words split(const std::string& text, char separator) {
  Words parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<uint8_t> fromHex(const std::string& text) {
  std::vector<uint8_t> bytes;
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(digit(text[i]) * 16 + digit(text[i + 1])));
  return bytes;
}

struct Device {
  synDeviceType type = synDeviceGaudi2;
  bool eager = false;
  synDeviceId id = 0;
  synStreamHandle stream = nullptr;
};

/// A case as its lines, and what became of it.
struct Case {
  std::string name;
  std::vector<Words> lines;
  std::map<std::string, std::vector<uint8_t>> data;  ///< Of inputs, by name of the tensor.
  std::map<std::string, std::string> section;        ///< Of persistent tensors.
  synRecipeHandle recipe = nullptr;
  std::vector<synLaunchTensorInfo> infos;
  std::vector<std::string> names;
  std::vector<uint64_t> memory;
  uint64_t workspace = 0;
};

std::string valueOf(const Words& words, const std::string& key) {
  for (const std::string& word : words)
    if (word.compare(0, key.size(), key) == 0 && word.size() > key.size() && word[key.size()] == '=')
      return word.substr(key.size() + 1);
  return "";
}

uint64_t number(const Words& words, const std::string& key, uint64_t otherwise = 0) {
  std::string value = valueOf(words, key);
  return value.empty() ? otherwise : std::strtoull(value.c_str(), nullptr, 10);
}

/// Builds the graph of a case. Handles of tensors and sections end with it.
struct Graph {
  synGraphHandle handle = nullptr;
  std::vector<synSectionHandle> sections;
  std::vector<bool> persistent;
  std::vector<synTensor> tensors;
  std::map<std::string, synNodeId> nodes;

  explicit Graph(const Device& device) {
    check(device.eager ? synGraphCreateEager(&handle, device.type) : synGraphCreate(&handle, device.type));
  }
  ~Graph() {
    synGraphDestroy(handle);
    for (synSectionHandle section : sections) synSectionDestroy(section);
  }
  void addSection(const std::string& kind) {
    synSectionHandle section = nullptr;
    check(synSectionCreate(&section, 0, handle));
    sections.push_back(section);
    persistent.push_back(kind != "workspace");
    check(synSectionSetPersistent(section, kind != "workspace"));
    if (kind == "const") check(synSectionSetConst(section, true));
  }
  void addTensor(const Words& words, Case& c) {
    synTensor tensor = nullptr;
    check(synTensorHandleCreate(&tensor, handle, static_cast<synTensorType>(number(words, "type")), words[1].c_str()));
    tensors.push_back(tensor);
    if (std::string sizes = valueOf(words, "sizes"); !valueOf(words, "dtype").empty() && !sizes.empty()) {
      setSizes(tensor, sizes, synGeometryMaxSizes);
      std::string least = valueOf(words, "min");
      setSizes(tensor, least.empty() ? sizes : least, synGeometryMinSizes);
    }
    if (uint64_t type = number(words, "dtype"))
      check(synTensorSetDeviceDataType(tensor, static_cast<synDataType>(type)));
    if (std::string perm = valueOf(words, "perm"); !perm.empty()) {
      synTensorPermutation permutation = {};
      for (const std::string& word : split(perm, ','))
        permutation.permutation[permutation.dims++] = static_cast<uint8_t>(std::atoi(word.c_str()));
      check(synTensorSetPermutation(tensor, &permutation));
    }
    if (!valueOf(words, "strides").empty() || !valueOf(words, "scale").empty() || !valueOf(words, "bias").empty() ||
        !valueOf(words, "actual").empty())
      throw Failure{"this benchmark sets no strides, quantization or actual sizes"};
    if (std::string host = valueOf(words, "host"); !host.empty()) {
      std::vector<uint8_t> bytes = fromHex(host);
      check(synTensorSetHostPtr(tensor, bytes.data(), bytes.size(), static_cast<synDataType>(number(words, "hosttype")),
                                true));
    }
    if (!valueOf(words, "section").empty()) {
      size_t section = number(words, "section");
      check(synTensorAssignToSection(tensor, sections[section], number(words, "offset")));
      if (persistent[section]) c.section[words[1]] = valueOf(words, "section");
    }
    if (std::string data = valueOf(words, "data"); !data.empty()) c.data[words[1]] = fromHex(data);
  }
  void addNode(const Words& words) {
    auto operands = [&](const std::string& key) {
      std::vector<synTensor> list;
      for (const std::string& word : split(valueOf(words, key), ','))
        list.push_back(word == "-" ? nullptr : tensors[static_cast<size_t>(std::atoi(word.c_str()))]);
      return list;
    };
    std::vector<synTensor> in = operands("inputs"), out = operands("outputs");
    std::vector<uint8_t> params = fromHex(valueOf(words, "params"));
    auto layouts = [](const Words& names) {
      std::vector<const char*> list;
      for (const std::string& name : names) list.push_back(name.c_str());
      return list;
    };
    Words inNames = split(valueOf(words, "layouts"), ','), outNames = split(valueOf(words, "layout"), ',');
    if (!inNames.empty()) inNames.resize(in.size());
    if (!outNames.empty()) outNames.resize(out.size());
    std::vector<const char*> inLayouts = layouts(inNames), outLayouts = layouts(outNames);
    synNodeId id = 0;
    check(synNodeCreateWithId(handle, in.data(), out.data(), static_cast<uint32_t>(in.size()),
                              static_cast<uint32_t>(out.size()), params.empty() ? nullptr : params.data(),
                              static_cast<unsigned>(params.size()), words[1].c_str(), words[2].c_str(), &id,
                              inLayouts.empty() ? nullptr : inLayouts.data(),
                              outLayouts.empty() ? nullptr : outLayouts.data()));
    nodes[words[2]] = id;
    for (const std::string& before : split(valueOf(words, "after"), ','))
      check(synNodeDependencySet(handle, &nodes[before], &id, 1, 1));
  }

 private:
  static void setSizes(synTensor tensor, const std::string& text, synGeometryType type) {
    synTensorGeometry geometry = {};
    for (const std::string& word : split(text, ','))
      geometry.sizes[geometry.dims++] = static_cast<TSize>(std::strtoull(word.c_str(), nullptr, 10));
    check(synTensorSetGeometry(tensor, &geometry, type));
  }
};

double processorMs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

void compile(const Device& device, Case& c) {
  Graph graph(device);
  for (const Words& words : c.lines) {
    if (words[0] == "section") graph.addSection(words[1]);
    if (words[0] == "tensor") graph.addTensor(words, c);
    if (words[0] == "node") graph.addNode(words);
  }
  double used = processorMs();
  Clock::time_point start = Clock::now();
  check(synGraphCompile(&c.recipe, graph.handle, c.name.c_str(), nullptr));
  double wall = since(start, 1e3);
  std::printf("compiled %.4f %.4f\n", wall, processorMs() - used);
}

double launch(const Device& device, const Case& c, int times) {
  Clock::time_point start = Clock::now();
  for (int i = 0; i < times; ++i) {
    check(synLaunch(device.stream, c.infos.data(), static_cast<uint32_t>(c.infos.size()), c.workspace, c.recipe, 0));
    check(synStreamSynchronize(device.stream));
  }
  return since(start, 1e6) / times;
}

uint64_t allocate(const Device& device, Case& c, uint64_t bytes) {
  uint64_t address = 0;
  check(synDeviceMalloc(device.id, bytes, 0, 0, &address));
  c.memory.push_back(address);
  return address;
}

double firstLaunch(const Device& device, Case& c) {
  uint32_t count = 0;
  check(synTensorRetrieveLaunchAmount(c.recipe, &count));
  std::vector<uint64_t> ids(count);
  check(synTensorRetrieveLaunchIds(c.recipe, ids.data(), count));
  std::vector<synRetrievedLaunchTensorInfoExt> found(count);
  for (uint32_t i = 0; i < count; ++i) found[i].tensorId = ids[i];
  check(synTensorRetrieveLaunchInfoByIdExt(c.recipe, count, found.data()));
  std::map<std::string, uint64_t> bytes, bases;
  auto sizeOf = [](const synRetrievedLaunchTensorInfoExt& info) {
    uint64_t elements = 8;
    for (uint32_t d = 0; d < info.tensorDims; ++d) elements *= info.tensorMaxSize[d];
    return info.tensorOffsetInSection + elements;
  };
  for (const auto& info : found) {
    uint64_t& size = bytes[c.section[info.tensorName]];
    size = std::max(size, sizeOf(info));
  }
  for (const auto& [section, size] : bytes) bases[section] = allocate(device, c, size);
  for (const auto& info : found) {
    synLaunchTensorInfo tensor = {};
    tensor.tensorId = info.tensorId;
    tensor.tensorType = info.tensorType;
    if (info.tensorType != HOST_TO_DEVICE_TENSOR && !(info.tensorType == SHAPE_TENSOR))
      tensor.pTensorAddress = bases[c.section[info.tensorName]] + info.tensorOffsetInSection;
    c.infos.push_back(tensor);
    auto data = c.data.find(info.tensorName);
    if (data == c.data.end() || data->second.empty()) continue;
    check(synMemCopyAsync(device.stream, reinterpret_cast<uint64_t>(data->second.data()), data->second.size(),
                          tensor.pTensorAddress, HOST_TO_DRAM));
  }
  uint64_t workspace = 0;
  check(synWorkspaceGetSize(&workspace, c.recipe));
  if (workspace) c.workspace = allocate(device, c, workspace);
  check(synStreamSynchronize(device.stream));
  return launch(device, c, 1);
}

void drop(const Device& device, Case& c) {
  for (uint64_t address : c.memory) check(synDeviceFree(device.id, address, 0));
  if (c.recipe) check(synRecipeDestroy(c.recipe));
  c.memory.clear();
  c.infos.clear();
  c.recipe = nullptr;
}

void obey(const Device& device, std::vector<Case>& cases, const Words& words) {
  Case& c = cases.at(std::strtoul(words.at(1).c_str(), nullptr, 10));
  if (words[0] == "compile") compile(device, c);
  if (words[0] == "launch") std::printf("launched %.3f\n", firstLaunch(device, c));
  if (words[0] == "repeat") std::printf("launched %.3f\n", launch(device, c, std::atoi(words.at(2).c_str())));
  if (words[0] == "drop") drop(device, c), std::printf("dropped\n");
}

std::vector<Case> readCases(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw Failure{"cannot read '" + path + "'"};
  std::vector<Case> cases;
  for (std::string line; std::getline(stream, line);) {
    Words words = split(line, ' ');
    if (words.empty()) continue;
    if (words[0] == "case") cases.emplace_back().name = words[1];
    cases.back().lines.push_back(std::move(words));
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  Device device;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--eager"))
      device.eager = true;
    else if (!std::strcmp(argv[i], "--target=gaudi"))
      device.type = synDeviceGaudi;
    else if (!std::strcmp(argv[i], "--target=gaudi3"))
      device.type = synDeviceGaudi3;
    else if (std::strcmp(argv[i], "--target=gaudi2"))
      path = argv[i];
  }
  try {
    std::vector<Case> cases = readCases(path);
    check(synInitialize());
    check(synDeviceAcquireByDeviceType(&device.id, device.type));
    check(synStreamCreateGeneric(&device.stream, device.id, 0));
    for (std::string line; std::getline(std::cin, line); std::fflush(stdout)) {
      try {
        obey(device, cases, split(line, ' '));
      } catch (const Failure& failure) {
        std::printf("failed %s\n", failure.text.c_str());
      }
    }
    check(synDestroy());
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.text.c_str());
    return 1;
  }
  return 0;
}
