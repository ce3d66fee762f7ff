// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/Launch.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/Format.h"
#include "base/HostMemory.h"
#include "base/PerThread.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/device/HostRange.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/graph/ValueBounds.h"

namespace hpu::synapse {
namespace {

using base::strCat;

constexpr uint32_t kNobody = UINT32_MAX;

std::string typeName(uint32_t type) {
  static constexpr const char* kNames[] = {
      "DATA_TENSOR",         "SHAPE_TENSOR",      "INPUT_DESCRIBING_SHAPE_TENSOR", "DATA_TENSOR_DYNAMIC",
      "DEVICE_SHAPE_TENSOR", "HOST_SHAPE_TENSOR", "HOST_TO_DEVICE_TENSOR"};
  return type < std::size(kNames) ? kNames[type]
                                  : strCat("synTensorType ", static_cast<int32_t>(type), " (there is none)");
}

/// Whether an entry's type says what the tensor is. DATA_TENSOR is 0, which entries have that say nothing; whether
/// sizes are fixed is the recipe's matter.
bool fits(uint32_t given, const TensorDescription& tensor) {
  if (given == DATA_TENSOR || given == tensor.type) return true;
  if (tensor.type == DATA_TENSOR) return given == DATA_TENSOR_DYNAMIC;
  return isShapeTensor(tensor) && (given == SHAPE_TENSOR || given == INPUT_DESCRIBING_SHAPE_TENSOR ||
                                   given == DEVICE_SHAPE_TENSOR || given == HOST_SHAPE_TENSOR);
}

/// What the infos of one launch said, by place in RecipeObject::tensors(). Kept by its thread, so that a launch
/// allocates nothing.
struct Scratch {
  std::vector<uint64_t> addresses;   ///< 0: none given.
  std::vector<uint32_t> entries;     ///< Index of the info, kNobody: none.
  std::vector<uint64_t> bases;       ///< By section.
  std::vector<uint32_t> baseGivers;  ///< The place of the tensor that gave the base; kNobody: none.
  std::string unknown;               ///< A name that was given and is none.
  LaunchArguments arguments;

  void reset(const RecipeObject& recipe) {
    size_t tensors = recipe.tensors().size(), sections = recipe.graph().sections.size();
    addresses.assign(tensors, 0);
    entries.assign(tensors, kNobody);
    bases.assign(sections, 0);
    baseGivers.assign(sections, kNobody);
    unknown.clear();
  }
};

class Launcher {
 public:
  Launcher(StreamObject& stream, RecipeObject& recipe, const LaunchRequest& request, Scratch& scratch)
      : stream_(stream), recipe_(recipe), request_(request), scratch_(scratch) {}

  Result run() {
    scratch_.reset(recipe_);
    if (request_.flags & ~uint32_t{SYN_FLAGS_TENSOR_NAME})
      return badArgument(strCat("the flags ", base::formatHex(request_.flags), " have unknown bits"));
    if (request_.count && !request_.infos) return badArgument("the list of tensors is null");
    if (request_.workspace == 0 && recipe_.workspaceBytes() > 0)
      return badArgument(strCat("recipe '", recipe_.name(), "' needs a workspace of ", recipe_.workspaceBytes(),
                                " bytes, and pWorkspace is 0"));
    for (uint32_t i = 0; i < request_.count; ++i) SYN_RETURN_IF_ERROR(take(i));
    std::shared_ptr<SizedProgram> sized = recipe_.usual();
    if (recipe_.isDynamic() || !sized) SYN_RETURN_IF_ERROR(specialise(sized));
    SYN_RETURN_IF_ERROR(bind(*sized->program));
    SYN_RETURN_IF_ERROR(addEvents(*sized->program));
    return enqueue(*sized);
  }

 private:
  const std::string& nameOf(uint32_t place) const { return recipe_.description(recipe_.tensors()[place]).name; }

