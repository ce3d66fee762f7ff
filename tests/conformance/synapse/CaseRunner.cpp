// SPDX-License-Identifier: Apache-2.0
// Lowers, compiles and runs SynapseAI graphs that a text file describes, many in one process.
//
//   synapse_case_runner FILE [--level=2] [--target=gaudi2] [--infer] [--log] [--free]
//
// FILE, a word a token (cases.py writes it):
//   case NAME [largest]                           largest: as with GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS=0
//   section persistent|const|workspace            in order: section 0, 1 ...
//   tensor NAME key=value...                      in order: tensor 0, 1 ...; keys below
//   node GUID NAME inputs=0,-,1 outputs=2 params=HEX after=NAME,.. layouts=CWHN,KCSR layout=.. precision=2
//   end
// Tensor keys: type (synTensorType), dtype (synDataType), sizes=4,3 (fastest first), min=.., section, offset, perm=..,
// strides=.., scale, bias, host=HEX with hosttype, data=HEX (an input's bytes, or what they repeat),
// actual=.. (sizes of this compilation).
// Printed, a line each: "result NAME ok", "output TENSOR-NAME SIZES HEX" and "sizes TENSOR-NAME SIZES DTYPE" for each
// tensor; or "result NAME CODE MESSAGE" with line feeds as " | ". --log adds the modelled device time and the phases.
// A case with actual sizes runs on the program for all of its sizes, too: "free NAME yes, no or refused" as below, and
// "other TENSOR-NAME SIZES HEX" for an output that is another there.
// --free runs the case's sizes on a program for all sizes where there is one, and adds "free NAME yes", "free NAME no
// REASON" (it is compiled for its sizes) or "free NAME refused REASON" (the program does not take them).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DynamicStrides.h"
#include "bindings/synapse/graph/SectionUse.h"
#include "bindings/synapse/lowering/Compile.h"
#include "tools/common/Session.h"

using namespace hpu;
using namespace hpu::synapse;
using base::strCat;

