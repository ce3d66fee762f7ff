// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/udp/Endpoint.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::roce {
namespace {

using base::strCat;

// So that what was copied is still in a core's cache when the kernel copies it, and the peer begins soon.
constexpr size_t kRoomBytes = 8 * UdpSocket::kMostTrainBytes;
// Of a connection; DCQCN (Zhu et al., SIGCOMM 2015): at most one notification in this time.
constexpr TimeNs kNotificationNs = 50'000;
// A process that is killed loses no more of its capture; a system call for each packet would be too slow.
constexpr TimeNs kCaptureNs = 100'000'000;
// IP, UDP, the longest headers of RoCE and its ICRC, rounded as rdma_rxe does.
constexpr int kMtuHeaders = 80;
// Linux counts a received packet's buffer with its overhead against the socket's room.
constexpr int64_t kPacketOverhead = 768;

bool sameIp(const Address& a, const Address& b) {
  return a.v6 == b.v6 && memcmp(a.ip, b.ip, a.v6 ? 16 : 4) == 0;
}

Route routeBetween(const Address& from, const Address& to) {
  Route route;
  route.isV6 = from.v6;
  std::copy_n(from.ip, from.v6 ? 16 : 4, route.source.begin());
  std::copy_n(to.ip, to.v6 ? 16 : 4, route.destination.begin());
  route.sourcePort = from.port;
  route.destinationPort = to.port;
  return route;
}

int64_t wallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

StatusOr<std::unique_ptr<Endpoint>> Endpoint::open(const EndpointOptions& options) {
  UdpOptions udp;
  udp.local = options.local;
  udp.bufferBytes = options.bufferBytes;
  udp.offload = options.offload;
  HPU_ASSIGN(UdpSocket socket, UdpSocket::open(udp));
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(socket), options));
  if (!options.capture.empty()) {
    HPU_ASSIGN(endpoint->capture_, Capture::create(options.capture));
  }
  endpoint->faulty_ = options.faults.any();
  endpoint->room_.resize(kRoomBytes);
  return endpoint;
}

TimeNs Endpoint::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint32_t Endpoint::largestMtu() const {
  const int mtu = interfaceMtu(local());
  uint32_t largest = 256;
  while (largest < kMostPayloadBytes && static_cast<int>(largest * 2) + kMtuHeaders <= mtu) largest *= 2;
  return largest;
}

uint32_t Endpoint::receiveWindow(uint32_t pathMtu) const {
  return static_cast<uint32_t>(std::max<int64_t>(1, socket_.receiveBytes() / (int64_t{pathMtu} + kPacketOverhead)));
}

uint32_t Endpoint::newNumber() {
  // Below it are the numbers of special queue pairs.
  constexpr uint32_t kFirst = 16;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    uint32_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) return 0;
    number &= kPsnMask;
    if (number >= kFirst && !connections_.contains(number)) return number;
  }
  return 0;
}

Status Endpoint::connect(const QueuePairOptions& options, const Peer& peer, const Address& address,
                         const MemoryTable* memory) {
  HPU_RETURN_IF_ERROR(QueuePair::check(options, peer));
  if (address.v6 != local().v6)
    return invalidArgument(
        strCat("a connection from ", local().text(), " to ", address.text(), ": both ends are IPv4, or both IPv6"));
  if (connections_.contains(options.number))
    return alreadyExists(strCat("queue pair ", options.number, " of ", local().text()));
  auto connection = std::make_unique<Connection>(options, peer, address, memory ? *memory : memory_);
  connection->outIcrc = RouteIcrc(routeBetween(local(), address));
  connection->inIcrc = RouteIcrc(routeBetween(address, local()));
  connection->pair.onPosted([this, raw = connection.get()] { wake(*raw); });
  connections_.emplace(options.number, std::move(connection));
  return okStatus();
}

QueuePair* Endpoint::find(uint32_t number) {
  auto it = connections_.find(number);
  return it == connections_.end() ? nullptr : &it->second->pair;
}

namespace {

void addPair(Endpoint::Counters& counters, const QueuePair& pair) {
  counters.pairs.again += pair.sent().again;
  counters.pairs.timeouts += pair.sent().timeouts;
  counters.pairs.notReady += pair.sent().notReady;
  counters.pairs.sequenceErrors += pair.sent().sequenceErrors;
  counters.pairs.missingResponses += pair.sent().missingResponses;
  counters.pairs.duplicates += pair.received().duplicates;
  counters.pairs.outOfOrder += pair.received().outOfOrder;
}

}  // namespace

