// SPDX-License-Identifier: Apache-2.0
#include "recipe/Container.h"

#include <algorithm>

#include "base/Format.h"
#include "base/Hash.h"
#include "recipe/CommandAccess.h"
#include "recipe/LittleEndian.h"
#include "recipe/Schema.h"
#include "recipe/SectionHash.h"

namespace hpu::recipe {

namespace {

/// Sections in the order in which they are written. Estimates and IR may be stripped.
struct SectionSpec {
  SectionId id;
  uint32_t flags;
};
constexpr SectionSpec kMetadata[] = {
    {SectionId::kProgram, kRequired}, {SectionId::kMemory, kRequired}, {SectionId::kConstants, kRequired},
    {SectionId::kKernels, kRequired}, {SectionId::kImages, kRequired}, {SectionId::kOps, kRequired},
    {SectionId::kBundles, kRequired}, {SectionId::kQueues, kRequired}, {SectionId::kSources, kRequired},
    {SectionId::kEstimates, 0},
};

uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
/// Small constants are packed, large ones start at a page.
uint64_t constantAlignment(uint64_t bytes) {
  return bytes < kPageBytes ? kAlignment : kPageBytes;
}

/// The pieces of one data section and its running size.
struct DataSection {
  std::vector<EncodedRecipe::Piece> pieces;
  uint64_t bytes = 0;

  uint64_t add(const uint8_t* data, uint64_t size, uint64_t alignment) {
    uint64_t at = alignUp(bytes, alignment);
    pieces.push_back({data, size, at - bytes});
    bytes = at + size;
    return at;
  }
  uint64_t hash() const {
    static constexpr uint8_t kZeros[kPageBytes] = {};
    SectionHasher hasher;
    for (const auto& piece : pieces) {
      hasher.update(kZeros, piece.paddingBefore);
      hasher.update(piece.data, piece.bytes);
    }
    return hasher.digest();
  }
};

void writeHeader(uint8_t* header, const Program& program, uint32_t numSections, uint64_t fileBytes,
                 uint64_t tableHash) {
  for (uint64_t i = 0; i < sizeof(kMagic); ++i) header[kAtMagic + i] = kMagic[i];
  storeLe(header + kAtMajor, kFormatMajor);
  storeLe(header + kAtMinor, kFormatMinor);
  storeLe(header + kAtReaderMajor, kFormatMajor);
  storeLe(header + kAtReaderMinor, leastReaderMinor(program));
  storeLe(header + kAtTarget, static_cast<uint32_t>(program.target));
  storeLe(header + kAtNumSections, numSections);
  storeLe(header + kAtFileBytes, fileBytes);
  storeLe(header + kAtTableHash, tableHash);
  storeLe(header + kAtHeaderHash, base::hash64(header, kAtHeaderHash));
}

/// Everything but the constants, which a program and its variants have in common.
void fillTables(const Program& program, DataSection& imageData, StoredTables& tables) {
  for (const KernelImage& image : program.images) {
    uint64_t at = imageData.add(image.data, image.bytes, kPageBytes);
    tables.images.push_back({image.cpu, image.entries, image.bytes, at});
  }
  for (size_t op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].mme.packingFactor != 1)
      tables.packings.push_back({static_cast<uint32_t>(op), program.ops[op].mme.packingFactor});
  }
  if (program.dynamic) tables.dynamic = *program.dynamic;
}

/// All parts, each behind the one that it is a part of.
void storeParts(const Program& program, DataSection& imageData, std::vector<StoredPart>& stored) {
  std::vector<const Program*> holders{&program};  // The program, then those of `stored`.
  for (size_t h = 0; h < holders.size(); ++h)
    for (const Part& part : holders[h]->parts) {
      StoredPart& own = stored.emplace_back();
      own.holder = h == 0 ? kNone : static_cast<uint32_t>(h - 1);
      own.sections = part.sections;
      own.trips = part.trips;
      own.count = part.count;
      own.condition = part.condition;
      own.conditionInverted = part.conditionInverted;
      own.program = *part.program;
      fillTables(*part.program, imageData, own.tables);
      holders.push_back(part.program.get());
    }
}

void writeEntry(uint8_t* at, const SectionEntry& entry) {
  storeLe(at, static_cast<uint32_t>(entry.id));
  storeLe(at + 4, entry.flags);
  storeLe(at + 8, entry.offset);
  storeLe(at + 16, entry.bytes);
  storeLe(at + 24, entry.hash);
}

}  // namespace