namespace {

struct Case {
  std::string name;
  GraphDescription graph;
  CompileRequest request;
  std::map<int32_t, std::vector<uint8_t>> data;
  std::map<std::string, uint64_t> nodeIds;
  bool isStridedByLargest = false;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

template <typename T>
std::vector<T> numbers(const std::string& text) {
  std::vector<T> list;
  for (const std::string& part : split(text, ','))
    list.push_back(static_cast<T>(std::strtoull(part.c_str(), nullptr, 10)));
  return list;
}

template <typename Byte>
std::vector<Byte> fromHex(const std::string& text) {
  std::vector<Byte> bytes;
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<Byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  return bytes;
}

std::string toHex(const std::vector<uint8_t>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t b : bytes) text += kDigits[b >> 4], text += kDigits[b & 15];
  return text;
}

std::string sizesWord(const std::vector<uint64_t>& sizes) {
  std::string text;
  for (uint64_t s : sizes) text += strCat(text.empty() ? "" : ",", s);
  return text.empty() ? "-" : text;
}

void readTensor(const std::vector<std::string>& words, Case& c) {
  TensorDescription tensor;
  tensor.id = c.graph.tensors.size();
  tensor.name = words[1];
  auto index = static_cast<int32_t>(tensor.id);
  for (size_t i = 2; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string key = words[i].substr(0, equals), value = words[i].substr(equals + 1);
    auto number = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (key == "type") tensor.type = number;
    if (key == "dtype") tensor.dataType = number;
    if (key == "sizes") tensor.maxSizes = numbers<uint64_t>(value);
    if (key == "min") tensor.minSizes = numbers<uint64_t>(value);
    if (key == "section") tensor.section = number;
    if (key == "offset") tensor.sectionOffset = number;
    if (key == "perm") tensor.permutation = numbers<uint8_t>(value);
    if (key == "strides") tensor.strides = numbers<uint64_t>(value);
    if (key == "host") tensor.hostData = std::make_shared<std::vector<std::byte>>(fromHex<std::byte>(value));
    if (key == "scale") tensor.scales = {std::atof(value.c_str())};
    if (key == "bias") tensor.expBiases = numbers<uint32_t>(value);
    if (key == "hosttype") tensor.hostType = number;
    if (key == "data") c.data[index] = fromHex<uint8_t>(value);
    if (key == "actual") {
      c.request.actualSizes.resize(tensor.id + 1);
      c.request.actualSizes[tensor.id] = numbers<uint64_t>(value);
    }
  }
  c.graph.tensors.push_back(std::move(tensor));
}

std::vector<int32_t> operands(const std::string& text) {
  std::vector<int32_t> list;
  for (const std::string& part : split(text, ',')) list.push_back(part == "-" ? kNoTensor : std::atoi(part.c_str()));
  return list;
}

void readNode(const std::vector<std::string>& words, Case& c) {
  NodeDescription node;
  node.id = c.graph.nodes.size() + 1;
  node.guid = words[1];
  node.name = words[2];
  for (size_t i = 3; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string key = words[i].substr(0, equals), value = words[i].substr(equals + 1);
    if (key == "inputs") node.inputs = operands(value);
    if (key == "outputs") node.outputs = operands(value);
    if (key == "params") node.params = fromHex<std::byte>(value);
    if (key == "layouts") node.inputLayouts = split(value, ',');
    if (key == "layout") node.outputLayouts = split(value, ',');
    if (key == "precision") node.precision = static_cast<uint32_t>(std::atoi(value.c_str()));
    if (key == "rounding") node.roundingMode = static_cast<uint32_t>(std::atoi(value.c_str()));
    if (key == "after")
      for (const std::string& name : split(value, ',')) node.after.push_back(c.nodeIds[name]);
  }
  c.nodeIds[node.name] = node.id;
  c.graph.nodes.push_back(std::move(node));
}

void printSizes(const GraphDescription& graph, size_t t, const std::vector<uint64_t>& sizes) {
  printf("sizes %s %s %u\n", graph.tensors[t].name.c_str(), sizesWord(sizes).c_str(), graph.tensors[t].dataType);
}

std::string oneLine(std::string message) {
  for (size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, " | ");
  return message;
}

/// The sizes of a tensor in this run.
const std::vector<uint64_t>& sizesOf(const Case& c, size_t t) {
  const auto& actual = c.request.actualSizes;
  return t < actual.size() && !actual[t].empty() ? actual[t] : c.graph.tensors[t].maxSizes;
}

/// Results of a program; of one for all sizes at those of the case.
StatusOr<std::vector<tools::HostTensor>> results(Case& c, const CompiledGraph& compiled, const Recipe& recipe) {
  HPU_ASSIGN(tools::Session session, tools::Session::open(recipe, {}));
  std::vector<tools::HostTensor> inputs;
  for (size_t i = 0; i < compiled.inputs.size(); ++i) {
    TensorType type = recipe.inputs()[i].type;
    const std::vector<uint64_t>& sizes = sizesOf(c, static_cast<size_t>(compiled.inputs[i]));
    if (numElements(type.shape) < 0) type.shape = Shape(sizes.rbegin(), sizes.rend());
    std::vector<uint8_t>& data = c.data[compiled.inputs[i]];
    if (const size_t block = data.size(); block > 0 && type.bytes() % static_cast<int64_t>(block) == 0)
      for (data.reserve(static_cast<size_t>(type.bytes())); static_cast<int64_t>(data.size()) < type.bytes();)
        data.insert(data.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(block));
    if (static_cast<int64_t>(data.size()) != type.bytes())
      return invalidArgument(strCat("the case gives ", data.size(), " bytes for input '", recipe.inputs()[i].name,
                                    "' of ", type.toString()));
    inputs.push_back({type, data, recipe.inputs()[i].name});
  }
  return session.run(inputs);
}

Status runCompiled(Case& c, const CompiledGraph& compiled, const GraphDescription& inferred, bool log,
                   const std::string& note, std::vector<tools::HostTensor>* kept = nullptr) {
  HPU_ASSIGN(Recipe recipe, Recipe::deserialize(compiled.recipe.data(), compiled.recipe.size()));
  HPU_ASSIGN(std::vector<tools::HostTensor> outputs, results(c, compiled, recipe));
  printf("result %s ok\n%s", c.name.c_str(), note.c_str());
  if (log) printf("device_us %g\n%s", recipe.estimatedDeviceTimeUs(), compiled.log.c_str());
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto t = static_cast<size_t>(compiled.outputs[i]);
    const Shape& shape = outputs[i].type.shape;
    printf(
        "output %s %s %s\n", c.graph.tensors[t].name.c_str(),
        sizesWord(compiled.freeDims.empty() ? compiled.sizes[t] : std::vector<uint64_t>(shape.rbegin(), shape.rend()))
            .c_str(),
        toHex(outputs[i].bytes).c_str());
  }
  for (size_t t = 0; t < compiled.sizes.size(); ++t) printSizes(inferred, t, compiled.sizes[t]);
  if (kept) *kept = std::move(outputs);
  return okStatus();
}

