// SPDX-License-Identifier: Apache-2.0
// Objects that cost milliseconds to make and have one user at a time: threads and compilations hand them on.
// The one thing to know: a pool is never taken down, for what it holds may need statics of LLVM.
//
//     IdlePool<Codegen>::Lease codegen = IdlePool<Codegen>::take();
//     codegen->compile(...);   // Given back where the lease ends.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace hpu::support {

/// `T` has a default constructor and `bool isWorn() const`: that it has seen so much that it is not handed on.
template <typename T>
class IdlePool {
 public:
  /// One object, of the thread that has the lease.
  class Lease {
   public:
    explicit Lease(std::unique_ptr<T> object) : object_(std::move(object)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (object_) give(std::move(object_));
    }
    T* operator->() const { return object_.get(); }
    T& operator*() const { return *object_; }

   private:
    std::unique_ptr<T> object_;
  };

  static Lease take() {
    Idle& idle = get();
    {
      std::lock_guard lock(idle.mutex);
      if (!idle.objects.empty()) {
        Lease lease(std::move(idle.objects.back()));
        idle.objects.pop_back();
        return lease;
      }
    }
    return Lease(std::make_unique<T>());
  }

 private:
  static constexpr size_t kMostIdle = 8;  // Some megabytes each.

  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> objects;  // Guarded by mutex.
  };
  static Idle& get() {
    static Idle& idle = *new Idle;
    return idle;
  }
  static void give(std::unique_ptr<T> object) {
    if (object->isWorn()) return;
    Idle& idle = get();
    std::lock_guard lock(idle.mutex);
    if (idle.objects.size() < kMostIdle) idle.objects.push_back(std::move(object));
  }
};

}  // namespace hpu::support