std::string_view sectionIdName(SectionId id) {
  switch (id) {
    case SectionId::kProgram:
      return "program";
    case SectionId::kMemory:
      return "memory";
    case SectionId::kConstants:
      return "constants";
    case SectionId::kKernels:
      return "kernels";
    case SectionId::kImages:
      return "images";
    case SectionId::kOps:
      return "ops";
    case SectionId::kBundles:
      return "bundles";
    case SectionId::kQueues:
      return "queues";
    case SectionId::kSources:
      return "sources";
    case SectionId::kEstimates:
      return "estimates";
    case SectionId::kIr:
      return "ir";
    case SectionId::kPackings:
      return "packings";
    case SectionId::kSignature:
      return "signature";
    case SectionId::kSizes:
      return "sizes";
    case SectionId::kPatches:
      return "patches";
    case SectionId::kPlacements:
      return "placements";
    case SectionId::kUnits:
      return "units";
    case SectionId::kKernelSizes:
      return "kernel sizes";
    case SectionId::kInputValues:
      return "input values";
    case SectionId::kStates:
      return "states";
    case SectionId::kDataSizes:
      return "data sizes";
    case SectionId::kParts:
      return "parts";
    case SectionId::kVariants:
      return "variants";
    case SectionId::kDefaults:
      return "defaults";
    case SectionId::kConstantData:
      return "constant data";
    case SectionId::kImageData:
      return "image data";
  }
  return "unknown";
}

uint16_t leastReaderMinor(const Program& program) {
  if (!program.defaults.empty()) return 5;
  if (!program.parts.empty()) return 4;
  if (!program.states.empty() || !program.variants.empty() || !program.dataSizes.empty()) return 3;
  if (program.dynamic) return program.dynamic->values.empty() ? 2 : 3;
  std::vector<const Operand*> reads, writes;
  for (const Op& op : program.ops) appendOperands(op, reads, writes);
  return std::any_of(reads.begin(), reads.end(), [](const Operand* read) { return isEmpty(*read); }) ? 2 : 0;
}

