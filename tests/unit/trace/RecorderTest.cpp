// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/Recorder.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/File.h"
#include "runtime/trace/Format.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {
namespace {

/// The device chunks of a file, one after another.
std::vector<uint8_t> deviceSection(const std::string& path) {
  std::vector<uint8_t> bytes = *base::readFile(path), out;
  for (size_t at = format::kHeaderBytes; at + format::kChunkHeaderBytes <= bytes.size();) {
    uint32_t domain = format::getFixed<uint32_t>(&bytes[at + 8]);
    size_t size = format::kChunkHeaderBytes + format::getFixed<uint64_t>(&bytes[at + 16]);
    if (format::domainKind(domain) == format::DomainKind::kDevice)
      out.insert(out.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return out;
}

using Recorder = TraceTest;

TEST_F(Recorder, DoesNothingWhenItIsOff) {
  EXPECT_FALSE(active());
  Example().record();
  EXPECT_EQ(stop(file("x.hputrace")).code(), StatusCode::kFailedPrecondition);
  TraceData trace = recorded(Example());
  EXPECT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.devices[0].launches.size(), 3u) << "what was reported before start is not there";
}

TEST_F(Recorder, GivesBackEveryIntervalWithItsTerms) {
  Example example;
  TraceData trace = recorded(example);
  ASSERT_EQ(trace.devices.size(), 1u);
  const TracedDevice& device = trace.devices[0];
  EXPECT_EQ(device.target, Target::kGaudi2);
  EXPECT_EQ(trace.text(device.clockProfile), "sustained");
  ASSERT_EQ(device.programs.size(), 1u) << "a program is stored once for all its launches";
  ASSERT_EQ(device.launches.size(), 3u);
  ASSERT_EQ(device.commands.size(), 3u * 8);
  size_t at = 0;
  for (size_t launch = 0; launch < 3; ++launch) {
    auto offset = static_cast<perfmodel::Picoseconds>(launch) * 2 * example.timeline.end;
    EXPECT_EQ(device.launches[launch].launch, launch + 1);
    EXPECT_EQ(device.launches[launch].end, example.timeline.end + offset);
    for (size_t q = 0; q < 2; ++q)
      for (size_t c = 0; c < 4; ++c, ++at) {
        const CommandEvent& e = device.commands[at];
        const perfmodel::Interval& i = example.timeline.intervals[0][q][c];
        EXPECT_EQ(e.launch, launch);
        EXPECT_EQ(e.ready, i.ready + offset);
        EXPECT_EQ(e.start, i.start + offset);
        EXPECT_EQ(e.end, i.end + offset);
        EXPECT_EQ(device.termsOf(e), i.terms);
        EXPECT_EQ(device.commandOf(e).slice, c);
        EXPECT_EQ(device.commandOf(e).bytes.hbm, example.queues[q].commands[c].cost.bytes.hbm);
        EXPECT_EQ(device.trackOf(e), q ? Track::kTpc : Track::kMme);
      }
  }
  const TracedOp& op = device.opOf(device.commands[0]);
  EXPECT_EQ(trace.text(op.name), kNastyName + "+relu1");
  ASSERT_EQ(op.nodes.size(), 2u);
  EXPECT_EQ(trace.text(op.nodes[0].name), kNastyName);
  EXPECT_EQ(trace.text(op.nodes[1].op), "Relu");
}

TEST_F(Recorder, GivesBackSpansCountersAndHostEvents) {
  TraceData trace = recorded(Example());
  const TracedDevice& device = trace.devices[0];
  ASSERT_EQ(device.spans.size(), 1u);
  EXPECT_EQ(device.spans[0].track, Track::kHostToDevice);
  EXPECT_EQ(trace.text(device.spans[0].category), "copy");
  EXPECT_EQ(device.spans[0].terms[static_cast<size_t>(perfmodel::Term::kIdeal)], 4600);
  EXPECT_EQ(device.spans[0].terms[static_cast<size_t>(perfmodel::Term::kSync)], 300);
  ASSERT_EQ(device.counters.size(), 1u);
  EXPECT_EQ(device.counters[0].time, 77);
  EXPECT_EQ(device.counters[0].value, 1 << 20);
  ASSERT_EQ(trace.threads.size(), 1u);
  const HostThread& thread = trace.threads[0];
  EXPECT_EQ(trace.text(thread.name), "main \"thread\"");
  ASSERT_EQ(thread.events.size(), 4u);
  EXPECT_EQ(trace.text(thread.events[1].name), "Executable.launch");
  EXPECT_EQ(thread.args[thread.events[1].firstArg].value, 1);
  const HostEvent& prepare = thread.events[3];
  ASSERT_EQ(prepare.numArgs, 2u);
  EXPECT_EQ(trace.text(static_cast<StringId>(thread.args[prepare.firstArg].value)), kNastyName);
  EXPECT_EQ(thread.args[prepare.firstArg + 1].value, -7);
  EXPECT_EQ(prepare.end - prepare.start, 50);
  ASSERT_EQ(thread.edges.size(), 3u);
  EXPECT_EQ(thread.edges[2].launch, 3u);
  ASSERT_EQ(thread.counters.size(), 1u);
  EXPECT_TRUE(trace.stopped);
  EXPECT_EQ(trace.dropped, 0);
}

TEST_F(Recorder, EqualRunsHaveEqualDeviceBytesWhateverTheHostDid) {
  Example example(300);
  for (const char* name : {"a.hputrace", "b.hputrace"}) {
    ASSERT_TRUE(start().ok());
    std::atomic<bool> done{false};
    std::thread noise([&] {
      for (int i = 0; i < 1000 || !done; ++i) {
        std::string name = "noise " + std::to_string(i % 17);  // a scope only views its name
        HostScope scope(name);
      }
    });
    example.record();
    done = true;
    noise.join();
    ASSERT_TRUE(stop(file(name)).ok());
  }
  std::vector<uint8_t> a = deviceSection(file("a.hputrace")), b = deviceSection(file("b.hputrace"));
  EXPECT_GT(a.size(), 3 * 600 * 4u);
  EXPECT_TRUE(a == b);
}

TEST_F(Recorder, StreamedDeviceBytesEqualThoseKeptInMemory) {
  Example example(5000);
  (void)recorded(example);
  Options options;
  options.streamTo = file("s.hputrace");
  ASSERT_TRUE(start(options).ok());
  example.record();
  ASSERT_TRUE(stop("").ok());
  EXPECT_TRUE(deviceSection(file("t.hputrace")) == deviceSection(file("s.hputrace")));
  EXPECT_EQ(readBack("s.hputrace").numEvents(), readBack("t.hputrace").numEvents());
}

TEST_F(Recorder, LevelsDecideHowMuchOfTheDeviceIsRecorded) {
  Example example;
  Options options;
  options.level = Level::kApi;
  TraceData api = recorded(example, options);
  EXPECT_EQ(api.devices[0].launches.size(), 3u);
  EXPECT_TRUE(api.devices[0].commands.empty());
  options.level = Level::kNode;
  TraceData node = recorded(example, options);
  EXPECT_TRUE(node.devices[0].commands.empty());
  perfmodel::Picoseconds whole = 0, merged = 0;
  for (const auto& queue : example.timeline.intervals[0])
    for (const auto& i : queue) whole += i.end - i.ready;
  for (const SpanEvent& s : node.devices[0].spans)
    if (s.program) {
      merged += s.end - s.ready;
      EXPECT_EQ(std::accumulate(s.terms.begin(), s.terms.end(), perfmodel::Picoseconds{0}), s.end - s.ready);
    }
  EXPECT_EQ(merged, 3 * whole) << "merging loses no time";
  EXPECT_EQ(node.devices[0].spans.size(), 3u * 2 + 1) << "one span an operation, and the copy";
}

TEST_F(Recorder, CountsWhatFindsNoRoomAndKeepsLaunchesWhole) {
  Options options;
  options.maxEvents = 20;
  ASSERT_TRUE(start(options).ok());
  Example example;
  for (uint64_t i = 0; i < 4; ++i) recordLaunch(example.launch(i + 1));
  for (int i = 0; i < 5; ++i) recordHost("late", "api", 0, 1);
  EXPECT_EQ(droppedEvents(), 4 * 9 + 5 - 20);
  ASSERT_TRUE(stop(file("d.hputrace")).ok());
  TraceData trace = readBack("d.hputrace");
  EXPECT_EQ(trace.dropped + trace.numEvents(), 4 * 9 + 5);
  EXPECT_EQ(trace.dropped, 21);
  EXPECT_EQ(trace.devices[0].commands.size(), 16u) << "of two launches, all commands; of the others none";
}

TEST_F(Recorder, StartsOnceAndCanBeCancelledAndStartedAgain) {
  ASSERT_TRUE(start().ok());
  EXPECT_TRUE(active());
  EXPECT_EQ(start().code(), StatusCode::kFailedPrecondition);
  recordHost("forgotten", "api", 0, 1);
  cancel();
  EXPECT_FALSE(active());
  Options none;
  none.maxEvents = 0;
  EXPECT_EQ(start(none).code(), StatusCode::kInvalidArgument);
  Options deeper;
  deeper.level = static_cast<Level>(3);
  EXPECT_EQ(start(deeper).message(),
            "trace::Options::level is 3, which is none of its values; they are 0 (api), 1 (node), 2 (slice)");
  ASSERT_TRUE(start().ok());
  recordHost("kept", "api", 0, 1);
  ASSERT_TRUE(stop(file("k.hputrace")).ok());
  TraceData trace = readBack("k.hputrace");
  ASSERT_EQ(trace.threads.size(), 1u);
  ASSERT_EQ(trace.threads[0].events.size(), 1u);
  EXPECT_EQ(trace.text(trace.threads[0].events[0].name), "kept");
}

TEST_F(Recorder, KeepsTheRecordingWhenTheFileCannotBeWritten) {
  ASSERT_TRUE(start().ok());
  recordHost("kept", "api", 0, 1);
  EXPECT_FALSE(stop(file("no/such/folder/t.hputrace")).ok());
  EXPECT_TRUE(active());
  recordHost("kept too", "api", 0, 1);
  ASSERT_TRUE(stop(file("t.hputrace")).ok());
  EXPECT_EQ(readBack("t.hputrace").threads[0].events.size(), 2u);
}

TEST_F(Recorder, ManyThreadsLoseNothing) {
  ASSERT_TRUE(start().ok());
  constexpr int kThreads = 8, kEvents = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      nameThread("worker " + std::to_string(t));
      for (int i = 0; i < kEvents; ++i) {
        HostScope scope("work");
        scope.arg("i", i);
      }
    });
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(stop(file("m.hputrace")).ok());
  TraceData trace = readBack("m.hputrace");
  ASSERT_EQ(trace.threads.size(), size_t{kThreads});
  for (const HostThread& thread : trace.threads) {
    ASSERT_EQ(thread.events.size(), size_t{kEvents});
    for (int i = 0; i < kEvents; ++i) ASSERT_EQ(thread.args[thread.events[static_cast<size_t>(i)].firstArg].value, i);
  }
}

