// SPDX-License-Identifier: Apache-2.0
#include "recipe/RecipeReader.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/FileBytes.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/ModelPath.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "hpu/version.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/Parts.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/Schema.h"
#include "recipe/SectionHash.h"
#include "recipe/Signature.h"
#include "recipe/Variants.h"

namespace hpu::recipe {

namespace {

using base::strCat;

constexpr SectionId kNeeded[] = {SectionId::kProgram,      SectionId::kMemory,   SectionId::kConstants,
                                 SectionId::kKernels,      SectionId::kImages,   SectionId::kOps,
                                 SectionId::kBundles,      SectionId::kQueues,   SectionId::kSources,
                                 SectionId::kConstantData, SectionId::kImageData};

bool isData(SectionId id) {
  return id == SectionId::kConstantData || id == SectionId::kImageData;
}

/// One file on its way to a Program.
class Loader {
 public:
  Loader(const uint8_t* data, uint64_t bytes, std::shared_ptr<const void> owner, const std::string& where)
      : data_(data), bytes_(bytes), owner_(std::move(owner)), where_(where) {}

  StatusOr<std::shared_ptr<const Program>> load() {
    HPU_RETURN_IF_ERROR(readHeader());
    HPU_RETURN_IF_ERROR(readTable());
    HPU_RETURN_IF_ERROR(checkHashes());
    HPU_RETURN_IF_ERROR(decodeSections());
    HPU_RETURN_IF_ERROR(attachData());
    HPU_RETURN_IF_ERROR(setPackings(*program_, tables_));
    HPU_RETURN_IF_ERROR(setDynamic());
    HPU_RETURN_IF_ERROR(setVariants());
    HPU_RETURN_IF_ERROR(setParts());
    if (Status status = verifyProgram(*program_); !status.ok()) return damaged(status.message());
    if (!program_->signature.empty() && !signatureMatches(data_, bytes_))
      return damaged(
          "its signature is not of these contents (they were changed, or the signature is another recipe's)");
    return std::shared_ptr<const Program>(std::move(program_));
  }

 private:
  std::string recompile() const {
    std::vector<std::string> options;
    if (!targetText_.empty()) options.push_back(base::optionValue("target", targetText_));
    return "compile the model again: " + base::compileCall("", options);
  }
  Status damaged(std::string_view what) const {
    return dataLoss(strCat("recipe '", where_, "' is damaged: ", what, "; ", recompile()));
  }
  Status otherVersion(std::string_view what) const {
    return failedPrecondition(strCat("recipe '", where_, "' ", what, "; ", recompile()));
  }

  /// Of a file that is no recipe: ONNX' protobuf, which begins with the field ir_version and another one, or MLIR.
  bool looksLikeModel() const {
    if (bytes_ >= sizeof(kMagic) && std::memcmp(data_, kMagic, sizeof(kMagic)) == 0) return false;
    constexpr uint8_t kIrVersion = 0x08, kNewestIr = 0x20, kLengthDelimited = 2;
    const bool isOnnx = bytes_ >= 3 && data_[0] == kIrVersion && data_[1] >= 1 && data_[1] <= kNewestIr &&
                        (data_[2] & 7) == kLengthDelimited;
    const bool isBytecode = bytes_ >= 4 && std::memcmp(data_, "ML\xefR", 4) == 0;
    return isOnnx || isBytecode || base::isModelPath(where_);
  }

  Status readHeader() {
    uint64_t prefix = std::min<uint64_t>(bytes_, sizeof(kMagic));
    if (bytes_ == 0) return damaged("the file is empty");
    if (looksLikeModel()) {
      return invalidArgument(strCat("'", where_, "' is a model, not a recipe; compile it first: ",
                                    base::compileCall(base::isModelPath(where_) ? where_ : "")));
    }
    if (std::memcmp(data_, kMagic, prefix) != 0) {
      return damaged("byte 0 does not begin a recipe (another kind of file, or its start is lost)");
    }
    if (bytes_ < kHeaderBytes) {
      return damaged(strCat("it is truncated at byte ", bytes_, ", within the header of ", kHeaderBytes, " bytes"));
    }
    HPU_RETURN_IF_ERROR(checkVersion());
    auto target = static_cast<Target>(loadLe<uint32_t>(data_ + kAtTarget));
    bool knownTarget = loadLe<uint32_t>(data_ + kAtTarget) <= 0xff && targetName(target) != "unknown";
    if (knownTarget) targetText_ = targetName(target);
    if (loadLe<uint64_t>(data_ + kAtHeaderHash) != base::hash64(data_, kAtHeaderHash)) {
      return damaged("the checksum of the header (bytes 0 to 63) does not match");
    }
    if (!knownTarget) {
      return damaged(strCat("the header names target ", loadLe<uint32_t>(data_ + kAtTarget), " at byte ",
                            uint64_t{kAtTarget}, ", which this OpenHPU does not know"));
    }
    if (loadLe<uint64_t>(data_ + kAtReserved) || loadLe<uint64_t>(data_ + kAtReserved + 8)) {
      return damaged(strCat("reserved bytes of the header at byte ", uint64_t{kAtReserved}, " are not 0"));
    }
    uint64_t fileBytes = loadLe<uint64_t>(data_ + kAtFileBytes);
    if (bytes_ < fileBytes) {
      return damaged(strCat("it is truncated: it has ", bytes_, " of its ", fileBytes, " bytes"));
    }
    if (bytes_ > fileBytes) {
      return damaged(strCat("it has ", bytes_ - fileBytes, " bytes after its end at byte ", fileBytes));
    }
    program_->target = target;
    return okStatus();
  }

