// SPDX-License-Identifier: Apache-2.0
// The profiler: recordings in a caller's buffer and in a file, and the program's own measurements.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using testing::HasSubstr;

class Profiler : public SynapseTest {
 protected:
  void work(uint64_t bytes = 8 << 20) {
    if (!buffer_) buffer_ = allocate(64 << 20);
    EXPECT_SYN(synMemsetD8Async(buffer_, 1, bytes, stream));
    EXPECT_SYN(synStreamSynchronize(stream));
  }
  /// Asks for the size, then for the trace; `guard` bytes behind it stay as they were.
  struct Trace {
    std::vector<std::max_align_t> memory;
    uint64_t size = 0, entries = 0;
    const synTraceEvent* events() const { return reinterpret_cast<const synTraceEvent*>(memory.data()); }
    std::vector<const synTraceEvent*> named(const std::string& name, char type = 'X') const {
      std::vector<const synTraceEvent*> found;
      for (uint64_t i = 0; i < entries; ++i)
        if (events()[i].type == type && name == events()[i].name) found.push_back(&events()[i]);
      return found;
    }
    std::string trackOf(const synTraceEvent& event) const {
      for (const synTraceEvent* name : named("thread_name", 'M'))
        if (name->engineType == event.engineType && name->engineIndex == event.engineIndex) return name->arguments.name;
      return "";
    }
  };
  Trace get(synTraceType type) {
    Trace trace;
    EXPECT_SYN(synProfilerGetTrace(type, device, synTraceFormatTEF, nullptr, &trace.size, &trace.entries));
    uint64_t asked = trace.size, counted = trace.entries;
    trace.memory.resize(trace.size / sizeof(std::max_align_t) + 2);
    std::memset(trace.memory.data(), 0xEE, trace.memory.size() * sizeof(std::max_align_t));
    trace.size += 8;
    EXPECT_SYN(synProfilerGetTrace(type, device, synTraceFormatTEF, trace.memory.data(), &trace.size, &trace.entries));
    EXPECT_EQ(trace.size, asked);
    EXPECT_EQ(trace.entries, counted);
    const auto* bytes = reinterpret_cast<const uint8_t*>(trace.memory.data());
    EXPECT_EQ(bytes[trace.size], 0xEE) << "written past the end";
    uint64_t tail[2];
    std::memcpy(tail, bytes + trace.size - sizeof(tail), sizeof(tail));
    EXPECT_EQ(tail[0], trace.entries);
    return trace;
  }
  uint64_t buffer_ = 0;
};

TEST_F(Profiler, RecordsTheDevicesWorkAndTheHostsCalls) {
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  work();
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
  work();  // Not recorded.
  Trace trace = get(synTraceAll);
  int host = 0, onDevice = 0;
  for (uint64_t i = 0; i < trace.entries; ++i) {
    const synTraceEvent& event = trace.events()[i];
    if (event.type != 'X') continue;
    if (event.engineType == 1) {
      ++host;
      continue;
    }
    ++onDevice;
    EXPECT_GT(event.duration, 0);
    EXPECT_FALSE(trace.trackOf(event).empty());
  }
  EXPECT_GT(host, 1);
  EXPECT_GE(onDevice, 1);
  // The memset is on the device's clock: 8 MiB take at least their time at HBM's pin rate.
  bool found = false;
  for (uint64_t i = 0; i < trace.entries; ++i) {
    const synTraceEvent& event = trace.events()[i];
    if (event.type == 'X' && event.engineType > 1 && event.duration * 2460e3L >= (8 << 20)) found = true;
  }
  EXPECT_TRUE(found);
}

TEST_F(Profiler, GivesTheHostOrTheDeviceAlone) {
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  work();
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
  Trace host = get(synTraceHost), onDevice = get(synTraceDevice), all = get(synTraceAll);
  EXPECT_EQ(host.entries + onDevice.entries, all.entries);
  for (uint64_t i = 0; i < host.entries; ++i) EXPECT_EQ(host.events()[i].engineType, 1u);
  for (uint64_t i = 0; i < onDevice.entries; ++i) EXPECT_GT(onDevice.events()[i].engineType, 1u);
  EXPECT_GT(host.entries, 0u);
  EXPECT_GT(onDevice.entries, 0u);
}

