// SPDX-License-Identifier: Apache-2.0
#include "runtime/event/SharedEvent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/Crc32c.h"
#include "base/Format.h"
#include "base/Futex.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/node/ProcessStart.h"

namespace hpu {

using shared_event::Block;
using shared_event::FailedRun;
using shared_event::kBytes;
using shared_event::kRecent;
using shared_event::kRuns;
using shared_event::Mapping;
using shared_event::Outcome;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

namespace {

constexpr uint32_t kMagic = 0x45555048;  // "HPUE"
constexpr uint32_t kVersion = 2;
constexpr const char* kFileName = "hpu-event";

/// What an EventHandle holds. The checksum finds damage; who forges one gets no more than the kernel lets him open.
struct Card {
  uint32_t magic = kMagic, version = kVersion;
  int64_t pid = 0;
  uint64_t startTime = 0;
  uint64_t pidNamespace = 0;
  uint8_t id[16] = {};
  int32_t descriptor = -1;
  uint32_t reserved[2] = {};
  uint32_t checksum = 0;  ///< Of all before it.
};
static_assert(sizeof(Card) == sizeof(EventHandle));

uint32_t checksumOf(const Card& card) {
  return base::crc32c(0, &card, offsetof(Card, checksum));
}

uint64_t pidNamespace() {
  struct stat info{};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

uint64_t stampOf(uint64_t number, shared_event::State state) {
  return number << 2 | state;
}

Outcome& outcomeOf(const Block& block, uint64_t number) {
  return const_cast<Outcome&>(block.recent[number % kRecent]);
}

Status gone(int64_t pid) {
  return notFound(base::strCat("the event is gone: the process ", pid, " that made it has ended, or let go of it"));
}

bool lives(int64_t pid, uint64_t startTime) {
  char state = 0;
  const uint64_t now = node::startTimeOf(pid, &state);
  // Without a descriptor or memory of ours there is no telling when it began, but still whether it is there.
  if (now == 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH)) return true;
  return now == startTime && now != 0 && state != 'Z' && state != 'X';
}

}  // namespace

Mapping::~Mapping() {
  if (data_) ::munmap(data_, kBytes);
}

// ---- The side that records ----------------------------------------------------------------------

StatusOr<std::shared_ptr<SharedEvent>> SharedEvent::create() {
  node::Fd file(::memfd_create(kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::ftruncate(file.get(), kBytes) != 0)
    return resourceExhausted("cannot create the memory of a shared event: " + base::errnoText(errno));
  // It cannot be taken away under those who have opened it.
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* data = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED)
    return resourceExhausted("cannot map the memory of a shared event: " + base::errnoText(errno));
  // A forked child has no part in it.
  ::madvise(data, kBytes, MADV_DONTFORK);
  Mapping mapping(data);
  Block& block = *mapping.block();
  if (::getrandom(block.id, sizeof block.id, 0) != static_cast<ssize_t>(sizeof block.id))
    return internalError("the system has no random numbers: " + base::errnoText(errno));
  block.pid = ::getpid();
  block.startTime = node::startTimeOf(block.pid);
  block.doneBelow.store(1);
  block.version = kVersion;
  block.magic = kMagic;
  return base::makeProcessOwned<SharedEvent>(std::move(file), std::move(mapping));
}

EventHandle SharedEvent::handle() const {
  Card card;
  card.pid = block().pid;
  card.startTime = block().startTime;
  card.pidNamespace = pidNamespace();
  std::memcpy(card.id, block().id, sizeof card.id);
  card.descriptor = file_.get();
  card.checksum = checksumOf(card);
  EventHandle handle;
  std::memcpy(handle.bytes, &card, sizeof card);
  return handle;
}

/// One record: it keeps the ticket, whose failure is asked for at its end. Not told: the device has closed before.
struct SharedEvent::Record {
  Record(std::shared_ptr<SharedEvent> of, uint64_t which, std::shared_ptr<TicketHandle> what)
      : event(std::move(of)), number(which), ticket(std::move(what)) {}
  ~Record() { end(cancelled("the device was closed before the work was done")); }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  void end(const Status& status) {
    if (!std::exchange(told, true)) event->finish(number, status);
  }
  const std::shared_ptr<SharedEvent> event;
  const uint64_t number;
  const std::shared_ptr<TicketHandle> ticket;
  bool told = false;
};

void SharedEvent::recorded(const std::shared_ptr<TicketHandle>& ticket) noexcept {
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    number = block().latest.load(std::memory_order_relaxed) + 1;
    try {
      pending_.push_back(number);
    } catch (const std::bad_alloc&) {
      // finish() says that it failed.
    }
    outcomeOf(block(), number).stamp.store(stampOf(number, shared_event::kPending), std::memory_order_release);
    block().latest.store(number, std::memory_order_release);
  }
  std::shared_ptr<Record> record;
  try {
    record = base::makeProcessOwned<Record>(shared_from_this(), number, ticket);
    ticket->device()->driver()->whenDone(ticket->ticket(), [record] { record->end(record->ticket->failure()); });
  } catch (const std::bad_alloc&) {
    const Status why = resourceExhausted("out of host memory: nobody would be told of the event");
    if (record)
      record->end(why);
    else
      finish(number, why);
  }
}

