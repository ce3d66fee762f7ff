// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/onnx/OnnxTests.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "base/Format.h"
#include "compiler/dialect/hpu/ValueSizes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/OnnxData.h"
#include "compiler/import/OnnxReader.h"

namespace hpu::onnxtest {
namespace {

namespace fs = std::filesystem;
using base::strCat;
using interp::Tensor;

/// The tensors of a data set; elements of sequences one by one.
struct Data {
  std::vector<Tensor> tensors;
  std::map<std::string, int64_t> lengths;  ///< Of sequences and optionals, by name, as the import asks for them.
};

StatusOr<Data> readTensors(const fs::path& folder, const std::string& prefix,
                           const std::vector<const importer::ValueInfo*>& declared) {
  Data all;
  const importer::ValueInfo tensor;  // What is not declared.
  for (size_t i = 0;; ++i) {
    fs::path file = folder / strCat(prefix, "_", i, ".pb");
    if (!fs::exists(file)) return all;
    const importer::ValueInfo& info = i < declared.size() ? *declared[i] : tensor;
    StatusOr<importer::OnnxData> data = importer::readOnnxData(file.string(), info);
    if (!data.ok()) return data.status();
    if (info.isSequence || info.isOptional)
      all.lengths[info.name + "[]"] =
          data->isAbsent && info.isSequence ? -1 : static_cast<int64_t>(data->tensors.size());
    for (const importer::TensorData& each : data->tensors)
      all.tensors.push_back(Tensor::borrow(each.type, each.data, each.owner));
  }
}

/// The inputs that data sets have, in their order.
std::vector<const importer::ValueInfo*> dataInputs(const importer::GraphDef& graph) {
  std::set<std::string> initializers;
  for (const auto& tensor : graph.initializers) initializers.insert(tensor.name);
  std::vector<const importer::ValueInfo*> inputs;
  for (const auto& input : graph.inputs)
    if (!initializers.count(input.name)) inputs.push_back(&input);
  return inputs;
}

/// Empty when `actual` is close to `expected`: |a-b| <= atol*max|b| + rtol*|b|, integers equal.
std::string compare(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type())
    return strCat("is ", actual.type().toString(), ", expected ", expected.type().toString());
  double rtol = 1e-4, atol = 1e-4, largest = 0;
  switch (actual.element()) {
    case hpu::ElementType::kF32:
      break;
    case hpu::ElementType::kF64:
      rtol = 1e-7, atol = 1e-9;
      break;
    case hpu::ElementType::kF16:
      rtol = 2e-3, atol = 1e-3;
      break;
    case hpu::ElementType::kBF16:
      rtol = 1e-2, atol = 1e-2;
      break;
    default:
      rtol = atol = 0;
  }
  bool isFloat = rtol > 0;
  int64_t wrong = 0;
  double worst = 0;
  for (int64_t i = 0; i < expected.count(); ++i)
    if (double b = std::fabs(expected.number(i)); std::isfinite(b)) largest = std::max(largest, b);
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (!isFloat) {
      wrong += actual.integer(i) != expected.integer(i);
      continue;
    }
    double a = actual.number(i), b = expected.number(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double error = std::fabs(a - b);
    if (!(error <= atol * largest + rtol * std::fabs(b))) ++wrong;
    worst = std::max(worst, error);
  }
  if (!wrong) return {};
  return strCat(wrong, " of ", expected.count(), " elements differ, by up to ", worst);
}

/// The inputs of one data set, bound for the import: the first `runtimeInputs` stay inputs.
struct Binding {
  importer::ImportOptions options;
  std::vector<Tensor> inputs;
};

bool areAll(FreeDims freeDims) {
  return freeDims == FreeDims::kAll || freeDims == FreeDims::kApart;
}

StatusOr<Binding> bind(const importer::GraphDef& graph, const Data& data, size_t runtimeInputs, FreeDims freeDims) {
  Binding binding;
  const std::vector<Tensor>& inputs = data.tensors;
  std::vector<importer::ValueInfo> tensors;  // As the import has them.
  for (const importer::ValueInfo* input : dataInputs(graph)) {
    auto length = data.lengths.find(input->name + "[]");
    if (length == data.lengths.end() || (!input->isSequence && length->second == 1)) {
      tensors.push_back(*input);
      continue;
    }
    binding.options.dims[length->first] = length->second;
    for (int64_t k = 0; k < length->second; ++k) {
      importer::ValueInfo element = *input;
      element.name = strCat(input->name, "[", k, "]");
      tensors.push_back(std::move(element));
    }
  }
  size_t next = 0;
  for (const auto& input : tensors) {
    if (next >= inputs.size()) return unimplemented("a data set without all inputs");
    Tensor value = inputs[next];
    // The data files hold bf16 as uint16.
    if (input.dataType == 16 && value.element() == ElementType::kU16)
      value = value.retyped({ElementType::kBF16, value.shape()});
    bool conflicts = input.hasShape && input.shape.size() != value.shape().size();
    if (next < runtimeInputs && !conflicts) {
      bool isFree = !input.hasShape;
      for (const auto& dim : input.shape) isFree |= dim.size == kDynamic;
      const bool isElement = input.isSequence || input.isOptional || !data.lengths.empty();
      if (isFree && (freeDims == FreeDims::kNone || !input.hasShape || (isElement && areAll(freeDims))))
        binding.options.shapes[input.name] = value.shape();
      binding.inputs.push_back(value);
    } else {
      binding.options.constants[input.name] = value;
    }
    ++next;
  }
  for (auto& [name, shape] : binding.options.shapes)
    for (int64_t& dim : shape)
      if (dim < 1) dim = kDynamic;  // Empty tensors keep the declared size.
  return binding;
}

/// Gives the dimensions of the first inputs above 1 names instead of sizes.
void freeInputs(importer::GraphDef& graph, const Data& data, size_t runtimeInputs, bool apart) {
  size_t next = 0;
  for (const importer::ValueInfo* input : dataInputs(graph)) {
    if (next >= runtimeInputs || next >= data.tensors.size()) return;
    const Shape& sizes = data.tensors[next++].shape();
    auto& info = const_cast<importer::ValueInfo&>(*input);  // Of `graph`, which is not const.
    if (info.isSequence || info.isOptional) return;
    if (!info.hasShape || info.shape.size() != sizes.size()) continue;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1)
        info.shape[d] = {kDynamic, apart ? strCat("s", sizes[d], "_", next - 1, "_", d) : strCat("s", sizes[d])};
  }
}