  /// Notes one info.
  Result take(uint32_t i) {
    const synLaunchTensorInfoExt& info = request_.infos[i];
    int found = request_.flags & SYN_FLAGS_TENSOR_NAME ? byName(i) : byId(info);
    if (found == kSkip) return {};
    if (found < 0) {
      if (request_.flags & SYN_FLAGS_TENSOR_NAME) return badArgument(strCat("entry ", i, ": tensorName is null"));
      return badArgument(strCat("entry ", i, ": recipe '", recipe_.name(), "' has no tensor ", info.tensorId,
                                "; ids belong to one recipe (synTensorRetrieveIds)"));
    }
    auto place = static_cast<uint32_t>(found);
    const TensorDescription& tensor = recipe_.description(recipe_.tensors()[place]);
    if (auto type = static_cast<uint32_t>(info.tensorType); !fits(type, tensor))
      return badArgument(strCat("entry ", i, ": tensorType is ", typeName(type), ", and tensor '", tensor.name,
                                "' of recipe '", recipe_.name(), "' is a ", typeName(tensor.type)));
    if (scratch_.entries[place] != kNobody && scratch_.addresses[place] != info.pTensorAddress)
      return {
          synFailedSectionValidation,
          strCat("tensor '", nameOf(place), "' is given twice, by entries ", scratch_.entries[place], " and ", i,
                 ", at ", base::formatHex(scratch_.addresses[place]), " and ", base::formatHex(info.pTensorAddress))};
    if (scratch_.entries[place] != kNobody && recipe_.tensors()[place].dynamic &&
        !std::equal(info.tensorSize, info.tensorSize + tensor.maxSizes.size(),
                    request_.infos[scratch_.entries[place]].tensorSize))
      return {synFailedSectionValidation, strCat("tensor '", nameOf(place), "' is given twice, by entries ",
                                                 scratch_.entries[place], " and ", i, ", with other sizes")};
    if (!recipe_.tensors()[place].dynamic && !recipe_.tensors()[place].isHostValue)
      SYN_RETURN_IF_ERROR(checkFixed(i, tensor));
    scratch_.entries[place] = i;
    scratch_.addresses[place] = info.pTensorAddress;
    return info.pTensorAddress ? placeSection(place, info.pTensorAddress) : Result();
  }

  /// Sizes of a tensor that has one set of them need not be given; those that are must be these.
  Result checkFixed(uint32_t i, const TensorDescription& tensor) const {
    const TSize* given = request_.infos[i].tensorSize;
    const size_t rank = tensor.maxSizes.size();
    if (std::all_of(given, given + rank, [](TSize size) { return size == 0; })) return {};
    for (size_t d = 0; d < rank; ++d)
      if (given[d] != tensor.maxSizes[d])
        return {synFailedDynamicPatching, strCat("entry ", i, ": tensor '", tensor.name, "': size ", d, " is ",
                                                 given[d], ", and the recipe was compiled for ", tensor.maxSizes[d],
                                                 " alone; give it a least size "
                                                 "(synTensorSetGeometry) if launches differ in it")};
    return {};
  }

  /// A section's start follows from each of its tensors, and from all in the same way.
  Result placeSection(uint32_t place, uint64_t address) {
    const LaunchTensor& tensor = recipe_.tensors()[place];
    if (tensor.section == kNoSection) return {};
    if (address < tensor.offset)
      return {synFailedSectionValidation,
              strCat("tensor '", nameOf(place), "' is ", tensor.offset, " bytes into its section, and its address is ",
                     base::formatHex(address))};
    uint64_t base = address - tensor.offset;
    uint32_t& giver = scratch_.baseGivers[tensor.section];
    if (giver == kNobody) {
      giver = place;
      scratch_.bases[tensor.section] = base;
      return {};
    }
    if (scratch_.bases[tensor.section] == base) return {};
    return {synFailedSectionValidation,
            strCat("tensors '", nameOf(giver), "' and '", nameOf(place), "' are in one section, which would start at ",
                   base::formatHex(scratch_.bases[tensor.section]), " by the one and at ", base::formatHex(base),
                   " by the other; a tensor's address is the section's plus its offset")};
  }