TEST_F(Recorder, StopsWhileThreadsRecord) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Example example;
      while (!done) {
        HostScope scope("racing");
        recordLaunch(example.launch(1));
      }
    });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(start().ok());
    usleep(2000);
    ASSERT_TRUE(stop(file("r.hputrace")).ok());
    ASSERT_TRUE(readTraceFile(file("r.hputrace")).ok());
  }
  done = true;
  for (std::thread& t : threads) t.join();
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(Recorder, AForkedChildDoesNotRecordIntoItsParentsFile) {
  Options options;
  options.streamTo = file("f.hputrace");
  ASSERT_TRUE(start(options).ok());
  recordHost("parent", "api", 0, 1);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100000; ++i) recordHost("child", "api", 0, 1);
    _exit(active() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(stop("").ok());
  TraceData trace = readBack("f.hputrace");
  ASSERT_EQ(trace.threads.size(), 1u);
  EXPECT_EQ(trace.threads[0].events.size(), 1u);
}

TEST_F(Recorder, AKilledProcessLeavesAReadableFile) {
  std::string path = file("killed.hputrace");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    Options options;
    options.streamTo = path;
    (void)start(options).ok();
    Example example(3000);
    for (uint64_t i = 1; i <= 5; ++i) recordLaunch(example.launch(i));
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  TraceData trace = readBack("killed.hputrace");
  EXPECT_FALSE(trace.stopped);
  ASSERT_EQ(trace.devices.size(), 1u);
  // All but what was in the last open chunk.
  EXPECT_GT(trace.devices[0].commands.size(), 5 * 6000u - 64 * 1024 / 4);
}