/// Says shapes, scales or axes, maybe: a list, or a number, beside an operand that stays.
bool isParameter(const Data& data, size_t input) {
  return data.tensors[input].rank() == 0 || (input > 0 && data.tensors[input].rank() == 1);
}

Result runDataSet(const importer::OnnxModel& parsed, const Data& data, const std::vector<Tensor>& expected,
                  size_t runtimeInputs, FreeDims freeDims, const Runner& runner) {
  importer::OnnxModel model = parsed;
  StatusOr<Binding> binding = bind(parsed.graph, data, runtimeInputs, freeDims);
  if (!binding.ok()) return {Outcome::kNotImported, binding.status().message()};
  if (areAll(freeDims)) freeInputs(model.graph, data, runtimeInputs, freeDims == FreeDims::kApart);
  auto context = importer::makeContext();
  auto module = importer::importOnnxModule(*context, std::move(model), binding->options);
  if (!module.ok()) {
    // One that asks for sizes gets all that the data have: values of inputs are sizes there that it cannot do without.
    bool unsupported = module.status().code() == StatusCode::kUnimplemented ||
                       module.status().message().find("CompileOptions::dims") != std::string::npos;
    return {unsupported ? Outcome::kNotImported : Outcome::kFailed, module.status().message()};
  }
  const bool hasValueSizes = !ir::valueSizes(**module).empty();
  StatusOr<std::vector<Tensor>> outputs = runner(context, std::move(*module), binding->inputs);
  if (!outputs.ok()) {
    // Sizes that are values of inputs have limits of their own; bound, the values are constants.
    if (hasValueSizes) return {Outcome::kNotImported, outputs.status().message()};
    bool unsupported = outputs.status().code() == StatusCode::kUnimplemented;
    return {unsupported ? Outcome::kUnsupported : Outcome::kFailed, outputs.status().message()};
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= outputs->size()) return {Outcome::kFailed, "too few outputs"};
    Tensor wanted = expected[i];
    if ((*outputs)[i].element() == ElementType::kBF16 && wanted.element() == ElementType::kU16)
      wanted = wanted.retyped({ElementType::kBF16, wanted.shape()});
    std::string difference = compare((*outputs)[i], wanted);
    if (!difference.empty()) return {Outcome::kFailed, strCat("output ", i, " ", difference)};
  }
  return {runtimeInputs == data.tensors.size() ? Outcome::kPassed : Outcome::kPassedWithConstants, ""};
}

std::string testName(const fs::path& folder) {
  return (folder.parent_path().filename() / folder.filename()).string();
}

std::string firstLine(std::string text, const fs::path& folder) {
  std::string path = strCat("'", (folder / "model.onnx").string(), "': ");
  if (size_t at = text.find(path); at != std::string::npos) text.erase(at, path.size());
  size_t line = text.find('\n');
  if (line == std::string::npos) return text;
  // Several problems: the first of them.
  std::string rest = text.substr(line + 1);
  size_t begin = rest.find_first_not_of(' ');
  return rest.substr(begin == std::string::npos ? 0 : begin, rest.find('\n') - begin);
}

/// "name TAB verdict: reason" lines.
std::map<std::string, std::string> readExpected(const std::string& file) {
  std::map<std::string, std::string> expected;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t tab = line.find('\t');
    expected[line.substr(0, tab)] = tab == std::string::npos ? "" : line.substr(tab + 1);
  }
  return expected;
}