void Endpoint::remove(uint32_t number) {
  auto it = connections_.find(number);
  if (it == connections_.end()) return;
  Connection& connection = *it->second;
  if (connection.working) std::erase(work_, &connection);
  if (connection.timer) timers_.erase({*connection.timer, &connection});
  if (connection.completed) std::erase(completed_, number);
  addPair(counters_, connection.pair);
  connections_.erase(it);
}

Endpoint::Counters Endpoint::total() const {
  Counters total = counters_;
  for (const auto& [number, connection] : connections_) addPair(total, connection->pair);
  return total;
}

Endpoint::Counters& Endpoint::Counters::operator+=(const Counters& other) {
  sent += other.sent;
  received += other.received;
  badIcrc += other.badIcrc;
  malformed += other.malformed;
  noQueuePair += other.noQueuePair;
  wrongPeer += other.wrongPeer;
  congestionSeen += other.congestionSeen;
  congestionTold += other.congestionTold;
  faults += other.faults;
  pairs.again += other.pairs.again;
  pairs.timeouts += other.pairs.timeouts;
  pairs.notReady += other.pairs.notReady;
  pairs.sequenceErrors += other.pairs.sequenceErrors;
  pairs.missingResponses += other.pairs.missingResponses;
  pairs.duplicates += other.pairs.duplicates;
  pairs.outOfOrder += other.pairs.outOfOrder;
  return *this;
}

void Endpoint::record(const Address& from, const Address& to, std::span<const uint8_t> datagram) {
  if (!capture_) return;
  capture_->record(wallNs(), from, to, datagram);
  if (!captureDue_) captureDue_ = now() + kCaptureNs;
}