  static constexpr int kSkip = -2;

  int byId(const synLaunchTensorInfoExt& info) const {
    if (info.tensorId == TENSOR_INVALID_ID) return kSkip;  // Of a tensor that the recipe does not have.
    return info.tensorId < recipe_.tensors().size() ? static_cast<int>(info.tensorId) : -1;
  }

  int byName(uint32_t i) {
    const char* name = request_.infos[i].tensorName;
    if (!name) return -1;
    std::atomic<uint32_t>* hint = i < recipe_.tensors().size() ? &recipe_.hints()[i] : nullptr;
    if (hint) {
      uint32_t place = hint->load(std::memory_order_relaxed);
      if (std::strcmp(nameOf(place).c_str(), name) == 0) return static_cast<int>(place);
    }
    int place = recipe_.find(name);
    if (place >= 0 && hint) hint->store(static_cast<uint32_t>(place), std::memory_order_relaxed);
    if (place < 0) scratch_.unknown.assign(name, strnlen(name, 64));
    return place < 0 ? kSkip : place;
  }

  // ---- Actual sizes and host values -------------------------------------------------------------------

  Result specialise(std::shared_ptr<SizedProgram>& sized) {
    const std::vector<LaunchTensor>& tensors = recipe_.tensors();
    Specialisation wanted;
    wanted.sizes.resize(tensors.size());
    wanted.values.resize(tensors.size());
    bool special = false;
    for (uint32_t place = 0; place < tensors.size(); ++place) {
      if (tensors[place].dynamic) SYN_RETURN_IF_ERROR(readSizes(place, wanted.sizes[place], special));
      if (tensors[place].isHostValue) SYN_RETURN_IF_ERROR(readValue(place, wanted.values[place], special));
    }
    if (!special && sized) return {};
    auto found = recipe_.specialise(wanted);
    if (!found.ok()) {
      Result failure = found.status().withContext(strCat("recipe '", recipe_.name(), "' for the sizes of this launch"));
      bool refused = failure.status() == synInvalidArgument;
      return refused ? Result(synFailedDynamicPatching, failure.text()) : failure;
    }
    sized = *found;
    return {};
  }

  /// Sizes of results follow from those of inputs unless they are given too.
  Result readSizes(uint32_t place, std::vector<uint64_t>& sizes, bool& special) {
    const LaunchTensor& tensor = recipe_.tensors()[place];
    const TensorDescription& description = recipe_.description(tensor);
    const synLaunchTensorInfoExt* info =
        scratch_.entries[place] == kNobody ? nullptr : &request_.infos[scratch_.entries[place]];
    size_t rank = description.maxSizes.size();
    bool given =
        info && std::any_of(info->tensorSize, info->tensorSize + rank, [](uint64_t size) { return size != 0; });
    // An empty tensor is meant where it may be, of what is read always; of results where that is said.
    auto isAny = [](uint64_t least) { return least == 0; };
    given |= info && rank > 0 &&
             (info->tensorType == DATA_TENSOR_DYNAMIC
                  ? std::any_of(description.minSizes.begin(), description.minSizes.end(), isAny)
                  : tensor.isInput && std::all_of(description.minSizes.begin(), description.minSizes.end(), isAny));
    if (!given) {
      if (tensor.isInput) sizes = description.maxSizes;
      return {};
    }
    sizes.assign(info->tensorSize, info->tensorSize + rank);
    for (size_t i = 0; i < rank; ++i)
      if (sizes[i] < description.minSizes[i] || sizes[i] > description.maxSizes[i])
        return {synFailedDynamicPatching,
                strCat("tensor '", description.name, "': size ", i, " is ", sizes[i],
                       ", and the recipe was compiled for ", description.minSizes[i], " to ", description.maxSizes[i])};
    special |= sizes != description.maxSizes;
    return {};
  }