std::string verdictOf(const std::string& line) {
  return line.substr(0, line.find(':'));
}

const char* verdict(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
    case Outcome::kPassedWithConstants:
      return "passes";
    case Outcome::kNotImported:
      return "does not import";
    case Outcome::kUnsupported:
      return "unsupported";
    case Outcome::kFailed:
      return "fails";
  }
  return "";
}

}  // namespace

Result runTest(const fs::path& folder, FreeDims freeDims, const Runner& runner) {
  StatusOr<importer::OnnxModel> parsed = importer::readOnnxModel((folder / "model.onnx").string());
  if (!parsed.ok()) return {Outcome::kNotImported, parsed.status().message()};
  Result result{Outcome::kNotImported, "no data set"};
  for (int set = 0; fs::exists(folder / strCat("test_data_set_", set)); ++set) {
    fs::path data = folder / strCat("test_data_set_", set);
    std::vector<const importer::ValueInfo*> declared;
    for (const importer::ValueInfo& output : parsed->graph.outputs) declared.push_back(&output);
    StatusOr<Data> inputs = readTensors(data, "input", dataInputs(parsed->graph)),
                   expected = readTensors(data, "output", declared);
    if (!inputs.ok() || !expected.ok()) return {Outcome::kNotImported, "data that are no tensors of a known type"};
    const size_t all = inputs->tensors.size();
    result = runDataSet(*parsed, *inputs, expected->tensors, all, freeDims, runner);
    for (size_t count = all; result.outcome == Outcome::kNotImported && count-- > 0;) {
      if (areAll(freeDims) && !isParameter(*inputs, count)) break;
      result = runDataSet(*parsed, *inputs, expected->tensors, count, freeDims, runner);
    }
    if (!result.passed()) return result;
  }
  return result;
}

std::vector<fs::path> findTests(const std::vector<std::string>& roots) {
  std::vector<fs::path> folders;
  for (const fs::path root : roots) {
    if (fs::exists(root / "model.onnx")) {
      folders.push_back(root);
      continue;
    }
    if (!fs::is_directory(root)) continue;
    for (const auto& entry : fs::directory_iterator(root))
      if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

int runTests(const Options& options, const Runner& runner) {
  std::vector<fs::path> folders = findTests(options.roots);
  if (folders.empty()) {
    std::printf("no ONNX backend test found; install the Debian package libonnx-testdata\n");
    return 77;
  }
  std::map<std::string, std::string> expected = readExpected(options.expectedFile), found;
  std::map<Outcome, int> counts;
  int surprises = 0;
  for (const fs::path& folder : folders) {
    auto start = std::chrono::steady_clock::now();
    Result result = runTest(folder, options.freeDims, runner);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string name = testName(folder), reason = firstLine(result.reason, folder);
    ++counts[result.outcome];
    if (options.verbose)
      std::printf("%-16s %7.2f s  %s  %s\n", verdict(result.outcome), seconds, name.c_str(), reason.c_str());
    bool listed = !result.passed() && (options.listNotImported || result.outcome != Outcome::kNotImported);
    std::string is = listed ? verdict(result.outcome) : "passes", was = "passes";
    if (auto line = expected.find(name); line != expected.end()) was = verdictOf(line->second);
    // Written by hand: a result that is another one on purpose.
    bool differs = was == "differs" && result.outcome == Outcome::kFailed;
    if (differs)
      found[name] = expected[name];
    else if (listed)
      found[name] = strCat(is, ": ", reason);
    if (!differs && is != was && !options.update) {
      ++surprises;
      std::printf("UNEXPECTED %s %s, listed as '%s': %s\n", name.c_str(), is.c_str(), was.c_str(), reason.c_str());
    }
    std::fflush(stdout);
  }
  if (options.update) {
    std::ofstream out(options.expectedFile);
    out << "# ONNX backend tests that do not pass, with the reason; written by --update ('differs' lines by hand).\n";
    for (const auto& [name, reason] : found) out << name << '\t' << reason << '\n';
  }
  std::printf(
      "%zu tests: %d passed (%d of them with inputs bound at import), %d do not import, %d unsupported, %d with "
      "another "
      "result or an error\n",
      folders.size(), counts[Outcome::kPassed] + counts[Outcome::kPassedWithConstants],
      counts[Outcome::kPassedWithConstants], counts[Outcome::kNotImported], counts[Outcome::kUnsupported],
      counts[Outcome::kFailed]);
  return surprises ? 1 : 0;
}

Options parseOptions(int argc, char** argv, std::vector<std::string>& rest) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--expected" && i + 1 < argc)
      options.expectedFile = argv[++i];
    else if (argument == "--update")
      options.update = true;
    else if (argument == "--verbose")
      options.verbose = true;
    else if (argument.starts_with("--"))
      rest.push_back(argument);
    else
      options.roots.push_back(argument);
  }
  return options;
}

}  // namespace hpu::onnxtest
