// SPDX-License-Identifier: Apache-2.0
// PeerMemory: the HBM of a device that another process owns (or this one), mapped for reading and
// writing.
// The one thing to know: nothing orders its bytes with the owner's streams; who uses it
// synchronizes by other means. The mapping stays valid when the owner dies, and holds its memory;
// alive() tells.
//
//   HPU_ASSIGN(auto peer, node::PeerMemory::map(3));
//   std::byte* bytes = peer->at(address, size);   // null: not in that device's memory
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "hpu/status.h"
#include "runtime/node/Client.h"

namespace hpu::node {

/// Lets those who are given its token map the memory of one of this process's devices, as long as it lives. It is a
/// connection to the owner's service, since each shared library that has this code has statics of its own.
class MemoryGrant {
 public:
  /// Errors: kFailedPrecondition (nobody owns the device), kPermissionDenied (another process does), kInternal (no
  /// random numbers), and those of Client.
  static StatusOr<std::unique_ptr<MemoryGrant>> create(int index);
  MemoryGrant(const MemoryGrant&) = delete;
  MemoryGrant& operator=(const MemoryGrant&) = delete;
  const MemoryToken& token() const { return token_; }

 private:
  MemoryGrant(Contact owner, const MemoryToken& token) : owner_(std::move(owner)), token_(token) {}
  const Contact owner_;
  const MemoryToken token_;
};

/// Any thread may call anything.
class PeerMemory {
 public:
  /// Errors: kNotFound (no such device), kFailedPrecondition (nobody owns it), kUnavailable (it is
  /// being opened or closed), kDeadlineExceeded, kResourceExhausted (address space).
  /// kPermissionDenied (the device is another process's, which has given nobody this token and consents to nobody
  /// else: HPU_NODE_CONSENT), kDataLoss (what it sent could become smaller under its users).
  static StatusOr<std::unique_ptr<PeerMemory>> map(int index, int64_t deadlineMs = 10000,
                                                   const MemoryToken& token = {});
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  int index() const { return index_; }
  /// Device addresses [base, base + bytes) are mapped.
  uint64_t base() const { return base_; }
  int64_t bytes() const { return bytes_; }
  int64_t ownerPid() const { return contact_.owner.pid; }
  /// Host address of `bytes` bytes at a device address; null when they are not all in the memory.
  std::byte* at(uint64_t address, int64_t bytes) const;
  /// The bytes are about to be used, all of them: what this process has not mapped yet of them is
  /// mapped at once, which takes a quarter of the time of page faults one by one.
  void prepare(const std::byte* data, int64_t bytes) const;
  /// The owner still has the device.
  bool alive() const;

 private:
  PeerMemory(int index, Contact contact, std::byte* data, uint64_t base, int64_t bytes);
  const int index_;
  const Contact contact_;  ///< Stands for the mapping in the owner's list of peers.
  std::byte* const data_;
  const uint64_t base_;
  const int64_t bytes_;
  const int pid_;  ///< Of who mapped it.
  /// A bit for each page that was prepared; it lies behind the data. Most of it is never touched.
  std::atomic<uint64_t>* const prepared_;
};

}  // namespace hpu::node