  Status checkVersion() {
    uint16_t major = loadLe<uint16_t>(data_ + kAtMajor), minor = loadLe<uint16_t>(data_ + kAtMinor);
    uint16_t readerMajor = loadLe<uint16_t>(data_ + kAtReaderMajor);
    uint16_t readerMinor = loadLe<uint16_t>(data_ + kAtReaderMinor);
    std::string own = strCat("this OpenHPU ", HPU_VERSION_STRING, " reads format ", kFormatMajor, ".", kFormatMinor);
    if (major > kFormatMajor || readerMajor > kFormatMajor ||
        (readerMajor == kFormatMajor && readerMinor > kFormatMinor)) {
      return otherVersion(strCat("was written by a newer OpenHPU in format ", major, ".", minor,
                                 ", which needs a reader of format ", readerMajor, ".", readerMinor, " or later; ", own,
                                 "; update OpenHPU, or with this one"));
    }
    if (major < kFormatMajor) {
      return otherVersion(strCat("was written by an older OpenHPU in format ", major, ".", minor, "; ", own));
    }
    return okStatus();
  }

  Status readTable() {
    uint64_t count = loadLe<uint32_t>(data_ + kAtNumSections);
    if (count > kMaxSections || count > (bytes_ - kHeaderBytes) / kEntryBytes) {
      return damaged(strCat("the header counts ", count, " sections at byte ", uint64_t{kAtNumSections},
                            ", whose table does not fit"));
    }
    uint64_t tableBytes = count * kEntryBytes;
    if (loadLe<uint64_t>(data_ + kAtTableHash) != base::hash64(data_ + kHeaderBytes, tableBytes)) {
      return damaged(strCat("the checksum of the section table (bytes ", kHeaderBytes, " to ",
                            kHeaderBytes + tableBytes - 1, ") does not match"));
    }
    uint64_t end = kHeaderBytes + tableBytes;
    for (uint64_t i = 0; i < count; ++i) {
      SectionEntry entry = readEntry(data_ + kHeaderBytes + i * kEntryBytes);
      HPU_RETURN_IF_ERROR(checkEntry(entry, i, end));
      end = entry.offset + entry.bytes;
      entries_.push_back(entry);
    }
    if (end != bytes_) {
      return damaged(strCat("its last section ends at byte ", end, " but the file at byte ", bytes_));
    }
    for (SectionId id : kNeeded) {
      if (!find(id)) return damaged(strCat("it has no section '", sectionIdName(id), "'"));
    }
    return okStatus();
  }

  std::string nameOf(const SectionEntry& entry) const {
    return strCat("section ", static_cast<uint32_t>(entry.id), " (", sectionIdName(entry.id), ", at byte ",
                  entry.offset, ")");
  }

  /// `end` is where the section before it ends: sections follow one another, padded with zeros.
  Status checkEntry(const SectionEntry& entry, uint64_t index, uint64_t end) {
    std::string_view name = sectionIdName(entry.id);
    if (entry.flags & ~kRequired) {
      return damaged(strCat(nameOf(entry), " has unknown flags ", entry.flags));
    }
    if (name == "unknown" && (entry.flags & kRequired)) {
      return otherVersion(strCat("needs ", nameOf(entry), ", which format ", kFormatMajor, ".", kFormatMinor,
                                 " of this OpenHPU ", HPU_VERSION_STRING,
                                 " does not know; update OpenHPU, or with this one"));
    }
    if (entry.offset < end || entry.offset - end >= kPageBytes || entry.offset > bytes_ ||
        entry.bytes > bytes_ - entry.offset) {
      return damaged(strCat(nameOf(entry), " with ", entry.bytes, " bytes (entry ", index,
                            " of the table) does not follow byte ", end, " or leaves the file of ", bytes_, " bytes"));
    }
    uint64_t alignment = isData(entry.id) && entry.bytes ? kPageBytes : 1;
    if (entry.offset % alignment) {
      return damaged(strCat(nameOf(entry), " does not start at a multiple of ", alignment));
    }
    for (uint64_t at = end; at < entry.offset; ++at) {
      if (data_[at]) return damaged(strCat("padding at byte ", at, " before ", nameOf(entry), " is not 0"));
    }
    if (name != "unknown" && find(entry.id)) {
      return damaged(strCat(nameOf(entry), " is there twice"));
    }
    return okStatus();
  }

