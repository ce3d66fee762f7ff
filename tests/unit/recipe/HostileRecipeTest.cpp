// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile recipes: each is a clear error or a program that is safe to run. Under the
// asan preset also every access of the reader is checked.
#include <gtest/gtest.h>

#include <functional>

#include <random>

#include "DynamicSample.h"
#include "Exercise.h"
#include "ExerciseInstances.h"
#include "PartsSample.h"
#include "SampleProgram.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeWriter.h"

namespace hpu::recipe {
namespace {

using namespace testing;

/// A sample as a file, and where its metadata's scalars are.
struct SampleFile {
  std::vector<uint8_t> bytes;
  std::vector<EncodedField> fields;
};

SampleFile fileOf(const Program& program) {
  auto encoded = encodeProgram(program, /*wantFields=*/true);
  EXPECT_TRUE(encoded.ok());
  SampleFile file;
  file.fields = encoded->fields;
  file.bytes = joinRecipe(std::move(*encoded));
  return file;
}

const SampleFile& sampleFile() {
  static const SampleFile file = fileOf(sampleProgram());
  return file;
}

/// Of a program of free dimensions.
const SampleFile& dynamicFile() {
  static const SampleFile file = fileOf(dynamicSample());
  return file;
}

/// Of one with a state.
const SampleFile& statesFile() {
  static const SampleFile file = fileOf(statesSample());
  return file;
}

/// Of one whose outputs have sizes that depend on data.
const SampleFile& dataSizesFile() {
  static const SampleFile file = fileOf(dataSizesSample());
  return file;
}

/// Of one whose first input has a default.
const SampleFile& defaultsFile() {
  static const SampleFile file = [] {
    Program program = sampleProgram();
    static const std::vector<uint8_t> bytes(static_cast<size_t>(program.inputs[0].type.bytes()), 7);
    program.defaults = {{0, bytes.data(), bytes.size(), nullptr}};
    return fileOf(program);
  }();
  return file;
}

/// Of a program of free dimensions with variants.
const SampleFile& variantsFile() {
  static const SampleFile file = fileOf(variantsSample());
  return file;
}

/// Of one whose sizes are values of an input, too.
const SampleFile& valuedFile() {
  static const SampleFile file = fileOf(valuedSample());
  return file;
}

/// Of one with parts.
const SampleFile& partsFile() {
  static const SampleFile file = fileOf(partsSample());
  return file;
}

/// Reads bytes that end where an exactly sized allocation does, so that ASan sees a read beyond
/// them.
StatusOr<std::shared_ptr<const Program>> readExact(const uint8_t* data, size_t size) {
  auto copy = std::make_shared<std::vector<uint8_t>>(data, data + size);
  copy->shrink_to_fit();
  return readRecipe(copy->data(), copy->size(), copy, "hostile.recipe");
}

/// An error that names the file, or a program that is safe and survives writing and reading.
bool expectErrorOrSafe(const std::vector<uint8_t>& bytes, const std::string& what) {
  auto program = readExact(bytes.data(), bytes.size());
  if (!program.ok()) {
    EXPECT_NE(program.status().message().find("hostile.recipe"), std::string::npos)
        << what << ": " << program.status().message();
    EXPECT_GT(program.status().message().size(), 40u) << what;
    return false;
  }
  EXPECT_EQ(exerciseProgram(**program), "") << what;
  EXPECT_EQ(exerciseInstances(**program), "") << what;
  auto again = writeRecipe(**program);
  EXPECT_TRUE(again.ok()) << what;
  if (again.ok()) {
    auto second = readExact(again->data(), again->size());
    EXPECT_TRUE(second.ok() && writeRecipe(**second).value() == *again) << what;
  }
  return true;
}

uint64_t loadField(const std::vector<uint8_t>& bytes, uint64_t at, uint32_t width) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < width; ++i) value |= uint64_t{bytes[at + i]} << (8 * i);
  return value;
}
void storeField(std::vector<uint8_t>& bytes, uint64_t at, uint32_t width, uint64_t value) {
  for (uint32_t i = 0; i < width; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

/// Values that break arithmetic, ids, counts and enums.
std::vector<uint64_t> hostileValues(uint64_t old, uint32_t width) {
  const uint64_t max = width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * width)) - 1;
  std::vector<uint64_t> values = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  255,
                                  max,
                                  max - 1,
                                  max - 7,
                                  max / 2,
                                  max / 2 + 1,
                                  max / 4 + 3,
                                  old + 1,
                                  old - 1,
                                  old * 2,
                                  old ^ 0x40,
                                  ~old,
                                  0x100000000,
                                  0x80000000,
                                  0x7fffffff,
                                  uint64_t{1} << 40,
                                  0x7ff0000000000000,
                                  0x7ff8000000000001};
  for (uint64_t& value : values) value &= max;
  return values;
}

