// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "SampleProgram.h"
#include "base/File.h"
#include "base/Hash.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"
#include "recipe/RecipeReader.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/RecipeWriter.h"
#include "recipe/SectionHash.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu::recipe {
namespace {

using base::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::samePrograms;
using testing::sampleProgram;

StatusOr<std::shared_ptr<const Program>> read(const std::vector<uint8_t>& bytes) {
  return readRecipe(bytes.data(), bytes.size(), nullptr, "test.recipe");
}

std::vector<uint8_t> sampleBytes() {
  auto bytes = writeRecipe(sampleProgram());
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  return bytes.ok() ? *bytes : std::vector<uint8_t>();
}

/// Changes the table and header through `edit` and makes the checksums right again.
std::vector<uint8_t> edited(std::vector<uint8_t> bytes, auto edit) {
  edit(bytes);
  EXPECT_TRUE(resealRecipe(bytes).ok());
  return bytes;
}

uint8_t* entryOf(std::vector<uint8_t>& bytes, SectionId id) {
  uint32_t count = loadLe<uint32_t>(bytes.data() + kAtNumSections);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* at = bytes.data() + kHeaderBytes + i * kEntryBytes;
    if (readEntry(at).id == id) return at;
  }
  ADD_FAILURE() << "no section " << sectionIdName(id);
  return nullptr;
}

TEST(RecipeContainer, SampleProgramsAreValid) {
  Status sample = verifyProgram(sampleProgram());
  EXPECT_TRUE(sample.ok()) << sample.message();
  Status large = verifyProgram(testing::largeProgram(10, 5));
  EXPECT_TRUE(large.ok()) << large.message();
}

TEST(RecipeContainer, ReadsBackTheProgramThatWasWritten) {
  for (const Program& program : {sampleProgram(), testing::largeProgram(7, 3)}) {
    auto bytes = writeRecipe(program);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    auto copy = read(*bytes);
    ASSERT_TRUE(copy.ok()) << copy.status().message();
    EXPECT_TRUE(samePrograms(program, **copy));
  }
}

TEST(RecipeContainer, SamenessOfProgramsSeesEveryPart) {
  // The comparison above must not pass by ignoring fields: encoded bytes are the independent
  // witness.
  auto encode = [](const Program& p) { return joinRecipe(std::move(*encodeProgram(p))); };
  Program base = sampleProgram();
  std::vector<void (*)(Program&)> changes = {
      [](Program& p) { p.ops[0].mme.padEnd[1] = 2; },   [](Program& p) { p.ops[0].mme.packingFactor = 3; },
      [](Program& p) { p.ops[1].provenance[1] = 0; },   [](Program& p) { p.ops[2].dma.src.offset = 4; },
      [](Program& p) { p.ops[4].dma.fillPattern = 7; }, [](Program& p) { p.queues[0].commands[2].waits[0].value = 9; },
      [](Program& p) { p.estimates.sramPeakBytes++; },  [](Program& p) { p.kernels[1].wholeDims = 1; },
      [](Program& p) { p.images[1].entries[0]++; },     [](Program& p) { p.ir += " "; },
      [](Program& p) { p.sourceNodes[0].op = "Conv2"; }};
  for (auto change : changes) {
    Program changed = base;
    change(changed);
    EXPECT_FALSE(samePrograms(base, changed));
    EXPECT_NE(encode(base), encode(changed));
  }
}

TEST(RecipeContainer, EqualProgramsGiveEqualBytes) {
  EXPECT_EQ(sampleBytes(), sampleBytes());
}

TEST(RecipeContainer, TheBytesOfFormat1_1StayTheSameButForTheWritersVersion) {
  // The format is a promise to files that exist: whoever changes these bytes changes the version
  // too (docs/recipe-format.md). The sample has every struct with fields that differ from their
  // defaults.
  EXPECT_EQ(kFormatMajor, 1);
  EXPECT_EQ(kFormatMinor, 5);
  std::vector<uint8_t> bytes = edited(sampleBytes(), [](auto& b) { storeLe(b.data() + kAtMinor, uint16_t{1}); });
  EXPECT_EQ(base::hash64(bytes.data(), bytes.size()), 0x9e4cfe46902eb6c5u);
  // Without what 1.1 adds it is the file of 1.0, but for the writer's version.
  Program old = sampleProgram();
  old.ops[0].mme.packingFactor = 1;
  auto plain = writeRecipe(old);
  ASSERT_TRUE(plain.ok());
  bytes = edited(*plain, [](auto& b) { storeLe(b.data() + kAtMinor, uint16_t{0}); });
  EXPECT_EQ(base::hash64(bytes.data(), bytes.size()), 0xd27d36ce1be52aeau);
}

