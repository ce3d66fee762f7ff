// SPDX-License-Identifier: Apache-2.0
// Event sets, ports and affinity.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <set>
#include <thread>

#include "tests/unit/bindings/hlml/FakeNode.h"

namespace hpu::hlml {
namespace {

constexpr unsigned long long kEverything = HLML_EVENT_ECC_DERR | HLML_EVENT_ECC_SERR | HLML_EVENT_CRITICAL_ERR |
                                           HLML_EVENT_CLOCK_RATE | HLML_EVENT_DRAM_DERR | HLML_EVENT_DRAM_SERR |
                                           HLML_EVENT_HPU_NON_FATAL;

class HlmlEvents : public HlmlTest {
 protected:
  void SetUp() override {
    HlmlTest::SetUp();
    ASSERT_EQ(hlml_event_set_create(&set_), HLML_SUCCESS);
  }
  void watch(unsigned int index, unsigned long long types) {
    EXPECT_EQ(hlml_device_register_events(handle(index), types, set_), HLML_SUCCESS);
  }
  hlml_return_t wait(unsigned int timeoutMs = 0) { return hlml_event_set_wait(set_, &event_, timeoutMs); }

  hlml_event_set_t set_ = nullptr;
  hlml_event_data_t event_{};
};

TEST_F(HlmlEvents, NothingHappenedIsATimeout) {
  watch(1, kEverything);
  EXPECT_EQ(wait(0), HLML_ERROR_TIMEOUT);
  int64_t before = monotonicNs();
  EXPECT_EQ(wait(50), HLML_ERROR_TIMEOUT);
  EXPECT_GE(monotonicNs() - before, 50'000'000);
}

TEST_F(HlmlEvents, EachFaultHasItsBits) {
  watch(1, kEverything);
  const std::pair<node::Fault, unsigned long long> faults[] = {
      {node::Fault::kCorrectedEcc, HLML_EVENT_ECC_SERR | HLML_EVENT_DRAM_SERR},
      {node::Fault::kUncorrectedEcc, HLML_EVENT_ECC_ERR | HLML_EVENT_DRAM_ERR},
      {node::Fault::kNonFatalEvent, HLML_EVENT_HPU_NON_FATAL},
      {node::Fault::kFatalEvent, HLML_EVENT_CRITICAL_ERR},
      {node::Fault::kEndlessCommand, HLML_EVENT_CRITICAL_ERR},
      {node::Fault::kLostHeartbeat, HLML_EVENT_CRITICAL_ERR},
      {node::Fault::kThermal, HLML_EVENT_CLOCK_RATE}};
  for (const auto& [fault, bits] : faults) {
    addFault(1, fault);
    EXPECT_EQ(wait(), HLML_SUCCESS);
    EXPECT_EQ(event_.device, handle(1));
    EXPECT_EQ(event_.event_type, bits);
    EXPECT_EQ(wait(), HLML_ERROR_TIMEOUT) << "reported once";
  }
}

TEST_F(HlmlEvents, OnlyWhatWasAskedForIsReported) {
  watch(1, HLML_EVENT_CRITICAL_ERR);
  addFault(1, node::Fault::kThermal);
  addFault(2, node::Fault::kFatalEvent);  // Not registered.
  EXPECT_EQ(wait(), HLML_ERROR_TIMEOUT);
  addFault(1, node::Fault::kFatalEvent);
  EXPECT_EQ(wait(), HLML_SUCCESS);
  EXPECT_EQ(event_.event_type, static_cast<unsigned long long>(HLML_EVENT_CRITICAL_ERR));
}

TEST_F(HlmlEvents, WhatHappenedBeforeTheRegistrationIsNotReported) {
  addFault(1, node::Fault::kFatalEvent);
  watch(1, kEverything);
  EXPECT_EQ(wait(), HLML_ERROR_TIMEOUT);
}

TEST_F(HlmlEvents, SeveralDevicesAreReportedOneByOne) {
  watch(1, kEverything);
  watch(2, kEverything);
  addFault(1, node::Fault::kThermal);
  addFault(2, node::Fault::kFatalEvent);
  std::set<hlml_device_t> devices;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(wait(), HLML_SUCCESS);
    devices.insert(event_.device);
  }
  EXPECT_EQ(devices, (std::set<hlml_device_t>{handle(1), handle(2)}));
  EXPECT_EQ(wait(), HLML_ERROR_TIMEOUT);
}

TEST_F(HlmlEvents, AWaitSeesWhatHappensMeanwhile) {
  watch(1, kEverything);
  std::thread later([&] {
    usleep(30'000);
    addFault(1, node::Fault::kThermal);
  });
  EXPECT_EQ(wait(20'000), HLML_SUCCESS);
  later.join();
}

TEST_F(HlmlEvents, CountsOfANewOwnerBeginAnew) {
  addFault(1, node::Fault::kThermal);
  watch(1, kEverything);
  change(1, [](node::DeviceStatus& d) {
    d.acquiredAtNs += 1000;  // Another owner; its first fault gives the same count.
  });
  EXPECT_EQ(wait(), HLML_SUCCESS);
  EXPECT_EQ(event_.event_type, static_cast<unsigned long long>(HLML_EVENT_CLOCK_RATE));
}

TEST_F(HlmlEvents, AFreedSetEndsItsWaits) {
  watch(1, kEverything);
  std::thread later([&] {
    usleep(30'000);
    EXPECT_EQ(hlml_event_set_free(set_), HLML_SUCCESS);
  });
  EXPECT_EQ(wait(20'000), HLML_ERROR_INVALID_ARGUMENT);
  later.join();
  EXPECT_EQ(wait(), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_event_set_free(set_), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_register_events(handle(1), kEverything, set_), HLML_ERROR_INVALID_ARGUMENT);
}

TEST_F(HlmlEvents, ShuttingDownEndsWaitsAndSets) {
  watch(1, kEverything);
  std::thread later([&] {
    usleep(30'000);
    EXPECT_EQ(hlml_shutdown(), HLML_SUCCESS);
  });
  EXPECT_EQ(wait(20'000), HLML_ERROR_UNINITIALIZED);
  later.join();
  EXPECT_EQ(wait(), HLML_ERROR_UNINITIALIZED);
  EXPECT_EQ(hlml_event_set_create(&set_), HLML_ERROR_UNINITIALIZED);
  hlml_event_set_t old = set_;
  ASSERT_EQ(hlml_init(), HLML_SUCCESS);
  EXPECT_EQ(hlml_event_set_free(old), HLML_ERROR_INVALID_ARGUMENT);
}

TEST_F(HlmlEvents, MisuseIsRefused) {
  int something = 0;
  EXPECT_EQ(hlml_event_set_create(nullptr), HLML_ERROR_INVALID_ARGUMENT);
  for (hlml_event_set_t bad : {hlml_event_set_t{nullptr}, hlml_event_set_t{&something}, handle(1)}) {
    EXPECT_EQ(hlml_event_set_free(bad), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(hlml_event_set_wait(bad, &event_, 0), HLML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(hlml_device_register_events(handle(1), kEverything, bad), HLML_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(hlml_event_set_wait(set_, nullptr, 0), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_register_events(handle(1), 0, set_), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_register_events(handle(1), 1ull << 40, set_), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_register_events(nullptr, kEverything, set_), HLML_ERROR_INVALID_ARGUMENT);
}

// ---- Network ------------------------------------------------------------------------------------------

TEST_F(HlmlTest, EveryPortHasAnAddress) {
  hlml_mac_info_t macs[HLML_DEVICE_MAC_MAX_ADDRESSES];
  unsigned int count = 0;
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), macs, HLML_DEVICE_MAC_MAX_ADDRESSES, 0, &count), HLML_SUCCESS);
  EXPECT_EQ(count, 24u);
  std::set<std::string> seen;
  for (unsigned int i = 0; i < count; ++i) {
    EXPECT_EQ(macs[i].id, static_cast<int>(i));
    seen.insert(std::string(reinterpret_cast<char*>(macs[i].addr), ETHER_ADDR_LEN));
  }
  EXPECT_EQ(seen.size(), 24u);
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), macs, 3, 22, &count), HLML_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(macs[0].id, 22);
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), macs, 0, 0, &count), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), macs, 3, 24, &count), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), nullptr, 3, 0, &count), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_mac_info(handle(1), macs, 3, 0, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_mac_info(d, macs, 3, 0, &count); });
}

TEST_F(HlmlTest, MasksAndLinksAgree) {
  uint64_t mask[PORTS_ARR_SIZE] = {7, 7}, external[PORTS_ARR_SIZE] = {7, 7};
  EXPECT_EQ(hlml_get_mac_addr_info(handle(1), mask, external), HLML_SUCCESS);
  EXPECT_EQ(std::popcount(mask[0]), 24);
  EXPECT_EQ(mask[1], 0u);
  EXPECT_EQ(external[1], 0u);
  for (uint32_t port = 0; port < 24; ++port) {
    bool up = false;
    EXPECT_EQ(hlml_nic_get_link(handle(1), port, &up), HLML_SUCCESS);
    EXPECT_EQ(up, !(external[0] >> port & 1)) << port;
    EXPECT_EQ(hlml_nic_get_link(handle(3), port, &up), HLML_SUCCESS);
    EXPECT_FALSE(up) << "a lost device has no links";
  }
  bool up = false;
  EXPECT_EQ(hlml_nic_get_link(handle(1), 24, &up), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_nic_get_link(handle(1), ~0u, &up), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_nic_get_link(handle(1), 0, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_get_mac_addr_info(handle(1), nullptr, external), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_get_mac_addr_info(handle(1), mask, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_nic_get_link(d, 0, &up); });
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_get_mac_addr_info(d, mask, external); });
}

TEST_F(HlmlTest, NicStatisticsAreNamesAndValues) {
  std::vector<char> names(256 * 32, 'x');
  uint64_t values[256];
  uint32_t count = 0;
  hlml_nic_stats_info_t stats{0, names.data(), values, &count};
  change(1, [](node::DeviceStatus& d) {
    d.links[0].sent = {2, 3, 300, 400, 5000};  // By ports 0, 1 and 2.
    d.links[node::kRail].received = {1, 6, 900, 1000, 7000};
    d.network[static_cast<int>(node::NetworkCounter::kRetransmitted)] = 9;
  });
  const auto valueOf = [&](uint32_t port, const std::string& name) -> int64_t {
    stats.port = port;
    EXPECT_EQ(hlml_nic_get_statistics(handle(1), &stats), HLML_SUCCESS);
    EXPECT_LE(count, 256u);
    for (uint32_t i = 0; i < count; ++i)
      if (name == &names[i * 32]) return static_cast<int64_t>(values[i]);
    return -1;
  };
  EXPECT_EQ(valueOf(0, "tx_bytes"), 134);
  EXPECT_EQ(valueOf(2, "tx_bytes"), 133);
  EXPECT_EQ(valueOf(0, "tx_packets"), 1);
  EXPECT_EQ(valueOf(0, "rx_bytes"), 0);
  EXPECT_EQ(valueOf(3, "tx_bytes"), 0);
  EXPECT_EQ(valueOf(0, "retransmitted"), 0);
  EXPECT_EQ(valueOf(8, "retransmitted"), 9);
  EXPECT_EQ(valueOf(8, "rx_packets"), 2);
  EXPECT_EQ(valueOf(8, "rx_busy_ns"), 7);
  EXPECT_EQ(names[count * 32], 'x');
  const uint32_t known = count;
  count = 7;
  stats.port = 0;
  EXPECT_EQ(hlml_nic_get_statistics(handle(3), &stats), HLML_ERROR_AIP_IS_LOST);
  EXPECT_EQ(hlml_nic_get_statistics(handle(4), &stats), HLML_ERROR_NO_DATA);
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(hlml_nic_get_statistics(handle(0), &stats), HLML_SUCCESS);  // A free device has carried nothing.
  EXPECT_EQ(count, known);
  for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(values[i], 0u);
  EXPECT_EQ(hlml_nic_get_statistics(handle(1), nullptr), HLML_ERROR_INVALID_ARGUMENT);
  stats.port = 24;
  EXPECT_EQ(hlml_nic_get_statistics(handle(1), &stats), HLML_ERROR_INVALID_ARGUMENT);
  stats.port = 0;
  stats.val_buf = nullptr;
  EXPECT_EQ(hlml_nic_get_statistics(handle(1), &stats), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_nic_get_statistics(d, &stats); });
}

