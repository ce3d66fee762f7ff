// SPDX-License-Identifier: Apache-2.0
// Recipe: a compiled program for one target, in memory or in a file.
// The one thing to know: a recipe contains native code (the TPC kernels' images), so a recipe is as
// trusted as a shared library; loading checks everything else in it.
//
//   HPU_ASSIGN(auto recipe, hpu::Recipe::load("model.recipe"));
//   for (const hpu::TensorInfo& input : recipe.inputs()) puts(input.name.c_str());
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu {

namespace recipe {
struct Program;
}

/// An input and an output that are one tensor in device memory, which each launch changes in place, as a cache of keys
/// and values (CompileOptions::states). Both get the same address. Its elements lie as in a dense tensor of `capacity`,
/// whatever the sizes of a launch are: element (i, j, k) at (i * capacity.shape[1] + j) * capacity.shape[2] + k.
struct StateInfo {
  size_t input = 0, output = 0;  ///< Indices.
  TensorType capacity;           ///< The memory, `capacity.bytes()`: at least the sizes of both in each dimension.
};

/// A dimension of an output of which data decides how much there is, as of what NonZero finds. The output has the
/// largest size that it can ask for, and lies dense with that; its elements come first along the dimension.
struct DataSizeInfo {
  size_t output = 0;  ///< Index.
  size_t dim = 0;
  size_t element = 0;  ///< Of the last output, that says how many.
};

/// Elements of the inputs of a launch, by input; empty where they say no sizes (Recipe::valueInputs).
using InputValues = std::vector<std::vector<int64_t>>;

/// A shared, immutable handle; copying is cheap, any thread may use it.
class HPU_API Recipe {
 public:
  Recipe();  ///< Empty; only assignable. `valid()` is false.
  explicit Recipe(std::shared_ptr<const recipe::Program> program);
  ~Recipe();

  /// Maps and verifies a recipe file. Errors: kNotFound; kDataLoss (truncated, checksum, hostile
  /// offsets; the message names the section and offset); kFailedPrecondition (made by a newer
  /// OpenHPU; the message says how to mend it); kPermissionDenied (HPU_RECIPE_KEYS is set and none of its keys has
  /// signed the recipe).
  static StatusOr<Recipe> load(const std::string& path);
  /// As load, from memory; the bytes are copied.
  static StatusOr<Recipe> deserialize(const void* bytes, size_t size);
  /// The same for bytes that this process has compiled: nobody has to sign them.
  static StatusOr<Recipe> deserializeOwn(const void* bytes, size_t size);
  /// Writes the file through a temporary that is renamed, so that a reader never sees half of it.
  Status save(const std::string& path) const;
  StatusOr<std::vector<uint8_t>> serialize() const;

  /// The same recipe, signed with a secret key (Ed25519) that `makeSigningKey` made; save and serialize keep the
  /// signature. Errors: kPermissionDenied (others may read the key), kInvalidArgument (no key).
  StatusOr<Recipe> signedWith(const std::string& secretKeyPath) const;
  /// The public key that has signed it, in hexadecimal digits; empty: none has. What was changed after it was signed
  /// does not load.
  std::string signer() const;
  /// Writes a new secret key to `path`, which must not be there, and its public key, a line for HPU_RECIPE_KEYS, to
  /// `path`.pub.
  static Status makeSigningKey(const std::string& path);

  bool valid() const { return program_ != nullptr; }
  Target target() const;
  const std::string& name() const;
  /// Sizes that depend on those of a launch are kDynamic.
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  /// The tensors that launches change in place; empty: outputs are written only.
  std::vector<StateInfo> states() const;
  /// The dimensions of outputs whose sizes depend on data, by output and dimension. Empty: none does. Else the last
  /// output is no output of the model: it is a vector of i64 with these sizes, written by the launch as the others are,
  /// so that who reads an output reads it, too. (It has a buffer of the caller's, as launches may overlap.)
  std::vector<DataSizeInfo> dataSizes() const;
  /// The types that outputs have with the sizes that a launch has found, without the last output. `outputs`: those of
  /// the launch (outputs(), or Executable::outputs); `sizes`: the `count` elements of the last one. Errors:
  /// kInvalidArgument (other outputs, or fewer sizes), kOutOfRange (a size below 0 or beyond that of its dimension: the
  /// launch is not over, or has failed).
  StatusOr<std::vector<TensorInfo>> trueOutputs(const std::vector<TensorInfo>& outputs, const int64_t* sizes,
                                                size_t count) const;
  /// The free dimensions, of which launches give the sizes (LaunchArguments::inputShapes); empty: all sizes are fixed.
  std::vector<FreeDim> dims() const;
  /// The sizes for which the recipe has a variant that is compiled for them alone (CompileOptions::specialize), by
  /// name; a dimension that is not named may have any size. Of those that a launch fits, the first runs.
  std::vector<std::map<std::string, int64_t>> variants() const;
  /// The shape of an input or output as people read it: "[batch, 2*seq, 64]"; empty when there is no such tensor.
  std::string inputText(size_t index) const;
  std::string outputText(size_t index) const;
  /// The shapes of all inputs for sizes of the free dimensions, by name. Needs no device. Errors: kInvalidArgument (a
  /// name that there is not, a size that is missing or out of its bounds), kOutOfRange (a shape beyond 64 bits).
  StatusOr<std::vector<Shape>> inputShapes(const std::map<std::string, int64_t>& sizes) const;
  /// The inputs whose elements are free dimensions, by index: a launch also says what they have on the device
  /// (LaunchArguments::inputValues).
  std::vector<int> valueInputs() const;
  /// The elements of these for sizes of the free dimensions, by name; empty lists for all other inputs. Errors: as
  /// inputShapes.
  StatusOr<InputValues> inputValues(const std::map<std::string, int64_t>& sizes) const;
  /// What an input is where a launch gives nothing for it (an initializer of the model that is an input, too, and that
  /// CompileOptions::shapes names): its elements, dense, as long as the recipe lives. Null: it has no default.
  const void* inputDefault(size_t index) const;
  /// HBM scratch of one launch; with free dimensions that of typical sizes (Executable::workspaceBytes has the others).
  int64_t workspaceBytes() const;
  int64_t constantBytes() const;  ///< HBM held by weights while loaded.
  /// The compiler's estimate from the performance model; with free dimensions for typical sizes.
  double estimatedDeviceTimeUs() const;

  /// The program inside, for OpenHPU's own libraries (`src/recipe/Recipe.h`).
  const std::shared_ptr<const recipe::Program>& program() const { return program_; }

 private:
  std::shared_ptr<const recipe::Program> program_;
};

}  // namespace hpu
