// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/PeerMemory.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/Format.h"
#include "base/HostMemory.h"
#include "base/StatusMacros.h"
#include "hpu/node.h"
#include "runtime/node/Inventory.h"

namespace hpu::node {
namespace {

using base::pageBytes;

int64_t pages(int64_t bytes) {
  return (bytes + pageBytes() - 1) / pageBytes();
}
/// Bytes of a mapping: the memory, in whole pages, and a bit for each page of it.
size_t mappedBytes(int64_t bytes) {
  return static_cast<size_t>(pages(bytes) * pageBytes() + (pages(bytes) / 64 + 1) * 8);
}

constexpr int64_t kGrantMs = 10000;  // The process asks itself; only its service's thread can be late.

}  // namespace

StatusOr<std::unique_ptr<MemoryGrant>> MemoryGrant::create(int index) {
  MemoryToken token;
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return internalError("the system has no random numbers: " + base::errnoText(errno));
  HPU_ASSIGN(std::string name, identity());
  auto owner = contact(name, index);
  if (owner.status().code() == StatusCode::kNotFound)
    return failedPrecondition(base::strCat("nobody owns device ", index, ": it has no memory to hand out"));
  if (!owner.ok()) return owner.status();
  Request request = makeRequest(Operation::kGrantMemory);
  request.token = token;
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(kGrantMs));
  std::string reply;
  HPU_RETURN_IF_ERROR(ask(*owner, request, deadline, reply));
  HPU_RETURN_IF_ERROR(decodeDone(reply));
  return std::unique_ptr<MemoryGrant>(new MemoryGrant(std::move(*owner), token));
}

PeerMemory::PeerMemory(int index, Contact contact, std::byte* data, uint64_t base, int64_t bytes)
    : index_(index),
      contact_(std::move(contact)),
      data_(data),
      base_(base),
      bytes_(bytes),
      pid_(::getpid()),
      prepared_(reinterpret_cast<std::atomic<uint64_t>*>(data + pages(bytes) * pageBytes())) {}

PeerMemory::~PeerMemory() {
  // In a child something else may be there.
  if (pid_ == ::getpid()) ::munmap(data_, mappedBytes(bytes_));
}

StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::map(int index, int64_t deadlineMs, const MemoryToken& token) {
  if (index < 0 || index >= kDevices)
    return notFound(base::strCat("there is no device ", index, ": a node has devices 0 to ", kDevices - 1));
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  HPU_ASSIGN(std::string name, identity());
  auto owner = contact(name, index);
  if (owner.status().code() == StatusCode::kNotFound)
    return failedPrecondition(
        base::strCat("device ", index, " of node '", name, "' is free; it has memory only while a process owns it"));
  if (!owner.ok()) return owner.status();
  std::string reply;
  Fd file;
  Request request = makeRequest(Operation::kMapMemory);
  request.token = token;
  HPU_RETURN_IF_ERROR(ask(*owner, request, deadline, reply, &file));
  HPU_ASSIGN(MemoryReply memory, decodeMemory(reply));
  HPU_RETURN_IF_ERROR(checkSealed(file.get(), static_cast<uint64_t>(memory.bytes),
                                  base::strCat("the owner of device ", index, " (", describe(owner->owner), ")")));
  // Address space for both, then the memory into its place.
  const size_t mapped = mappedBytes(memory.bytes), bytes = static_cast<size_t>(memory.bytes);
  void* data = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED || ::mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                                   file.get(), 0) == MAP_FAILED) {
    const std::string why = base::errnoText(errno);
    if (data != MAP_FAILED) ::munmap(data, mapped);
    return resourceExhausted(
        base::strCat("cannot map the ", base::formatBytes(memory.bytes), " of device ", index, ": ", why));
  }
  // Small pages for the bits, or the system makes all of them huge ones, and clears them on a core
  // that the program wants.
  const size_t bits = static_cast<size_t>(pages(memory.bytes) * pageBytes());
  ::madvise(static_cast<std::byte*>(data) + bits, mapped - bits, MADV_NOHUGEPAGE);
  // A forked child is no peer.
  ::madvise(data, mapped, MADV_DONTFORK);
  return std::unique_ptr<PeerMemory>(
      new PeerMemory(index, std::move(*owner), static_cast<std::byte*>(data), memory.base, memory.bytes));
}

std::byte* PeerMemory::at(uint64_t address, int64_t bytes) const {
  if (bytes < 0 || address < base_ || address - base_ > static_cast<uint64_t>(bytes_) ||
      static_cast<uint64_t>(bytes) > static_cast<uint64_t>(bytes_) - (address - base_))
    return nullptr;
  return data_ + (address - base_);
}

void PeerMemory::prepare(const std::byte* data, int64_t bytes) const {
#if defined(MADV_POPULATE_WRITE)
  if (bytes <= 0) return;
  const int64_t page = pageBytes(), begin = (data - data_) / page;
  const int64_t end = (data - data_ + bytes + page - 1) / page;
  // Where it fails, page faults do it.
  auto populate = [&](int64_t first, int64_t last) {
    if (first < last) ::madvise(data_ + first * page, static_cast<size_t>((last - first) * page), MADV_POPULATE_WRITE);
  };
  int64_t missing = begin;  // From here on they are.
  for (int64_t at = begin; at < end; ++at) {
    std::atomic<uint64_t>& word = prepared_[static_cast<size_t>(at / 64)];
    const uint64_t bit = uint64_t{1} << (at % 64);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) {
      word.fetch_or(bit, std::memory_order_relaxed);
    } else {
      populate(missing, at);
      missing = at + 1;
    }
  }
  populate(missing, end);
#else
  (void)data;
  (void)bytes;
#endif
}

bool PeerMemory::alive() const {
  pollfd event{contact_.socket.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&event, 1, 0) == 0;
}

}  // namespace hpu::node
