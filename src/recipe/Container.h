// SPDX-License-Identifier: Apache-2.0
// The recipe container: header, section table, metadata sections and the two data sections.
// The one thing to know: this is the layout that docs/recipe-format.md describes; encodeProgram
// writes any Program, valid or not, so callers other than tests use writeRecipe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"
#include "recipe/Serializer.h"

namespace hpu::recipe {

inline constexpr uint8_t kMagic[8] = {0x89, 'H', 'P', 'U', '\r', '\n', 0x1a, '\n'};
inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kEntryBytes = 32;
/// Data sections start at pages, so that images and constants are used where a file was read or mapped.
inline constexpr uint64_t kPageBytes = 4096;
inline constexpr uint64_t kMetadataAlignment = 8;
/// More sections than any minor version will have; bounds the table.
inline constexpr uint32_t kMaxSections = 1024;

/// Header fields by byte offset. The first 16 bytes are the same in every version, past and future.
enum HeaderOffset : uint64_t {
  kAtMagic = 0,
  kAtMajor = 8,
  kAtMinor = 10,
  kAtReaderMajor = 12,  ///< Least reader version that understands the file.
  kAtReaderMinor = 14,
  kAtTarget = 16,
  kAtNumSections = 20,
  kAtFileBytes = 24,
  kAtTableHash = 32,
  kAtReserved = 40,  ///< 16 bytes of 0.
  kAtHeaderHash = 56,
};

/// Ids are stored in files and never change.
enum class SectionId : uint32_t {
  kProgram = 1,
  kMemory = 2,
  kConstants = 3,
  kKernels = 4,
  kImages = 5,
  kOps = 6,
  kBundles = 7,
  kQueues = 8,
  kSources = 9,
  kEstimates = 10,
  kIr = 11,
  kPackings = 12,   ///< Since 1.1.
  kSignature = 13,  ///< Since 1.1; src/recipe/Signature.h.
  kSizes = 14,      ///< Since 1.2, this and the following: Program::dynamic.
  kPatches = 15,
  kPlacements = 16,
  kUnits = 17,
  kKernelSizes = 18,
  kVariants = 19,     ///< Since 1.3.
  kInputValues = 20,  ///< Since 1.3: Dynamic::values; not there when empty.
  kStates = 21,       ///< Since 1.3.
  kDataSizes = 22,    ///< Since 1.3.
  kParts = 23,        ///< Since 1.4.
  kDefaults = 24,     ///< Since 1.5.
  kConstantData = 32,
  kImageData = 33,
};
/// "ops", "constant data"; "unknown" for another id.
std::string_view sectionIdName(SectionId id);

/// The sections of Program::dynamic: all of them are there, or none.
inline constexpr SectionId kDynamicSections[] = {SectionId::kSizes, SectionId::kPatches, SectionId::kPlacements,
                                                 SectionId::kUnits, SectionId::kKernelSizes};

/// The oldest reader of this major version that understands the program: 5 where an input has a
/// default, 4 where it has parts, 3 where it has variants
/// or states, or sizes are values of inputs or depend on data, 2 where sizes are free or an op reads an operand without
/// elements, else 0 (a reader that does not know packings computes the same).
uint16_t leastReaderMinor(const Program& program);

/// Set when a reader that does not know the id must refuse the file.
inline constexpr uint32_t kRequired = 1;

struct SectionEntry {
  SectionId id{};
  uint32_t flags = 0;
  uint64_t offset = 0;  ///< From the start of the file.
  uint64_t bytes = 0;
  uint64_t hash = 0;  ///< sectionHash of the bytes.
};

/// The entry stored at `at`, which has kEntryBytes.
SectionEntry readEntry(const uint8_t* at);

/// One scalar of the encoded metadata, by its place in the file.
struct EncodedField {
  SectionId section{};
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

/// A recipe as pieces in file order: `head` (header, table and metadata), then the data sections'
/// pieces.
struct EncodedRecipe {
  struct Piece {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
    uint64_t paddingBefore = 0;  ///< Zero bytes.
  };
  std::vector<uint8_t> head;
  std::vector<Piece> pieces;
  uint64_t fileBytes = 0;
  std::vector<EncodedField> fields;  ///< Only when asked for.
};

/// Lays a program out. Pieces point into the program's constants and images. Errors:
/// kInvalidArgument when a list or string has more than 2^32-1 elements.
StatusOr<EncodedRecipe> encodeProgram(const Program& program, bool wantFields = false);

/// The pieces as one buffer.
std::vector<uint8_t> joinRecipe(EncodedRecipe&& recipe);

/// Recomputes every checksum of a container whose header and table are in bounds; for tests and
/// fuzzers that change bytes behind the checksums' back.
Status resealRecipe(std::vector<uint8_t>& file);

}  // namespace hpu::recipe
