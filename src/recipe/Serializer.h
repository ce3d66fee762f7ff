// SPDX-License-Identifier: Apache-2.0
// Little-endian archives: the same schema function writes a struct through ByteWriter and reads it
// through ByteReader, so each struct's encoding is described once (Schema.h).
// The one thing to know: a ByteReader never reads beyond its bytes and never allocates more
// elements than the remaining bytes can hold; after the first failure it yields zeros and keeps
// that first error.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/Format.h"

namespace hpu::recipe {

/// Where one scalar (or count) of a metadata section was written; what hostile-file tests mutate.
struct FieldSpan {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

namespace detail {
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// The unsigned integer that a scalar is stored as.
template <typename T>
auto toStored(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<uint8_t>(value);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::make_unsigned_t<std::underlying_type_t<T>>>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}
template <typename T>
using Stored = decltype(toStored(std::declval<T>()));

template <typename T>
inline constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;
}  // namespace detail

/// Appends to a byte vector.
class ByteWriter {
 public:
  template <typename T>
  using Ref = const T&;
  static constexpr bool kReading = false;

  explicit ByteWriter(std::vector<uint8_t>& out, std::vector<FieldSpan>* trace = nullptr) : out_(out), trace_(trace) {}

  template <typename... Ts>
  void operator()(const Ts&... values) {
    (one(values), ...);
  }
  /// False when a string or list had more elements than a count can say.
  bool ok() const { return ok_; }

 private:
  void count(size_t n) {
    if (n > UINT32_MAX) ok_ = false;
    one(static_cast<uint32_t>(n));
  }
  template <typename T>
  void one(const T& value) {
    if constexpr (detail::kIsScalar<T>) {
      auto bits = detail::toStored(value);
      if (trace_) trace_->push_back({out_.size(), sizeof(bits)});
      for (size_t i = 0; i < sizeof(bits); ++i) {
        out_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(bits) >> (8 * i)));
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      count(value.size());
      out_.insert(out_.end(), value.begin(), value.end());
    } else if constexpr (detail::IsVector<T>::value) {
      count(value.size());
      for (const auto& element : value) one(element);
    } else if constexpr (std::is_array_v<T>) {
      for (const auto& element : value) one(element);
    } else {
      schema(*this, value);
    }
  }

  std::vector<uint8_t>& out_;
  std::vector<FieldSpan>* trace_;
  bool ok_ = true;
};

/// Counts the bytes that a value takes: with a default-constructed one, the least that any takes.
class ByteCounter {
 public:
  template <typename T>
  using Ref = const T&;
  static constexpr bool kReading = false;

  template <typename... Ts>
  void operator()(const Ts&... values) {
    (one(values), ...);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename T>
  void one(const T& value) {
    if constexpr (detail::kIsScalar<T>) {
      bytes_ += sizeof(detail::Stored<T>);
    } else if constexpr (std::is_same_v<T, std::string>) {
      bytes_ += 4 + value.size();
    } else if constexpr (detail::IsVector<T>::value) {
      bytes_ += 4;
      for (const auto& element : value) one(element);
    } else if constexpr (std::is_array_v<T>) {
      for (const auto& element : value) one(element);
    } else {
      schema(*this, value);
    }
  }
  uint64_t bytes_ = 0;
};

/// Reads from [data, data + size).
class ByteReader {
 public:
  template <typename T>
  using Ref = T&;
  static constexpr bool kReading = true;

  ByteReader(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}

  template <typename... Ts>
  void operator()(Ts&... values) {
    (one(values), ...);
  }

  bool ok() const { return error_.empty(); }
  /// What failed first: "needs 8 bytes at byte 120, but ends at byte 124".
  const std::string& error() const { return error_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }

 private:
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  bool take(uint64_t bytes) {
    if (!error_.empty()) return false;
    if (bytes <= remaining()) return true;
    fail(base::strCat("needs ", bytes, " bytes at byte ", position_, ", but ends at byte ", size_));
    return false;
  }
  /// A count whose elements, `least` bytes each, still fit.
  uint32_t count(uint64_t least) {
    uint64_t at = position_;
    uint32_t n = 0;
    one(n);
    if (!ok()) return 0;
    if (n > remaining() / least) {
      fail(base::strCat("the count ", n, " at byte ", at, " is more than the ", remaining(),
                        " bytes after it can hold"));
      return 0;
    }
    return n;
  }

  template <typename T>
  void one(T& value) {
    if constexpr (detail::kIsScalar<T>) {
      using Bits = detail::Stored<T>;
      uint64_t bits = 0;
      if (take(sizeof(Bits))) {
        for (size_t i = 0; i < sizeof(Bits); ++i) bits |= uint64_t{data_[position_ + i]} << (8 * i);
        position_ += sizeof(Bits);
      }
      if constexpr (std::is_same_v<T, bool>) {
        if (bits > 1) fail(base::strCat("byte ", position_ - 1, " is neither 0 nor 1"));
        value = bits == 1;
      } else if constexpr (std::is_same_v<T, double>) {
        value = std::bit_cast<double>(bits);
      } else {
        value = static_cast<T>(static_cast<Bits>(bits));
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      uint32_t n = count(1);
      value.assign(reinterpret_cast<const char*>(data_) + position_, n);
      position_ += n;
    } else if constexpr (detail::IsVector<T>::value) {
      using Element = typename T::value_type;
      uint32_t n = count(leastBytes<Element>());
      value.clear();
      value.reserve(n);
      for (uint32_t i = 0; i < n && ok(); ++i) one(value.emplace_back());
    } else if constexpr (std::is_array_v<T>) {
      for (auto& element : value) one(element);
    } else {
      schema(*this, value);
    }
  }

  template <typename T>
  static uint64_t leastBytes() {
    static const uint64_t bytes = [] {
      ByteCounter counter;
      counter(T{});
      return counter.bytes();
    }();
    return bytes;
  }

  const uint8_t* data_;
  uint64_t size_;
  uint64_t position_ = 0;
  std::string error_;
};

}  // namespace hpu::recipe
