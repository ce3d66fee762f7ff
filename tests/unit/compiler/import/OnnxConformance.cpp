// SPDX-License-Identifier: Apache-2.0
// Runs ONNX backend test folders (model.onnx, test_data_set_k/input_i.pb, output_i.pb) through the importer
// and the reference interpreter.
//
//   onnx_conformance [--expected FILE] [--update] [--verbose] [--free] FOLDER...
//
// --free imports models with free dimensions as they are, else they get the sizes of the data.
// A FOLDER is a test folder or holds such. With --expected, FILE lists the tests that cannot be imported,
// one a line with the reason, and those whose result differs from ONNX's on purpose (the reason begins with
// "differs"); any other outcome than listed fails. --update rewrites FILE.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/Format.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/OnnxReader.h"
#include "compiler/interp/Interpreter.h"

namespace {

namespace fs = std::filesystem;
using hpu::Status;
using hpu::StatusOr;
using hpu::TensorType;
using hpu::base::strCat;
using hpu::interp::Tensor;

bool keepFree = false;

enum class Outcome { kPassed, kPassedWithConstants, kUnsupported, kFailed };

struct Result {
  Outcome outcome = Outcome::kFailed;
  std::string reason;
};

StatusOr<std::vector<Tensor>> readTensors(const fs::path& folder, const std::string& prefix) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    fs::path file = folder / strCat(prefix, "_", i, ".pb");
    if (!fs::exists(file)) return tensors;
    StatusOr<hpu::importer::TensorData> data = hpu::importer::readOnnxTensor(file.string());
    if (!data.ok()) return data.status();
    tensors.push_back(Tensor::borrow(data->type, data->data, data->owner));
  }
}

/// Empty when `actual` is close to `expected`: |a-b| <= atol*max|b| + rtol*|b|, integers equal.
std::string compare(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type())
    return strCat("is ", actual.type().toString(), ", expected ", expected.type().toString());
  double rtol = 1e-4, atol = 1e-4, largest = 0;
  switch (actual.element()) {
    case hpu::ElementType::kF32: break;
    case hpu::ElementType::kF64: rtol = 1e-7, atol = 1e-9; break;
    case hpu::ElementType::kF16: rtol = 2e-3, atol = 1e-3; break;
    case hpu::ElementType::kBF16: rtol = 1e-2, atol = 1e-2; break;
    default: rtol = atol = 0;
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

/// Imports with the first `runtimeInputs` inputs as inputs and the others as constants, and runs.
Result runDataSet(const std::string& model, const hpu::importer::OnnxModel& parsed, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& expected, size_t runtimeInputs) {
  hpu::importer::ImportOptions options;
  std::vector<Tensor> bound;
  size_t next = 0;
  std::map<std::string, bool> initializers;
  for (const auto& tensor : parsed.graph.initializers) initializers[tensor.name] = true;
  for (const auto& input : parsed.graph.inputs) {
    if (initializers.count(input.name)) continue;
    if (next >= inputs.size()) return {Outcome::kUnsupported, "a data set without all inputs"};
    Tensor value = inputs[next];
    // The data files hold bf16 as uint16.
    if (input.dataType == 16 && value.element() == hpu::ElementType::kU16)
      value = value.retyped({hpu::ElementType::kBF16, value.shape()});
    bool conflicts = input.hasShape && input.shape.size() != value.shape().size();
    if (next < runtimeInputs && !conflicts) {
      bool isFree = !input.hasShape;
      for (const auto& dim : input.shape) isFree |= dim.size == hpu::kDynamic;
      if (isFree && (!keepFree || !input.hasShape)) options.shapes[input.name] = value.shape();
      bound.push_back(value);
    } else {
      options.constants[input.name] = value;
    }
    ++next;
  }
  for (auto& [name, shape] : options.shapes)
    for (int64_t& dim : shape)
      if (dim < 1) dim = hpu::kDynamic;  // Empty tensors keep the declared size.
  auto context = hpu::importer::makeContext();
  auto module = hpu::importer::importOnnxModule(*context, model, options);
  if (!module.ok()) {
    bool unsupported = module.status().code() == hpu::StatusCode::kUnimplemented;
    return {unsupported ? Outcome::kUnsupported : Outcome::kFailed, module.status().message()};
  }
  auto main = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  StatusOr<std::vector<Tensor>> outputs = hpu::interp::evaluateFunction(main, bound);
  if (!outputs.ok()) return {Outcome::kFailed, outputs.status().message()};
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= outputs->size()) return {Outcome::kFailed, "too few outputs"};
    Tensor wanted = expected[i];
    if ((*outputs)[i].element() == hpu::ElementType::kBF16 && wanted.element() == hpu::ElementType::kU16)
      wanted = wanted.retyped({hpu::ElementType::kBF16, wanted.shape()});
    std::string difference = compare((*outputs)[i], wanted);
    if (!difference.empty()) return {Outcome::kFailed, strCat("output ", i, " ", difference)};
  }
  return {runtimeInputs == inputs.size() ? Outcome::kPassed : Outcome::kPassedWithConstants, ""};
}

