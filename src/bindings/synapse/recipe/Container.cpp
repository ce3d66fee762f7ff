// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/Container.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "recipe/SectionHash.h"
#include "recipe/Serializer.h"

namespace hpu::synapse {

// ---- What is stored ---------------------------------------------------------------------------------

constexpr uint32_t kNoBlob = UINT32_MAX;

struct StoredTensor {
  TensorDescription tensor;  ///< Without hostData.
  uint32_t value = kNoBlob;
};
struct StoredConstant {
  uint32_t section = 0;
  uint64_t bytes = 0;
  uint32_t data = kNoBlob;
};
struct StoredBlob {
  uint64_t offset = 0, bytes = 0, hash = 0;
};
struct StoredNode {
  NodeDescription node;  ///< Without params, which are bytes.
  std::vector<uint8_t> params;
};
struct Stored {
  std::string name;
  Target target = Target::kGaudi2;
  bool inference = false, eager = false;
  std::vector<StoredTensor> tensors;
  std::vector<SectionDescription> sections;
  std::vector<StoredNode> nodes;
  std::vector<StoredConstant> constants;
  std::vector<StoredBlob> blobs;
  uint32_t program = kNoBlob;
  std::vector<int32_t> inputs, outputs;
  std::vector<std::vector<uint64_t>> sizes;
  std::string log;
};
/// Behind it, where the program has free dimensions.
struct StoredFree {
  std::vector<std::vector<std::string>> dims;
};

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredTensor> v) {
  auto& t = v.tensor;
  ar(t.id, t.name, t.type, t.dataType, t.maxSizes, t.minSizes, t.permutation, t.strides, t.section, t.sectionOffset,
     t.external, t.hostType, t.scales, t.zeroPoints, t.expBiases, v.value);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<SectionDescription> v) {
  ar(v.id, v.group, v.persistent, v.isConst, v.rmw);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredNode> v) {
  auto& n = v.node;
  ar(n.id, n.guid, n.name, n.inputs, n.outputs, v.params, n.inputLayouts, n.outputLayouts, n.after, n.roundingMode,
     n.deterministic, n.precision);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredConstant> v) {
  ar(v.section, v.bytes, v.data);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredBlob> v) {
  ar(v.offset, v.bytes, v.hash);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Stored> v) {
  ar(v.name, v.target, v.inference, v.eager, v.tensors, v.sections, v.nodes, v.constants, v.blobs, v.program, v.inputs,
     v.outputs, v.sizes, v.log);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredFree> v) {
  ar(v.dims);
}

