// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/bootstrap/Coordinator.h"

namespace hpu::collectives::wire {
namespace {

using testing::HasSubstr;

TEST(Wire, CutsAStreamIntoFramesWhereverItIsSplit) {
  std::string stream = encodeFrame(MessageType::kPut, 7, "payload") + encodeFrame(MessageType::kBye, 8, "") +
                       encodeFrame(MessageType::kGet, UINT64_MAX, std::string("\0x", 2));
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    Parser parser;
    std::vector<Frame> frames;
    for (size_t at = 0; at < stream.size(); at += piece) {
      parser.append(stream.data() + at, std::min(piece, stream.size() - at));
      for (auto next = parser.next();; next = parser.next()) {
        ASSERT_TRUE(next.ok());
        if (!next->has_value()) break;
        frames.push_back(**next);
      }
    }
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0].payload, "payload");
    EXPECT_EQ(frames[1].id, 8u);
    EXPECT_EQ(frames[2].payload, std::string("\0x", 2));
    EXPECT_EQ(frames[2].id, UINT64_MAX);
  }
}

TEST(Wire, RefusesStrangersAtTheirFirstBytes) {
  Parser parser;
  parser.append("GE", 2);
  EXPECT_THAT(parser.next().status().message(), HasSubstr("not a message"));
  Parser other;
  std::string frame = encodeFrame(MessageType::kHello, 0, "");
  frame[4] = 9;
  other.append(frame.data(), frame.size());
  EXPECT_THAT(other.next().status().message(), HasSubstr("version 9"));
}

TEST(Wire, BoundsWhatIsBelieved) {
  std::string frame = encodeFrame(MessageType::kHello, 0, std::string(kMaxHelloBytes + 1, 'x'));
  Parser parser;
  // The header is enough: nothing of that size is waited for.
  parser.append(frame.data(), kHeaderBytes);
  EXPECT_THAT(parser.next().status().message(), HasSubstr("1024 are the most"));
  Writer out;
  out.u32(UINT32_MAX);
  std::string bytes = out.take() + "abc";
  Reader in(bytes);
  EXPECT_EQ(in.text(kMaxValueBytes), "");
  EXPECT_FALSE(in.ok());
  EXPECT_FALSE(decodeMissing(std::string("\xff\xff\xff\xff", 4)).ok());
}

TEST(Wire, ChecksGreetings) {
  Hello hello{5, 1, 2, 77, "host\n\x01", 99};
  Hello back = decodeHello(encodeHello(hello)).value();
  EXPECT_EQ(back.host, "host??");
  EXPECT_EQ(back.pid, 77);
  EXPECT_EQ(back.hall, 99u);
  for (auto [rank, ranks] : std::vector<std::pair<int, int>>{{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, kMaxRanks + 1}}) {
    hello.rank = rank;
    hello.ranks = ranks;
    EXPECT_FALSE(decodeHello(encodeHello(hello)).ok()) << rank << " of " << ranks;
  }
  EXPECT_FALSE(decodeHello(encodeHello({}) + "x").ok());
}

TEST(Missing, TextNamesRanksAndJoinsRanges) {
  std::vector<MissingRank> missing = {
      {2, MemberState::kAbsent, ""}, {3, MemberState::kAbsent, ""},
      {5, MemberState::kAbsent, ""}, {6, MemberState::kPresent, "process 1 on a"},
      {7, MemberState::kLeft, "b"},  {8, MemberState::kDied, "c"},
  };
  EXPECT_EQ(missingText(decodeMissing(encodeMissing(missing)).value()),
            "ranks 2 to 3 have not come; rank 5 has not come; rank 6 (process 1 on a) has not got "
            "there; rank 7 (b) has left; rank 8 (c) has died");
  std::vector<MissingRank> many;
  for (int rank = 0; rank < 20; ++rank) many.push_back({rank, MemberState::kDied, "x"});
  EXPECT_THAT(missingText(many), HasSubstr("rank 7 (x) has died; and 12 more"));
}

TEST(Wire, ARefusalToTakePartSaysWhoAndWhy) {
  const Decline decline{.nonce = 7, .hall = 9, .pid = 4711, .host = "host\n", .why = invalidArgument("rank 9 of 8")};
  const std::string bytes = encodeDecline(decline);
  auto back = decodeDecline(bytes);
  ASSERT_TRUE(back.ok()) << back.status().toString();
  EXPECT_EQ(back->nonce, 7u);
  EXPECT_EQ(back->hall, 9u);
  EXPECT_EQ(back->pid, 4711);
  EXPECT_EQ(back->host, "host?");
  EXPECT_EQ(back->why.toString(), decline.why.toString());
  for (size_t bytesLeft = 0; bytesLeft < bytes.size(); ++bytesLeft)
    EXPECT_FALSE(decodeDecline(std::string_view(bytes).substr(0, bytesLeft)).ok());
  EXPECT_FALSE(decodeDecline(bytes + "x").ok());
  EXPECT_FALSE(decodeDecline(encodeDecline({.why = okStatus()})).ok());
  // What somebody sends who is not known yet.
  EXPECT_LE(encodeDecline({.host = std::string(300, 'h'), .why = internalError(std::string(100000, 'x'))}).size(),
            kMaxHelloBytes);
}

}  // namespace
}  // namespace hpu::collectives::wire