Result runFolder(const fs::path& folder) {
  std::string model = (folder / "model.onnx").string();
  StatusOr<hpu::importer::OnnxModel> parsed = hpu::importer::readOnnxModel(model);
  if (!parsed.ok()) return {Outcome::kUnsupported, parsed.status().message()};
  Result result{Outcome::kUnsupported, "no data set"};
  for (int set = 0; fs::exists(folder / strCat("test_data_set_", set)); ++set) {
    fs::path data = folder / strCat("test_data_set_", set);
    StatusOr<std::vector<Tensor>> inputs = readTensors(data, "input"), expected = readTensors(data, "output");
    if (!inputs.ok() || !expected.ok()) return {Outcome::kUnsupported, "data that are no tensors of a known type"};
    result = runDataSet(model, *parsed, *inputs, *expected, inputs->size());
    // Node tests feed shapes, axes and the like at run time: bind inputs until the node imports.
    for (size_t count = inputs->size(); result.outcome == Outcome::kUnsupported && count-- > 0;)
      result = runDataSet(model, *parsed, *inputs, *expected, count);
    if (result.outcome == Outcome::kFailed || result.outcome == Outcome::kUnsupported) return result;
  }
  return result;
}

std::vector<fs::path> findFolders(const std::vector<std::string>& roots) {
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

std::string testName(const fs::path& folder) { return (folder.parent_path().filename() / folder.filename()).string(); }

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

}  // namespace

int main(int argc, char** argv) {
  std::string expectedFile;
  bool update = false, verbose = false;
  std::vector<std::string> roots;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--expected" && i + 1 < argc) expectedFile = argv[++i];
    else if (argument == "--update") update = true;
    else if (argument == "--verbose") verbose = true;
    else if (argument == "--free") keepFree = true;
    else roots.push_back(argument);
  }
  std::vector<fs::path> folders = findFolders(roots);
  if (folders.empty()) {
    std::printf("no ONNX backend test found; install the Debian package libonnx-testdata\n");
    return 77;  // ctest: skipped.
  }
  std::map<std::string, std::string> expected = readExpected(expectedFile), unsupported;
  int counts[4] = {}, surprises = 0;
  for (const fs::path& folder : folders) {
    auto start = std::chrono::steady_clock::now();
    Result result = runFolder(folder);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string name = testName(folder), reason = firstLine(result.reason, folder);
    ++counts[static_cast<int>(result.outcome)];
    bool passed = result.outcome == Outcome::kPassed || result.outcome == Outcome::kPassedWithConstants;
    if (verbose) std::printf("%-10s %7.2f s  %s  %s\n", passed ? "pass" : "-", seconds, name.c_str(), reason.c_str());
    if (result.outcome == Outcome::kUnsupported) {
      unsupported[name] = reason;
      if (!expectedFile.empty() && !update && !expected.count(name)) {
        ++surprises;
        std::printf("UNEXPECTED unsupported %s: %s\n", name.c_str(), reason.c_str());
      }
    } else if (result.outcome == Outcome::kFailed && expected[name].starts_with("differs")) {
      unsupported[name] = expected[name];
    } else if (result.outcome == Outcome::kFailed) {
      ++surprises;
      std::printf("FAILED %s: %s\n", name.c_str(), reason.c_str());
    } else if (!expected[name].empty() && !update) {
      ++surprises;
      std::printf("UNEXPECTED pass of %s: take it out of %s\n", name.c_str(), expectedFile.c_str());
    }
    std::fflush(stdout);
  }
  if (update) {
    std::ofstream out(expectedFile);
    out << "# ONNX backend tests that do not import, with the importer's reason; written by onnx_conformance --update.\n";
    for (const auto& [name, reason] : unsupported) out << name << '\t' << reason << '\n';
  }
  std::printf("%zu tests: %d passed (%d of them with inputs bound at import), %d unsupported, %d with another result\n", folders.size(),
              counts[0] + counts[1], counts[1], counts[2], counts[3]);
  return surprises ? 1 : 0;
}