TEST(RecipeContainer, AReaderOf1_0MayLeaveOutPackings) {
  // As such a reader sees it: the section is not one of its own.
  auto bytes = edited(sampleBytes(), [](auto& b) { storeLe(entryOf(b, SectionId::kPackings), uint32_t{77}); });
  auto program = read(bytes);
  ASSERT_TRUE(program.ok()) << program.status().message();
  Program plain = sampleProgram();
  plain.ops[0].mme.packingFactor = 1;
  EXPECT_TRUE(samePrograms(plain, **program));
}

TEST(RecipeContainer, PackingsOfOpsThatCannotBePackedAreRefused) {
  auto written = [](uint32_t op, int64_t factor) {
    auto encoded = encodeProgram(sampleProgram(), /*wantFields=*/true);
    std::vector<uint64_t> at;
    for (const EncodedField& field : encoded->fields)
      if (field.section == SectionId::kPackings) at.push_back(field.offset);
    EXPECT_EQ(at.size(), 3u) << "a count, an op and a factor";
    return edited(sampleBytes(), [&](auto& b) {
      storeLe(b.data() + at[1], op);
      storeLe(b.data() + at[2], static_cast<uint64_t>(factor));
    });
  };
  EXPECT_TRUE(read(written(testing::kConvOp, 3)).ok());
  for (auto [op, factor, why] : {std::tuple{uint32_t{testing::kConvOp}, int64_t{1}, "no packing"},
                                 {uint32_t{testing::kReluOp}, int64_t{2}, "no MME op"},
                                 {uint32_t{99}, int64_t{2}, "no MME op"},
                                 {uint32_t{testing::kConvOp}, int64_t{7}, "a row has 6 pixels"},
                                 {uint32_t{testing::kConvOp}, int64_t{-1}, "is not in 1..64"}}) {
    auto program = read(written(op, factor));
    ASSERT_FALSE(program.ok()) << why;
    EXPECT_EQ(program.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(program.status().message(), HasSubstr(why));
  }
}

TEST(RecipeContainer, AProgramWithoutConstantsKernelsOrIrIsReadBack) {
  Program program;
  program.name = "empty";
  auto bytes = writeRecipe(program);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  auto copy = read(*bytes);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_TRUE(samePrograms(program, **copy));
}

TEST(RecipeContainer, DataIsUsedFromTheMappingAtPages) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeRecipeFile(sampleProgram(), folder.file("a.recipe")).ok());
  auto program = readRecipeFile(folder.file("a.recipe"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  // Pages of a private file mapping: an image or a large constant begins one.
  for (const KernelImage& image : (*program)->images) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(image.data) % 4096, 0u);
  }
  for (const ConstantBlob& blob : (*program)->constants) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blob.data) % (blob.bytes < 4096 ? 256 : 4096), 0u);
    EXPECT_TRUE(blob.owner);
  }
  EXPECT_TRUE(samePrograms(sampleProgram(), **program));
}

TEST(RecipeContainer, TheProgramOutlivesItsFile) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeRecipeFile(sampleProgram(), folder.file("a.recipe")).ok());
  auto program = readRecipeFile(folder.file("a.recipe"));
  ASSERT_TRUE(program.ok());
  std::filesystem::remove(folder.file("a.recipe"));
  EXPECT_TRUE(samePrograms(sampleProgram(), **program));
}

TEST(RecipeContainer, FileAndMemoryHoldTheSameBytes) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeRecipeFile(sampleProgram(), folder.file("a.recipe")).ok());
  auto bytes = base::readFile(folder.file("a.recipe"));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, sampleBytes());
}

TEST(RecipeContainer, AMissingFileIsNotFoundAndNamed) {
  auto program = readRecipeFile("/no/such/folder/a.recipe");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(program.status().message(), HasSubstr("/no/such/folder/a.recipe"));
}