  /// A host-to-device tensor's address is one of mapped host memory.
  Result readValue(uint32_t place, std::vector<std::byte>& value, bool& special) {
    const TensorDescription& description = recipe_.description(recipe_.tensors()[place]);
    uint64_t address = scratch_.addresses[place], bytes = maxBytes(description);
    if (bytes == 0) return {};
    if (address == 0) {
      if (hasValueBounds(description))
        return {synFailedSectionValidation,
                strCat("host-to-device tensor '", description.name,
                       "' was compiled with bounds of its value, and the launch gives none (pTensorAddress)")};
      return {};
    }
    const void* data = base::hostPointer(address);
    auto memory = stream_.device->device().findHost(data);
    const bool isMapped =
        memory.ok() &&
        static_cast<uint64_t>(memory->bytes) - (address - reinterpret_cast<uintptr_t>(memory->data)) >= bytes;
    // As copies do, it takes any memory of the process.
    if (!isMapped)
      SYN_RETURN_IF_ERROR(
          checkMapped(strCat("host-to-device tensor '", description.name, "'").c_str(), address, bytes));
    const auto* first = static_cast<const std::byte*>(data);
    value.assign(first, first + bytes);
    special |= !description.hostData || *description.hostData != value;
    return {};
  }

  // ---- Addresses ----------------------------------------------------------------------------------------

  Result bind(const Program& program) {
    LaunchArguments& arguments = scratch_.arguments;
    std::string missing;
    bindSide(program.inputs(), arguments.inputs, missing);
    bindSide(program.outputs(), arguments.outputs, missing);
    if (missing.empty()) return {};
    if (!scratch_.unknown.empty()) missing += strCat("; '", scratch_.unknown, "' was given and is none of its tensors");
    return {synFailedSectionValidation,
            strCat("recipe '", recipe_.name(), "' has tensors that the launch does not place: ", missing)};
  }

  /// Whether the launch says that a tensor, which may have no elements, has none.
  bool mayBeEmpty(uint32_t place) const {
    const TensorDescription& tensor = recipe_.description(recipe_.tensors()[place]);
    if (!recipe_.tensors()[place].dynamic || scratch_.entries[place] == kNobody) return false;
    const TSize* given = request_.infos[scratch_.entries[place]].tensorSize;
    for (size_t d = 0; d < tensor.maxSizes.size(); ++d)
      if (given[d] == 0 && tensor.minSizes[d] == 0) return true;
    return false;
  }

  void bindSide(const std::vector<int32_t>& indices, std::vector<uint64_t>& addresses, std::string& missing) {
    addresses.resize(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      auto place = static_cast<uint32_t>(recipe_.place(indices[i]));
      uint64_t address = scratch_.addresses[place];
      const LaunchTensor& tensor = recipe_.tensors()[place];
      if (!address && scratch_.entries[place] != kNobody && tensor.section != kNoSection &&
          scratch_.baseGivers[tensor.section] != kNobody)
        address = scratch_.bases[tensor.section] + tensor.offset;  // Another tensor of the section says where.
      addresses[i] = address;
      if (address || maxBytes(recipe_.description(tensor)) == 0 || mayBeEmpty(place)) continue;
      std::string quoted = strCat("'", nameOf(place), "'");
      if (missing.find(quoted) != std::string::npos) continue;  // An input that is an output too.
      missing += strCat(missing.empty() ? "" : ", ", quoted, scratch_.entries[place] == kNobody ? "" : " (address 0)");
    }
  }

  // ---- Events, enqueue ------------------------------------------------------------------------------------

