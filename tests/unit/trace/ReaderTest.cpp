// SPDX-License-Identifier: Apache-2.0
// The reader against files that are cut, changed or made up.
#include "runtime/trace/Reader.h"

#include <random>
#include <set>

#include "base/File.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Format.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {
namespace {

using format::ChunkType;
using format::DomainKind;
using format::Encoder;
using format::Tag;

StatusOr<TraceData> parse(const std::vector<uint8_t>& bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(bytes);
  return readTrace(owner->data(), owner->size(), owner, "t");
}

/// A file with a session chunk, to which a test adds what it needs.
struct File {
  std::vector<uint8_t> bytes;
  File() {
    std::vector<uint8_t> payload;
    Encoder e(payload);
    e.text("test");
    e.varint(1), e.varint(2), e.varint(100), e.signedVarint(0);
    format::appendFileHeader(bytes);
    format::appendChunk(bytes, ChunkType::kSession, 0, 1, payload);
  }
  void add(ChunkType type, uint32_t domain, uint32_t records, const std::vector<uint8_t>& payload) {
    format::appendChunk(bytes, type, domain, records, payload);
  }
};
constexpr uint32_t kDevice0 = format::domainId(DomainKind::kDevice, 0);
constexpr uint32_t kThread0 = format::domainId(DomainKind::kThread, 0);

using TraceReader = TraceTest;

TEST_F(TraceReader, ReadsUpToTheLastCompleteChunkOfACutFile) {
  (void)recorded(Example());
  std::vector<uint8_t> whole = *base::readFile(file("t.hputrace"));
  int readable = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    StatusOr<TraceData> trace = parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    if (!trace.ok()) {
      ASSERT_LT(size, 32u + 32 + 160) << "only a file without its session chunk is refused: "
                                      << trace.status().message();
      continue;
    }
    ++readable;
    ASSERT_FALSE(trace->stopped);
  }
  EXPECT_GT(readable, 500);
}

TEST_F(TraceReader, NoticesEveryChangedByte) {
  (void)recorded(Example());
  std::vector<uint8_t> whole = *base::readFile(file("t.hputrace"));
  // Bytes that mean nothing: the minor version and the reserved ones of the header.
  std::set<size_t> reserved = {10, 11};
  for (size_t at = 16; at < format::kHeaderBytes; ++at) reserved.insert(at);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<uint8_t> changed = whole;
    changed[at] ^= 0x21;
    StatusOr<TraceData> trace = parse(changed);
    // A larger size of a chunk looks as if the file had been cut.
    ASSERT_TRUE(!trace.ok() || reserved.count(at) || (trace->truncatedBytes > 0 && !trace->stopped)) << "byte " << at;
  }
}

TEST_F(TraceReader, SaysWhatAFileIsThatIsNoTrace) {
  auto message = [](std::string_view text, const std::string& where) {
    return readTrace(reinterpret_cast<const uint8_t*>(text.data()), text.size(), nullptr, where).status().message();
  };
  EXPECT_NE(message("{\"traceEvents\": [", "r.json").find("https://ui.perfetto.dev"), std::string::npos);
  EXPECT_NE(message("\n[", "r").find("JSON"), std::string::npos);
  EXPECT_NE(message("\x0a\x10", "r.pftrace").find("ui.perfetto.dev"), std::string::npos);
  EXPECT_NE(message("device,engine", "r.csv").find(".hputrace"), std::string::npos);
  EXPECT_NE(message("\x1f\x8b\x08", "r.hputrace.gz").find("gunzip"), std::string::npos);
  EXPECT_NE(message("HPUTR", "r").find("ends within its header"), std::string::npos);
  EXPECT_NE(message("", "r").find("it is empty"), std::string::npos);
}

