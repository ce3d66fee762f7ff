// SPDX-License-Identifier: Apache-2.0
// hpu::Recipe, the public handle of a Program.
#include <cstring>
#include <new>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/recipe.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeWriter.h"
#include "recipe/Signature.h"
#include "recipe/SizeValues.h"

namespace hpu {

namespace recipe {

/// The tensors of a program of free dimensions as its users see them. A handle is one pointer, so this lies with what
/// the pointer owns: as its deleter.
struct OpenTensors {
  explicit OpenTensors(std::shared_ptr<const Program> source)
      : program(std::move(source)), inputs(program->inputs), outputs(program->outputs) {
    for (const Patch& patch : program->dynamic->patches) {
      if (patch.field == Patch::Field::kInputSize) inputs[patch.index].type.shape[patch.dim] = kDynamic;
      if (patch.field == Patch::Field::kOutputSize) outputs[patch.index].type.shape[patch.dim] = kDynamic;
    }
  }
  void operator()(const Program*) { program.reset(); }

  std::shared_ptr<const Program> program;
  std::vector<TensorInfo> inputs, outputs;
};

}  // namespace recipe

namespace {

using base::strCat;
using recipe::OpenTensors;

std::shared_ptr<const recipe::Program> withOpenTensors(std::shared_ptr<const recipe::Program> program) {
  if (!program || !program->dynamic || std::get_deleter<OpenTensors>(program)) return program;
  const recipe::Program* pointer = program.get();
  return {pointer, OpenTensors(std::move(program))};
}

/// "[batch, 2*seq, 64]".
std::string shapeText(const recipe::Program& program, bool isOutput, size_t index) {
  const std::vector<TensorInfo>& tensors = isOutput ? program.outputs : program.inputs;
  if (index >= tensors.size()) return {};
  std::vector<std::string> dims;
  for (int64_t size : tensors[index].type.shape) dims.push_back(std::to_string(size));
  using Field = recipe::Patch::Field;
  if (program.dynamic)
    for (const recipe::Patch& patch : program.dynamic->patches)
      if (patch.field == (isOutput ? Field::kOutputSize : Field::kInputSize) && patch.index == index)
        dims[patch.dim] = recipe::exprText(*program.dynamic, patch.expr);
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d) text += (d ? ", " : "") + dims[d];
  return text + "]";
}

/// What an empty handle answers with.
const recipe::Program& emptyProgram() {
  static const recipe::Program program;
  return program;
}
const recipe::Program& programOf(const Recipe& recipe) {
  return recipe.valid() ? *recipe.program() : emptyProgram();
}

int64_t bytesOf(const Recipe& recipe, recipe::SectionKind kind) {
  uint64_t bytes = 0;
  for (const recipe::Section& section : programOf(recipe).sections) {
    if (section.kind == kind) bytes += section.bytes;
  }
  return static_cast<int64_t>(bytes);
}

Status emptyHandle() {
  return failedPrecondition("the recipe is empty; load or compile one first");
}

}  // namespace

Recipe::Recipe() = default;
Recipe::Recipe(std::shared_ptr<const recipe::Program> program) : program_(withOpenTensors(std::move(program))) {}
Recipe::~Recipe() = default;

StatusOr<Recipe> Recipe::load(const std::string& path) {
  HPU_ASSIGN(auto program, recipe::readRecipeFile(path));
  HPU_RETURN_IF_ERROR(recipe::checkSigner(*program, path));
  return Recipe(std::move(program));
}

StatusOr<Recipe> Recipe::deserialize(const void* bytes, size_t size) {
  HPU_ASSIGN(Recipe recipe, deserializeOwn(bytes, size));
  HPU_RETURN_IF_ERROR(recipe::checkSigner(*recipe.program(), "in memory"));
  return recipe;
}

