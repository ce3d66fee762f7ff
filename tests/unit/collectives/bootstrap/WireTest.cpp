// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Values.h"

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
  std::string frame = encodeFrame(MessageType::kPut, 0, "", 9);
  other.append(frame.data(), frame.size());
  EXPECT_THAT(other.next().status().message(), HasSubstr("version 9"));
}

TEST(Wire, KnowsWhoComesInAnyVersion) {
  const std::string hello = encodeHello({5, 1, 2, 77, "host\n", 99, 7, "n"});
  const std::string decline = encodeDecline({.nonce = 6, .pid = 78, .host = "other", .why = internalError("x")});
  Parser parser;
  for (const std::string& frame : {encodeFrame(MessageType::kHello, 1, hello.substr(0, hello.size() - 5) + "more", 9),
                                   encodeFrame(MessageType::kDecline, 2, decline + "more", 200)})
    parser.append(frame.data(), frame.size());
  Frame first = parser.next().value().value(), second = parser.next().value().value();
  EXPECT_EQ(first.version, 9);
  EXPECT_EQ(second.version, 200);
  Introduction one = decodeIntroduction(first).value(), other = decodeIntroduction(second).value();
  EXPECT_EQ(one.nonce, 5u);
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.pid, 77);
  EXPECT_EQ(one.host, "host?");
  EXPECT_EQ(other.nonce, 6u);
  EXPECT_EQ(other.rank, -1);
  EXPECT_EQ(other.pid, 78);
  EXPECT_EQ(other.host, "other");
  first.payload.resize(30);
  EXPECT_FALSE(decodeIntroduction(first).ok());
  first.type = MessageType::kError;
  EXPECT_FALSE(decodeIntroduction(first).ok());
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

TEST(Wire, WhatOthersSayIsOneLineAndObeyedByNoTerminal) {
  const std::string bytes = encodeStatus(internalError("a\nb\x1b[2J\x7f\t\xc3\xa9."));
  Reader in(bytes);
  EXPECT_EQ(in.status().message(), "a?b?[2J??\xc3\xa9.");
  EXPECT_TRUE(in.done());
}

TEST(Wire, ChecksGreetings) {
  Challenge challenge{};
  for (size_t i = 0; i < challenge.size(); ++i) challenge[i] = static_cast<uint8_t>(i * 7);
  Hello hello{5, 1, 2, 77, "host\n\x01", 99, 0x123456789abcdef, "node\t", challenge};
  Hello back = decodeHello(encodeHello(hello)).value();
  EXPECT_EQ(back.host, "host??");
  EXPECT_EQ(back.pid, 77);
  EXPECT_EQ(back.hall, 99u);
  EXPECT_EQ(back.process, 0x123456789abcdefu);
  EXPECT_EQ(back.node, "node?");
  EXPECT_EQ(back.challenge, challenge);
  EXPECT_EQ(decodePeerHello(encodePeerHello({1, 2, 3, challenge}))->challenge, challenge);
  EXPECT_EQ(decode32(encode32(challenge)).value(), challenge);
  for (size_t bytes : {0, 31, 33}) EXPECT_FALSE(decode32(std::string(bytes, 'x')).ok());
  EXPECT_LE(encodeHello({.host = std::string(300, 'h'), .node = std::string(300, 'n')}).size(), kMaxHelloBytes);
  for (auto [rank, ranks] : std::vector<std::pair<int, int>>{{-1, 2}, {2, 2}, {0, 0}, {0, -1}, {0, kMaxRanks + 1}}) {
    hello.rank = rank;
    hello.ranks = ranks;
    EXPECT_FALSE(decodeHello(encodeHello(hello)).ok()) << rank << " of " << ranks;
  }
  EXPECT_FALSE(decodeHello(encodeHello({}) + "x").ok());
}