TEST_F(TraceReader, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(parse({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parse(std::vector<uint8_t>(100, 'x')).status().code(), StatusCode::kInvalidArgument);
  File newer;
  newer.bytes[8] = 9;
  EXPECT_EQ(parse(newer.bytes).status().code(), StatusCode::kFailedPrecondition);
  File damaged;
  damaged.bytes.back() ^= 1;
  StatusOr<TraceData> trace = parse(damaged.bytes);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(trace.status().message(),
            "t: chunk 0 at byte 32: the checksum does not match: the file was changed or damaged");
  EXPECT_EQ(readTraceFile(file("nothing")).status().code(), StatusCode::kNotFound);
}

// Chunks with right checksums and wrong contents.
TEST_F(TraceReader, RefusesIdsAndCountsThatAreNotThere) {
  auto refuses = [](uint32_t domain, uint32_t records, auto&& fill, std::string_view why) {
    File f;
    std::vector<uint8_t> payload;
    Encoder e(payload);
    fill(e);
    f.add(ChunkType::kRecords, domain, records, payload);
    StatusOr<TraceData> trace = parse(f.bytes);
    ASSERT_FALSE(trace.ok()) << why;
    EXPECT_EQ(trace.status().code(), StatusCode::kDataLoss) << why;
    EXPECT_NE(trace.status().message().find(why), std::string::npos) << trace.status().message();
  };
  refuses(
      kDevice0, 1, [](Encoder& e) { e.tag(Tag::kCommand), e.varint(0), e.varint(0), e.varint(0), e.varint(0); },
      "belongs to no launch");
  refuses(kDevice0, 1, [](Encoder& e) { e.tag(Tag::kDevice), e.varint(7), e.varint(0), e.varint(0); }, "device record");
  refuses(kDevice0, 1, [](Encoder& e) { e.tag(Tag::kDevice), e.varint(2), e.varint(5), e.varint(0); }, "device record");
  refuses(
      kDevice0, 1,
      [](Encoder& e) {
        e.tag(Tag::kLaunch), e.varint(1), e.varint(0), e.varint(0), e.varint(0), e.varint(1), e.signedVarint(0),
            e.varint(0);
      },
      "launch record");
  refuses(kDevice0, 1, [](Encoder& e) { e.tag(Tag::kProgram), e.varint(0), e.varint(UINT64_MAX); }, "program record");
  refuses(
      kDevice0, 1,
      [](Encoder& e) {  // A command of op 3 of a program with one op.
        e.tag(Tag::kProgram), e.varint(0), e.varint(1), e.varint(0), e.varint(0), e.varint(0), e.varint(0), e.varint(1);
        e.varint(0), e.varint(1), e.varint(3), e.varint(0), e.varint(0), e.varint(0), e.varint(0), e.varint(0);
      },
      "program record");
  refuses(
      kDevice0, 2, [](Encoder& e) { e.tag(Tag::kDevice), e.varint(2), e.varint(0), e.varint(0); }, "unknown record");
  refuses(
      kDevice0, 1, [](Encoder& e) { e.tag(Tag::kDevice), e.varint(2), e.varint(0), e.varint(0), e.varint(0); },
      "left over");
  refuses(kThread0, 1, [](Encoder& e) { e.tag(Tag::kLaunch); }, "unknown record");
  refuses(
      kThread0, 1,
      [](Encoder& e) {
        e.tag(Tag::kHostEvent), e.varint(0), e.varint(0), e.signedVarint(INT64_MAX), e.varint(0), e.varint(0);
      },
      "host event record");
  refuses(
      kThread0, 1,
      [](Encoder& e) {
        e.tag(Tag::kHostEvent), e.varint(0), e.varint(0), e.signedVarint(0), e.varint(UINT64_MAX), e.varint(0);
      },
      "host event record");
  refuses(
      kThread0, 1,
      [](Encoder& e) {
        e.tag(Tag::kHostEvent), e.varint(0), e.varint(0), e.signedVarint(0), e.varint(0), e.varint(UINT64_MAX);
      },
      "host event record");
  refuses(0x07000000, 1, [](Encoder& e) { e.tag(Tag::kThread); }, "neither a thread nor a device");
}

TEST_F(TraceReader, AChunkOfALaterMinorVersionIsSkipped) {
  File f;
  f.add(static_cast<ChunkType>(77), 0, 1, {1, 2, 3});
  EXPECT_TRUE(parse(f.bytes).ok());
}

// Random payloads behind right checksums: whatever is accepted must also export without harm.
TEST_F(TraceReader, SurvivesRandomRecords) {
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int i = 0; i < 30000; ++i) {
    File f;
    std::vector<uint8_t> strings;
    Encoder names(strings);
    names.text("a"), names.text(kNastyName);
    for (uint32_t domain : {kDevice0, kThread0}) {
      f.add(ChunkType::kStrings, domain, 2, strings);
      std::vector<uint8_t> payload;
      Encoder e(payload);
      uint32_t records = static_cast<uint32_t>(random() % 4);
      constexpr Tag tags[] = {Tag::kThread, Tag::kHostEvent, Tag::kHostCounter, Tag::kClockEdge};
      constexpr Tag deviceTags[] = {Tag::kDevice,  Tag::kProgram, Tag::kLaunch,
                                    Tag::kCommand, Tag::kSpan,    Tag::kDeviceCounter};
      for (uint32_t r = 0; r < records; ++r) {
        e.tag(domain == kDevice0 ? deviceTags[random() % 6] : tags[random() % 4]);
        for (size_t field = 0, n = 2 + random() % 14; field < n; ++field)
          e.varint(random() % 3 ? random() % 3 : random() >> (random() % 64));
      }
      f.add(ChunkType::kRecords, domain, records, payload);
    }
    StatusOr<TraceData> trace = parse(f.bytes);
    if (!trace.ok()) continue;
    ++accepted;
    Output nowhere = [](std::string_view) { return okStatus(); };
    ASSERT_TRUE(writeChrome(*trace, nowhere).ok());
    ASSERT_TRUE(writePerfetto(*trace, nowhere).ok());
    ASSERT_TRUE(writeCsv(*trace, nowhere).ok());
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace hpu::trace
