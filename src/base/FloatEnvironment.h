// SPDX-License-Identifier: Apache-2.0
// FloatScope: floating-point control (rounding, denormals, traps) of the calling thread while it lives.
// The one thing to know: the runtime computes on threads of the program, which may round up, flush denormals or trap
// (`-ffast-math` sets that for whole programs); results and device times must not depend on it, and the program finds
// what it had set.
//
//   base::FloatScope floats;  // Round to nearest even, denormals kept, nothing trapped.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::base {

/// What a thread has set; flags of what has happened are no part of it. 0 where the CPU's is not known.
class FloatControl {
 public:
  /// The default of every program: round to nearest even, denormals kept, nothing trapped.
  constexpr FloatControl() = default;
  static FloatControl ofThread() noexcept {
    FloatControl control;
#if defined(__x86_64__)
    control.bits_ = _mm_getcsr() & ~kFlags;
#endif
    return control;
  }
  /// For good.
  void apply() const noexcept {
#if defined(__x86_64__)
    _mm_setcsr(bits_);
#endif
  }

 private:
  friend class FloatScope;
  static constexpr uint32_t kFlags = 0x3f;
  uint32_t bits_ = 0x1f80;  ///< MXCSR. The x87 unit is not used.
};

/// Ends on the thread that made it, which has its own control, and flags, again.
class FloatScope {
 public:
#if defined(__x86_64__)
  explicit FloatScope(FloatControl control = {}) noexcept : saved_(_mm_getcsr()) {
    if ((saved_ & ~FloatControl::kFlags) != control.bits_) _mm_setcsr(control.bits_);
  }
  ~FloatScope() { _mm_setcsr(saved_); }
#else
  explicit FloatScope(FloatControl = {}) noexcept {}
  ~FloatScope() {}
#endif
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;

 private:
#if defined(__x86_64__)
  const uint32_t saved_;
#endif
};

}  // namespace hpu::base