namespace {

using base::strCat;

/// Header fields by byte offset.
enum HeaderAt : uint64_t {
  kAtMagic = 0,
  kAtMajor = 8,
  kAtMinor = 10,
  kAtReserved = 12,  ///< 4 bytes of 0.
  kAtFileBytes = 16,
  kAtMetadataBytes = 24,
  kAtMetadataHash = 32,
  kAtReserved2 = 40,  ///< 16 bytes of 0.
  kAtHeaderHash = 56,
};
constexpr uint64_t kBlobAlignment = 64;

uint64_t aligned(uint64_t offset) {
  return (offset + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

template <typename T>
void put(std::vector<uint8_t>& file, uint64_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) file[at + i] = static_cast<uint8_t>(uint64_t{value} >> (8 * i));
}
template <typename T>
T get(const uint8_t* data, uint64_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{data[at + i]} << (8 * i);
  return static_cast<T>(value);
}

/// A part of a const section.
struct Part {
  uint64_t begin = 0, end = 0;
  uint64_t bytes() const { return end - begin; }
};

/// The parts of a const section of so many bytes that its tensors take, by place; between them it is zero.
std::vector<Part> partsOf(const GraphDescription& graph, uint32_t section, uint64_t bytes) {
  std::vector<Part> tensors, parts;
  for (const TensorDescription& tensor : graph.tensors)
    if (tensor.section == section && tensor.sectionOffset < bytes)
      tensors.push_back(
          {tensor.sectionOffset, tensor.sectionOffset + std::min(maxBytes(tensor), bytes - tensor.sectionOffset)});
  std::sort(tensors.begin(), tensors.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  for (const Part& part : tensors)
    if (!parts.empty() && part.begin <= parts.back().end)
      parts.back().end = std::max(parts.back().end, part.end);
    else
      parts.push_back(part);
  return parts;
}
uint64_t totalBytes(const std::vector<Part>& parts) {
  uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes();
  return bytes;
}

void seal(std::vector<uint8_t>& file, uint64_t metadataBytes) {
  put<uint64_t>(file, kAtMetadataHash, recipe::sectionHash(file.data() + kSynapseHeaderBytes, metadataBytes));
  put<uint64_t>(file, kAtHeaderHash, recipe::sectionHash(file.data(), kAtHeaderHash));
}

// ---- Writing ------------------------------------------------------------------------------------------

/// The pieces that follow the metadata.
struct Pieces {
  std::vector<std::pair<const uint8_t*, uint64_t>> data;
  std::list<std::vector<std::byte>> made;  ///< Those that are nobody else's.
  uint32_t add(const void* bytes, uint64_t size) {
    data.emplace_back(static_cast<const uint8_t*>(bytes), size);
    return static_cast<uint32_t>(data.size()) - 1;
  }
  /// The parts one after another.
  uint32_t add(const ConstSection& section, const std::vector<Part>& parts) {
    if (parts.size() == 1 && parts[0].bytes() == section.bytes) return add(section.data.data(), section.bytes);
    std::vector<std::byte>& bytes = made.emplace_back();
    bytes.reserve(totalBytes(parts));
    for (const Part& part : parts)
      bytes.insert(bytes.end(), section.data.data() + part.begin, section.data.data() + part.end);
    return add(bytes.data(), bytes.size());
  }
};

void storeGraph(const GraphDescription& graph, Stored& out, Pieces& pieces) {
  out.name = graph.name;
  out.target = graph.target;
  out.inference = graph.inference;
  out.eager = graph.eager;
  out.sections = graph.sections;
  for (const TensorDescription& tensor : graph.tensors) {
    StoredTensor& stored = out.tensors.emplace_back(StoredTensor{tensor, kNoBlob});
    if (tensor.hostData) stored.value = pieces.add(tensor.hostData->data(), tensor.hostData->size());
    stored.tensor.hostData = nullptr;
  }
  for (const NodeDescription& node : graph.nodes) {
    StoredNode& stored = out.nodes.emplace_back(StoredNode{node, {}});
    const auto* bytes = reinterpret_cast<const uint8_t*>(node.params.data());
    stored.params.assign(bytes, bytes + node.params.size());
    stored.node.params.clear();
  }
}

std::vector<uint8_t> metadataOf(const Stored& stored, const StoredFree& free) {
  std::vector<uint8_t> bytes;
  recipe::ByteWriter writer(bytes);
  writer(stored);
  if (!free.dims.empty()) writer(free);
  return bytes;
}

// ---- Reading ------------------------------------------------------------------------------------------

struct Source {
  const uint8_t* data;
  uint64_t size;
  const std::string& where;
  Status bad(const std::string& what) const { return dataLoss(strCat("recipe ", where, ": ", what)); }
};

Status checkHeader(const Source& source, uint64_t& metadataBytes) {
  if (source.size < kSynapseHeaderBytes)
    return source.bad(strCat("it has ", source.size, " bytes, less than a header"));
  if (std::memcmp(source.data, kSynapseRecipeMagic, sizeof(kSynapseRecipeMagic)) != 0)
    return source.bad("it is not a file of synRecipeSerialize");
  auto major = get<uint16_t>(source.data, kAtMajor);
  auto minor = get<uint16_t>(source.data, kAtMinor);
  if (major != kSynapseRecipeMajor || minor > kSynapseRecipeMinor)
    return failedPrecondition(strCat("recipe ", source.where, " has version ", major, ".", minor,
                                     ", and this library reads ", kSynapseRecipeMajor, ".", kSynapseRecipeMinor,
                                     "; compile the graph again"));
  if (get<uint64_t>(source.data, kAtHeaderHash) != recipe::sectionHash(source.data, kAtHeaderHash))
    return source.bad("the checksum of the header is wrong");
  if (get<uint64_t>(source.data, kAtFileBytes) != source.size)
    return source.bad(strCat("it has ", source.size, " bytes instead of ", get<uint64_t>(source.data, kAtFileBytes)));
  for (uint64_t at : {kAtReserved, kAtReserved2})
    for (uint64_t i = 0; i < (at == kAtReserved ? 4u : 16u); ++i)
      if (source.data[at + i]) return source.bad("reserved bytes of the header are not 0");
  metadataBytes = get<uint64_t>(source.data, kAtMetadataBytes);
  if (metadataBytes > source.size - kSynapseHeaderBytes) return source.bad("its metadata ends beyond the file");
  if (get<uint64_t>(source.data, kAtMetadataHash) !=
      recipe::sectionHash(source.data + kSynapseHeaderBytes, metadataBytes))
    return source.bad("the checksum of the metadata is wrong");
  return okStatus();
}

Status checkBlobs(const Source& source, const std::vector<StoredBlob>& blobs, uint64_t begin) {
  for (size_t i = 0; i < blobs.size(); ++i) {
    const StoredBlob& blob = blobs[i];
    if (blob.offset < begin || blob.offset > source.size || blob.bytes > source.size - blob.offset ||
        blob.offset % kBlobAlignment)
      return source.bad(strCat("blob ", i, " lies outside the file"));
    for (uint64_t at = begin; at < blob.offset; ++at)
      if (at >= begin + kBlobAlignment || source.data[at])
        return source.bad(strCat("the bytes before blob ", i, " are not padding"));
    if (recipe::sectionHash(source.data + blob.offset, blob.bytes) != blob.hash)
      return source.bad(strCat("the checksum of blob ", i, " is wrong"));
    begin = blob.offset + blob.bytes;  // In order, so that no two share bytes.
  }
  if (begin != source.size) return source.bad(strCat(source.size - begin, " bytes follow the last blob"));
  return okStatus();
}

/// The bytes of a blob, or null for an index that is none.
const StoredBlob* blobAt(const Stored& stored, uint32_t index) {
  return index < stored.blobs.size() ? &stored.blobs[index] : nullptr;
}

std::vector<std::byte> bytesAt(const Source& source, const StoredBlob& blob) {
  const auto* begin = reinterpret_cast<const std::byte*>(source.data) + blob.offset;
  return {begin, begin + blob.bytes};
}

Status restoreGraph(const Source& source, Stored& stored, GraphDescription& graph) {
  graph.name = std::move(stored.name);
  graph.target = stored.target;
  graph.inference = stored.inference;
  graph.eager = stored.eager;
  graph.sections = std::move(stored.sections);
  for (StoredTensor& entry : stored.tensors) {
    TensorDescription& tensor = graph.tensors.emplace_back(std::move(entry.tensor));
    if (entry.value == kNoBlob) continue;
    const StoredBlob* blob = blobAt(stored, entry.value);
    if (!blob) return source.bad(strCat("tensor '", tensor.name, "' has a value that is not in the file"));
    tensor.hostData = std::make_shared<const std::vector<std::byte>>(bytesAt(source, *blob));
  }
  for (StoredNode& entry : stored.nodes) {
    NodeDescription& node = graph.nodes.emplace_back(std::move(entry.node));
    const auto* bytes = reinterpret_cast<const std::byte*>(entry.params.data());
    node.params.assign(bytes, bytes + entry.params.size());
  }
  Status status = checkDescription(graph);
  return status.ok() ? status : source.bad(status.message());
}

Status restoreConstants(const Source& source, const Stored& stored, const GraphDescription& graph,
                        std::vector<ConstSection>& constants) {
  for (const StoredConstant& entry : stored.constants) {
    const StoredBlob* blob = blobAt(stored, entry.data);
    auto bad = [&] { return source.bad(strCat("const section ", entry.section, " does not fit the graph")); };
    if (entry.section >= graph.sections.size() || !graph.sections[entry.section].isConst || !blob) return bad();
    std::vector<Part> parts = partsOf(graph, entry.section, entry.bytes);
    // Files of version 1.0 have the whole section; else it ends with a tensor, whose bytes are there.
    if (blob->bytes == entry.bytes)
      parts = {{0, entry.bytes}};
    else if (parts.empty() || parts.back().end != entry.bytes || totalBytes(parts) != blob->bytes)
      return bad();
    StatusOr<HostBytes> data = HostBytes::zeroed(entry.bytes);
    if (!data.ok())
      return data.status().withContext(strCat("recipe ", source.where, ": const section ", entry.section));
    const uint8_t* from = source.data + blob->offset;
    for (const Part& part : parts) {
      std::copy_n(from, part.bytes(), reinterpret_cast<uint8_t*>(data->data()) + part.begin);
      from += part.bytes();
    }
    constants.push_back({entry.section, entry.bytes, std::move(*data), false});
  }
  return okStatus();
}

}  // namespace

StatusOr<std::vector<uint8_t>> encodeRecipe(const RecipeObject& recipe) {
  Stored stored;
  Pieces pieces;
  storeGraph(recipe.graph(), stored, pieces);
  HPU_ASSIGN(std::vector<uint8_t> program, recipe.program()->serialize());
  stored.program = pieces.add(program.data(), program.size());
  stored.inputs = recipe.program()->inputs();
  stored.outputs = recipe.program()->outputs();
  stored.sizes = recipe.program()->sizes();
  stored.log = recipe.program()->log();
  const StoredFree free{recipe.program()->freeDims()};

  std::vector<uint8_t> file;
  Status status;
  recipe.withConstSections([&](const std::vector<ConstSection>& constants) {
    for (const ConstSection& entry : constants) {
      if (entry.cleared) {
        status =
            failedPrecondition(strCat("the host data of section ", recipe.graph().sections[entry.section].id,
                                      " was cleared; serialize the recipe before synRecipeSectionHostBuffersClear"));
        return;
      }
      stored.constants.push_back(
          {entry.section, entry.bytes, pieces.add(entry, partsOf(recipe.graph(), entry.section, entry.bytes))});
    }
    // The table's own size is known before its contents are.
    stored.blobs.resize(pieces.data.size());
    uint64_t metadataBytes = metadataOf(stored, free).size();
    uint64_t end = kSynapseHeaderBytes + metadataBytes;
    for (size_t i = 0; i < pieces.data.size(); ++i) {
      auto [data, bytes] = pieces.data[i];
      stored.blobs[i] = {aligned(end), bytes, recipe::sectionHash(data, bytes)};
      end = stored.blobs[i].offset + bytes;
    }
    file.resize(end);
    std::vector<uint8_t> metadata = metadataOf(stored, free);
    std::copy(metadata.begin(), metadata.end(), file.begin() + kSynapseHeaderBytes);
    for (size_t i = 0; i < pieces.data.size(); ++i)
      std::copy_n(pieces.data[i].first, pieces.data[i].second, file.data() + stored.blobs[i].offset);
    std::copy(std::begin(kSynapseRecipeMagic), std::end(kSynapseRecipeMagic), file.begin());
    put<uint16_t>(file, kAtMajor, kSynapseRecipeMajor);
    put<uint16_t>(file, kAtMinor, free.dims.empty() ? 1 : kSynapseRecipeMinor);
    put<uint64_t>(file, kAtFileBytes, end);
    put<uint64_t>(file, kAtMetadataBytes, metadataBytes);
    seal(file, metadataBytes);
  });
  if (!status.ok()) return status;
  return file;
}

StatusOr<std::shared_ptr<RecipeObject>> decodeRecipe(const uint8_t* data, uint64_t size, const std::string& where) {
  Source source{data, size, where};
  uint64_t metadataBytes = 0;
  HPU_RETURN_IF_ERROR(checkHeader(source, metadataBytes));
  Stored stored;
  recipe::ByteReader reader(data + kSynapseHeaderBytes, metadataBytes);
  reader(stored);
  StoredFree free;
  if (reader.ok() && reader.remaining()) reader(free);
  if (!reader.ok()) return source.bad(strCat("its metadata ", reader.error()));
  if (reader.remaining()) return source.bad(strCat("its metadata has ", reader.remaining(), " bytes too many"));
  HPU_RETURN_IF_ERROR(checkBlobs(source, stored.blobs, kSynapseHeaderBytes + metadataBytes));

  GraphDescription graph;
  HPU_RETURN_IF_ERROR(restoreGraph(source, stored, graph));
  std::vector<ConstSection> constants;
  HPU_RETURN_IF_ERROR(restoreConstants(source, stored, graph, constants));
  const StoredBlob* blob = blobAt(stored, stored.program);
  if (!blob) return source.bad("it has no program");
  CompiledGraph compiled;
  compiled.recipe.assign(data + blob->offset, data + blob->offset + blob->bytes);
  compiled.inputs = std::move(stored.inputs);
  compiled.outputs = std::move(stored.outputs);
  compiled.sizes = std::move(stored.sizes);
  compiled.freeDims = std::move(free.dims);
  compiled.log = std::move(stored.log);
  auto program = Program::create(std::move(compiled), graph, /*compiledHere=*/false);
  if (!program.ok()) return program.status().withContext(strCat("recipe ", where));
  auto object = RecipeObject::create(std::move(graph), std::move(constants), std::move(*program));
  if (!object.ok()) return object.status().withContext(strCat("recipe ", where));
  return object;
}

void resealSynapseRecipe(std::vector<uint8_t>& file) {
  if (file.size() < kSynapseHeaderBytes) return;
  uint64_t metadataBytes = get<uint64_t>(file.data(), kAtMetadataBytes);
  if (metadataBytes <= file.size() - kSynapseHeaderBytes) seal(file, metadataBytes);
}

Status checkDescription(const GraphDescription& graph) {
  if (graph.target != Target::kGaudi1 && graph.target != Target::kGaudi2 && graph.target != Target::kGaudi3)
    return dataLoss(strCat("its target ", static_cast<int>(graph.target), " is none"));
  for (const TensorDescription& tensor : graph.tensors) {
    auto bad = [&](const std::string& what) {
      return dataLoss(strCat("tensor '", tensor.name.substr(0, 64), "': ", what));
    };
    if (tensor.name.size() >= ENQUEUE_TENSOR_NAME_MAX_SIZE) return bad("its name is too long");
    if (tensor.type >= TENSOR_TYPE_MAX) return bad("its type is none");
    if (tensor.dataType && !findDataType(tensor.dataType)) return bad("its data type is none");
    if (tensor.hostType && !findDataType(tensor.hostType)) return bad("its host data type is none");
    if (tensor.maxSizes.size() > HABANA_DIM_MAX || tensor.strides.size() > HABANA_DIM_MAX)
      return bad(strCat("more than ", HABANA_DIM_MAX, " dimensions"));
    if (tensor.minSizes.size() != tensor.maxSizes.size()) return bad("its least and largest sizes differ in rank");
    for (size_t i = 0; i < tensor.maxSizes.size(); ++i)
      if (tensor.minSizes[i] > tensor.maxSizes[i]) return bad("a least size is above the largest");
    if (tensor.dataType && maxBytes(tensor) > INT64_MAX) return bad("more than 2^63 bytes");
    if (!tensor.permutation.empty()) {
      if (tensor.permutation.size() != tensor.maxSizes.size()) return bad("its permutation is of another rank");
      uint32_t seen = 0;
      for (uint8_t dim : tensor.permutation) seen |= dim < 32 ? 1u << dim : 0;
      if (seen != (1u << tensor.permutation.size()) - 1) return bad("its permutation is none");
    }
    if (tensor.section != kNoSection) {
      if (tensor.section >= graph.sections.size()) return bad("its section is none");
      if (graph.sections[tensor.section].persistent && (tensor.maxSizes.empty() || !tensor.dataType))
        return bad("it is persistent and has no sizes or data type");
    }
  }
  for (const NodeDescription& node : graph.nodes)
    for (const auto* list : {&node.inputs, &node.outputs})
      for (int32_t index : *list)
        if (index != kNoTensor && (index < 0 || static_cast<size_t>(index) >= graph.tensors.size()))
          return dataLoss(strCat("node '", node.name.substr(0, 64), "' uses tensor ", index, ", and there are ",
                                 graph.tensors.size()));
  return okStatus();
}

}  // namespace hpu::synapse
