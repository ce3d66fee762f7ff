// SPDX-License-Identifier: Apache-2.0
// Links over RoCE: order, back-pressure, windows, bad networks, hostile peers, ends.
#include "collectives/transport/net/RoceNetwork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/Deadline.h"
#include "collectives/transport/net/RoceWire.h"
#if HPU_HAVE_VERBS
#include "FakeVerbsAt.h"
#endif

namespace hpu::collectives::net {
namespace {

using ::testing::HasSubstr;

constexpr auto kMost = std::chrono::seconds(60);

Address addressOf(const std::string& ip) {
  Address address = parseAddress(ip + ":1", "the test").value();
  address.port = 0;
  return address;
}

std::shared_ptr<Network> networkAt(const std::string& ip, const RoceOptions& options = {}) {
  auto network = roceNetwork(addressOf(ip), options);
  EXPECT_TRUE(network.ok()) << network.status().message();
  return *network;
}

std::span<const std::byte> asBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> randomBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count + 8);
  for (size_t i = 0; i < count; i += 8) {
    const uint64_t number = random();
    memcpy(bytes.data() + i, &number, 8);
  }
  bytes.resize(count);
  return bytes;
}

/// Writes down what happens.
class Owner : public LinkEvents {
 public:
  std::function<void(std::string_view frame)> frame;  ///< On the network's thread.
  void onFrame(std::span<const std::byte> bytes) override {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (frame) frame(text);
    note([&] { frames.push_back(text); });
  }
  void onWritten(uint64_t id) override {
    note([&] { written.push_back(id); });
  }
  void onRoom() override {
    note([&] { ++rooms; });
  }
  void onClosed(const Status& why) override {
    note([&] {
      EXPECT_FALSE(closed) << "told twice";
      closed = why;
    });
  }
  bool wait(const std::function<bool()>& until, std::chrono::nanoseconds most = kMost) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, most, until);
  }
  bool waitFrames(size_t count) {
    return wait([&] { return frames.size() >= count; });
  }
  Status waitClosed() {
    EXPECT_TRUE(wait([&] { return closed.has_value(); })) << "it is not told that it is closed";
    std::lock_guard lock(mutex);
    return closed.value_or(okStatus());
  }
  /// Sends when there is room.
  template <typename Try>
  bool insist(const Try& attempt) {
    for (;;) {
      int before = 0;
      {
        std::lock_guard lock(mutex);
        before = rooms;
      }
      if (attempt()) return true;
      ++refused;
      if (!wait([&] { return rooms > before || closed; })) return false;
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> frames;
  std::vector<uint64_t> written;
  int rooms = 0, refused = 0;
  std::optional<Status> closed;

 private:
  template <typename What>
  void note(const What& what) {
    std::lock_guard lock(mutex);
    what();
    changed.notify_all();
  }
};

/// A link from network 0 to network 1.
struct Ends {
  std::shared_ptr<Network> networks[2];
  std::unique_ptr<Door> door;
  std::shared_ptr<Owner> owners[2] = {std::make_shared<Owner>(), std::make_shared<Owner>()};
  std::shared_ptr<Link> links[2];
  std::mutex mutex;
  std::condition_variable changed;
  std::string hello;

  Ends(std::shared_ptr<Network> from, std::shared_ptr<Network> to) : networks{std::move(from), std::move(to)} {
    auto opened = networks[1]->open([this](std::shared_ptr<Link> link, const std::string& said) {
      link->start(owners[1]);
      std::lock_guard lock(mutex);
      links[1] = std::move(link);
      hello = said;
      changed.notify_all();
    });
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    door = std::move(*opened);
    links[0] = networks[0]->dial(door->address(), "it is me", owners[0], base::Deadline::afterMs(30'000));
    EXPECT_TRUE(owners[0]->wait([&] { return owners[0]->rooms > 0 || owners[0]->closed; }));
    EXPECT_FALSE(owners[0]->closed) << owners[0]->closed->message();
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kMost, [&] { return links[1] != nullptr; }));
  }
  explicit Ends(const RoceOptions& options = {}, const std::string& first = "127.0.0.1",
                const std::string& second = "127.0.0.2")
      : Ends(networkAt(first, options), networkAt(second, options)) {}
  ~Ends() {
    for (auto& link : links)
      if (link) link->close();
  }
  void send(int from, std::string_view text) {
    EXPECT_TRUE(owners[from]->insist([&] { return links[from]->send(asBytes(text)); })) << "no room comes";
  }
  void write(int from, uint64_t id, std::span<const std::byte> data, const Window& to, std::string_view text) {
    EXPECT_TRUE(owners[from]->insist([&] {
      return links[from]->write(id, data.data(), static_cast<int64_t>(data.size()), to, asBytes(text));
    })) << "no room comes";
  }
};

struct Case {
  std::string name;
  RoceOptions options;
  std::string first = "127.0.0.1", second = "127.0.0.2";
  bool verbs = false;
};

std::shared_ptr<Network> networkOf(const Case& which, const std::string& ip) {
#if HPU_HAVE_VERBS
  if (which.verbs) return fakeVerbsAt(addressOf(ip));
#endif
  return networkAt(ip, which.options);
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  cases.push_back({"IPv4", {}});
  // One endpoint that talks to itself.
  cases.push_back({"IPv6", {}, "[::1]", "[::1]"});
  RoceOptions options;
  options.firstPsn = 0xFFFFF0;
  options.pathMtu = 256;
  cases.push_back({"NumbersThatWrapAround", options, "[::1]", "[::1]"});
  options = {};
  options.faults = {.seed = 3, .drop = 0.02, .duplicate = 0.02, .corrupt = 0.01};
  options.pathMtu = 1024;
  cases.push_back({"BadNetwork", options});
  options.faults = {.seed = 4, .drop = 0.05, .duplicate = 0.05, .corrupt = 0.05};
  options.pathMtu = 4096;
  cases.push_back({"VeryBadNetwork", options, "[::1]", "[::1]"});
#if HPU_HAVE_VERBS
  // The same links over an adapter's queue pairs.
  cases.push_back({"Verbs", {}, "127.0.0.1", "127.0.0.2", true});
  cases.push_back({"VerbsToItself", {}, "[::1]", "[::1]", true});
#endif
  return cases;
}

class RoceLinks : public ::testing::TestWithParam<Case> {
 protected:
  Ends ends{networkOf(GetParam(), GetParam().first), networkOf(GetParam(), GetParam().second)};
};
INSTANTIATE_TEST_SUITE_P(Networks, RoceLinks, ::testing::ValuesIn(allCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RoceLinks, BringFramesOfAllSizesInOrderBothWays) {
  EXPECT_EQ(ends.hello, "it is me");
  constexpr size_t kFrames = 300;
  auto frameOf = [](int from, size_t i) {
    const size_t sizes[] = {0, 1, 3, 100, 255, 1000, 4083, 4084, 4085, kMostFrameBytes - 1, kMostFrameBytes};
    std::string text(sizes[i % std::size(sizes)], static_cast<char>('a' + from));
    for (size_t k = 0; k < text.size(); ++k) text[k] = static_cast<char>(text[k] + static_cast<char>((i * 7 + k) % 13));
    return text;
  };
  std::thread other([&] {
    for (size_t i = 0; i < kFrames; ++i) ends.send(1, frameOf(1, i));
  });
  for (size_t i = 0; i < kFrames; ++i) ends.send(0, frameOf(0, i));
  other.join();
  for (int to = 0; to < 2; ++to) {
    ASSERT_TRUE(ends.owners[to]->waitFrames(kFrames));
    for (size_t i = 0; i < kFrames; ++i) ASSERT_EQ(ends.owners[to]->frames[i], frameOf(1 - to, i)) << i;
  }
}

TEST_P(RoceLinks, WriteLargeDataBothWaysAtOnceBeforeItsFrame) {
  constexpr int kRounds = 4;
  const size_t sizes[kRounds] = {1, 4097, 300'001, 3 << 20};
  std::vector<std::byte> data[2][kRounds], places[2][kRounds];
  Window windows[2][kRounds];
  std::atomic<int> wrong{0};
  for (int to = 0; to < 2; ++to) {
    for (int i = 0; i < kRounds; ++i) {
      data[to][i] = randomBytes(sizes[i], static_cast<uint64_t>(10 * to + i));
      places[to][i].resize(sizes[i] + 64);
      windows[to][i] = ends.links[to]->openWindow(places[to][i].data(), static_cast<int64_t>(sizes[i]));
    }
    ends.owners[to]->frame = [&, to](std::string_view frame) {
      const int i = frame[0] - '0';
      wrong += memcmp(places[to][i].data(), data[to][i].data(), sizes[i]) != 0;
    };
  }
  for (int i = kRounds - 1; i >= 0; --i)
    for (int to = 0; to < 2; ++to)
      ends.write(1 - to, static_cast<uint64_t>(i), data[to][i], windows[to][i], std::to_string(i));
  for (int to = 0; to < 2; ++to) {
    ASSERT_TRUE(ends.owners[to]->waitFrames(kRounds));
    EXPECT_EQ(ends.owners[to]->frames, (std::vector<std::string>{"3", "2", "1", "0"}));
    EXPECT_TRUE(ends.owners[to]->wait([&] { return ends.owners[to]->written.size() == kRounds; }));
    EXPECT_EQ(ends.owners[to]->written, (std::vector<uint64_t>{3, 2, 1, 0}));
    for (int i = 0; i < kRounds; ++i)
      for (size_t k = sizes[i]; k < places[to][i].size(); ++k) EXPECT_EQ(places[to][i][k], std::byte{0});
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(RoceLinks, RefuseWhatHasNoRoomAndTellWhenThereIsSome) {
  std::string frame(kMostFrameBytes, 'x');
  int sent = 0;
  while (sent < 4000) {
    memcpy(frame.data(), &sent, sizeof sent);
    ends.send(0, frame);
    ++sent;
    if (ends.owners[0]->refused >= 5 && sent >= 200) break;
  }
  ASSERT_TRUE(ends.owners[1]->waitFrames(static_cast<size_t>(sent)));
  EXPECT_GE(ends.owners[0]->refused, 1);
  for (int i = 0; i < sent; ++i)
    EXPECT_EQ(memcmp(ends.owners[1]->frames[static_cast<size_t>(i)].data(), &i, sizeof i), 0);
}

TEST(RoceNetwork, AClosedWindowIsNotWrittenAndTheLinkGoesOn) {
  Ends ends;
  std::vector<std::byte> place(100'000), data = randomBytes(100'000, 1);
  const Window window = ends.links[1]->openWindow(place.data(), 100'000);
  ends.links[1]->closeWindow(window);
  ends.write(0, 5, data, window, "late");
  ASSERT_TRUE(ends.owners[1]->waitFrames(1));
  EXPECT_TRUE(ends.owners[0]->wait([&] { return !ends.owners[0]->written.empty(); }));
  EXPECT_EQ(place, std::vector<std::byte>(100'000));
  const Window second = ends.links[1]->openWindow(place.data(), 100'000);
  ends.write(0, 6, data, second, "in time");
  ASSERT_TRUE(ends.owners[1]->waitFrames(2));
  EXPECT_EQ(place, data);
  ends.links[1]->closeWindow(second);  // It was written: nothing happens.
}

TEST(RoceNetwork, WhoWritesWhereHeMayNotIsRefusedAndTouchesNothing) {
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    Ends ends;
    std::vector<std::byte> place(30'000), data = randomBytes(20'000, 2);
    Window window = ends.links[1]->openWindow(place.data() + 5000, 19'999);
    std::vector<std::byte> expected = place;
    if (kind == 0) window.key ^= 1;                // A key that there is not.
    if (kind == 1) window.address = uint64_t(-1);  // Before the window.
    if (kind == 2) {                               // A window that was written once.
      ends.write(0, 1, std::span(data).first(10'000), window, "once");
      ASSERT_TRUE(ends.owners[1]->waitFrames(1));
      std::copy_n(data.begin(), 10'000, expected.begin() + 5000);
      std::reverse(data.begin(), data.end());
    }
    if (kind == 3) window.address = 19'999;  // Behind it.
    // Of kind 4 it is one byte too long.
    const auto bytes = std::span(data).first(kind == 4 ? 20'000 : 100);
    ends.write(0, 2, bytes, window, "twice");
    const Status sender = ends.owners[0]->waitClosed(), receiver = ends.owners[1]->waitClosed();
    EXPECT_EQ(sender.code(), StatusCode::kInvalidArgument) << sender.message();
    EXPECT_EQ(receiver.code(), StatusCode::kInvalidArgument) << receiver.message();
    EXPECT_THAT(receiver.message(), HasSubstr("127.0.0.2"));
    EXPECT_EQ(place, expected);
    EXPECT_EQ(ends.owners[1]->frames.size(), kind == 2 ? 1u : 0u);
    EXPECT_TRUE(ends.links[0]->send(asBytes("into the void")));
  }
}

TEST(RoceNetwork, AWindowOfOneLinkIsNoneOfAnother) {
  const auto here = networkAt("127.0.0.1"), there = networkAt("127.0.0.2");
  Ends first(here, there), second(here, there);
  std::vector<std::byte> place(1000), data = randomBytes(1000, 3);
  const Window window = first.links[1]->openWindow(place.data(), 1000);
  second.write(0, 1, data, window, "mine?");
  EXPECT_EQ(second.owners[1]->waitClosed().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place, std::vector<std::byte>(1000));
  first.write(0, 1, data, window, "mine");
  ASSERT_TRUE(first.owners[1]->waitFrames(1));
  EXPECT_EQ(place, data);
}

TEST(RoceNetwork, SaysNoToWhoIsNotWanted) {
  const auto network = networkAt("[::1]");
  auto door = network->open([](std::shared_ptr<Link> link, const std::string&) { link.reset(); }).value();
  auto owner = std::make_shared<Owner>();
  auto link = network->dial(door->address(), "", owner, base::Deadline::afterMs(30'000));
  EXPECT_EQ(owner->waitClosed().code(), StatusCode::kAborted);
}

TEST(RoceNetwork, TellsByTheDeadlineThatNobodyIsThere) {
  const auto network = networkAt("127.0.0.1");
  auto owner = std::make_shared<Owner>();
  std::string address;
  {
    auto door = network->open([](std::shared_ptr<Link>, const std::string&) {}).value();
    address = door->address();
  }
  auto link = network->dial(address, "", owner, base::Deadline::afterMs(2000));
  EXPECT_EQ(owner->waitClosed().code(), StatusCode::kUnavailable);
  for (const std::string& wrong : {std::string("nonsense"), std::string("roce:"), std::string()}) {
    auto second = std::make_shared<Owner>();
    auto none = network->dial(wrong, "", second, base::Deadline::afterMs(2000));
    EXPECT_FALSE(second->waitClosed().ok()) << wrong;
  }
  // Somebody takes the link and never starts it.
  std::shared_ptr<Link> kept;
  auto door = network->open([&](std::shared_ptr<Link> come, const std::string&) { kept = std::move(come); }).value();
  auto third = std::make_shared<Owner>();
  auto never = network->dial(door->address(), "", third, base::Deadline::afterMs(300));
  EXPECT_EQ(third->waitClosed().code(), StatusCode::kUnavailable);
  door.reset();
}

TEST(RoceNetwork, APeerWhosePacketsDoNotComeIsGivenUp) {
  RoceOptions deaf;
  deaf.silenceMs = 200;
  deaf.faults = {.seed = 1, .drop = 1};
  Ends ends(deaf);
  ends.send(0, "does anybody hear?");
  const Status why = ends.owners[0]->waitClosed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(why.message(), HasSubstr("the peer does not answer"));
  EXPECT_THAT(why.message(), HasSubstr("127.0.0.1"));
  EXPECT_EQ(ends.owners[1]->waitClosed().code(), StatusCode::kUnavailable);
}

TEST(RoceNetwork, FramesThatWereTakenComeThoughTheLinkIsClosed) {
  RoceOptions deaf;  // Nothing arrives but over TCP.
  deaf.faults = {.seed = 1, .drop = 1};
  Ends ends(deaf);
  std::vector<std::byte> place(100'000), data = randomBytes(100'000, 4);
  const Window window = ends.links[1]->openWindow(place.data(), 100'000);
  const std::string big(kMostFrameBytes, 'b');
  ends.send(0, "one");
  ends.send(0, big);
  ends.write(0, 1, data, window, "of a write that is not over");
  ends.send(0, "three");
  ends.links[0]->close();
  std::fill(data.begin(), data.end(), std::byte{0xEE});  // It is the caller's again.
  EXPECT_EQ(ends.owners[1]->waitClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(ends.owners[1]->frames, (std::vector<std::string>{"one", big, "three"}));
  EXPECT_FALSE(ends.owners[0]->closed);
}

TEST(RoceNetwork, NothingIsToldAndNoMemoryUsedAfterClose) {
  for (int round = 0; round < 20; ++round) {
    Ends ends;
    auto place = std::make_unique<std::vector<std::byte>>(4 << 20);
    auto data = std::make_unique<std::vector<std::byte>>(randomBytes(4 << 20, 5));
    const Window window = ends.links[1]->openWindow(place->data(), 4 << 20);
    ends.write(0, 1, *data, window, "long");
    for (int i = 0; i < 10; ++i) ends.send(1, "x");
    const int first = round % 2;
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    ends.links[first]->close();
    size_t told = 0;
    {
      std::lock_guard lock(ends.owners[first]->mutex);
      told = ends.owners[first]->frames.size() + ends.owners[first]->written.size();
    }
    if (first == 0)
      data.reset();
    else
      place.reset();
    EXPECT_EQ(ends.owners[1 - first]->waitClosed().code(), StatusCode::kUnavailable);
    std::lock_guard lock(ends.owners[first]->mutex);
    EXPECT_EQ(told, ends.owners[first]->frames.size() + ends.owners[first]->written.size());
    EXPECT_FALSE(ends.owners[first]->closed);
  }
}

TEST(RoceNetwork, ServesManyLinks) {
  const auto here = networkAt("127.0.0.1"), there = networkAt("127.0.0.2");
  constexpr int kLinks = 60;
  std::vector<std::unique_ptr<Ends>> all;
  std::vector<std::vector<std::byte>> places;
  std::vector<Window> windows;
  const std::vector<std::byte> data = randomBytes(200'000, 6);
  for (int i = 0; i < kLinks; ++i) {
    all.push_back(std::make_unique<Ends>(here, there));
    places.emplace_back(data.size());
    windows.push_back(all.back()->links[1]->openWindow(places.back().data(), static_cast<int64_t>(data.size())));
  }
  for (int i = 0; i < kLinks; ++i)
    all[static_cast<size_t>(i)]->write(0, 1, data, windows[static_cast<size_t>(i)], "now");
  for (size_t i = 0; i < kLinks; ++i) {
    ASSERT_TRUE(all[i]->owners[1]->waitFrames(1)) << i;
    EXPECT_EQ(places[i], data) << i;
  }
}

TEST(RoceNetwork, HearsAtOnceThatAPeerWasKilled) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support a child of a program with threads";
#endif
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto network = roceNetwork(addressOf("127.0.0.2"), {}).value();
    auto owner = std::make_shared<Owner>();
    std::shared_ptr<Link> link;
    auto door = network
                    ->open([&](std::shared_ptr<Link> come, const std::string&) {
                      link = std::move(come);
                      link->start(owner);
                      link->send(asBytes("the last word"));
                    })
                    .value();
    const std::string address = door->address();
    if (::write(pipes[1], address.data(), address.size()) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  ::close(pipes[1]);
  char text[256];
  const ssize_t bytes = ::read(pipes[0], text, sizeof text);
  ASSERT_GT(bytes, 0);
  const auto network = networkAt("127.0.0.1");
  auto owner = std::make_shared<Owner>();
  auto link = network->dial(std::string(text, static_cast<size_t>(bytes)), "", owner, base::Deadline::afterMs(30'000));
  ASSERT_TRUE(owner->wait([&] { return owner->rooms > 0 || owner->closed; }));
  EXPECT_TRUE(link->send(asBytes("hello")));
  ::kill(child, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_EQ(owner->waitClosed().code(), StatusCode::kUnavailable);
  // Before the silence of its packets says so.
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(10));
  ::waitpid(child, nullptr, 0);
  ::close(pipes[0]);
}

TEST(RoceNetwork, IsOneForEachAddressAndOptions) {
  RoceOptions options;
  const auto first = networkAt("127.0.0.1"), same = networkAt("127.0.0.1"), other = networkAt("127.0.0.2");
  EXPECT_EQ(first, same);
  EXPECT_NE(first, other);
  EXPECT_EQ(first->name(), "roce");
  EXPECT_EQ(first->local().port, 0);
  options.pathMtu = 1000;
  EXPECT_THAT(roceNetwork(addressOf("127.0.0.1"), options).status().message(), HasSubstr("HPU_COMM_ROCE_MTU"));
  EXPECT_FALSE(roceNetwork(addressOf("192.0.2.1"), {}).ok());
  options = {};
  options.capture = "/nowhere/%p.pcap";
  EXPECT_THAT(roceNetwork(addressOf("127.0.0.1"), options).status().message(),
              HasSubstr("/nowhere/" + std::to_string(::getpid()) + ".pcap"));
}

/// The ends have different path MTUs. HPU_TEST_CAPTURE keeps the files, for checks by other programs.
TEST(RoceNetwork, CapturesWhatItSendsAndReceives) {
  const char* keep = std::getenv("HPU_TEST_CAPTURE");
  const std::string path = keep ? keep : std::filesystem::temp_directory_path().string() + "/hpu-roce";
  {
    RoceOptions small, large;
    large.capture = path + ".%p.pcap";
    small.pathMtu = 1024;
    Ends ends(networkAt("[::1]", large), networkAt("[::1]", small));
    std::vector<std::byte> place(50'000), data = randomBytes(50'000, 7);
    const Window window = ends.links[1]->openWindow(place.data(), 50'000);
    ends.write(0, 1, data, window, "written");
    ends.send(1, "thanks");
    ASSERT_TRUE(ends.owners[1]->waitFrames(1));
    ASSERT_TRUE(ends.owners[0]->waitFrames(1));
    EXPECT_EQ(place, data);
  }
  // The last owner of the network writes what is left: it may be a thread that is about to let go of it.
  const std::string file = path + "." + std::to_string(::getpid()) + ".pcap";
  const base::Deadline end = base::Deadline::afterMs(30'000);
  while (std::filesystem::file_size(file) <= 50'000u && !end.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(std::filesystem::file_size(file), 50'000u);
  if (!keep) std::filesystem::remove(file);
}

// ---- What goes over TCP -------------------------------------------------------------------------

TEST(RoceWire, ReadsWhatItWritesAndNothingElse) {
  using namespace roce_wire;
  End end;
  end.queuePair = 17;
  end.firstPsn = 0xFFFFFF;
  end.pathMtu = 2048;
  end.packets = 100;
  end.receives = 32;
  end.address = addressOf("[fe80::1]");
  end.address.port = 4000;
  const std::string offer = encodeOffer(end, "hello");
  const auto message = parse(asBytes(offer));
  ASSERT_TRUE(message.ok()) << message.status().message();
  EXPECT_EQ(message->kind, Kind::kOffer);
  EXPECT_EQ(message->hello, "hello");
  EXPECT_EQ(message->end.queuePair, 17u);
  EXPECT_EQ(message->end.firstPsn, 0xFFFFFFu);
  EXPECT_EQ(message->end.address, end.address);
  // Whatever it is, it is read or refused.
  std::mt19937 random(9);
  for (std::string text : {offer, encodeAnswer(end), encodeReady(), encodeEnd(unavailable("why")),
                           encodeLate(7, true, asBytes("frame"))}) {
    EXPECT_TRUE(parse(asBytes(text)).ok());
    for (size_t cut = 0; cut < text.size(); ++cut) (void)parse(asBytes(text).first(cut));
    for (int i = 0; i < 2000; ++i) {
      std::string changed = text;
      changed[random() % changed.size()] = static_cast<char>(random());
      const auto read = parse(asBytes(changed));
      if (!read.ok() || (read->kind != Kind::kOffer && read->kind != Kind::kAnswer)) continue;
      EXPECT_TRUE(read->end.pathMtu >= 256 && read->end.pathMtu <= 4096 && read->end.address.port != 0);
    }
  }
  EXPECT_FALSE(parse({}).ok());
  const std::string later = encodeOffer(end, "", kVersion + 1);
  EXPECT_EQ(parse(asBytes(later)).status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(parse(asBytes(later)).status().message(), HasSubstr("version 2 of RoCE links, this process version 1"));
  std::byte head[kHeadBytes + 1] = {};
  encodeHead({.taken = 0x01020304, .window = 5, .kind = Head::Kind::kFrame}, head);
  EXPECT_EQ(parseHead(std::span(head).first(kHeadBytes))->taken, 0x01020304u);
  EXPECT_FALSE(parseHead(std::span(head).first(kHeadBytes - 1)).ok());
  encodeHead({.kind = Head::Kind::kCredit}, head);
  EXPECT_FALSE(parseHead(head).ok());
}

}  // namespace
}  // namespace hpu::collectives::net