  const SectionEntry* find(SectionId id) const {
    for (const SectionEntry& entry : entries_) {
      if (entry.id == id) return &entry;
    }
    return nullptr;
  }

  Status checkHashes() {
    for (const SectionEntry& entry : entries_) {
      if (sectionHash(data_ + entry.offset, entry.bytes) != entry.hash) {
        return damaged(strCat("the checksum of ", nameOf(entry), " with ", entry.bytes, " bytes does not match"));
      }
    }
    return okStatus();
  }

  Status decodeSections() {
    for (const SectionEntry& entry : entries_) {
      ByteReader reader(data_ + entry.offset, entry.bytes);
      if (entry.id == SectionId::kIr) {
        program_->ir.assign(reinterpret_cast<const char*>(data_) + entry.offset, entry.bytes);
        continue;
      }
      if (entry.id == SectionId::kSignature) {
        if (entry.bytes != kSignatureBytes)
          return damaged(strCat(nameOf(entry), " has ", entry.bytes, " bytes; a signature has ", kSignatureBytes));
        program_->signature.assign(data_ + entry.offset, data_ + entry.offset + entry.bytes);
        continue;
      }
      if (!sectionSchema(entry.id, reader, *program_, tables_)) continue;
      if (!reader.ok()) return damaged(strCat(nameOf(entry), " ", reader.error()));
      if (reader.remaining()) {
        return damaged(strCat(nameOf(entry), " has ", reader.remaining(),
                              " bytes after its content, which ends at its byte ", reader.position()));
      }
    }
    return okStatus();
  }

  /// Points constants and images into the data sections.
  Status attachData() {
    const SectionEntry* constants = find(SectionId::kConstantData);
    for (size_t i = 0; i < tables_.constants.size(); ++i) {
      const StoredConstant& stored = tables_.constants[i];
      HPU_RETURN_IF_ERROR(checkData(*constants, strCat("constant ", i), stored.dataOffset, stored.bytes));
      program_->constants.push_back(
          {stored.section, stored.offset, data_ + constants->offset + stored.dataOffset, stored.bytes, owner_});
    }
    for (size_t i = 0; i < tables_.defaults.size(); ++i) {
      const StoredDefault& stored = tables_.defaults[i];
      HPU_RETURN_IF_ERROR(checkData(*constants, strCat("default ", i), stored.dataOffset, stored.bytes));
      program_->defaults.push_back({stored.input, data_ + constants->offset + stored.dataOffset, stored.bytes, owner_});
    }
    return attachImages(*program_, tables_);
  }

  Status attachImages(Program& program, StoredTables& tables) {
    const SectionEntry* images = find(SectionId::kImageData);
    for (size_t i = 0; i < tables.images.size(); ++i) {
      StoredImage& stored = tables.images[i];
      HPU_RETURN_IF_ERROR(checkData(*images, strCat("kernel image ", i), stored.dataOffset, stored.bytes));
      if (stored.dataOffset % kPageBytes) {
        return damaged(strCat("kernel image ", i, " at byte ", stored.dataOffset, " of ", nameOf(*images),
                              " does not start at a multiple of ", kPageBytes));
      }
      program.images.push_back(
          {stored.cpu, std::move(stored.entries), data_ + images->offset + stored.dataOffset, stored.bytes, owner_});
    }
    return okStatus();
  }

  Status setPackings(Program& program, const StoredTables& tables) const {
    uint32_t next = 0;
    for (size_t i = 0; i < tables.packings.size(); ++i) {
      const StoredPacking& stored = tables.packings[i];
      if (stored.op < next || stored.op >= program.ops.size() || program.ops[stored.op].engine != Engine::kMme ||
          stored.factor == 1) {
        return damaged(strCat("packing ", i, " packs op ", stored.op, " by ", stored.factor,
                              ", which is no MME op behind the one before, or no packing"));
      }
      next = stored.op + 1;
      program.ops[stored.op].mme.packingFactor = stored.factor;
    }
    return okStatus();
  }