StatusOr<Recipe> Recipe::signedWith(const std::string& secretKeyPath) const {
  if (!valid()) return emptyHandle();
  auto copy = std::make_shared<recipe::Program>(*program_);
  HPU_RETURN_IF_ERROR(recipe::signProgram(*copy, secretKeyPath));
  return Recipe(std::move(copy));
}

std::string Recipe::signer() const {
  return recipe::signerOf(programOf(*this));
}

Status Recipe::makeSigningKey(const std::string& path) {
  return recipe::makeSigningKey(path);
}

StatusOr<Recipe> Recipe::deserializeOwn(const void* bytes, size_t size) {
  if (!bytes && size) return invalidArgument("Recipe::deserialize: the bytes are null");
  std::shared_ptr<uint8_t[]> copy(new (std::align_val_t{4096}, std::nothrow) uint8_t[size + 1],
                                  [](uint8_t* p) { operator delete[](p, std::align_val_t{4096}); });
  if (!copy) {
    return resourceExhausted("out of host memory for a recipe of " + std::to_string(size) + " bytes");
  }
  if (size) std::memcpy(copy.get(), bytes, size);
  HPU_ASSIGN(auto program, recipe::readRecipe(copy.get(), size, copy, "in memory"));
  return Recipe(std::move(program));
}

Status Recipe::save(const std::string& path) const {
  return valid() ? recipe::writeRecipeFile(*program_, path) : emptyHandle();
}

StatusOr<std::vector<uint8_t>> Recipe::serialize() const {
  if (!valid()) return emptyHandle();
  return recipe::writeRecipe(*program_);
}

Target Recipe::target() const {
  return programOf(*this).target;
}
const std::string& Recipe::name() const {
  return programOf(*this).name;
}
const std::vector<TensorInfo>& Recipe::inputs() const {
  const auto* open = std::get_deleter<OpenTensors>(program_);
  return open ? open->inputs : programOf(*this).inputs;
}
const std::vector<TensorInfo>& Recipe::outputs() const {
  const auto* open = std::get_deleter<OpenTensors>(program_);
  return open ? open->outputs : programOf(*this).outputs;
}
std::vector<StateInfo> Recipe::states() const {
  const recipe::Program& program = programOf(*this);
  std::vector<StateInfo> states;
  for (const recipe::State& state : program.states)
    states.push_back({state.input, state.output, {program.inputs[state.input].type.element, state.capacity}});
  return states;
}
std::vector<DataSizeInfo> Recipe::dataSizes() const {
  std::vector<DataSizeInfo> sizes;
  for (const recipe::DataSize& size : programOf(*this).dataSizes)
    sizes.push_back({size.output, size.dim, size.element});
  return sizes;
}
StatusOr<std::vector<TensorInfo>> Recipe::trueOutputs(const std::vector<TensorInfo>& outputs, const int64_t* sizes,
                                                      size_t count) const {
  const recipe::Program& program = programOf(*this);
  if (outputs.size() != program.outputs.size())
    return invalidArgument(
        strCat("the recipe has ", program.outputs.size(), " outputs, and ", outputs.size(), " were given"));
  std::vector<TensorInfo> types = outputs;
  if (program.dataSizes.empty()) return types;
  types.pop_back();
  for (const recipe::DataSize& each : program.dataSizes) {
    Shape& shape = types[each.output].type.shape;
    if (each.element >= count || !sizes || each.dim >= shape.size())
      return invalidArgument(strCat("dimension ", each.dim, " of output '", types[each.output].name, "', ",
                                    types[each.output].type.toString(), ", has the size that element ", each.element,
                                    " says, of ", count, " that were given"));
    const int64_t size = sizes[each.element];
    if (size < 0 || size > shape[each.dim])
      return outOfRange(strCat("dimension ", each.dim, " of output '", types[each.output].name, "' has ",
                               shape[each.dim], " elements at most, and its size is ", size,
                               "; read it when the launch is over"));
    shape[each.dim] = size;
  }
  return types;
}
std::vector<FreeDim> Recipe::dims() const {
  std::vector<FreeDim> dims;
  if (const auto& dynamic = programOf(*this).dynamic)
    for (const recipe::Symbol& symbol : dynamic->symbols) dims.push_back({symbol.name, {symbol.min, symbol.max}});
  return dims;
}
std::vector<std::map<std::string, int64_t>> Recipe::variants() const {
  std::vector<std::map<std::string, int64_t>> variants;
  const recipe::Program& program = programOf(*this);
  for (const recipe::Variant& variant : program.variants) {
    auto& sizes = variants.emplace_back();
    for (size_t s = 0; s < variant.sizes.size(); ++s)
      if (variant.sizes[s] != kDynamic) sizes[program.dynamic->symbols[s].name] = variant.sizes[s];
  }
  return variants;
}
std::string Recipe::inputText(size_t index) const {
  return shapeText(programOf(*this), false, index);
}
std::string Recipe::outputText(size_t index) const {
  return shapeText(programOf(*this), true, index);
}

