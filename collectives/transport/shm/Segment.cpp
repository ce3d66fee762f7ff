// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::shm {
namespace {

std::atomic<uint32_t> forks{0};

void countForks() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

StatusOr<std::byte*> mapFile(int file, uint64_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED)
    return resourceExhausted(base::strCat("cannot map the ", base::formatBytes(static_cast<int64_t>(bytes)),
                                          " that the ranks of a communicator share: ", base::errnoText(errno)));
  // A forked child is no rank, and must not hold the memory of a parent that is gone.
  ::madvise(data, bytes, MADV_DONTFORK);
  countForks();
  return static_cast<std::byte*>(data);
}

}  // namespace

uint32_t forkGeneration() {
  return forks.load(std::memory_order_relaxed);
}

Segment::Segment(std::byte* data, int ranks, const SegmentId& id)
    : data_(data), geometry_(ranks), id_(id), generation_(forkGeneration()) {}

Segment::~Segment() {
  // In a child something else may be there.
  if (generation_ == forkGeneration()) ::munmap(data_, geometry_.total());
}

StatusOr<std::shared_ptr<Segment>> Segment::create(int ranks, node::Fd& file) {
  const uint64_t bytes = Geometry(ranks).total();
  node::Fd created(::memfd_create("hpu-communicator", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!created.valid() || ::ftruncate(created.get(), static_cast<off_t>(bytes)) != 0)
    return resourceExhausted("cannot create the memory that the ranks of a communicator share: " +
                             base::errnoText(errno));
  // No rank can take it away under the others.
  ::fcntl(created.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  auto data = mapFile(created.get(), bytes);
  if (!data.ok()) return data.status();
  SegmentId id{};
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    ::munmap(*data, bytes);
    return internalError("the system has no random numbers: " + base::errnoText(errno));
  }
  std::shared_ptr<Segment> segment(new Segment(*data, ranks, id));
  Header& header = segment->header();
  header.magic = kMagic;
  header.version = kVersion;
  header.ranks = static_cast<uint64_t>(ranks);
  header.bytes = bytes;
  std::memcpy(header.id, id.data(), id.size());
  file = std::move(created);
  return segment;
}

StatusOr<std::shared_ptr<Segment>> Segment::map(node::Fd file, int ranks, const SegmentId& id) {
  const uint64_t bytes = Geometry(ranks).total();
  HPU_RETURN_IF_ERROR(node::checkSealed(file.get(), bytes, "rank 0"));
  struct stat info{};
  if (!file.valid() || ::fstat(file.get(), &info) != 0 || static_cast<uint64_t>(info.st_size) != bytes)
    return dataLoss(base::strCat("rank 0 shares memory of another size than ", ranks,
                                 " ranks need; use one version of OpenHPU on a node"));
  auto data = mapFile(file.get(), bytes);
  if (!data.ok()) return data.status();
  std::shared_ptr<Segment> segment(new Segment(*data, ranks, id));
  const Header& header = segment->header();
  if (header.magic != kMagic || header.version != kVersion || header.ranks != static_cast<uint64_t>(ranks) ||
      header.bytes != bytes || std::memcmp(header.id, id.data(), id.size()) != 0)
    return dataLoss(
        "rank 0 shares the memory of another communicator or version; use one version of OpenHPU "
        "on a node");
  return segment;
}

void Segment::ringAll(int except, bool urgent) const {
  for (int rank = 0; rank < ranks(); ++rank)
    if (rank != except) ring(rank, urgent);
}

bool Segment::end(int rank, RankState state) const {
  auto expected = static_cast<uint32_t>(RankState::kPresent);
  return block(rank).state.compare_exchange_strong(expected, static_cast<uint32_t>(state), std::memory_order_acq_rel);
}

}  // namespace hpu::collectives::shm