  Status setDynamic() {
    const SectionEntry* first = find(kDynamicSections[0]);
    for (SectionId id : kDynamicSections) {
      if ((find(id) != nullptr) != (first != nullptr))
        return damaged(strCat("of the sections '", sectionIdName(kDynamicSections[0]), "' and '", sectionIdName(id),
                              "', which belong together, it has only one"));
    }
    if (!first && find(SectionId::kInputValues))
      return damaged(
          strCat("it has the section '", sectionIdName(SectionId::kInputValues), "' and no free dimensions"));
    if (first) program_->dynamic = std::make_shared<const Dynamic>(std::move(tables_.dynamic));
    return okStatus();
  }

  Status setVariants() {
    for (size_t v = 0; v < tables_.variants.size(); ++v) {
      StoredVariant& stored = tables_.variants[v];
      auto program = std::make_shared<Program>(std::move(stored.program));
      program->target = program_->target;
      program->constants = program_->constants;
      Status status = attachImages(*program, stored.tables);
      if (status.ok()) status = setPackings(*program, stored.tables);
      if (!status.ok()) return status.withContext(strCat("variant ", v));
      if (stored.isDynamic) {
        if (program_->dynamic) stored.tables.dynamic.values = variantValues(*program_->dynamic, stored.tables.dynamic);
        program->dynamic = std::make_shared<const Dynamic>(std::move(stored.tables.dynamic));
      }
      program_->variants.push_back({std::move(stored.sizes), std::move(program)});
    }
    return okStatus();
  }

  Status setParts() {
    std::vector<StoredPart>& list = tables_.parts;
    if (list.size() > kMaxParts) return damaged(strCat("it has ", list.size(), " parts, more than ", kMaxParts));
    std::vector<uint32_t> depths;
    std::vector<std::shared_ptr<Program>> programs;
    for (size_t i = 0; i < list.size(); ++i) {
      StoredPart& stored = list[i];
      auto where = [&] { return strCat("part ", i, " of the section '", sectionIdName(SectionId::kParts), "'"); };
      const bool isTop = stored.holder == kNone;
      if (!isTop &&
          (stored.holder >= i || (i > 0 && list[i - 1].holder != kNone && stored.holder < list[i - 1].holder)))
        return damaged(strCat(where(), " is a part of part ", stored.holder, ", which is not before it"));
      if (isTop && i > 0 && list[i - 1].holder != kNone) return damaged(where() + " comes behind parts of parts");
      depths.push_back(isTop ? 1 : depths[stored.holder] + 1);
      if (depths.back() > kMaxPartDepth)
        return damaged(strCat(where(), " is nested more than ", kMaxPartDepth, " deep"));
      auto program = std::make_shared<Program>(std::move(stored.program));
      program->target = program_->target;
      Status status = attachImages(*program, stored.tables);
      if (status.ok()) status = setPackings(*program, stored.tables);
      if (!status.ok()) return status.withContext(where());
      Part part{program,      std::move(stored.sections), stored.trips,
                stored.count, stored.condition,           stored.conditionInverted};
      Program& holder = isTop ? *program_ : *programs[stored.holder];
      program->constants = partConstants(holder, part);
      holder.parts.push_back(std::move(part));
      programs.push_back(std::move(program));
    }
    return okStatus();
  }

  Status checkData(const SectionEntry& section, const std::string& what, uint64_t offset, uint64_t bytes) const {
    if (offset <= section.bytes && bytes <= section.bytes - offset) return okStatus();
    return damaged(strCat(what, " with ", bytes, " bytes at byte ", offset, " leaves ", nameOf(section), ", which has ",
                          section.bytes));
  }

  const uint8_t* data_;
  uint64_t bytes_;
  std::shared_ptr<const void> owner_;
  const std::string& where_;
  std::string targetText_;  ///< Empty: the header does not say.
  std::vector<SectionEntry> entries_;
  StoredTables tables_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
};

}  // namespace

StatusOr<std::shared_ptr<const Program>> readRecipe(const uint8_t* data, uint64_t bytes,
                                                    std::shared_ptr<const void> owner, const std::string& where) {
  try {
    return Loader(data, bytes, std::move(owner), where).load();
  } catch (const std::bad_alloc&) {
    return resourceExhausted(strCat("out of host memory while reading the recipe '", where, "' of ",
                                    base::formatBytes(static_cast<int64_t>(bytes))));
  }
}

StatusOr<std::shared_ptr<const Program>> readRecipeFile(const std::string& path) {
  auto file = base::FileBytes::read(path);
  if (!file.ok()) return file.status().withContext("loading the recipe");
  return readRecipe((*file)->data(), (*file)->size(), *file, path);
}

}  // namespace hpu::recipe