// ---- Affinity -----------------------------------------------------------------------------------------

TEST_F(HlmlTest, CpuAffinityHoldsEveryOnlineCpu) {
  unsigned long cpus[64] = {}, scoped[64] = {};
  EXPECT_EQ(hlml_device_get_cpu_affinity(handle(1), 64, cpus), HLML_SUCCESS);
  int count = 0;
  for (unsigned long word : cpus) count += std::popcount(word);
  EXPECT_EQ(count, sysconf(_SC_NPROCESSORS_ONLN));
  for (hlml_affinity_scope_t scope : {HLML_AFFINITY_SCOPE_NODE, HLML_AFFINITY_SCOPE_SOCKET}) {
    EXPECT_EQ(hlml_device_get_cpu_affinity_within_scope(handle(1), 64, scoped, scope), HLML_SUCCESS);
    EXPECT_TRUE(std::equal(std::begin(cpus), std::end(cpus), std::begin(scoped)));
  }
  EXPECT_EQ(hlml_device_get_cpu_affinity_within_scope(handle(1), 64, scoped, 2), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_cpu_affinity(handle(1), 0, cpus), HLML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(hlml_device_get_cpu_affinity(handle(1), 64, nullptr), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_cpu_affinity(d, 64, cpus); });
}

TEST_F(HlmlTest, MemoryAffinityHoldsANode) {
  unsigned long nodes[16] = {};
  EXPECT_EQ(hlml_device_get_memory_affinity(handle(1), 16, nodes, HLML_AFFINITY_SCOPE_NODE), HLML_SUCCESS);
  EXPECT_NE(nodes[0], 0u);
  EXPECT_EQ(hlml_device_get_memory_affinity(handle(1), 0, nodes, 0), HLML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(hlml_device_get_memory_affinity(handle(1), 16, nodes, 2), HLML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hlml_device_get_memory_affinity(handle(1), 16, nullptr, 0), HLML_ERROR_INVALID_ARGUMENT);
  expectHandleIsChecked([&](hlml_device_t d) { return hlml_device_get_memory_affinity(d, 16, nodes, 0); });
}

TEST_F(HlmlTest, SettingAffinityKeepsToTheCpusThatTheThreadHadAndClearingGivesThemBack) {
  cpu_set_t before, one, now;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  auto expectCpus = [&](const cpu_set_t& wanted) {
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_TRUE(CPU_EQUAL(&now, &wanted));
  };
  // As taskset leaves it.
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(hlml_device_clear_cpu_affinity(handle(1)), HLML_SUCCESS) << "nothing was set";
  expectCpus(one);
  EXPECT_EQ(hlml_device_set_cpu_affinity(handle(1)), HLML_SUCCESS);
  expectCpus(one);
  EXPECT_EQ(hlml_device_clear_cpu_affinity(handle(1)), HLML_SUCCESS);
  expectCpus(one);
  // What the thread had when it was set first comes back.
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(hlml_device_set_cpu_affinity(handle(1)), HLML_SUCCESS);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(hlml_device_set_cpu_affinity(handle(1)), HLML_SUCCESS);
  EXPECT_EQ(hlml_device_clear_cpu_affinity(handle(1)), HLML_SUCCESS);
  expectCpus(before);
  for (auto call : {hlml_device_set_cpu_affinity, hlml_device_clear_cpu_affinity}) expectHandleIsChecked(call);
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace hpu::hlml