/// Under the lock: the record has failed. Before anybody sees that it is over.
void SharedEvent::remember(uint64_t number, StatusCode code) noexcept {
  const uint64_t runs = block().runs.load(std::memory_order_relaxed);
  const auto order = std::memory_order_seq_cst;
  const auto value = static_cast<uint64_t>(code);
  if (runs > 0) {
    FailedRun& last = block().failed[(runs - 1) % kRuns];
    if (last.code.load(std::memory_order_relaxed) == value && last.last.load(std::memory_order_relaxed) + 1 == number) {
      last.last.store(number, order);
      return;
    }
  }
  FailedRun& run = block().failed[runs % kRuns];
  if (runs >= kRuns) {
    const uint64_t below = run.last.load(std::memory_order_relaxed) + 1;
    if (block().forgottenBelow.load(std::memory_order_relaxed) < below) block().forgottenBelow.store(below, order);
  }
  // Nobody finds it before it is whole: no number is in a range that ends before it begins.
  block().begun.store(runs + 1, order);
  run.last.store(0, order);
  run.code.store(value, order);
  run.first.store(number, order);
  run.last.store(number, order);
  block().runs.store(runs + 1, order);
}

void SharedEvent::finish(uint64_t number, const Status& status) noexcept {
  {
    std::lock_guard lock(mutex_);
    std::erase(pending_, number);
    Outcome& outcome = outcomeOf(block(), number);
    if (!status.ok()) remember(number, status.code());
    if (outcome.stamp.load(std::memory_order_relaxed) == stampOf(number, shared_event::kPending)) {
      if (!status.ok()) {
        outcome.code = static_cast<uint32_t>(status.code());
        outcome.length = static_cast<uint32_t>(std::min(status.message().size(), sizeof outcome.text));
        std::memcpy(outcome.text, status.message().data(), outcome.length);
      }
      outcome.stamp.store(stampOf(number, status.ok() ? shared_event::kDone : shared_event::kFailed),
                          std::memory_order_release);
    }
    const auto first = std::min_element(pending_.begin(), pending_.end());
    block().doneBelow.store(first == pending_.end() ? block().latest.load(std::memory_order_relaxed) + 1 : *first,
                            std::memory_order_release);
    block().changes.fetch_add(1, std::memory_order_seq_cst);
  }
  base::futexWake(block().changes);
}

// ---- The side that waits ------------------------------------------------------------------------