  Result addEvents(const Program& program) {
    scratch_.arguments.events.clear();
    if (request_.numEvents && !request_.events) return badArgument("the list of events is null");
    for (uint32_t i = 0; i < request_.numEvents; ++i) {
      SYN_FIND(event, events(), request_.events[i]);
      uint64_t recipe = 0, place = 0;
      {
        std::lock_guard lock(event->mutex);
        recipe = event->mappedRecipe;
        place = event->mappedTensor;
      }
      if (recipe != recipe_.id() || place >= recipe_.tensors().size())
        return {synInvalidEventHandle, strCat("event ", i, " is not mapped to a tensor of recipe '", recipe_.name(),
                                              "'; call synEventMapTensor")};
      int output = program.outputOf(static_cast<int32_t>(recipe_.tensors()[place].index));
      if (output < 0)
        return {synInvalidEventHandle, strCat("event ", i, ": tensor '", nameOf(static_cast<uint32_t>(place)),
                                              "' is no result of the recipe")};
      scratch_.arguments.events.push_back({output, event->event});
      event->recorded = true;
    }
    return {};
  }

  Result enqueue(SizedProgram& sized) {
    Program& program = *sized.program;
    const bool isFree = program.isFree();
    // A specialisation may want more than the size that the caller was told; then it has its own.
    bool own = isFree || program.workspaceBytes() > recipe_.workspaceBytes();
    HPU_ASSIGN(Executable executable, program.load(stream_.device->device(), own));
    if (isFree) {
      uint64_t needed = sized.workspaceBytes.load(std::memory_order_relaxed);
      if (needed == UINT64_MAX && recipe_.workspaceBytes() > 0) {
        HPU_ASSIGN(int64_t bytes, executable.workspaceBytes(sized.shapes));
        needed = static_cast<uint64_t>(bytes);
        sized.workspaceBytes.store(needed, std::memory_order_relaxed);
      }
      own = needed > recipe_.workspaceBytes();
    }
    scratch_.arguments.workspace =
        own || recipe_.workspaceBytes() == 0 || (!isFree && program.workspaceBytes() == 0) ? 0 : request_.workspace;
    scratch_.arguments.inputShapes = sized.shapes;
    AddressOrder& order = stream_.device->order();
    std::vector<MemoryUse> uses;
    if (order.isEnabled()) addUses(program, uses);
    Status status = order.inOrder(stream_.stream, uses, [&]() -> Status {
      std::vector<Buffer> inputs;
      std::vector<Moved> outputs;
      HPU_RETURN_IF_ERROR(moveUnaligned(executable, sized, inputs, outputs));
      HPU_RETURN_IF_ERROR(executable.launch(stream_.stream, scratch_.arguments));
      return moveBack(inputs, outputs);
    });
    if (status.code() == StatusCode::kNotFound) return {synInvalidArgument, status.message()};
    return status;
  }

  /// What the launch reads and writes: its inputs, its outputs and its workspace.
  void addUses(const Program& program, std::vector<MemoryUse>& uses) const {
    auto addSide = [&](const std::vector<int32_t>& indices, const std::vector<uint64_t>& addresses, bool writes) {
      for (size_t i = 0; i < indices.size(); ++i) {
        auto place = static_cast<size_t>(recipe_.place(indices[i]));
        uint64_t bytes = maxBytes(recipe_.description(recipe_.tensors()[place]));
        uses.push_back({addresses[i], addresses[i] + bytes, writes, false});
      }
    };
    addSide(program.inputs(), scratch_.arguments.inputs, false);
    addSide(program.outputs(), scratch_.arguments.outputs, true);
    if (uint64_t workspace = scratch_.arguments.workspace; workspace != 0)
      uses.push_back({workspace, workspace + recipe_.workspaceBytes(), true, false});
  }

  // ---- Addresses that are no multiple of the element size ---------------------------------------------------

  /// Memory that a launch uses in the place of a tensor's.
  struct Moved {
    Buffer memory;
    uint64_t address = 0;
    int64_t bytes = 0;
    std::vector<Event> events;  ///< Of an output.
  };

