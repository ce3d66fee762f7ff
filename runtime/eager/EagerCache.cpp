// SPDX-License-Identifier: Apache-2.0
#include "hpu/eager.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Deadline.h"
#include "base/Grown.h"
#include "base/Hash.h"
#include "base/ProcessOwned.h"
#include "base/ProgramCall.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Recorder.h"

namespace hpu {

// ---- EagerKey
// --------------------------------------------------------------------------------------

void EagerKey::Builder::append(char kind, const void* bytes, size_t size) {
  uint64_t count = size;
  bytes_.push_back(kind);
  bytes_.append(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes_.append(static_cast<const char*>(bytes), size);
}

EagerKey::Builder& EagerKey::Builder::addInt(int64_t value) {
  bytes_.push_back('i');
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

EagerKey::Builder& EagerKey::Builder::addReal(double value) {
  bytes_.push_back('r');
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return *this;
}

EagerKey::Builder& EagerKey::Builder::add(std::string_view text) {
  append('t', text.data(), text.size());
  return *this;
}

EagerKey::Builder& EagerKey::Builder::add(const void* bytes, size_t size) {
  append('b', bytes, size);
  return *this;
}

EagerKey::Builder& EagerKey::Builder::addUnsized(const TensorType& type) {
  bytes_.push_back('u');
  addInt(static_cast<int64_t>(type.element));
  addInt(static_cast<int64_t>(type.shape.size()));
  for (int64_t size : type.shape) addInt(size == 0 || size == 1 ? size : 2);
  return *this;
}

EagerKey EagerKey::Builder::build() const {
  EagerKey key;
  key.bytes_ = bytes_;
  // The empty structure is the default key.
  key.hash_ = bytes_.empty() ? 0 : base::hash64(bytes_);
  return key;
}

// ---- EagerCache
// ------------------------------------------------------------------------------------

namespace {

/// A recipe on its device.
struct Loaded {
  std::shared_ptr<DeviceState> device;
  Executable executable;
};

/// One structure. Shared, so that it outlives its eviction while somebody uses it.
struct Entry {
  EagerKey key;
  std::atomic<bool> compiling{true};                            ///< Written under the cache's lock.
  const std::thread::id compiler = std::this_thread::get_id();  ///< The thread that made the entry.
  Status failure;                                               ///< Of the compilation, for those who waited for it.
  Recipe recipe;
  std::vector<Loaded> loaded;  ///< Few: a process has at most eight devices.
  std::mutex loading;          ///< Held by who loads it; taken without the cache's lock.
};
using EntryPointer = std::shared_ptr<Entry>;

/// Which thread waits for which entry, over all caches of the process: a compile function may ask for a structure that
/// another thread compiles, whose compile function asks in turn. Under base::processMutex().
class Waiting {
 public:
  /// The calling thread waits from now on. False: then it and others would wait for each other.
  bool begin(const EntryPointer& entry) {
    std::lock_guard lock(base::processMutex());
    auto& waits = all();
    const std::thread::id self = std::this_thread::get_id();
    // No circle is ever closed, so this ends. A thread whose compilation is done by now waits for nothing.
    for (const Entry* at = entry.get(); at && at->compiling.load();) {
      if (at->compiler == self) return false;
      auto next = waits.find(at->compiler);
      at = next == waits.end() ? nullptr : next->second.get();
    }
    waits[self] = entry;
    begun_ = true;
    return true;
  }
  ~Waiting() {
    if (!begun_) return;
    EntryPointer last;  // Let go after the lock.
    std::lock_guard lock(base::processMutex());
    auto it = all().find(std::this_thread::get_id());
    last = std::move(it->second);
    all().erase(it);
  }

 private:
  using Map = std::map<std::thread::id, EntryPointer>;
  static Map& all() {
    static Map* map = new Map;  // Never destroyed: caches may outlive statics.
    static base::Birthplace birthplace;
    if (!birthplace.isHere()) {  // A forked child's threads wait for nothing yet.
      base::abandon(*map);
      birthplace = base::Birthplace();
    }
    return *map;
  }
  bool begun_ = false;
};

struct HashOf {
  size_t operator()(const EagerKey& key) const { return static_cast<size_t>(key.hash()); }
};

}  // namespace

struct EagerCache::Impl {
  using List = std::list<EntryPointer>;

  /// A call of executable() that is going on; one that `forget` meets keeps nothing in the cache.
  struct Visit {
    Impl& impl;
    const DeviceState* device;
    bool entered = false, forgotten = false;
    ~Visit() {
      if (!entered) return;
      std::lock_guard lock(impl.mutex);
      leave();
    }
    void enter() {  // Under the lock, as the next.
      impl.visits.push_back(this);
      entered = true;
    }
    void leave() {
      std::erase(impl.visits, this);
      entered = false;
    }
  };

  explicit Impl(int64_t entries) : maxEntries(static_cast<size_t>(std::max<int64_t>(entries, 1))) {}

  StatusOr<EntryPointer> find(const EagerKey& key, const Compile& compile, Visit* visit = nullptr);
  void compileEntry(const EntryPointer& entry, const Compile& compile);
  std::vector<EntryPointer> evict();

  const size_t maxEntries;
  mutable std::mutex mutex;  // Guards everything below, and what entries hold besides `loading`.
  std::condition_variable compiled;
  std::vector<Visit*> visits;
  List recent;  ///< The most recently used first.
  std::unordered_map<EagerKey, List::iterator, HashOf> byKey;
  EagerStatistics statistics;
};

/// Under the lock; what goes is destroyed by the caller without it. Entries that are being compiled
/// stay.
std::vector<EntryPointer> EagerCache::Impl::evict() {
  std::vector<EntryPointer> gone;
  for (auto it = recent.end(); recent.size() > maxEntries && it != recent.begin();) {
    --it;
    if ((*it)->compiling) continue;
    byKey.erase((*it)->key);
    gone.push_back(std::move(*it));
    it = recent.erase(it);
    ++statistics.evictions;
  }
  return gone;
}

void EagerCache::Impl::compileEntry(const EntryPointer& entry, const Compile& compile) {
  auto start = std::chrono::steady_clock::now();
  StatusOr<Recipe> result = failedPrecondition("eager: there is no compile function");
  {
    trace::HostScope scope("EagerCache.compile");
    // The threads that wait for the structure are told what it throws, too.
    Status called = base::callProgram("eager: the compile function", [&] {
      if (compile) result = compile();
    });
    if (!called.ok()) result = std::move(called);
  }
  if (result.ok() && !result->valid()) result = invalidArgument("eager: the compile function returned an empty recipe");
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  std::vector<EntryPointer> gone;
  std::lock_guard lock(mutex);
  statistics.compileNs += ns.count();
  entry->compiling = false;
  if (result.ok()) {
    entry->recipe = std::move(*result);
    gone = evict();
  } else {
    ++statistics.failures;
    entry->failure = result.status();
    if (auto it = byKey.find(entry->key); it != byKey.end()) {
      recent.erase(it->second);
      byKey.erase(it);
    }
  }
  compiled.notify_all();
}

StatusOr<EntryPointer> EagerCache::Impl::find(const EagerKey& key, const Compile& compile, Visit* visit) {
  EntryPointer entry;
  {
    std::unique_lock lock(mutex);
    if (visit) visit->enter();
    if (auto it = byKey.find(key); it != byKey.end()) {
      recent.splice(recent.begin(), recent, it->second);
      entry = *it->second;
      ++statistics.hits;
      if (entry->compiling) {
        if (entry->compiler == std::this_thread::get_id())
          return failedPrecondition("eager: the compile function asks the cache for the structure that it compiles");
        Waiting waiting;
        if (!waiting.begin(entry))
          return failedPrecondition(
              "eager: the compile function asks for a structure that another thread compiles, and that compilation "
              "waits for this one; compile one of them without the other");
        HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(-1));
        if (!compiled.wait_until(lock, deadline.time(), [&] { return !entry->compiling; }))
          return deadlineExceeded(
              "eager: another thread did not finish compiling the same structure within "
              "HPU_WAIT_TIMEOUT_MS");
      }
      if (!entry->failure.ok()) return entry->failure;
      return entry;
    }
    ++statistics.misses;
    entry = std::make_shared<Entry>();
    entry->key = key;
    recent.push_front(entry);
    byKey.emplace(key, recent.begin());
  }
  compileEntry(entry, compile);
  if (!entry->failure.ok()) return entry->failure;
  return entry;
}

namespace {
/// A program that was compiled with a newer release has the field, too.
int64_t entriesOf(const EagerOptions& options, size_t bytes) {
  auto known = base::grown("EagerOptions", options, bytes, &EagerOptions::maxEntries);
  return known.ok() ? (*known)->maxEntries : options.maxEntries;
}
}  // namespace

EagerCache::EagerCache(const EagerOptions& options, size_t optionsBytes)
    : impl_(base::makeProcessOwned<Impl>(entriesOf(options, optionsBytes))) {}
EagerCache::~EagerCache() = default;

StatusOr<Recipe> EagerCache::recipe(const EagerKey& key, const Compile& compile) {
  HPU_ASSIGN(EntryPointer entry, impl_->find(key, compile));
  std::lock_guard lock(impl_->mutex);
  return entry->recipe;
}

StatusOr<Executable> EagerCache::executable(const Device& device, const EagerKey& key, const Compile& compile,
                                            const LoadOptions& load, size_t loadBytes) {
  if (!device.valid()) return failedPrecondition("eager: the Device handle is empty");
  Impl::Visit visit{*impl_, device.state().get()};
  HPU_ASSIGN(EntryPointer entry, impl_->find(key, compile, &visit));
  auto known = [&]() -> const Executable* {
    for (const Loaded& loaded : entry->loaded)
      if (loaded.device == device.state()) return &loaded.executable;
    return nullptr;
  };
  Recipe recipe;
  {
    std::lock_guard lock(impl_->mutex);
    if (const Executable* executable = known()) {
      visit.leave();
      return *executable;
    }
    recipe = entry->recipe;
  }
  std::lock_guard loading(entry->loading);
  {
    std::lock_guard lock(impl_->mutex);
    if (const Executable* executable = known()) return *executable;
  }
  HPU_ASSIGN(Executable executable, Executable::load(device, recipe, load, loadBytes));
  std::lock_guard lock(impl_->mutex);
  visit.leave();
  if (!visit.forgotten) entry->loaded.push_back({device.state(), executable});
  return executable;
}

EagerStatistics EagerCache::statistics() const {
  std::lock_guard lock(impl_->mutex);
  EagerStatistics result = impl_->statistics;
  result.entries = static_cast<int64_t>(impl_->recent.size());
  return result;
}

void EagerCache::forget(const Device& device) {
  std::vector<Loaded> gone;  // Unloaded without the lock.
  std::lock_guard lock(impl_->mutex);
  for (Impl::Visit* visit : impl_->visits) visit->forgotten |= visit->device == device.state().get();
  for (const EntryPointer& entry : impl_->recent) {
    auto first = std::stable_partition(entry->loaded.begin(), entry->loaded.end(),
                                       [&](const Loaded& loaded) { return loaded.device != device.state(); });
    std::move(first, entry->loaded.end(), std::back_inserter(gone));
    entry->loaded.erase(first, entry->loaded.end());
  }
}

void EagerCache::clear() {
  std::vector<EntryPointer> gone;
  std::lock_guard lock(impl_->mutex);
  for (auto it = impl_->recent.begin(); it != impl_->recent.end();) {
    if ((*it)->compiling) {
      ++it;
      continue;
    }
    impl_->byKey.erase((*it)->key);
    gone.push_back(std::move(*it));
    it = impl_->recent.erase(it);
  }
}

}  // namespace hpu