/// By its name or by its bytes; nothing that is advised would write over it.
TEST(RecipeContainer, AModelIsSaidToBeOneAndHowItIsCompiled) {
  auto message = [](const std::string& bytes, const std::string& where) {
    auto program = readRecipe(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), nullptr, where);
    EXPECT_FALSE(program.ok());
    EXPECT_EQ(program.status().code(), StatusCode::kInvalidArgument) << program.status().message();
    return program.status().message();
  };
  const std::string onnx = "\x08\x08\x12\x07pytorch";
  EXPECT_EQ(message(onnx, "a.onnx"),
            "'a.onnx' is a model, not a recipe; compile it first: hpu::compileFile(\"a.onnx\")");
  EXPECT_EQ(message(onnx, "memory"), "'memory' is a model, not a recipe; compile it first: hpu::compileFile(MODEL)");
  EXPECT_THAT(message("module {", "a.mlir"), HasSubstr("hpu::compileFile(\"a.mlir\")"));
  EXPECT_THAT(message("ML\xefR", "a.bin"), HasSubstr("is a model"));
  // A recipe with the name of a model is one.
  std::vector<uint8_t> bytes = sampleBytes();
  EXPECT_TRUE(readRecipe(bytes.data(), bytes.size(), nullptr, "a.onnx").ok());
}

TEST(RecipeContainer, AnotherKindOfFileIsSaidToBeOne) {
  std::string text = "#!/bin/sh\necho this is no recipe\n";
  auto program = readRecipe(reinterpret_cast<const uint8_t*>(text.data()), text.size(), nullptr, "x.sh");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(program.status().message(), AllOf(HasSubstr("x.sh"), HasSubstr("another kind of file")));
}

TEST(RecipeContainer, DamageNamesTheSectionAndTheCommandThatMendsIt) {
  std::vector<uint8_t> bytes = sampleBytes();
  SectionEntry ops = readEntry(entryOf(bytes, SectionId::kOps));
  bytes[ops.offset + 5] ^= 1;
  auto program = read(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(program.status().message(),
              AllOf(HasSubstr("section 6 (ops, at byte " + std::to_string(ops.offset) + ")"),
                    HasSubstr("compile the model again: hpu::compileFile(MODEL, CompileOptions::target = gaudi2)")));
}

TEST(RecipeContainer, DamagedConstantsAndImagesAreFound) {
  for (SectionId id : {SectionId::kConstantData, SectionId::kImageData}) {
    std::vector<uint8_t> bytes = sampleBytes();
    SectionEntry entry = readEntry(entryOf(bytes, id));
    bytes[entry.offset + entry.bytes - 1] ^= 0x80;
    auto program = read(bytes);
    ASSERT_FALSE(program.ok());
    EXPECT_THAT(program.status().message(), HasSubstr(std::string(sectionIdName(id))));
  }
}

TEST(RecipeContainer, ANewerMajorVersionIsRefusedWithBothVersionsAndTheMend) {
  auto bytes = edited(sampleBytes(), [](auto& b) {
    storeLe(b.data() + kAtMajor, uint16_t{2});
    storeLe(b.data() + kAtMinor, uint16_t{3});
    storeLe(b.data() + kAtReaderMajor, uint16_t{2});
  });
  auto program = read(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(program.status().message(), AllOf(HasSubstr("2.3"), HasSubstr("reads format 1.5"),
                                                HasSubstr("update OpenHPU"), HasSubstr("hpu::compileFile(MODEL)")));
}

TEST(RecipeContainer, ANewerMinorVersionIsReadUnlessItSaysThatItNeedsANewerReader) {
  auto optional = edited(sampleBytes(), [](auto& b) { storeLe(b.data() + kAtMinor, uint16_t{7}); });
  EXPECT_TRUE(read(optional).ok());
  auto needed = edited(optional, [](auto& b) { storeLe(b.data() + kAtReaderMinor, uint16_t{7}); });
  auto program = read(needed);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(program.status().message(), HasSubstr("1.7"));
}

TEST(RecipeContainer, AnUnknownSectionIsSkippedWhenOptionalAndRefusedWhenRequired) {
  // The estimates become a section of a later version; they are optional already.
  auto rename = [](uint32_t flags) {
    return [flags](std::vector<uint8_t>& b) {
      uint8_t* at = entryOf(b, SectionId::kEstimates);
      storeLe(at, uint32_t{77});
      storeLe(at + 4, flags);
    };
  };
  auto skipped = read(edited(sampleBytes(), rename(0)));
  ASSERT_TRUE(skipped.ok()) << skipped.status().message();
  EXPECT_EQ((*skipped)->estimates.deviceTimeUs, 0);
  auto refused = read(edited(sampleBytes(), rename(kRequired)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), AllOf(HasSubstr("section 77"), HasSubstr("update OpenHPU")));
}

TEST(RecipeContainer, AMissingSectionIsNamed) {
  auto bytes = edited(sampleBytes(), [](auto& b) {
    uint8_t* at = entryOf(b, SectionId::kQueues);
    storeLe(at, uint32_t{77});
    storeLe(at + 4, uint32_t{0});
  });
  auto program = read(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("no section 'queues'"));
}

TEST(RecipeContainer, ASectionTwiceIsRefused) {
  auto bytes = edited(sampleBytes(), [](auto& b) {
    storeLe(entryOf(b, SectionId::kEstimates), static_cast<uint32_t>(SectionId::kSources));
  });
  auto program = read(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("twice"));
}

TEST(RecipeContainer, BytesAfterTheEndAreRefused) {
  std::vector<uint8_t> bytes = sampleBytes();
  bytes.push_back(0);
  auto program = read(bytes);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("1 bytes after its end"));
}

TEST(RecipeContainer, AnInvalidProgramIsNotWritten) {
  TemporaryFolder folder;
  Program program = sampleProgram();
  program.hostOrder.pop_back();
  auto bytes = writeRecipe(program);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bytes.status().message(), HasSubstr("hostOrder"));
  EXPECT_FALSE(writeRecipeFile(program, folder.file("b.recipe")).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.file("b.recipe")));
}