namespace {

/// The sizes of all free dimensions, in their order.
StatusOr<recipe::Sizes> sizesByName(const Recipe& recipe, const std::map<std::string, int64_t>& sizes) {
  recipe::Sizes values;
  for (const FreeDim& dim : recipe.dims()) {
    auto given = sizes.find(dim.name);
    if (given == sizes.end())
      return invalidArgument(
          strCat("dimension '", dim.name, "' has no size; give one between ", dim.bounds.min, " and ", dim.bounds.max));
    values.push_back(given->second);
  }
  const recipe::Program& program = *recipe.program();
  for (const auto& [name, size] : sizes) HPU_RETURN_IF_ERROR(recipe::checkDimName(program, name));
  if (program.dynamic) HPU_RETURN_IF_ERROR(recipe::checkBounds(*program.dynamic, values));
  return values;
}

}  // namespace

std::vector<int> Recipe::valueInputs() const {
  const std::vector<uint32_t> inputs = recipe::valueInputs(programOf(*this));
  return {inputs.begin(), inputs.end()};
}

StatusOr<InputValues> Recipe::inputValues(const std::map<std::string, int64_t>& sizes) const {
  if (!valid()) return emptyHandle();
  HPU_ASSIGN(const recipe::Sizes known, sizesByName(*this, sizes));
  InputValues values(program_->inputs.size());
  if (program_->dynamic)
    for (const recipe::InputValue& value : program_->dynamic->values)
      values[value.input].push_back(known[value.symbol]);
  return values;
}

StatusOr<std::vector<Shape>> Recipe::inputShapes(const std::map<std::string, int64_t>& sizes) const {
  if (!valid()) return emptyHandle();
  HPU_ASSIGN(const recipe::Sizes values, sizesByName(*this, sizes));
  std::vector<Shape> shapes;
  for (const TensorInfo& input : program_->inputs) shapes.push_back(input.type.shape);
  if (!program_->dynamic) return shapes;
  const recipe::SizeValues all(*program_->dynamic, values);
  for (const recipe::Patch& patch : program_->dynamic->patches)
    if (patch.field == recipe::Patch::Field::kInputSize) {
      HPU_ASSIGN(shapes[patch.index][patch.dim], all.at(patch.expr));
    }
  return shapes;
}
int64_t Recipe::workspaceBytes() const {
  return bytesOf(*this, recipe::SectionKind::kWorkspace);
}
int64_t Recipe::constantBytes() const {
  int64_t bytes = bytesOf(*this, recipe::SectionKind::kConst);
  for (const recipe::InputDefault& own : programOf(*this).defaults) bytes += static_cast<int64_t>(own.bytes);
  return bytes;
}
const void* Recipe::inputDefault(size_t index) const {
  for (const recipe::InputDefault& own : programOf(*this).defaults)
    if (own.input == index) return own.data;
  return nullptr;
}
double Recipe::estimatedDeviceTimeUs() const {
  return programOf(*this).estimates.deviceTimeUs;
}

}  // namespace hpu