// As HPU_TRACE records: what finds no room is counted in the file, and what did find room is there.
TEST_F(Recorder, AProcessThatIsKilledAtItsLimitLeavesWhatItRecordedAndHowMuchItDropped) {
  std::string path = file("full.hputrace");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    Options options;
    options.streamTo = path;
    options.eachLaunch = true;
    options.maxEvents = 30;
    (void)start(options).ok();
    Example example;
    recordHost("early", "api", 0, 1);
    SpanRecord copy;
    copy.end = 5000;
    recordSpan(copy);
    for (uint64_t i = 1; i <= 50; ++i) {
      recordLaunch(example.launch(i));
      usleep(1500);
    }
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  TraceData trace = readBack("full.hputrace");
  EXPECT_FALSE(trace.stopped);
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.numEvents(), 30) << "all that found room";
  // 50 launches of 9 events, a span and an event; the number is written at most every millisecond.
  EXPECT_GE(trace.dropped, 50 * 9 + 2 - 30 - 9);
  EXPECT_LE(trace.dropped, 50 * 9 + 2 - 30);
}

TEST_F(Recorder, AFullDiskIsCountedAndTheFileEndsWithAWholeChunk) {
  for (rlim_t room : {600, 5000, 70000, 200000}) {
    std::string path = file("disk.hputrace");
    pid_t child = fork();
    if (child == 0) {
      // A write beyond the limit fails as on a full disk, having written a part.
      signal(SIGXFSZ, SIG_IGN);
      rlimit limit{room, room};
      setrlimit(RLIMIT_FSIZE, &limit);
      Options options;
      options.streamTo = path;
      if (!start(options).ok()) _exit(2);
      Example example(3000);
      for (uint64_t i = 1; i <= 10; ++i) recordLaunch(example.launch(i));
      _exit(stop("").code() == StatusCode::kOk ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "stop() says that something is missing";
    TraceData trace = readBack("disk.hputrace");
    EXPECT_EQ(trace.truncatedBytes, 0u) << room;
    EXPECT_TRUE(trace.stopped) << room;
    EXPECT_EQ(trace.numEvents() + trace.dropped, 10 * 6001) << room;
    EXPECT_GT(trace.dropped, 0) << room;
  }
}
#endif

TEST_F(Recorder, AnEventIsSmallAndCheap) {
  ASSERT_TRUE(start().ok());
  constexpr int kEvents = 200000;
  int64_t begin = hostNowNs();
  for (int i = 0; i < kEvents; ++i) HostScope scope("Stream.query");
  double host = static_cast<double>(hostNowNs() - begin) / kEvents;
  ASSERT_TRUE(stop(file("h.hputrace")).ok());
  double hostBytes = static_cast<double>(readBack("h.hputrace").fileBytes) / kEvents;
  Example example(20000);
  ASSERT_TRUE(start().ok());
  begin = hostNowNs();
  for (uint64_t i = 1; i <= 5; ++i)
    recordLaunch(example.launch(i, static_cast<perfmodel::Picoseconds>(i) * example.timeline.end));
  double device = static_cast<double>(hostNowNs() - begin) / (5 * 40000);
  ASSERT_TRUE(stop(file("e.hputrace")).ok());
  double deviceBytes = static_cast<double>(readBack("e.hputrace").fileBytes) / (5 * 40000);
  begin = hostNowNs();
  for (int i = 0; i < kEvents; ++i) HostScope scope("Stream.query");
  double off = static_cast<double>(hostNowNs() - begin) / kEvents;
  std::printf("host event %.0f ns, %.1f bytes (off %.2f ns); device event %.0f ns, %.1f bytes\n", host, hostBytes, off,
              device, deviceBytes);
  EXPECT_LE(hostBytes, 16);
  EXPECT_LE(deviceBytes, 16);
}

TEST_F(Recorder, StopsIntoMemoryAndIsReadAsPlainEvents) {
  ASSERT_TRUE(start().ok());
  Example().record();
  int64_t now = nowNs();
  addSpan("mine", now, now + 1500, {{"key", "value"}});
  addSpan("elsewhere", now, now + 10, {}, "my track");
  addSpan("again", now + 20, now + 30, {}, "my track");
  StatusOr<Recording> recording = stop();
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  EXPECT_FALSE(active());
  EXPECT_EQ(stop().status().code(), StatusCode::kFailedPrecondition);

  StatusOr<std::vector<Event>> all = events(*recording);
  ASSERT_TRUE(all.ok()) << all.status().message();
  StatusOr<std::vector<TrackName>> names = trackNames(*recording);
  ASSERT_TRUE(names.ok());
  auto trackOf = [&](const Event& event) -> std::string {
    for (const TrackName& name : *names)
      if (name.device == event.device && name.track == event.track) return name.name;
    return "";
  };
  int own = 0, onTrack = 0, device = 0;
  for (const Event& event : *all) {
    if (event.name == "mine") {
      ++own;
      EXPECT_EQ(event.durationPs, 1500 * 1000);
      EXPECT_EQ(event.startPs, (now - recording->startNs) * 1000);
      ASSERT_EQ(event.arguments.size(), 1u);
      EXPECT_EQ(event.arguments[0].key + "=" + event.arguments[0].text, "key=value");
    }
    if (trackOf(event) == "my track") ++onTrack;
    if (event.device >= 0) ++device;
    if (event.kind == Event::Kind::kSpan) {
      EXPECT_NE(trackOf(event), "") << event.name;
    }
  }
  EXPECT_EQ(own, 1);
  EXPECT_EQ(onTrack, 2);

  // The same recording as a file has as many device events.
  ASSERT_TRUE(save(*recording, file("memory.hputrace")).ok());
  TraceData trace = *readTraceFile(file("memory.hputrace"));
  size_t inFile = 0;
  for (const TracedDevice& traced : trace.devices)
    inFile += traced.launches.size() + traced.commands.size() + traced.spans.size() + traced.counters.size();
  EXPECT_EQ(static_cast<size_t>(device), inFile);
  EXPECT_GT(inFile, 3u);
}

TEST_F(Recorder, OfAFileDoesNotStopIntoMemory) {
  ASSERT_TRUE(start({.streamTo = file("streamed.hputrace")}).ok());
  EXPECT_EQ(stop().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(active());
  EXPECT_TRUE(stop("").ok());
  Recording damaged;
  damaged.bytes = {1, 2, 3};
  EXPECT_FALSE(events(damaged).ok());
  EXPECT_FALSE(trackNames(damaged).ok());
}

}  // namespace
}  // namespace hpu::trace