TEST(RecipeContainer, AFailedWriteLeavesTheOldFile) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeRecipeFile(sampleProgram(), folder.file("a.recipe")).ok());
  Program bad = sampleProgram();
  bad.ops[0].space[0] = -1;
  EXPECT_FALSE(writeRecipeFile(bad, folder.file("a.recipe")).ok());
  EXPECT_TRUE(readRecipeFile(folder.file("a.recipe")).ok());
}

TEST(SectionHash, PiecesGiveTheHashOfTheWhole) {
  std::vector<uint8_t> bytes(2 * kHashChunkBytes + 12345);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  const uint64_t chunk = kHashChunkBytes;
  for (uint64_t size :
       {uint64_t{0}, uint64_t{1}, chunk - 1, chunk, chunk + 1, 2 * chunk, static_cast<uint64_t>(bytes.size())}) {
    for (uint64_t piece : {uint64_t{4096 * 7 + 1}, chunk - 3, chunk, size + 1}) {
      SectionHasher hasher;
      for (uint64_t at = 0; at < size; at += piece) {
        hasher.update(bytes.data() + at, std::min(piece, size - at));
      }
      EXPECT_EQ(hasher.digest(), sectionHash(bytes.data(), size)) << size << " by " << piece;
    }
  }
  uint64_t before = sectionHash(bytes.data(), bytes.size());
  bytes[chunk + 77] ^= 4;
  EXPECT_NE(sectionHash(bytes.data(), bytes.size()), before);
}

TEST(SectionHash, SmallSectionsHaveThePlainXxh3) {
  // The value of the empty input is XXH3-64's published one.
  EXPECT_EQ(sectionHash(nullptr, 0), 0x2d06800538d394c2u);
}

TEST(Operand, SpansFromItsFirstElementToItsLast) {
  Operand operand = testing::denseOperand(0, 0, ElementType::kF32, {3, 5});
  EXPECT_EQ(operandSpanBytes(operand), 60u);
  operand.strides = {10, 2};
  EXPECT_EQ(operandSpanBytes(operand), (2 * 10 + 4 * 2 + 1) * 4u);
  operand.strides = {0, 1};
  EXPECT_EQ(operandSpanBytes(operand), 20u);
  operand.sizes = operand.strides = {};
  EXPECT_EQ(operandSpanBytes(operand), 4u);
  operand.ring = {3, 0, 256};
  EXPECT_EQ(operandSpanBytes(operand), 768u);
}

TEST(Operand, ASpanThatOverflowsIsTheLargest) {
  Operand operand = testing::denseOperand(0, 0, ElementType::kF32, {3, 5});
  operand.strides = {INT64_MAX, 1};
  EXPECT_EQ(operandSpanBytes(operand), UINT64_MAX);
  operand.strides = {INT64_MAX / 4, INT64_MAX / 4};
  EXPECT_EQ(operandSpanBytes(operand), UINT64_MAX);
  operand.ring = {UINT32_MAX, 0, UINT64_MAX};
  EXPECT_EQ(operandSpanBytes(operand), UINT64_MAX);
}

}  // namespace
}  // namespace hpu::recipe
