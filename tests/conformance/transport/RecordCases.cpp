// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "Suite.h"

namespace hpu::testing {
namespace {
using namespace collectives;

CallRecord recordOf(int rank, uint64_t sequence) {
  CallRecord record;
  record.sequence = sequence;
  record.tableHash = sequence * 31 + static_cast<uint64_t>(rank);
  record.count = static_cast<int64_t>(sequence) << 33;
  record.arrivalPs = rank * 1000 + static_cast<int64_t>(sequence);
  record.scale = 0.5 * rank;
  record.root = rank;
  record.destination = -rank;
  record.collective = static_cast<uint8_t>(sequence % 9);
  record.type = 3;
  record.op = 2;
  // Ports are told by some only, over records that lay there before and told others.
  record.portsBusy = sequence % 3 == 0;
  for (int device = 0; record.portsBusy != 0 && device < kMostPorts; ++device) {
    record.portsPs[0][device] = static_cast<int64_t>(sequence) * 100 + rank * 10 + device;
    record.portsPs[1][device] = -record.portsPs[0][device];
  }
  return record;
}
void expectRecord(const CallRecord& record, int rank, uint64_t sequence) {
  CallRecord expected = recordOf(rank, sequence);
  EXPECT_EQ(record.sequence, sequence);
  EXPECT_EQ(record.tableHash, expected.tableHash);
  EXPECT_EQ(record.count, expected.count);
  EXPECT_EQ(record.arrivalPs, expected.arrivalPs);
  EXPECT_EQ(record.scale, expected.scale);
  EXPECT_EQ(record.root, rank);
  EXPECT_EQ(record.destination, -rank);
  EXPECT_EQ(record.collective, expected.collective);
  EXPECT_EQ(record.type, expected.type);
  EXPECT_EQ(record.op, expected.op);
  ASSERT_EQ(record.portsBusy, expected.portsBusy);
  for (int device = 0; expected.portsBusy != 0 && device < kMostPorts; ++device)
    for (int way = 0; way < 2; ++way) EXPECT_EQ(record.portsPs[way][device], expected.portsPs[way][device]);
}

void publish(const Rank& rank, uint64_t sequence) {
  rank.await("room for a record", [&] { return rank.t().publish(recordOf(rank.rank(), sequence)); });
}

void records(Rank& rank) {
  // Far more calls than a ring holds; ranks run ahead of each other as far as they may.
  for (int peer = 0; peer < rank.ranks(); ++peer) EXPECT_EQ(rank.t().lastSequence(peer), 0u);
  EXPECT_FALSE(rank.t().record(rank.rank(), 1).has_value());
  rank.barrier();
  for (uint64_t sequence = 1; sequence <= 500; ++sequence) {
    publish(rank, sequence);
    EXPECT_EQ(rank.t().lastSequence(rank.rank()), sequence);
    for (int peer = 0; peer < rank.ranks(); ++peer) {
      std::optional<CallRecord> record;
      rank.await("a record", [&] {
        record = rank.t().record(peer, sequence);
        return record.has_value();
      });
      ASSERT_TRUE(record.has_value());
      expectRecord(*record, peer, sequence);
      EXPECT_GE(rank.t().lastSequence(peer), sequence);
    }
    // Now and then several at once.
    if (sequence % 3 == static_cast<uint64_t>(rank.rank()) % 3 || sequence == 500) rank.t().retire(sequence);
  }
  rank.barrier();
  EXPECT_FALSE(rank.t().record(0, 501).has_value());
}

void refused(Rank& rank) {
  // A rank that does not retire holds the others up, and lets them go on when it does.
  uint64_t published = 0;
  if (rank.rank() == 0) {
    while (published < 100000 && rank.t().publish(recordOf(0, published + 1))) rank.t().retire(++published);
    EXPECT_GE(published, 2u);
    EXPECT_LT(published, 100000u);
    rank.gather(std::to_string(published));
    publish(rank, published + 1);
  } else {
    published = std::stoull(rank.gather("")[0]);
    rank.await("the records", [&] { return rank.t().lastSequence(0) == published; });
    for (uint64_t sequence = 1; sequence <= published; ++sequence)
      expectRecord(rank.t().record(0, sequence).value_or(CallRecord{}), 0, sequence);
    rank.t().retire(1);
    rank.await("the next record", [&] { return rank.t().lastSequence(0) == published + 1; });
    expectRecord(rank.t().record(0, published + 1).value_or(CallRecord{}), 0, published + 1);
  }
  rank.barrier();
}

void outOfOrder(Rank& rank) {
  // A rank cannot skip a number or say one again.
  EXPECT_FALSE(rank.t().publish(recordOf(rank.rank(), 2)));
  EXPECT_TRUE(rank.t().publish(recordOf(rank.rank(), 1)));
  EXPECT_FALSE(rank.t().publish(recordOf(rank.rank(), 1)));
  EXPECT_FALSE(rank.t().publish(recordOf(rank.rank(), 0)));
  EXPECT_EQ(rank.t().lastSequence(rank.rank()), 1u);
  rank.barrier();
}

}  // namespace

const std::vector<Case>& recordCases() {
  static const std::vector<Case> cases = {
      {"records", 2, records},
      {"recordsOf4", 4, records},
      {"refusedRecords", 2, refused},
      {"outOfOrderRecords", 2, outOfOrder},
  };
  return cases;
}

}  // namespace hpu::testing