  static bool isUnaligned(uint64_t address, const TensorType& type) {
    return address % static_cast<uint64_t>(std::max<int64_t>(1, elementSize(type.element))) != 0;
  }

  /// Engines take whole elements: such inputs are copied to other memory first, and such outputs computed in some.
  Status moveUnaligned(const Executable& executable, const SizedProgram& sized, std::vector<Buffer>& inputs,
                       std::vector<Moved>& outputs) {
    LaunchArguments& arguments = scratch_.arguments;
    auto isOdd = [](uint64_t address) { return address % 8 != 0; };  // No element is wider.
    const bool anyInput = std::any_of(arguments.inputs.begin(), arguments.inputs.end(), isOdd);
    const bool anyOutput = std::any_of(arguments.outputs.begin(), arguments.outputs.end(), isOdd);
    const Recipe& recipe = sized.program->recipe();
    for (size_t i = 0; anyInput && i < arguments.inputs.size(); ++i) {
      TensorType type = recipe.inputs()[i].type;
      if (!isUnaligned(arguments.inputs[i], type)) continue;
      if (!sized.shapes.empty()) type.shape = sized.shapes[i];
      if (type.bytes() == 0) continue;
      HPU_ASSIGN(Buffer memory, stream_.stream.allocate(type.bytes()));
      HPU_RETURN_IF_ERROR(stream_.stream.copyOnDevice(memory.address(), arguments.inputs[i], type.bytes()));
      inputs.push_back(memory);
      arguments.inputs[i] = memory.address();
    }
    std::vector<TensorInfo> infos;
    for (size_t i = 0; anyOutput && i < arguments.outputs.size(); ++i) {
      if (!isUnaligned(arguments.outputs[i], recipe.outputs()[i].type)) continue;
      if (infos.empty()) {
        infos = recipe.outputs();
        if (!sized.shapes.empty()) {
          HPU_ASSIGN(infos, executable.outputs(sized.shapes));
        }
      }
      const int64_t bytes = infos[i].type.bytes();
      if (bytes == 0) continue;
      HPU_ASSIGN(Buffer memory, stream_.stream.allocate(bytes));
      Moved& one = outputs.emplace_back(Moved{memory, arguments.outputs[i], bytes, {}});
      arguments.outputs[i] = memory.address();
      std::erase_if(arguments.events, [&](const OutputEvent& event) {
        if (event.output != static_cast<int>(i)) return false;
        one.events.push_back(event.event);
        return true;
      });
    }
    return okStatus();
  }

  Status moveBack(const std::vector<Buffer>& inputs, const std::vector<Moved>& outputs) {
    for (const Buffer& memory : inputs) HPU_RETURN_IF_ERROR(stream_.stream.free(memory));
    for (const Moved& one : outputs) {
      HPU_RETURN_IF_ERROR(stream_.stream.copyOnDevice(one.address, one.memory.address(), one.bytes));
      for (const Event& event : one.events) HPU_RETURN_IF_ERROR(stream_.stream.record(event));
      HPU_RETURN_IF_ERROR(stream_.stream.free(one.memory));
    }
    return okStatus();
  }

  StreamObject& stream_;
  RecipeObject& recipe_;
  const LaunchRequest& request_;
  Scratch& scratch_;
};

}  // namespace

Result launch(StreamObject& stream, RecipeObject& recipe, const LaunchRequest& request) {
  auto& scratch = base::perThread<Scratch>();
  Result result = Launcher(stream, recipe, request, scratch).run();
  scratch.arguments.events.clear();  // Events keep their device.
  return result;
}

int placeOf(const RecipeObject& recipe, const synLaunchTensorInfoExt& info) {
  if (info.tensorName && *info.tensorName)
    if (int place = recipe.find(info.tensorName); place >= 0) return place;
  return info.tensorId < recipe.tensors().size() ? static_cast<int>(info.tensorId) : -1;
}

}  // namespace hpu::synapse