StatusOr<EncodedRecipe> encodeProgram(const Program& program, bool wantFields) {
  DataSection constantData, imageData;
  StoredTables tables;
  for (const ConstantBlob& blob : program.constants) {
    uint64_t at = constantData.add(blob.data, blob.bytes, constantAlignment(blob.bytes));
    tables.constants.push_back({blob.section, blob.offset, blob.bytes, at});
  }
  for (const InputDefault& own : program.defaults)
    tables.defaults.push_back(
        {own.input, own.bytes, constantData.add(own.data, own.bytes, constantAlignment(own.bytes))});
  fillTables(program, imageData, tables);
  for (const Variant& variant : program.variants) {
    StoredVariant& stored = tables.variants.emplace_back();
    stored.sizes = variant.sizes;
    stored.program = *variant.program;
    fillTables(*variant.program, imageData, stored.tables);
    stored.isDynamic = variant.program->dynamic != nullptr;
  }
  storeParts(program, imageData, tables.parts);

  std::vector<SectionSpec> specs(std::begin(kMetadata), std::end(kMetadata));
  if (!tables.packings.empty()) specs.push_back({SectionId::kPackings, 0});
  if (program.dynamic)
    for (SectionId id : kDynamicSections) specs.push_back({id, kRequired});
  if (program.dynamic && !program.dynamic->values.empty()) specs.push_back({SectionId::kInputValues, kRequired});
  if (!program.states.empty()) specs.push_back({SectionId::kStates, kRequired});
  if (!program.dataSizes.empty()) specs.push_back({SectionId::kDataSizes, kRequired});
  if (!program.defaults.empty()) specs.push_back({SectionId::kDefaults, kRequired});
  if (!program.variants.empty()) specs.push_back({SectionId::kVariants, kRequired});
  if (!program.parts.empty()) specs.push_back({SectionId::kParts, kRequired});
  const bool hasIr = !program.ir.empty();
  const bool isSigned = !program.signature.empty();
  const uint32_t numSections = static_cast<uint32_t>(specs.size()) + (hasIr ? 1 : 0) + (isSigned ? 1 : 0) + 2;
  EncodedRecipe recipe;
  std::vector<uint8_t>& head = recipe.head;
  head.resize(kHeaderBytes + numSections * kEntryBytes);
  std::vector<SectionEntry> entries;

  auto finish = [&](SectionId id, uint32_t flags, uint64_t offset) {
    uint64_t bytes = head.size() - offset;
    entries.push_back({id, flags, offset, bytes, sectionHash(head.data() + offset, bytes)});
    head.resize(alignUp(head.size(), kMetadataAlignment));
  };
  for (const SectionSpec& spec : specs) {
    uint64_t offset = head.size();
    std::vector<FieldSpan> trace;
    ByteWriter writer(head, wantFields ? &trace : nullptr);
    sectionSchema(spec.id, writer, program, tables);
    if (!writer.ok()) {
      return invalidArgument(
          base::strCat("the recipe's ", sectionIdName(spec.id), " section has a list of more than 2^32-1 elements"));
    }
    for (const FieldSpan& span : trace) recipe.fields.push_back({spec.id, span.offset, span.bytes});
    finish(spec.id, spec.flags, offset);
  }
  if (hasIr) {
    uint64_t offset = head.size();
    head.insert(head.end(), program.ir.begin(), program.ir.end());
    finish(SectionId::kIr, 0, offset);
  }
  if (isSigned) {
    uint64_t offset = head.size();
    head.insert(head.end(), program.signature.begin(), program.signature.end());
    finish(SectionId::kSignature, 0, offset);
  }

  uint64_t end = entries.back().offset + entries.back().bytes;
  head.resize(end);
  auto place = [&](SectionId id, DataSection& data) {
    uint64_t offset = alignUp(end, kPageBytes);
    entries.push_back({id, kRequired, offset, data.bytes, data.hash()});
    if (data.bytes == 0) {  // No padding before nothing: the file ends with its last byte of content.
      entries.back().offset = end;
      return;
    }
    data.pieces.front().paddingBefore += offset - end;
    recipe.pieces.insert(recipe.pieces.end(), data.pieces.begin(), data.pieces.end());
    end = offset + data.bytes;
  };
  place(SectionId::kConstantData, constantData);
  place(SectionId::kImageData, imageData);
  recipe.fileBytes = end;

  for (size_t i = 0; i < entries.size(); ++i) {
    writeEntry(head.data() + kHeaderBytes + i * kEntryBytes, entries[i]);
  }
  writeHeader(head.data(), program, numSections, end,
              base::hash64(head.data() + kHeaderBytes, numSections * kEntryBytes));
  return recipe;
}

std::vector<uint8_t> joinRecipe(EncodedRecipe&& recipe) {
  std::vector<uint8_t> bytes = std::move(recipe.head);
  bytes.reserve(recipe.fileBytes);
  for (const EncodedRecipe::Piece& piece : recipe.pieces) {
    bytes.resize(bytes.size() + piece.paddingBefore);
    bytes.insert(bytes.end(), piece.data, piece.data + piece.bytes);
  }
  return bytes;
}

SectionEntry readEntry(const uint8_t* at) {
  SectionEntry entry;
  entry.id = static_cast<SectionId>(loadLe<uint32_t>(at));
  entry.flags = loadLe<uint32_t>(at + 4);
  entry.offset = loadLe<uint64_t>(at + 8);
  entry.bytes = loadLe<uint64_t>(at + 16);
  entry.hash = loadLe<uint64_t>(at + 24);
  return entry;
}

Status resealRecipe(std::vector<uint8_t>& file) {
  if (file.size() < kHeaderBytes) return invalidArgument("too short for a recipe's header");
  uint64_t numSections = loadLe<uint32_t>(file.data() + kAtNumSections);
  if (numSections > (file.size() - kHeaderBytes) / kEntryBytes) {
    return invalidArgument("the section table does not fit into the file");
  }
  for (uint64_t i = 0; i < numSections; ++i) {
    uint8_t* at = file.data() + kHeaderBytes + i * kEntryBytes;
    SectionEntry entry = readEntry(at);
    if (entry.offset > file.size() || entry.bytes > file.size() - entry.offset) continue;
    entry.hash = sectionHash(file.data() + entry.offset, entry.bytes);
    writeEntry(at, entry);
  }
  storeLe(file.data() + kAtTableHash, base::hash64(file.data() + kHeaderBytes, numSections * kEntryBytes));
  storeLe(file.data() + kAtHeaderHash, base::hash64(file.data(), kAtHeaderHash));
  return okStatus();
}

}  // namespace hpu::recipe
