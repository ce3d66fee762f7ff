// SPDX-License-Identifier: Apache-2.0
// TcpLink: one connection of the TCP network, from its dialling or its acceptance to its end.
// The one thing to know: whoever sends tries the socket himself; all that comes in, and what the socket did not take,
// is the progress thread's. Three locks, none of them taken under another one: of what goes out (`mutex_`, held while
// callers' memory is sent), of what comes in (`windowMutex_`, held while it is written) and of the telling of events.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/Deadline.h"
#include "base/FunctionRef.h"
#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/ProgressThread.h"
#include "collectives/transport/net/TcpOutput.h"
#include "collectives/transport/net/TcpWindows.h"
#include "collectives/transport/net/TcpWire.h"

namespace hpu::collectives::net::tcp {

/// What both ends of all connections have.
void setSocketOptions(int fd);

/// Whom a link dials, and what it says and proves there.
struct Dialling {
  Place place;
  std::string hello;
  Challenge challenge{};
  Secret secret{};
};

class TcpLink : public Served, public std::enable_shared_from_this<TcpLink> {
 public:
  explicit TcpLink(std::shared_ptr<Progress> progress) : progress_(std::move(progress)) {}

  /// Either of these two comes first. `failed`: the link is to be told so, and nothing is dialled.
  void dial(const Status& failed, const Dialling& whom, const Address& local, std::shared_ptr<LinkEvents> events,
            const base::Deadline& deadline);
  /// Of a connection whose other end has proven itself; `proof`: this end's. On the thread. False: no memory for it, or
  /// the thread has ended.
  bool offer(Descriptor socket, const Proof& proof);

  // As Link's.
  void start(std::shared_ptr<LinkEvents> events);
  bool send(std::span<const std::byte> frame);
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to, std::span<const std::byte> frame);
  bool drained();
  Window openWindow(std::byte* data, int64_t bytes);
  void closeWindow(const Window& window);
  void close();
  std::string describe() const;

  void serve(uint32_t ready) override;
  void endWith(const Status& why) override;

 private:
  enum class State : uint8_t {
    kDialling,  ///< The system connects. To kGreeting, kClosing, kEnded.
    kGreeting,  ///< Answers are awaited: to the greeting, and to the proof. To kUp, kClosing, kEnded.
    kOffered,   ///< start() is awaited. To kUp, kClosing, kEnded.
    kUp,        ///< To kClosing, kEnded.
    kClosing,   ///< close() was called: what was taken goes out, what comes is dropped. To kEnded.
    kEnded,
  };

  // Of the thread.
  /// `body` may tell events.
  void turn(base::FunctionRef<void()> body);
  void serveState(uint32_t ready);
  Status connected();
  Status readAnswer();
  /// A whole one. Errors: the end of the link.
  Status onAnswer();
  void serveUp(uint32_t ready);
  /// Errors: the end of the link.
  Status read();
  Status onBytes(std::span<const std::byte> bytes);
  void serveClosing();
  void finish(const Status& why);
  bool isSilent() const { return silent_.load(std::memory_order_relaxed); }

  /// What the socket takes of the output. True: the thread has something to tell.
  bool flushLocked(size_t budget);
  void failLocked(const Status& why);
  /// Looks for what the state and the output ask for.
  void watchLocked();

  const std::shared_ptr<Progress> progress_;
  uint64_t key_ = 0;  ///< Set before others know the link.

  mutable std::mutex mutex_;
  State state_ = State::kDialling;
  Descriptor socket_;     ///< Closed by the thread alone.
  uint32_t watched_ = 0;  ///< What epoll looks for.
  TcpOutput output_;
  bool refused_ = false;           ///< onRoom() is owed when there is room,
  bool drainAsked_ = false;        ///< and when there is no output.
  std::vector<uint64_t> written_;  ///< Of writes that onWritten() is owed.
  Status failure_;                 ///< Of the output: the end, once what has come is read.
  Progress::Clock::time_point until_ = Progress::Clock::time_point::max();  ///< Of dialling or closing.
  std::string from_, to_;

  std::mutex windowMutex_;
  TcpWindows windows_;

  mutable std::mutex eventMutex_;
  std::condition_variable told_;
  std::shared_ptr<LinkEvents> events_;
  bool telling_ = false;             ///< The thread may be within an event.
  std::atomic<bool> silent_{false};  ///< No event any more. Set under the lock.

  // Of the thread alone, or of dial() before it.
  MessageReader reader_;
  Dialling whom_;
  Challenge theirs_{};
  bool proved_ = false;  ///< The next answer is the one to the proof.
  Proof proof_{};        ///< Of a link that is offered.
  std::array<std::byte, kAnswerBytes + 32> answer_{};
  size_t answered_ = 0, answerBytes_ = kAnswerBytes;  ///< How many have come, and are to come.
  LinkEvents* eventsNow_ = nullptr;                   ///< Within turn().
  bool shutDown_ = false;
};

}  // namespace hpu::collectives::net::tcp