TEST_F(Profiler, RecordsTheProgramsOwnMeasurements) {
  uint64_t before = 0, after = 0;
  ASSERT_SYN(synProfilerStart(synTraceHost, 0));
  ASSERT_SYN(synProfilerGetCurrentTimeNS(&before));
  ASSERT_SYN(synProfilerAddCustomMeasurement("plain", before));
  const char* args[] = {"batch", "32", "note", "with \"quotes\""};
  ASSERT_SYN(synProfilerAddCustomMeasurementArgs("with args", before, args, 4));
  std::thread([&] {
    EXPECT_SYN(synProfilerAddCustomMeasurementArgsAndThread("named", before, args, 2, "my own track"));
  }).join();
  ASSERT_SYN(synProfilerAddCustomEvent("exact", before + 100, before + 350, nullptr, 0));
  ASSERT_SYN(synProfilerGetCurrentTimeNS(&after));
  ASSERT_SYN(synProfilerStop(synTraceHost, 0));
  EXPECT_GE(after, before);

  Trace trace = get(synTraceHost);
  ASSERT_EQ(trace.named("plain").size(), 1u);
  const synTraceEvent& plain = *trace.named("plain")[0];
  EXPECT_NEAR(static_cast<double>(plain.timestamp * 1000 - static_cast<long double>(before)), 0, 1);
  EXPECT_LE(plain.duration * 1000, static_cast<long double>(after - before));
  ASSERT_EQ(trace.named("exact").size(), 1u);
  EXPECT_NEAR(static_cast<double>(trace.named("exact")[0]->duration), 0.25, 1e-9);
  ASSERT_EQ(trace.named("with args").size(), 1u);
  const synTraceEventExtraArgs& extra = trace.named("with args")[0]->arguments.extraArgs;
  ASSERT_EQ(extra.count, 2);
  EXPECT_STREQ(extra.args[0].key, "batch");
  EXPECT_EQ(extra.args[0].type, synTraceEventArg::TYPE_CHAR_PTR);
  EXPECT_STREQ(extra.args[0].value.str, "32");
  EXPECT_STREQ(extra.args[1].value.str, "with \"quotes\"");
  ASSERT_EQ(trace.named("named").size(), 1u);
  EXPECT_EQ(trace.trackOf(*trace.named("named")[0]), "my own track");
}

TEST_F(Profiler, WithoutARecordingMeasurementsDoNothing) {
  uint64_t now = 0;
  ASSERT_SYN(synProfilerGetCurrentTimeNS(&now));
  EXPECT_SYN(synProfilerAddCustomMeasurement("nobody records", now));
  uint64_t size = 0;
  EXPECT_SYN_ERROR(synProfilerGetTrace(synTraceHost, 0, synTraceFormatTEF, nullptr, &size, nullptr), synUnavailable,
                   "nothing was recorded");
}

TEST_F(Profiler, WrongMeasurementsAreErrors) {
  uint64_t now = 0;
  const char* args[] = {"key", nullptr};
  ASSERT_SYN(synProfilerGetCurrentTimeNS(&now));
  EXPECT_SYN_ERROR(synProfilerGetCurrentTimeNS(nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurement(nullptr, now), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurement("later", now + 1000000000000), synInvalidArgument, "after the end");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurementArgs("odd", now, args, 1), synInvalidArgument, "keys and values");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurementArgs("null", now, args, 2), synInvalidArgument, "args[1] is null");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurementArgs("none", now, nullptr, 2), synInvalidArgument, "args is null");
  EXPECT_SYN_ERROR(synProfilerAddCustomMeasurementArgsAndThread("x", now, nullptr, 0, nullptr), synInvalidArgument,
                   "threadName is null");
  EXPECT_SYN_ERROR(synProfilerAddCustomEvent("x", now, now - 1, nullptr, 0), synInvalidArgument, "after the end");
  EXPECT_SYN_ERROR(synProfilerAddCustomEvent("x", now, UINT64_MAX, nullptr, 0), synInvalidArgument, "no time");
}

TEST_F(Profiler, WritesAFileWhenThereIsNoBuffer) {
  char folder[] = "/tmp/synapse_profile_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ASSERT_SYN(synConfigurationSet("HPU_PROFILE_DIR", folder));
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  work();
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
  ASSERT_SYN(synProfilerGetTrace(synTraceAll, device, synTraceFormatTEF, nullptr, nullptr, nullptr));
  ASSERT_SYN(synProfilerGetTrace(synTraceAll, device, synTraceFormatTEF, nullptr, nullptr, nullptr));
  int files = 0;
  DIR* dir = opendir(folder);
  ASSERT_NE(dir, nullptr);
  while (dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    ++files;
    std::string path = std::string(folder) + "/" + entry->d_name;
    std::FILE* file = std::fopen(path.c_str(), "r");
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    EXPECT_THAT(text, HasSubstr("\"traceEvents\""));
    EXPECT_THAT(text, HasSubstr("fill"));
    EXPECT_EQ(unlink(path.c_str()), 0);
  }
  closedir(dir);
  EXPECT_EQ(files, 2) << "one does not replace the other";
  rmdir(folder);
  EXPECT_EQ(synProfilerGetTrace(synTraceAll, device, synTraceFormatTEF, nullptr, nullptr, nullptr), synUnavailable)
      << "the folder is gone: " << hpuSynLastError();
  ASSERT_SYN(synConfigurationSet("HPU_PROFILE_DIR", ""));
}

