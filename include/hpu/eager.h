// SPDX-License-Identifier: Apache-2.0
// EagerCache: compiled single ops (or any small graphs) by their structure, so that a framework
// that runs one op at a time compiles each kind of op once. The one thing to know: the key says
// everything that the compiled code depends on (ops, their parameters, element types, sizes,
// target) and nothing else (no names, no addresses); two equal keys must mean equal recipes. An op whose recipe has
// free dimensions (CompileOptions::dimBounds) is keyed by Builder::addUnsized in place of sizes, which its launches
// give.
//
//   hpu::EagerKey key = hpu::EagerKey::Builder().add("gemm").add(m).add(n).add(k).build();
//   HPU_ASSIGN(auto op, cache.executable(device, key, [&] { return compileGemm(m, n, k); }));
//   HPU_RETURN_IF_ERROR(op.launch(stream, {a, b}, {c}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/recipe.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu {

/// A structure as bytes, with their hash. Immutable; any thread may use it.
class HPU_API EagerKey {
 public:
  /// Appends values one by one; every value is told apart from its neighbours and by its kind, so
  /// that different sequences give different keys. Not thread-safe.
  class HPU_API Builder {
   public:
    Builder& addInt(int64_t value);
    Builder& addReal(double value);  ///< By its bits.
    Builder& add(std::string_view text);
    Builder& add(const void* bytes, size_t size);
    template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    Builder& add(T value) {
      return addInt(static_cast<int64_t>(value));
    }
    /// An operand of an op that is compiled once for all sizes (CompileOptions::dimBounds): its element type, its rank,
    /// and which of its sizes are 0 and 1, as these are no work and are broadcast. Other sizes do not count; launches
    /// give them (LaunchArguments::inputShapes). Sizes that have to be equal are still the op's matter.
    Builder& addUnsized(const TensorType& type);
    EagerKey build() const;

   private:
    void append(char kind, const void* bytes, size_t size);
    std::string bytes_;
  };

  EagerKey() = default;  ///< The structure without anything.
  uint64_t hash() const { return hash_; }
  bool operator==(const EagerKey& other) const { return hash_ == other.hash_ && bytes_ == other.bytes_; }

 private:
  std::string bytes_;
  uint64_t hash_ = 0;
};

struct EagerOptions {
  int64_t maxEntries = 4096;  ///< The least recently used go beyond it; at least 1.
};

struct EagerStatistics {
  int64_t hits = 0, misses = 0;  ///< Calls; who waits for another thread's compilation hits.
  int64_t failures = 0;          ///< Compilations that failed; nothing is kept of them.
  int64_t evictions = 0, entries = 0;
  int64_t compileNs = 0;  ///< Host time spent in compile functions.
};

/// Any thread may call anything; threads that miss the same key at a time compile it once.
class HPU_API EagerCache {
 public:
  using Compile = std::function<StatusOr<Recipe>()>;

  explicit EagerCache(const EagerOptions& options = {}) : EagerCache(options, sizeof(EagerOptions)) {}
  EagerCache(const EagerOptions& options, size_t optionsBytes);
  ~EagerCache();
  EagerCache(const EagerCache&) = delete;
  EagerCache& operator=(const EagerCache&) = delete;

  /// The recipe of a structure; `compile` is called when there is none, on this thread and without
  /// a lock held. It may ask for other keys; for one whose compilation waits for this one, here or through other
  /// threads and caches, it is refused (kFailedPrecondition). Errors: what it
  /// returns, or kUnknown and what it throws (also for the threads that wait for it), kDeadlineExceeded
  /// (HPU_WAIT_TIMEOUT_MS).
  StatusOr<Recipe> recipe(const EagerKey& key, const Compile& compile);
  /// The same, loaded on a device. `load` counts for the first call of a key and device. Errors:
  /// also those of Executable::load.
  StatusOr<Executable> executable(const Device& device, const EagerKey& key, const Compile& compile,
                                  const LoadOptions& load = {}) {
    return executable(device, key, compile, load, sizeof(LoadOptions));
  }
  StatusOr<Executable> executable(const Device& device, const EagerKey& key, const Compile& compile,
                                  const LoadOptions& load, size_t loadBytes);

  EagerStatistics statistics() const;
  /// Unloads what is loaded on a device; recipes stay. A device stays open as long as it is loaded
  /// on. Calls of executable() that are going on give what they load to their callers alone.
  void forget(const Device& device);
  /// Drops everything that is not being compiled. Executables that were handed out stay valid.
  void clear();

 private:
  struct Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace hpu