/// Whether the program for all sizes within the bounds, where there is one that takes these, gives `wanted`, too.
Status checkBounded(Case& c, const std::vector<tools::HostTensor>& wanted) {
  CompileRequest request = c.request;
  request.actualSizes.clear();
  request.freeSizes = CompileRequest::FreeSizes::kBounded;
  StatusOr<CompiledGraph> compiled = compileGraph(c.graph, request);
  if (!compiled.ok() || compiled->freeDims.empty()) {
    const std::string why = compiled.ok() ? compiled->log.substr(0, 400) : std::string(compiled.status().message());
    printf("free %s no %s\n", c.name.c_str(), oneLine(why).c_str());
    return okStatus();
  }
  HPU_ASSIGN(Recipe recipe, Recipe::deserialize(compiled->recipe.data(), compiled->recipe.size()));
  auto got = results(c, *compiled, recipe);
  if (!got.ok()) {
    printf("free %s refused %s\n", c.name.c_str(), oneLine(got.status().message()).c_str());
    return okStatus();
  }
  printf("free %s yes\n", c.name.c_str());
  for (size_t i = 0; i < got->size(); ++i)
    if (i >= wanted.size() || (*got)[i].bytes.size() != wanted[i].bytes.size())
      return internalError(strCat("the program for all sizes gives ", (*got)[i].bytes.size(), " bytes of output ", i));
    else if ((*got)[i].bytes != wanted[i].bytes)
      printf("other %s %s %s\n", c.graph.tensors[static_cast<size_t>(compiled->outputs[i])].name.c_str(),
             sizesWord(compiled->sizes[static_cast<size_t>(compiled->outputs[i])]).c_str(),
             toHex((*got)[i].bytes).c_str());
  return okStatus();
}

Status runCase(Case& c, bool inferOnly, bool log, bool free) {
  GraphDescription inferred = c.graph;
  if (inferOnly || c.request.actualSizes.empty()) HPU_RETURN_IF_ERROR(inferShapes(inferred));
  if (inferOnly) {
    printf("result %s ok\n", c.name.c_str());
    for (size_t t = 0; t < inferred.tensors.size(); ++t) printSizes(inferred, t, inferred.tensors[t].maxSizes);
    return okStatus();
  }
  // As synGraphCompile, before it compiles.
  if (c.isStridedByLargest) strideByLargest(c.graph);
  HPU_RETURN_IF_ERROR(checkSectionOrder(c.request.actualSizes.empty() ? inferred : c.graph));
  std::string note;
  if (free && c.request.actualSizes.empty()) {
    CompileRequest request = c.request;
    request.freeSizes = CompileRequest::FreeSizes::kAll;
    StatusOr<CompiledGraph> compiled = compileGraph(c.graph, request);
    note = strCat("free ", c.name, " no ", oneLine(compiled.status().message()), "\n");
    if (compiled.ok()) {
      Status status = runCompiled(c, *compiled, inferred, log, strCat("free ", c.name, " yes\n"));
      if (status.ok()) return status;
      note = strCat("free ", c.name, " refused ", oneLine(status.message()), "\n");
    }
  }
  HPU_ASSIGN(CompiledGraph compiled, compileGraph(c.graph, c.request));
  std::vector<tools::HostTensor> outputs;
  HPU_RETURN_IF_ERROR(runCompiled(c, compiled, inferred, log, note, &outputs));
  return c.request.actualSizes.empty() ? okStatus() : checkBounded(c, outputs);
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  CompileRequest request;
  Target target = Target::kGaudi2;
  bool inferOnly = false, log = false, free = false;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--infer")
      inferOnly = true;
    else if (word == "--log")
      log = true;
    else if (word == "--free")
      free = true;
    else if (word.starts_with("--level="))
      request.optLevel = std::atoi(word.c_str() + 8);
    else if (word.starts_with("--target=")) {
      StatusOr<Target> parsed = parseTarget(word.substr(9));
      if (!parsed.ok()) return fprintf(stderr, "%s\n", parsed.status().message().c_str()), 2;
      target = *parsed;
    } else
      file = word;
  }
  std::ifstream stream(file);
  if (!stream) return fprintf(stderr, "cannot read '%s'\n", file.c_str()), 2;
  Case c;
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> words = split(line, ' ');
    if (words.empty()) continue;
    if (words[0] == "case") {
      c = Case();
      c.name = c.graph.name = words[1];
      c.request = request;
      c.isStridedByLargest = words.size() > 2 && words[2] == "largest";
      c.graph.target = target;
      c.graph.eager = true;  // One kernel variant is enough here.
    } else if (words[0] == "section") {
      c.graph.sections.push_back(
          {static_cast<uint32_t>(c.graph.sections.size()), 0, words[1] != "workspace", words[1] == "const", false});
    } else if (words[0] == "tensor") {
      readTensor(words, c);
    } else if (words[0] == "node") {
      readNode(words, c);
    } else if (words[0] == "end") {
      if (!c.request.actualSizes.empty()) c.request.actualSizes.resize(c.graph.tensors.size());
      if (Status status = runCase(c, inferOnly, log, free); !status.ok())
        printf("result %s %s %s\n", c.name.c_str(), std::string(statusCodeName(status.code())).c_str(),
               oneLine(status.message()).c_str());
      fflush(stdout);
    }
  }
  return 0;
}
