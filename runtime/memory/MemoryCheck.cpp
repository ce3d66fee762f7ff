// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/MemoryCheck.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "base/Format.h"

namespace hpu {

MemoryCheck::MemoryCheck(int64_t quarantineLimit) : quarantineLimit_(quarantineLimit) {}

MemoryCheck::Moment MemoryCheck::now() {
  return {Clock::now(), static_cast<int64_t>(::gettid())};
}

void MemoryCheck::allocated(uint64_t address, int64_t bytes, const std::string& label) {
  live_.insert_or_assign(address, Record{address, bytes, label, ++count_, now(), {}});
}

void MemoryCheck::freed(uint64_t address) {
  auto it = live_.find(address);
  if (it == live_.end()) return;
  Record record = std::move(it->second);
  live_.erase(it);
  record.freed = now();
  dead_.push_back(std::move(record));
  if (dead_.size() > kHistory) dead_.pop_front();
}

std::string MemoryCheck::text(const Moment& moment) const {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.6f s by thread %lld",
                std::chrono::duration<double>(moment.time - opened_).count(), static_cast<long long>(moment.thread));
  return buffer;
}

std::string MemoryCheck::text(const Record& record) const {
  return base::strCat("allocation ", record.number, " ",
                      record.label.empty() ? "(no label)" : base::strCat("'", record.label, "'"), " of ", record.bytes,
                      " bytes at ", base::formatHex(record.address), ", allocated at ", text(record.allocated));
}

Status MemoryCheck::explain(uint64_t address, int64_t bytes, std::string_view what) const {
  std::string access = base::strCat(what, ": ", base::formatHex(address));
  if (bytes != 0) access = base::strCat(what, ": ", bytes, " bytes at ", base::formatHex(address));
  const Record* below = nullptr;
  if (auto next = live_.upper_bound(address); next != live_.begin()) below = &std::prev(next)->second;
  auto contains = [&](const Record& record) {
    return address >= record.address && address - record.address < static_cast<uint64_t>(record.bytes);
  };
  if (below && contains(*below)) {
    int64_t left = below->bytes - static_cast<int64_t>(address - below->address);
    return outOfRange(
        base::strCat("out of bounds: ", access, " pass the end of ", text(*below), " by ", bytes - left, " bytes"));
  }
  auto dead = std::find_if(dead_.rbegin(), dead_.rend(), contains);
  if (dead != dead_.rend())
    return notFound(base::strCat("use after free: ", access, bytes == 0 ? " lies " : " lie ", address - dead->address,
                                 " bytes into ", text(*dead), ", freed at ", text(dead->freed)));
  if (below && address - below->address - static_cast<uint64_t>(below->bytes) < kOverrun)
    return outOfRange(base::strCat("out of bounds: ", access, " begin ",
                                   address - below->address - static_cast<uint64_t>(below->bytes),
                                   " bytes behind the end of ", text(*below)));
  return notFound(base::strCat("wild address: ", access, " were never allocated, as far as is remembered",
                               below ? "; the next allocation below is " + text(*below) : ""));
}

std::vector<MemoryCheck::Block> MemoryCheck::quarantine(Block block) {
  quarantine_.push_back(block);
  quarantinedBytes_ += block.bytes;
  std::vector<Block> out;
  while (quarantinedBytes_ > quarantineLimit_) {
    out.push_back(quarantine_.front());
    quarantinedBytes_ -= quarantine_.front().bytes;
    quarantine_.pop_front();
  }
  return out;
}

std::vector<MemoryCheck::Block> MemoryCheck::release() {
  std::vector<Block> out(quarantine_.begin(), quarantine_.end());
  quarantine_.clear();
  quarantinedBytes_ = 0;
  return out;
}

}  // namespace hpu
