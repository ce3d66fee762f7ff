// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "numerics/ElementKinds.h"
#include "numerics/SmallFloat.h"
#include "tools/common/Npy.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu::tools {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): one multiplication-xor chain a number, equal on every
/// machine.
class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1) with 24 bits, so that f32 holds it exactly.
  double unit() { return static_cast<double>(next() >> 40) * 0x1p-24; }

 private:
  uint64_t state_;
};

void storeNumber(HostTensor& tensor, int64_t index, double value) {
  auto put = [&](auto number) { memcpy(tensor.bytes.data() + index * sizeof number, &number, sizeof number); };
  switch (tensor.type.element) {
    case ElementType::kF32:
      return put(static_cast<float>(value));
    case ElementType::kF64:
      return put(value);
    case ElementType::kF16:
      return put(numerics::f32ToF16(static_cast<float>(value)));
    case ElementType::kBF16:
      return put(numerics::f32ToBf16(static_cast<float>(value)));
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      return put(numerics::f32ToFp8(numerics::fp8Format(tensor.type.element), static_cast<float>(value),
                                    numerics::Overflow::kSaturate));
    case ElementType::kBool:
      return put(static_cast<uint8_t>(value != 0));
    case ElementType::kI8:
    case ElementType::kU8:
      return put(static_cast<uint8_t>(static_cast<int64_t>(value)));
    case ElementType::kI16:
    case ElementType::kU16:
      return put(static_cast<uint16_t>(static_cast<int64_t>(value)));
    case ElementType::kI32:
    case ElementType::kU32:
      return put(static_cast<uint32_t>(static_cast<int64_t>(value)));
    case ElementType::kI64:
    case ElementType::kU64:
      return put(static_cast<int64_t>(value));
    case ElementType::kInvalid:
      return;
  }
}

StatusOr<double> parseNumber(const std::string& text) {
  char* end = nullptr;
  double value = strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(value)) return invalidArgument("'" + text + "' is not a number");
  return value;
}

StatusOr<HostTensor> fromRandomSource(const std::string& source, const TensorType& type) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin != std::string::npos;) {
    size_t colon = source.find(':', begin);
    parts.push_back(source.substr(begin, colon == std::string::npos ? colon : colon - begin));
    begin = colon == std::string::npos ? colon : colon + 1;
  }
  if (parts.size() != 2 && parts.size() != 4)
    return invalidArgument("'" + source + "' is not rand:SEED or rand:SEED:LOW:HIGH");
  HPU_ASSIGN(int64_t seed, base::parseInt(parts[1]));
  std::optional<std::pair<double, double>> range;
  if (parts.size() == 4) {
    HPU_ASSIGN(double low, parseNumber(parts[2]));
    HPU_ASSIGN(double high, parseNumber(parts[3]));
    range = {low, high};
  }
  return randomTensor(type, static_cast<uint64_t>(seed), range);
}

StatusOr<std::vector<HostTensor>> readNumbered(const std::string& folder, const char* kind) {
  std::vector<HostTensor> tensors;
  for (int k = 0;; ++k) {
    std::string path = folder + "/" + kind + "_" + std::to_string(k) + ".pb";
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return tensors;
    HPU_ASSIGN(HostTensor tensor, readTensorProto(path));
    tensors.push_back(std::move(tensor));
  }
}

}  // namespace

StatusOr<InputSpec> parseInputSpec(const std::string& text) {
  size_t equals = text.find('=');
  InputSpec spec;
  spec.source = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos) spec.name = text.substr(0, equals);
  bool known = spec.source.rfind("@", 0) == 0 || spec.source.rfind("rand:", 0) == 0 || spec.source == "zeros" ||
               spec.source == "ones";
  if (!known || (equals == 0))
    return invalidArgument("'" + text +
                           "' is not an input; write NAME=@FILE.npy, NAME=rand:SEED[:LOW:HIGH], "
                           "NAME=zeros or NAME=ones");
  return spec;
}

StatusOr<HostTensor> randomTensor(const TensorType& type, uint64_t seed,
                                  std::optional<std::pair<double, double>> range) {
  HPU_ASSIGN(HostTensor tensor, makeTensor(type));
  bool floats = numerics::isFloat(type.element);
  auto [low, high] = range.value_or(floats ? std::pair(-1.0, 1.0) : std::pair(0.0, 2.0));
  if (!(low < high)) return invalidArgument("the range of random numbers is empty");
  SplitMix random(seed);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = low + random.unit() * (high - low);
    storeNumber(tensor, i, floats ? value : std::floor(value));
  }
  return tensor;
}

bool fits(const TensorType& given, const TensorType& wanted) {
  if (given.element != wanted.element || given.shape.size() != wanted.shape.size()) return false;
  for (size_t d = 0; d < given.shape.size(); ++d)
    if (wanted.shape[d] != kDynamic && wanted.shape[d] != given.shape[d]) return false;
  return true;
}

StatusOr<HostTensor> tensorFrom(const InputSpec& spec, const TensorInfo& input) {
  std::string where = "input '" + input.name + "'";
  if (spec.source[0] == '@') {
    StatusOr<HostTensor> tensor = readTensorFile(spec.source.substr(1));
    if (!tensor.ok()) return tensor.status().withContext(where);
    tensor = narrowedTo(*std::move(tensor), input.type.element);
    if (!fits(tensor->type, input.type))
      return invalidArgument(where + " is " + input.type.toString() + ", but '" + spec.source.substr(1) + "' holds " +
                             tensor->type.toString());
    tensor->name = input.name;
    return tensor;
  }
  if (numElements(input.type.shape) == kDynamic)
    return invalidArgument(where + " is " + input.type.toString() +
                           " with free dimensions; give their sizes with "
                           "--shape " +
                           input.name + "=...");
  StatusOr<HostTensor> tensor =
      spec.source.rfind("rand:", 0) == 0 ? fromRandomSource(spec.source, input.type) : makeTensor(input.type);
  if (!tensor.ok()) return tensor.status().withContext(where);
  if (spec.source == "ones")
    for (int64_t i = 0; i < tensor->count(); ++i) storeNumber(*tensor, i, 1);
  tensor->name = input.name;
  return tensor;
}

