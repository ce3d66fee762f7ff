// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/HostRegistry.h"

#include <fcntl.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "base/File.h"
#include "base/Format.h"
#include "base/MappedRange.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/driver/HostWindow.h"

namespace hpu {
namespace {

uintptr_t key(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

std::string name(const HostMemory& memory) {
  return base::strCat(memory.label.empty() ? "host memory" : base::strCat("'", memory.label, "'"), " of ", memory.bytes,
                      " bytes at ", base::formatHex(key(memory.data)));
}

}  // namespace

StatusOr<HostMemory> HostRegistry::allocate(int64_t bytes, const std::string& label) {
  if (bytes <= 0)
    return invalidArgument(base::strCat("cannot allocate ", bytes, " bytes of host memory; the size must be positive"));
  HPU_ASSIGN(HostPages pages, HostPages::create(bytes));
  return add(std::move(pages), bytes, true, label);
}

StatusOr<HostMemory> HostRegistry::import(int fd, int64_t offset, int64_t bytes, const std::string& label) {
  HPU_ASSIGN(HostPages pages, HostPages::import(fd, offset, bytes));
  return add(std::move(pages), bytes, false, label);
}

StatusOr<HostMemory> HostRegistry::add(HostPages pages, int64_t bytes, bool allocated, const std::string& label) {
  void* const data = pages.data();
  auto block = base::makeProcessOwned<HostBlock>(HostMemory{data, bytes, allocated, label, driver::windowAddress(data)},
                                                 std::move(pages));
  std::lock_guard lock(mutex_);
  // A range of the program's that was mapped here and given back to the system without unmapping
  // it.
  uintptr_t begin = key(data), end = begin + static_cast<uintptr_t>(bytes);
  for (auto next = blocks_.lower_bound(end); next != blocks_.begin();) {
    auto stale = std::prev(next);
    const HostMemory& memory = stale->second->memory();
    if (stale->first + static_cast<uintptr_t>(memory.bytes) <= begin) break;
    next = blocks_.erase(stale);
  }
  HostMemory result = block->memory();
  blocks_.emplace(begin, std::move(block));
  count_.store(blocks_.size());
  return result;
}

Status HostRegistry::free(const void* data) {
  std::shared_ptr<const HostBlock> last;  // Given back after the lock.
  std::lock_guard lock(mutex_);
  auto it = blocks_.find(key(data));
  if (it == blocks_.end() || !it->second->memory().allocated)
    return notFound(base::strCat("freeHost: ", base::formatHex(key(data)),
                                 it == blocks_.end() ? " is not the start of memory that allocateHost gave"
                                                     : " is mapped or imported memory; unmapHost lets go of it"));
  last = std::move(it->second);
  blocks_.erase(it);
  count_.store(blocks_.size());
  return okStatus();
}

Status HostRegistry::map(void* data, int64_t bytes, const std::string& label) {
  if (!data) return invalidArgument("mapHost: the host address is null");
  if (bytes <= 0 || static_cast<uintptr_t>(bytes) > UINTPTR_MAX - key(data))
    return invalidArgument(
        base::strCat("mapHost: ", bytes, " bytes at ", base::formatHex(key(data)), " are no range of memory"));
  auto block = base::makeProcessOwned<HostBlock>(HostMemory{data, bytes, false, label, 0}, HostPages());
  std::lock_guard lock(mutex_);
  uintptr_t begin = key(data), end = begin + static_cast<uintptr_t>(bytes);
  auto next = blocks_.lower_bound(end);
  if (next != blocks_.begin()) {
    const HostMemory& below = std::prev(next)->second->memory();
    if (key(below.data) + static_cast<uintptr_t>(below.bytes) > begin)
      return alreadyExists(base::strCat("mapHost: ", bytes, " bytes at ", base::formatHex(begin), " overlap ",
                                        name(below), ", which is ", below.allocated ? "allocated" : "mapped",
                                        " already"));
  }
  // A copy would fault in the middle of the range.
  if (base::mappedRange(begin, static_cast<uint64_t>(bytes)) != base::MappedRange::kMapped)
    return invalidArgument(base::strCat("mapHost: ", bytes, " bytes at ", base::formatHex(begin),
                                        " are not all memory of this process; give an address and a size within what "
                                        "it has allocated"));
  blocks_.emplace(begin, std::move(block));
  count_.store(blocks_.size());
  return okStatus();
}

Status HostRegistry::unmap(const void* data) {
  std::shared_ptr<const HostBlock> last;
  std::lock_guard lock(mutex_);
  auto it = blocks_.find(key(data));
  if (it == blocks_.end() || it->second->memory().allocated)
    return notFound(base::strCat("unmapHost: ", base::formatHex(key(data)),
                                 it == blocks_.end()
                                     ? " is not the start of memory that mapHost was given or importHost gave"
                                     : " is allocated memory; freeHost lets go of it"));
  // Further shares are made under the lock only, so a count of 1 stays 1.
  if (it->second.use_count() > 1)
    return failedPrecondition(
        base::strCat("unmapHost: enqueued work uses ", name(it->second->memory()), "; synchronize with it first"));
  last = std::move(it->second);
  blocks_.erase(it);
  count_.store(blocks_.size());
  return okStatus();
}

HostRegistry::Blocks::const_iterator HostRegistry::containing(uintptr_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  auto it = std::prev(next);
  return address - it->first < static_cast<uintptr_t>(it->second->memory().bytes) ? it : blocks_.end();
}

StatusOr<HostMemory> HostRegistry::find(const void* data) const {
  std::lock_guard lock(mutex_);
  auto it = containing(key(data));
  if (it == blocks_.end())
    return notFound(base::strCat("no host memory that the device knows contains ", base::formatHex(key(data))));
  return it->second->memory();
}

StatusOr<HostRegistry::Exported> HostRegistry::share(const void* data) const {
  std::lock_guard lock(mutex_);
  auto it = containing(key(data));
  if (it == blocks_.end())
    return notFound(
        base::strCat("exportHost: no host memory that the device knows contains ", base::formatHex(key(data))));
  const HostBlock& block = *it->second;
  if (!block.isWhole())
    return unimplemented(base::strCat("exportHost: ", name(block.memory()),
                                      " is the program's own, mapped by mapHost, and has no file; share memory of "
                                      "allocateHost or importHost"));
  if (block.pages().file() < 0)
    return resourceExhausted(base::strCat("exportHost: ", name(block.memory()), " has no file: ", HostPages::kMostFiles,
                                          " blocks of the process had one already, or no descriptor was left, when it "
                                          "was made; free some of them, and make it again"));
  Exported result{::fcntl(block.pages().file(), F_DUPFD_CLOEXEC, 0), block.pages().offset(), block.memory().bytes};
  if (result.fd < 0)
    return resourceExhausted(base::strCat("exportHost: cannot copy a file descriptor: ", base::errnoText(errno)));
  return result;
}

StatusOr<std::shared_ptr<const HostBlock>> HostRegistry::use(const void* data, int64_t bytes,
                                                             std::string_view what) const {
  std::shared_ptr<const HostBlock> block;
  if (count_.load(std::memory_order_relaxed) == 0 || bytes <= 0) return block;
  std::lock_guard lock(mutex_);
  auto it = containing(key(data));
  if (it == blocks_.end()) return block;
  const HostMemory& memory = it->second->memory();
  if (it->second->isWhole() && bytes > memory.bytes - static_cast<int64_t>(key(data) - it->first))
    return outOfRange(
        base::strCat(what, ": ", bytes, " bytes at ", base::formatHex(key(data)), " pass the end of ", name(memory)));
  block = it->second;
  return block;
}

StatusOr<std::shared_ptr<const HostBlock>> HostRegistry::useAddress(uint64_t address, int64_t bytes,
                                                                    std::string_view what) const {
  std::lock_guard lock(mutex_);
  auto it = containing(key(driver::windowPointer(address)));
  if (it == blocks_.end())
    return notFound(base::strCat(what, ": ", base::formatHex(address),
                                 " is a device address of host memory, and no memory of allocateHost or importHost "
                                 "that is still the program's contains it"));
  const HostMemory& memory = it->second->memory();
  if (memory.deviceAddress == 0)
    return notFound(base::strCat(what, ": ", base::formatHex(address), " would be in ", name(memory),
                                 ", which the device cannot reach: mapHost was given it; use memory of allocateHost or "
                                 "importHost"));
  if (bytes < 0 || bytes > memory.bytes - static_cast<int64_t>(address - memory.deviceAddress))
    return outOfRange(base::strCat(what, ": ", bytes, " bytes at ", base::formatHex(address), " pass the end of ",
                                   name(memory), ", whose device address is ", base::formatHex(memory.deviceAddress)));
  return it->second;
}

}  // namespace hpu