TEST(Values, OfAnyKindComeBack) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const size_t places = 1 + random() % 40;
    Part part;
    std::string before = "a value that others are like";
    for (size_t place = 0; place < places; ++place) {
      if (random() % 5 == 0) continue;
      std::string value = before;
      if (random() % 3 == 0) value.resize(random() % 60, 'x');
      for (uint64_t edits = random() % 4; edits > 0 && !value.empty(); --edits)
        value[random() % value.size()] = static_cast<char>(random());
      part.values.emplace_back(place, value);
      if (random() % 4 == 0) part.processes.emplace_back(place, value);
      before = value;
    }
    Part mixed = part;
    std::shuffle(mixed.values.begin(), mixed.values.end(), random);
    const std::string bytes = encodePart(mixed);
    auto back = decodePart(bytes, places);
    ASSERT_TRUE(back.ok()) << back.status().toString();
    EXPECT_EQ(back->values, part.values);
    EXPECT_EQ(back->processes, part.processes);
    EXPECT_EQ(encodePart(*back), bytes);
    // What is cut off or changed is an error or something else that is right.
    EXPECT_FALSE(decodePart(std::string_view(bytes).substr(0, random() % bytes.size()), places).ok());
    std::string changed = bytes;
    changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
    auto other = decodePart(changed, places);
    if (!other.ok()) continue;
    for (const auto& [place, value] : other->values) EXPECT_TRUE(place >= 0 && static_cast<size_t>(place) < places);
  }
}

TEST(Values, ThatAreAlikeCostNextToNothing) {
  constexpr int kPlaces = 1024;
  auto sizeOf = [](const std::function<std::string(int)>& value) {
    Part part;
    for (int place = 0; place < kPlaces; ++place) part.values.emplace_back(place, value(place));
    EXPECT_EQ(decodePart(encodePart(part), kPlaces)->values, part.values);
    return encodePart(part).size();
  };
  const std::string card(250, 'c');
  EXPECT_LT(sizeOf([](int) { return std::string(); }), 100u);
  EXPECT_LT(sizeOf([&](int) { return card; }), 100u + card.size());
  // A number in it.
  EXPECT_LT(sizeOf([&](int place) { return card + std::to_string(place) + card; }), size_t{kPlaces} * 12);
  // Two kinds, and nothing alike.
  EXPECT_LT(sizeOf([&](int place) { return place < 100 ? card : "none"; }), 100u + card.size());
  std::mt19937_64 random(5);
  EXPECT_LT(sizeOf([&](int) {
              std::string value;
              while (value.size() < 250) value += static_cast<char>(random());
              return value;
            }),
            size_t{kPlaces} * 256);
}

TEST(Values, BelieveNothing) {
  EXPECT_FALSE(decodePart("", 4).ok());
  const std::string two = encodePart({.status = {}, .values = {{0, "a"}, {1, "b"}}, .processes = {}});
  EXPECT_TRUE(decodePart(two, 2).ok());
  EXPECT_FALSE(decodePart(two, 1).ok());
  EXPECT_FALSE(decodePart(two + "x", 2).ok());
  const std::string twice = encodePart({.status = {}, .values = {{1, "a"}, {1, "b"}}, .processes = {}});
  EXPECT_FALSE(decodePart(twice, 2).ok());
  const Part failed{.status = aborted("enough"), .values = {}, .processes = {}};
  EXPECT_EQ(decodePart(encodePart(failed), 2)->status.toString(), failed.status.toString());
  // 2^32 numbers in a few bytes.
  Writer many;
  many.varint(1);
  many.i32(0);
  many.varint(uint64_t{1} << 32);
  many.i32(0);
  const std::string bytes = many.take();
  Reader in(bytes);
  EXPECT_TRUE(decodeRuns(in, 1000).empty());
  EXPECT_FALSE(in.ok());
}

/// `places` values; `distinct` writes how many different ones there are, and them.
std::string partOf(int32_t places, const std::vector<int32_t>& which, const std::function<void(Writer&)>& distinct) {
  std::vector<int32_t> where(static_cast<size_t>(places));
  std::iota(where.begin(), where.end(), 0);
  Writer out;
  out.status(okStatus());
  encodeRuns(where, out);
  encodeRuns(which, out);
  distinct(out);
  for (int none = 0; none < 3; ++none) out.varint(0);  // Processes: places, which, distinct.
  return out.take();
}