StatusOr<std::vector<DataSet>> readDataSets(const std::string& dir) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> folders;
  // A model without inputs has outputs all the same.
  auto isSet = [&](const fs::path& folder) {
    return fs::exists(folder / "input_0.pb", error) || fs::exists(folder / "output_0.pb", error);
  };
  if (isSet(dir)) {
    folders.push_back(dir);
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(dir, error))
      if (entry.path().filename().string().rfind("test_data_set_", 0) == 0 && isSet(entry.path()))
        folders.push_back(entry.path().string());
    std::sort(folders.begin(), folders.end());
  }
  if (folders.empty()) return notFound("no input_0.pb in '" + dir + "' nor in a folder test_data_set_* below it");
  std::vector<DataSet> sets;
  for (const std::string& folder : folders) {
    DataSet set;
    set.folder = folder;
    HPU_ASSIGN(set.inputs, readNumbered(folder, "input"));
    HPU_ASSIGN(set.outputs, readNumbered(folder, "output"));
    sets.push_back(std::move(set));
  }
  return sets;
}

StatusOr<HostTensor> readLabels(const std::string& path) {
  if (!path.ends_with(".txt")) return readTensorFile(path);
  HPU_ASSIGN(std::string text, base::readTextFile(path));
  HostTensor labels;
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view word = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    while (!word.empty() && (word.back() == '\r' || word.back() == ' ')) word.remove_suffix(1);
    if (word.empty()) continue;
    StatusOr<int64_t> label = base::parseInt(word);
    if (!label.ok())
      return invalidArgument("'" + path + "' line " + std::to_string(line) + ": '" + std::string(word) +
                             "' is not a class number");
    const auto* bytes = reinterpret_cast<const uint8_t*>(&*label);
    labels.bytes.insert(labels.bytes.end(), bytes, bytes + sizeof(int64_t));
  }
  labels.type = {ElementType::kI64, {static_cast<int64_t>(labels.bytes.size() / sizeof(int64_t))}};
  return labels;
}

StatusOr<std::vector<const HostTensor*>> selectInputs(const std::vector<std::string>& inputs,
                                                      const std::vector<HostTensor>& given, const std::string& where,
                                                      bool byName) {
  if (given.size() != inputs.size())
    return invalidArgument("the model has " + std::to_string(inputs.size()) + " inputs, " + where + " has " +
                           std::to_string(given.size()));
  auto named = [&](const std::string& name) {
    return std::find_if(given.begin(), given.end(), [&](const HostTensor& t) { return t.name == name; });
  };
  for (const std::string& name : inputs)
    if (byName && named(name) == given.end())
      return invalidArgument(where + " has no tensor '" + name + "', an input of the model");
  byName =
      std::all_of(inputs.begin(), inputs.end(), [&](const std::string& name) { return named(name) != given.end(); });
  std::vector<const HostTensor*> tensors;
  for (size_t k = 0; k < inputs.size(); ++k) tensors.push_back(byName ? &*named(inputs[k]) : &given[k]);
  return tensors;
}

Status checkInputNames(const std::vector<std::string>& texts, const std::vector<std::string>& inputs) {
  for (const std::string& text : texts) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (spec.name.empty() || std::find(inputs.begin(), inputs.end(), spec.name) != inputs.end()) continue;
    return notFound("there is no input '" + spec.name + "'; the inputs are " + base::join(inputs) +
                    base::didYouMean(spec.name, inputs));
  }
  return okStatus();
}

Status protectData(Tool& tool, const std::vector<DataSet>& data, const std::vector<std::string>& inputs) {
  for (const DataSet& set : data) {
    for (size_t k = 0; k < set.inputs.size(); ++k)
      HPU_RETURN_IF_ERROR(tool.reads(set.folder + "/input_" + std::to_string(k) + ".pb"));
    for (size_t k = 0; k < set.outputs.size(); ++k)
      HPU_RETURN_IF_ERROR(tool.reads(set.folder + "/output_" + std::to_string(k) + ".pb"));
  }
  for (const std::string& text : inputs) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (spec.source[0] != '@') continue;
    std::string path = spec.source.substr(1);
    std::error_code error;
    // "file.npz:NAME".
    if (!std::filesystem::exists(path, error)) path = path.substr(0, path.rfind(':'));
    if (std::filesystem::exists(path, error)) HPU_RETURN_IF_ERROR(tool.reads(path));
  }
  return okStatus();
}

StatusOr<std::vector<HostTensor>> matchInputs(const std::vector<TensorInfo>& inputs,
                                              const std::vector<HostTensor>& given, const std::string& where,
                                              bool byName) {
  std::vector<std::string> names;
  for (const TensorInfo& input : inputs) names.push_back(input.name);
  HPU_ASSIGN(std::vector<const HostTensor*> selected, selectInputs(names, given, where, byName));
  std::vector<HostTensor> tensors;
  for (size_t k = 0; k < inputs.size(); ++k) {
    HostTensor tensor = narrowedTo(*selected[k], inputs[k].type.element);
    if (!fits(tensor.type, inputs[k].type))
      return invalidArgument("input " + std::to_string(k) + " '" + inputs[k].name + "' is " +
                             inputs[k].type.toString() + ", but " + where + " has " + tensor.type.toString());
    tensor.name = inputs[k].name;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace hpu::tools