TEST(HostileRecipe, TheUnchangedSampleIsSafe) {
  EXPECT_TRUE(expectErrorOrSafe(sampleFile().bytes, "unchanged"));
  EXPECT_GT(sampleFile().fields.size(), 500u);
  EXPECT_TRUE(expectErrorOrSafe(dynamicFile().bytes, "unchanged"));
  EXPECT_GT(dynamicFile().fields.size(), 1000u);
  EXPECT_TRUE(expectErrorOrSafe(variantsFile().bytes, "unchanged"));
}

TEST(HostileRecipe, EveryTruncationIsAnError) {
  const std::vector<uint8_t>& bytes = sampleFile().bytes;
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto program = readExact(bytes.data(), size);
    ASSERT_FALSE(program.ok()) << size;
    ASSERT_EQ(program.status().code(), StatusCode::kDataLoss) << size;
    ASSERT_NE(program.status().message().find("compile the model again: hpu::compileFile(MODEL"), std::string::npos);
  }
}

TEST(HostileRecipe, ATruncationWithRightChecksumsIsAnError) {
  // As if a writer had ended early: the header agrees with the size, the table does not.
  const std::vector<uint8_t>& bytes = sampleFile().bytes;
  for (size_t size = kHeaderBytes; size < bytes.size(); size += size < 8192 ? 1 : 61) {
    std::vector<uint8_t> shorter(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    storeLe(shorter.data() + kAtFileBytes, uint64_t{size});
    if (!resealRecipe(shorter).ok()) continue;
    ASSERT_FALSE(readExact(shorter.data(), shorter.size()).ok()) << size;
  }
}

TEST(HostileRecipe, EverySingleBitFlipIsAnError) {
  std::vector<uint8_t> bytes = sampleFile().bytes;
  std::mt19937 random(3);
  const Program program = sampleProgram();
  const size_t head = encodeProgram(program)->head.size();
  for (size_t at = 0; at < bytes.size(); ++at) {
    // Every bit of header, table and metadata; of the data one bit in every 16th byte.
    if (at >= head && at % 16 != 0) continue;
    for (int bit = 0; bit < 8; ++bit) {
      if (at >= head && bit != static_cast<int>(random() % 8)) continue;
      bytes[at] ^= static_cast<uint8_t>(1 << bit);
      auto flipped = readRecipe(bytes.data(), bytes.size(), nullptr, "hostile.recipe");
      ASSERT_FALSE(flipped.ok()) << "byte " << at << " bit " << bit;
      ASSERT_FALSE(flipped.status().message().empty());
      bytes[at] ^= static_cast<uint8_t>(1 << bit);
    }
  }
}

struct Tries {
  int refused = 0, accepted = 0;
};

/// Every field of the file that `wanted` says, with hostile values.
Tries tryFields(const SampleFile& file, const std::function<bool(const EncodedField&)>& wanted) {
  Tries tries;
  for (const EncodedField& field : file.fields) {
    if (!wanted(field)) continue;
    for (uint64_t value : hostileValues(loadField(file.bytes, field.offset, field.bytes), field.bytes)) {
      std::vector<uint8_t> bytes = file.bytes;
      storeField(bytes, field.offset, field.bytes, value);
      if (bytes == file.bytes) continue;
      EXPECT_TRUE(resealRecipe(bytes).ok());
      bool ok =
          expectErrorOrSafe(bytes, "byte " + std::to_string(field.offset) + " (" +
                                       std::string(sectionIdName(field.section)) + ") = " + std::to_string(value));
      ++(ok ? tries.accepted : tries.refused);
      if (::testing::Test::HasFailure()) return tries;
    }
  }
  return tries;
}

TEST(HostileRecipe, EveryFieldOfTheMetadataWithHostileValuesIsAnErrorOrSafe) {
  const Tries tries = tryFields(sampleFile(), [](const EncodedField&) { return true; });
  // Costs, estimates, names' sizes aside, nearly every field is constrained.
  EXPECT_GT(tries.refused, 4 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfFreeDimensionsWithHostileValuesIsAnErrorOrSafe) {
  const Tries tries = tryFields(dynamicFile(), [](const EncodedField& field) {
    return field.section >= SectionId::kSizes && field.section <= SectionId::kKernelSizes;
  });
  // Costs, bounds and slices may be many things.
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfVariantsWithHostileValuesIsAnErrorOrSafe) {
  const Tries tries =
      tryFields(variantsFile(), [](const EncodedField& field) { return field.section == SectionId::kVariants; });
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfStatesWithHostileValuesIsAnErrorOrSafe) {
  EXPECT_TRUE(expectErrorOrSafe(statesFile().bytes, "unchanged"));
  const Tries tries =
      tryFields(statesFile(), [](const EncodedField& field) { return field.section == SectionId::kStates; });
  // A state may have more room than it needs, as far as the device sections have.
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfInputValuesWithHostileValuesIsAnErrorOrSafe) {
  EXPECT_TRUE(expectErrorOrSafe(valuedFile().bytes, "unchanged"));
  const Tries tries =
      tryFields(valuedFile(), [](const EncodedField& field) { return field.section == SectionId::kInputValues; });
  // Two elements may say the same size.
  EXPECT_GT(tries.refused, 3 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfDataSizesWithHostileValuesIsAnErrorOrSafe) {
  EXPECT_TRUE(expectErrorOrSafe(dataSizesFile().bytes, "unchanged"));
  const Tries tries =
      tryFields(dataSizesFile(), [](const EncodedField& field) { return field.section == SectionId::kDataSizes; });
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfDefaultsWithHostileValuesIsAnErrorOrSafe) {
  EXPECT_TRUE(expectErrorOrSafe(defaultsFile().bytes, "unchanged"));
  const Tries tries =
      tryFields(defaultsFile(), [](const EncodedField& field) { return field.section == SectionId::kDefaults; });
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfPartsWithHostileValuesIsAnErrorOrSafe) {
  EXPECT_TRUE(expectErrorOrSafe(partsFile().bytes, "unchanged"));
  const Tries tries =
      tryFields(partsFile(), [](const EncodedField& field) { return field.section == SectionId::kParts; });
  // Names and costs of the parts' programs, and how often they run, may be many things.
  EXPECT_GT(tries.refused, 2 * tries.accepted);
}

TEST(HostileRecipe, EveryFieldOfHeaderAndTableWithHostileValuesIsAnErrorOrSafe) {
  const std::vector<uint8_t>& good = sampleFile().bytes;
  const uint64_t end = kHeaderBytes + kEntryBytes * loadLe<uint32_t>(good.data() + kAtNumSections);
  for (uint64_t at = 0; at < end; at += 2) {
    for (uint32_t width : {2u, 4u, 8u}) {
      if (at % width != 0) continue;
      for (uint64_t value : hostileValues(loadField(good, at, width), width)) {
        std::vector<uint8_t> bytes = good;
        storeField(bytes, at, width, value);
        // Right checksums when the table can be found, else as they are.
        resealRecipe(bytes).ignore();
        expectErrorOrSafe(bytes, "byte " + std::to_string(at) + " = " + std::to_string(value));
        if (HasFailure()) return;
      }
    }
  }
}

TEST(HostileRecipe, ManyRandomChangesAtOnceAreAnErrorOrSafe) {
  std::mt19937_64 random(17);
  for (int trial = 0; trial < 6000; ++trial) {
    const SampleFile* files[] = {&sampleFile(), &dynamicFile(),   &variantsFile(), &statesFile(),
                                 &valuedFile(), &dataSizesFile(), &partsFile()};
    const SampleFile& file = *files[trial % 7];
    std::vector<uint8_t> bytes = file.bytes;
    for (uint64_t changes = 1 + random() % 6; changes > 0; --changes) {
      const EncodedField& field = file.fields[random() % file.fields.size()];
      std::vector<uint64_t> values = hostileValues(loadField(bytes, field.offset, field.bytes), field.bytes);
      storeField(bytes, field.offset, field.bytes, values[random() % values.size()]);
    }
    ASSERT_TRUE(resealRecipe(bytes).ok());
    expectErrorOrSafe(bytes, "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

TEST(HostileRecipe, AHugeCountInASmallFileAllocatesNothing) {
  // The first count of the queues section claims 2^32-1 queues; the error comes before any
  // allocation.
  const SampleFile& file = sampleFile();
  for (const EncodedField& field : file.fields) {
    if (field.section != SectionId::kQueues || loadField(file.bytes, field.offset, 4) != 3) continue;
    std::vector<uint8_t> bytes = file.bytes;
    storeField(bytes, field.offset, 4, UINT32_MAX);
    ASSERT_TRUE(resealRecipe(bytes).ok());
    auto program = readExact(bytes.data(), bytes.size());
    ASSERT_FALSE(program.ok());
    EXPECT_NE(program.status().message().find("count 4294967295"), std::string::npos) << program.status().message();
    return;
  }
  FAIL() << "the sample has three queues";
}

}  // namespace
}  // namespace hpu::recipe