void Endpoint::take(const Arrival& arrival, TimeNs now) {
  if (!faulty_) return takeDatagram(arrival.from, arrival.datagram, arrival.congested, now);
  const Faults::Fate fate = faults_.next();
  counters_.faults += fate.drop || fate.duplicate || fate.corrupt;
  if (fate.drop) return;
  if (fate.corrupt && !arrival.datagram.empty()) {
    const size_t bit = fate.bit % (arrival.datagram.size() * 8);
    arrival.datagram[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
  takeDatagram(arrival.from, arrival.datagram, arrival.congested, now);
  if (fate.duplicate) takeDatagram(arrival.from, arrival.datagram, arrival.congested, now);
}

void Endpoint::takeDatagram(const Address& from, std::span<uint8_t> datagram, bool congested, TimeNs now) {
  ++counters_.received;
  record(from, local(), datagram);
  Packet packet;
  if (parse(datagram, packet) != Malformed::kNo) {
    ++counters_.malformed;
    return;
  }
  auto it = connections_.find(packet.queuePair);
  if (it == connections_.end()) {
    ++counters_.noQueuePair;
    return;
  }
  Connection& connection = *it->second;
  if (!sameIp(from, connection.address)) {
    ++counters_.wrongPeer;
    return;
  }
  // Its datagrams may come from any port.
  if (connection.inIcrc.route().sourcePort != from.port) connection.inIcrc = RouteIcrc(routeBetween(from, local()));
  if (!connection.inIcrc.check(datagram)) {
    ++counters_.badIcrc;
    return;
  }
  if (congested || packet.congestedForward) {
    ++counters_.congestionSeen;
    connection.congested = true;
  }
  connection.pair.receive(packet, now);
  wake(connection);
}

void Endpoint::wake(Connection& connection) {
  if (connection.working) return;
  connection.working = true;
  work_.push_back(&connection);
}

void Endpoint::advanceAll(TimeNs now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Connection& connection = *timers_.begin()->second;
    timers_.erase(timers_.begin());
    connection.timer.reset();
    wake(connection);
  }
  std::swap(work_, working_);
  for (Connection* connection : working_) {
    connection->working = false;
    if (!advance(*connection, now)) wake(*connection);
    setTimer(*connection);
    if (!connection->completed && connection->pair.hasCompletion()) {
      connection->completed = true;
      completed_.push_back(connection->number);
    }
  }
  working_.clear();
}

/// False: the room is full, and it has more to send.
bool Endpoint::advance(Connection& connection, TimeNs now) {
  bool taken = true;
  auto tryEmit = [&](const Packet& packet) {
    taken = emit(connection, packet);
    return taken;
  };
  if (connection.congested && (!connection.congestionToldAt || now - *connection.congestionToldAt >= kNotificationNs)) {
    Packet packet;
    packet.opcode = Opcode::kCongestionNotification;
    packet.queuePair = connection.peerNumber;
    packet.congestedBackward = true;
    if (!tryEmit(packet)) return false;
    ++counters_.congestionTold;
    connection.congested = false;
    connection.congestionToldAt = now;
  }
  if (!connection.pair.failed() || !connection.pair.idle()) connection.pair.advance(now, tryEmit);
  return taken;
}

/// One that is there stays when it is early enough: most timeouts are moved on and on, and never come.
void Endpoint::setTimer(Connection& connection) {
  std::optional<TimeNs> next = connection.pair.nextTime();
  if (connection.congested && connection.congestionToldAt) {
    const TimeNs tell = *connection.congestionToldAt + kNotificationNs;
    next = next ? std::min(*next, tell) : tell;
  }
  if (!next || (connection.timer && *connection.timer <= *next)) return;
  if (connection.timer) timers_.erase({*connection.timer, &connection});
  connection.timer = next;
  timers_.emplace(*next, &connection);
}

uint32_t Endpoint::takeCompleted() {
  while (!completed_.empty()) {
    const uint32_t number = completed_.front();
    completed_.pop_front();
    Connection& connection = *connections_.at(number);
    connection.completed = false;
    if (connection.pair.hasCompletion()) return number;  // Else its user has polled it.
  }
  return 0;
}

bool Endpoint::emit(Connection& connection, const Packet& packet) {
  const size_t bytes = datagramBytes(packet);
  if (used_ + bytes > room_.size() && !flush()) return false;
  const std::span<uint8_t> datagram(room_.data() + used_, bytes);
  const size_t headers = encodeHeaders(packet, datagram);
  connection.outIcrc.seal(datagram, headers,
                          traitsOf(packet.opcode).payload ? packet.payload : std::span<const uint8_t>());
  record(local(), connection.address, datagram);
  ++counters_.sent;
  Waiting* last = trains_.size() > nextTrain_ ? &trains_.back() : nullptr;
  const bool joins = last && !last->complete && last->to == connection.address && bytes <= last->segmentBytes &&
                     last->segments < UdpSocket::kMostSegments && last->bytes + bytes <= UdpSocket::kMostTrainBytes;
  if (joins) {
    last->bytes += bytes;
    ++last->segments;
    last->complete = bytes < last->segmentBytes;
  } else {
    trains_.push_back({connection.address, used_, bytes, static_cast<uint32_t>(bytes), 1, !socket_.trains()});
  }
  used_ += bytes;
  return true;
}

/// Sends what waits; false: not all of it.
bool Endpoint::flush() {
  batch_.clear();
  for (size_t i = nextTrain_; i < trains_.size(); ++i)
    batch_.push_back({&trains_[i].to, {room_.data() + trains_[i].begin, trains_[i].bytes}, trains_[i].segmentBytes});
  const size_t taken = socket_.send(batch_);
  nextTrain_ += taken;
  blocked_ = taken < batch_.size();
  if (blocked_) return false;
  trains_.clear();
  nextTrain_ = used_ = 0;
  return true;
}

void Endpoint::send() {
  if (blocked_ && !flush()) return;
  advanceAll(now());
  (void)flush();
}

bool Endpoint::progress(int batches) {
  const uint64_t before = counters_.sent + counters_.received;
  for (int i = 0; i < batches; ++i) {
    const TimeNs at = now();
    const bool came = socket_.receive([&](const Arrival& arrival) { take(arrival, at); });
    if (!came && i > 0) break;
    // Answers go before more is taken in: the peer's window waits for them.
    if (blocked_ && !flush()) break;
    advanceAll(at);
    if (!flush() || !came || !socket_.mayHaveMore()) break;
  }
  if (captureDue_ && now() >= *captureDue_) flushCapture();
  return counters_.sent + counters_.received != before;
}

std::optional<TimeNs> Endpoint::nextTime() const {
  if (!work_.empty() && !blocked_) return 0;
  if (timers_.empty()) return captureDue_;
  return captureDue_ ? std::min(*captureDue_, timers_.begin()->first) : timers_.begin()->first;
}

void Endpoint::flushCapture() {
  captureDue_.reset();
  if (capture_) capture_->flush();
}

void Endpoint::wait(TimeNs until) const {
  if (auto next = nextTime(); next && *next < until) until = *next;
  const TimeNs left = std::max<TimeNs>(0, until - now());
  pollfd fd{descriptor(), static_cast<short>(POLLIN | (blocked_ ? POLLOUT : 0)), 0};
  const timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
  ::ppoll(&fd, 1, &timeout, nullptr);
}

}  // namespace hpu::roce
