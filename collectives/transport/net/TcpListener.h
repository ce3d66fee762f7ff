// SPDX-License-Identifier: Apache-2.0
// TcpListener: the one listening socket of a TCP network, the doors behind it, and who comes.
// The one thing to know: whoever comes is a stranger until he has proven a door's secret: he has a few bytes and
// seconds, there are only so many of them, and nobody of this process hears of him.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/ProgressThread.h"
#include "collectives/transport/net/TcpWire.h"

namespace hpu::collectives::net::tcp {

/// What a door's owner has given.
class DoorState {
 public:
  using Dialled = std::function<void(std::shared_ptr<Link>, const std::string& hello)>;
  DoorState(const DoorNumber& number, const Secret& secret, Dialled dialled)
      : number(number), secret(secret), dialled_(std::move(dialled)) {}
  /// On the thread.
  void call(std::shared_ptr<Link> link, const std::string& hello);
  /// When it returns no call runs, unless this is called from one, nor comes any more.
  void close(bool onThread);

  const DoorNumber number;
  const Secret secret;

 private:
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable returned_;
  Dialled dialled_;
  bool calling_ = false, closed_ = false;
};

class TcpListener : public Served, public std::enable_shared_from_this<TcpListener> {
 public:
  /// Errors: kNotFound (not an address of this machine), kResourceExhausted, kUnavailable.
  static StatusOr<std::shared_ptr<TcpListener>> open(const std::shared_ptr<ProgressThread>& thread,
                                                     const Address& local);
  TcpListener(const std::shared_ptr<ProgressThread>& thread, const Address& local)
      : handle_(thread), progress_(thread->progress()), address_(local) {}

  const Address& address() const { return address_; }  ///< With the port.
  void addDoor(std::shared_ptr<DoorState> door);
  void removeDoor(const std::shared_ptr<DoorState>& door);
  /// Nobody is accepted any more, and strangers are gone.
  void close();

  void serve(uint32_t ready) override;
  void endWith(const Status& why) override { close(); }

 private:
  class Stranger;
  friend class Stranger;
  Status listen();
  /// Null: there is none.
  std::shared_ptr<DoorState> doorOf(const DoorNumber& number);
  /// Of the thread: a stranger has proven himself (`proof` is this end's), or is gone.
  void greeted(Descriptor socket, DoorState& door, const std::string& hello, const Proof& proof);
  void gone(uint64_t key);
  /// Ends the stranger who came first, if that was long ago: who has a right to a door proves it at once.
  bool dropSilent();
  /// Nobody is looked for until a moment later.
  void pause(int error);
  void warnOfVersion(const Status& why);

  const std::weak_ptr<ProgressThread> handle_;  ///< Links have it.
  const std::shared_ptr<Progress> progress_;
  Address address_;
  uint64_t key_ = 0;

  std::mutex mutex_;  // Guards what follows.
  Descriptor socket_;
  uint32_t watched_ = 0;
  bool warnedOfDescriptors_ = false, warnedOfVersion_ = false;
  std::vector<std::shared_ptr<DoorState>> doors_;
  struct Waiting {
    uint64_t key = 0;
    Progress::Clock::time_point since;
  };
  std::deque<Waiting> strangers_;  ///< The one that came first in front.
};

}  // namespace hpu::collectives::net::tcp