StatusOr<std::shared_ptr<OpenedEvent>> OpenedEvent::open(const EventHandle& handle) {
  Card card;
  std::memcpy(&card, handle.bytes, sizeof card);
  if (card.magic != kMagic || card.checksum != checksumOf(card))
    return invalidArgument("these bytes are no handle of an event (Event::handle), or were damaged on their way");
  if (card.version != kVersion)
    return invalidArgument(base::strCat("the handle of an event is of version ", card.version, ", and this is version ",
                                        kVersion, "; use one version of OpenHPU on a machine"));
  if (card.pid <= 0 || card.pid > INT_MAX || card.descriptor < 0 || card.reserved[0] != 0 || card.reserved[1] != 0)
    return invalidArgument("these bytes are no handle of an event (Event::handle)");
  if (card.pidNamespace != pidNamespace())
    return notFound(base::strCat("the event was made by a process of another container (pid namespace), whose process ",
                                 card.pid, " this one cannot see"));
  if (!lives(card.pid, card.startTime)) return gone(card.pid);
  // Only what is a memory file of that name is opened: opening other things may have effects.
  const std::string place = base::strCat("/proc/", card.pid, "/fd/", card.descriptor);
  char target[64] = {};
  const std::string wanted = base::strCat("/memfd:", kFileName);
  const ssize_t length = ::readlink(place.c_str(), target, sizeof target - 1);
  if (length < 0 && errno == EACCES)
    return Status(StatusCode::kPermissionDenied,
                  base::strCat("the event belongs to the process ", card.pid,
                               ", which this one may not look into: run both as one user, as programs without special "
                               "rights"));
  if (length < 0 || std::string_view(target).substr(0, wanted.size()) != wanted) return gone(card.pid);
  node::Fd file(::open(place.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
      return resourceExhausted("cannot open a shared event: " + base::errnoText(errno));
    if (errno == EACCES || errno == EPERM)
      return Status(StatusCode::kPermissionDenied, "cannot open the shared event: " + base::errnoText(errno));
    return gone(card.pid);
  }
  if (!node::checkSealed(file.get(), kBytes, "the process that made the event").ok()) return gone(card.pid);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return gone(card.pid);
  void* data = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return resourceExhausted("cannot map a shared event: " + base::errnoText(errno));
  ::madvise(data, kBytes, MADV_DONTFORK);
  Mapping mapping(data);
  const Block& block = *mapping.block();
  // The descriptor may be another event's by now.
  if (block.magic != kMagic || block.version != kVersion || std::memcmp(block.id, card.id, sizeof card.id) != 0 ||
      block.pid != card.pid || block.startTime != card.startTime)
    return gone(card.pid);
  return base::makeProcessOwned<OpenedEvent>(std::move(mapping), place, static_cast<uint64_t>(info.st_ino));
}

OpenedEvent::OpenedEvent(Mapping mapping, std::string place, uint64_t inode)
    : mapping_(std::move(mapping)),
      place_(std::move(place)),
      inode_(inode),
      pid_(block().pid),
      startTime_(block().startTime) {}

/// Also false when it has become another program (execve), which has no part in what was recorded.
bool OpenedEvent::ownerLives() const {
  if (!lives(pid_, startTime_)) return false;
  struct stat info{};
  if (::stat(place_.c_str(), &info) != 0) return errno != ENOENT;
  return static_cast<uint64_t>(info.st_ino) == inode_;
}

std::optional<Status> OpenedEvent::outcome(uint64_t number) const {
  if (number == 0) return okStatus();
  const Outcome& slot = outcomeOf(block(), number);
  const uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
  if (stamp == stampOf(number, shared_event::kPending)) return std::nullopt;
  if (stamp == stampOf(number, shared_event::kDone)) return okStatus();
  if (stamp == stampOf(number, shared_event::kFailed)) {
    const uint32_t code = slot.code;
    std::string text(slot.text, std::min<size_t>(slot.length, sizeof slot.text));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.stamp.load(std::memory_order_relaxed) == stamp) {
      const bool known = code > 0 && code <= static_cast<uint32_t>(StatusCode::kDataLoss);
      return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, std::move(text))
          .withContext(base::strCat("in the process ", pid_));
    }
  }
  // Later records have taken its place.
  if (block().doneBelow.load(std::memory_order_seq_cst) <= number) return std::nullopt;
  return earlier(number);
}

/// What a record that is over and has no place in `recent` came to.
Status OpenedEvent::earlier(uint64_t number) const {
  const auto failed = [&](StatusCode code) {
    return Status(
        code, base::strCat("in the process ", pid_, ": the work before the event has failed with ",
                           statusCodeName(code), "; its text is not kept when there were ", kRecent, " later records"));
  };
  // One that loses its place meanwhile is told by `forgottenBelow` and `begun`, which are written before the place is.
  const uint64_t runs = block().runs.load(std::memory_order_seq_cst);
  for (uint64_t i = runs, tried = 0; i-- > 0 && tried < kRuns; ++tried) {
    const FailedRun& run = block().failed[i % kRuns];
    const uint64_t first = run.first.load(std::memory_order_seq_cst), last = run.last.load(std::memory_order_seq_cst);
    const uint64_t code = run.code.load(std::memory_order_seq_cst);
    if (number < first || number > last) continue;
    if (block().begun.load(std::memory_order_seq_cst) > i + kRuns) continue;
    const bool known = code > 0 && code <= static_cast<uint64_t>(StatusCode::kDataLoss);
    return failed(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown);
  }
  if (block().forgottenBelow.load(std::memory_order_seq_cst) <= number) return okStatus();
  return Status(StatusCode::kUnknown, base::strCat("in the process ", pid_,
                                                   ": whether the work before the event has failed is not known any "
                                                   "more: it has failed more than ",
                                                   kRuns, " times since"));
}

std::optional<Status> OpenedEvent::outcomeOrGone(uint64_t number) const {
  std::optional<Status> now = outcome(number);
  if (now || ownerLives()) return now;
  // It may have come to its end just before its process did.
  now = outcome(number);
  if (now) return now;
  return unavailable(base::strCat("the process ", pid_, " that recorded the event has ended before its work was done"));
}

std::optional<Status> OpenedEvent::await(uint64_t number, std::chrono::steady_clock::time_point until) const {
  while (true) {
    const uint32_t seen = changes().load(std::memory_order_seq_cst);
    if (std::optional<Status> now = outcome(number)) return now;
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return outcomeOrGone(number);
    base::futexWait(changes(), seen, std::min(until, now + kLookAfterOwner));
    if (changes().load(std::memory_order_seq_cst) != seen) continue;
    if (std::optional<Status> after = outcomeOrGone(number)) return after;
  }
}

}  // namespace hpu