TEST_F(Profiler, SeveralDevicesShareOneRecording) {
  synDeviceId other = 0;
  ASSERT_SYN(synDeviceAcquire(&other, nullptr));
  ASSERT_SYN(synProfilerStart(synTraceDevice, device));
  ASSERT_SYN(synProfilerStart(synTraceDevice, other));
  work();
  ASSERT_SYN(synProfilerStop(synTraceDevice, other));
  uint64_t size = 0, entries = 0;
  EXPECT_EQ(synProfilerGetTrace(synTraceDevice, other, synTraceFormatTEF, nullptr, &size, &entries),
            synResourceBadUsage);
  ASSERT_SYN(synProfilerStop(synTraceDevice, device));
  EXPECT_GT(get(synTraceDevice).entries, 0u);
  ASSERT_SYN(synProfilerGetTrace(synTraceDevice, other, synTraceFormatTEF, nullptr, &size, &entries));
  EXPECT_EQ(entries, 0u) << "the other did nothing";
}

TEST_F(Profiler, NeedsStartAndStopInOrder) {
  EXPECT_SYN_ERROR(synProfilerStop(synTraceAll, device), synResourceBadUsage, "not being recorded");
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  EXPECT_SYN_ERROR(synProfilerStart(synTraceAll, device), synResourceBadUsage, "already");
  EXPECT_SYN_ERROR(synProfilerStop(synTraceHost, device), synResourceBadUsage, "not being recorded");
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
  ASSERT_SYN(synProfilerStart(synTraceAll, device)) << "the next recording";
  ASSERT_SYN(synDestroy()) << "it ends with the library";
  ASSERT_SYN(synInitialize());
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
}

TEST_F(Profiler, WrongArgumentsAreErrors) {
  uint64_t size = 0, entries = 0;
  char small[16];
  EXPECT_SYN_ERROR(synProfilerStart(static_cast<synTraceType>(0), device), synInvalidArgument, "type 0");
  EXPECT_SYN_ERROR(synProfilerStart(synTraceTypeSize, device), synInvalidArgument, "type 4");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synProfilerStart(synTraceDevice, 5), synInvalidArgument, "device 5");
  EXPECT_SYN_ERROR(synProfilerStop(synTraceTypeSize, device), synInvalidArgument, "type 4");
  ASSERT_SYN(synProfilerStart(synTraceAll, device));
  ASSERT_SYN(synProfilerStop(synTraceAll, device));
  EXPECT_SYN_ERROR(synProfilerGetTrace(synTraceAll, device, synTraceFormatSize, nullptr, &size, &entries),
                   synInvalidArgument, "format 2");
  EXPECT_SYN_ERROR(synProfilerGetTrace(synTraceAll, 5, synTraceFormatTEF, nullptr, &size, &entries), synInvalidArgument,
                   "device 5");
  EXPECT_SYN_ERROR(synProfilerGetTrace(synTraceAll, device, synTraceFormatTEF, small, nullptr, &entries),
                   synInvalidArgument, "size is null");
  size = 8;
  EXPECT_SYN_ERROR(synProfilerGetTrace(synTraceAll, device, synTraceFormatTEF, small, &size, &entries),
                   synInvalidArgument, "the buffer 8");
}

TEST_F(Profiler, NeedsNoMemoryOfTheDevice) {
  uint32_t bytes = 99;
  ASSERT_SYN(synProfilerQueryRequiredMemory(device, &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_SYN(synProfilerSetUserBuffer(device, nullptr));
  EXPECT_SYN_ERROR(synProfilerSetUserBuffer(device, &bytes), synInvalidArgument, "no buffer is needed");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synProfilerSetUserBuffer(6, nullptr), synInvalidArgument, "device 6");
  EXPECT_SYN_ERROR(synProfilerQueryRequiredMemory(device, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synProfilerQueryRequiredMemory(6, &bytes), synInvalidArgument, "device 6");
}

}  // namespace
}  // namespace synapse_test
