// SPDX-License-Identifier: Apache-2.0
// Where the inputs of a run come from: files, an ONNX test data folder, or reproducible random
// numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/Cli.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {

/// One "--input NAME=SOURCE": "@file.npy", "@file.pb", "@file.npz:NAME", "rand:SEED" or
/// "rand:SEED:LOW:HIGH", "zeros", "ones". Without a name ("rand:7") it stands for all inputs.
struct InputSpec {
  std::string name, source;
};
StatusOr<InputSpec> parseInputSpec(const std::string& text);

/// Random numbers that are the same on every machine: floats uniform in [low, high), integers in
/// [low, high). The defaults are [-1, 1) for floats, {0, 1} for integers and booleans.
StatusOr<HostTensor> randomTensor(const TensorType& type, uint64_t seed,
                                  std::optional<std::pair<double, double>> range = {});
/// The tensor that a source gives for an input of a type. A free dimension takes its size from a
/// file, and is an error for the other sources. Errors: kInvalidArgument naming the input, and the
/// files' own.
StatusOr<HostTensor> tensorFrom(const InputSpec& spec, const TensorInfo& input);

/// A folder with input_k.pb and output_k.pb; DIR itself, or its test_data_set_* folders.
struct DataSet {
  std::string folder;
  std::vector<HostTensor> inputs, outputs;  ///< outputs is empty when there are no output_k.pb.
  bool byName = false;                      ///< The names bind; otherwise they may be anything.
};
/// Errors: kNotFound when there is neither input_0.pb nor output_0.pb.
StatusOr<std::vector<DataSet>> readDataSets(const std::string& dir);

/// One tensor for each input in order. Files come by name when their names are those of the inputs,
/// else by position, unless `byName`. Errors: kInvalidArgument naming the input, its type and what was given.
StatusOr<std::vector<HostTensor>> matchInputs(const std::vector<TensorInfo>& inputs,
                                              const std::vector<HostTensor>& given, const std::string& where,
                                              bool byName = false);
/// The same choice among `given` for inputs of which only the names are known.
StatusOr<std::vector<const HostTensor*>> selectInputs(const std::vector<std::string>& inputs,
                                                      const std::vector<HostTensor>& given, const std::string& where,
                                                      bool byName = false);
/// Each "--input" text that names an input names one of `inputs`. Errors: kNotFound with those that there are.
Status checkInputNames(const std::vector<std::string>& texts, const std::vector<std::string>& inputs);
/// Tells the tool of all files of the sets and of the "--input" texts: no output may be one of them.
Status protectData(Tool& tool, const std::vector<DataSet>& data, const std::vector<std::string>& inputs);
/// Class numbers: .npy, .pb, or a text file with one whole number a line.
StatusOr<HostTensor> readLabels(const std::string& path);
/// True when a tensor of type `given` fits `wanted`, where free dimensions take any size.
bool fits(const TensorType& given, const TensorType& wanted);

}  // namespace hpu::tools