TEST(Values, ThatAFewBytesStandForAreCountedBeforeTheyAreMade) {
  constexpr int kPlaces = 1000;
  // One of a MiB whose bytes are there, and more that are as the one before.
  auto big = [](Writer& out, bool first) {
    out.varint(kMaxValueBytes);
    out.varint(first ? 0 : kMaxValueBytes);
    out.varint(first ? kMaxValueBytes : 0);
    if (first) out.raw(std::string(kMaxValueBytes, 'b'));
  };
  // All name an empty one, and nobody names the others.
  const std::vector<int32_t> none(kPlaces, 0);
  EXPECT_TRUE(decodePart(partOf(kPlaces, none,
                                [](Writer& out) {
                                  out.varint(1);
                                  out.varint(0);
                                }),
                         kPlaces)
                  .ok());
  const std::string unused = partOf(kPlaces, none, [&](Writer& out) {
    out.varint(kPlaces);
    out.varint(0);
    for (int i = 1; i < kPlaces; ++i) big(out, i == 1);
  });
  EXPECT_LT(unused.size(), kMaxValueBytes + 20 * kPlaces);
  EXPECT_EQ(decodePart(unused, kPlaces).status().code(), StatusCode::kInternal);
  // All name one, or each its own.
  const std::string copies = partOf(kPlaces, none, [&](Writer& out) {
    out.varint(1);
    big(out, true);
  });
  std::vector<int32_t> each(kPlaces);
  std::iota(each.begin(), each.end(), 0);
  const std::string own = partOf(kPlaces, each, [&](Writer& out) {
    out.varint(kPlaces);
    for (int i = 0; i < kPlaces; ++i) big(out, i == 0);
  });
  for (const std::string& bytes : {copies, own}) {
    const Status refused = decodePart(bytes, kPlaces, kMaxValueBytes * 3).status();
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.toString();
    EXPECT_THAT(refused.message(), HasSubstr("bytes together"));
  }
  // As much as there may be.
  const std::string two = partOf(2, {0, 0}, [&](Writer& out) {
    out.varint(1);
    big(out, true);
  });
  EXPECT_TRUE(decodePart(two, 2, 2 * kMaxValueBytes).ok());
  EXPECT_FALSE(decodePart(two, 2, 2 * kMaxValueBytes - 1).ok());
  // A value that is named before the one ahead of it, or that is not there.
  for (const auto& wrong : {std::vector<int32_t>{1, 0}, {0, 2}, {0, -1}})
    EXPECT_FALSE(decodePart(partOf(2, wrong,
                                   [](Writer& out) {
                                     out.varint(2);
                                     out.varint(0);
                                     out.varint(0);
                                   }),
                            2)
                     .ok());
}

TEST(Values, OfAllMembersFitIntoTheMessageThatTheirLinksTake) {
  std::mt19937_64 random(11);
  for (const size_t members : {size_t{1}, size_t{2}, size_t{7}}) {
    Part part;
    for (size_t place = 0; place < members; ++place) {
      // Nothing alike, and what is alike so short that it is hardly worth it.
      std::string value(kMaxValueBytes, '\0');
      for (size_t i = 0; i < value.size(); i += place % 2 == 0 ? 1 : 5) value[i] = static_cast<char>(random());
      part.values.emplace_back(place, std::move(value));
      part.processes.emplace_back(place, std::string(kMaxProcessBytes, static_cast<char>('a' + place)));
    }
    const std::string bytes = encodePart(part);
    EXPECT_LE(bytes.size() + 4 + kMaxNameBytes, mostPartBytes(members));
    EXPECT_TRUE(decodePart(bytes, members).ok());
  }
  EXPECT_LT(mostPartBytes(1), 2 * kMaxValueBytes);
  EXPECT_EQ(mostPartBytes(kMaxRanks), kMaxPayloadBytes);
}

TEST(Roster, IsShortForWhatLaunchersMake) {
  auto sizeOf = [](int ranks, const std::function<int32_t(int)>& process) {
    Roster roster;
    for (int rank = 0; rank < ranks; ++rank) roster.processOf.push_back(process(rank));
    EXPECT_EQ(decodeRoster(encodeRoster(roster), static_cast<size_t>(ranks))->processOf, roster.processOf);
    EXPECT_FALSE(decodeRoster(encodeRoster(roster), static_cast<size_t>(ranks) + 1).ok());
    return encodeRoster(roster).size();
  };
  EXPECT_LT(sizeOf(1024, [](int rank) { return rank / 32; }), 400u);
  EXPECT_LT(sizeOf(1024, [](int rank) { return rank % 32; }), 400u);
  EXPECT_LT(sizeOf(1024, [](int rank) { return rank; }), 20u);
  EXPECT_LT(sizeOf(1024, [](int) { return 0; }), 20u);
  std::mt19937 random(3);
  sizeOf(1000, [&](int) { return static_cast<int32_t>(random() % 9); });
  sizeOf(1, [](int) { return 0; });
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
  // Host and node have names as long as they may.
  const std::vector<MissingRank> wordy = {{1, MemberState::kLeft, std::string(600, 'd')}};
  EXPECT_EQ(decodeMissing(encodeMissing(wordy)).value()[0].description, std::string(kMaxNameBytes, 'd'));
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
  EXPECT_EQ(back->challenge, decline.challenge);
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
