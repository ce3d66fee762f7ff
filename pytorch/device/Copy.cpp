// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/Copy.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/device/StridedRuns.h"
#include "pytorch/record/Recorder.h"

namespace hpu_torch {
namespace {

/// Host memory up to this size is copied aside so that its owner need not wait.
constexpr int64_t kStagedBytes = 64 << 10;
constexpr int64_t kFewRuns = 16;
/// Ranges that are enqueued as one piece of work.
constexpr size_t kRangesAtOnce = 65536;

bool isHpu(const at::Tensor& tensor) {
  return tensor.device().is_hpu();
}
uint64_t addressOf(const at::Tensor& tensor) {
  return deviceAddress(tensor.storage().data()) +
         static_cast<uint64_t>(tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()));
}
int64_t bytesOf(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.itemsize());
}
/// From the first element to the last one, in elements; not of an empty tensor.
int64_t spanOf(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return last + 1;
}
bool isDense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense();
}
bool haveSameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}
/// Element for element at the same places of two pieces of memory.
bool areAlike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && haveSameBits(a, b) && isDense(a) &&
         isDense(b) && (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}
/// Lazily negated and conjugated views show the same bytes with another sign.
at::Tensor withBitsOf(at::Tensor host, const at::Tensor& of) {
  host._set_conj(of.is_conj());
  host._set_neg(of.is_neg());
  return host;
}
at::TensorOptions hostOptions(const at::Tensor& tensor) {
  return at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU);
}

void enqueueRuns(hpu::Stream& stream, hpu::CopyDirection direction, uint64_t dst, uint64_t src, int64_t itemBytes,
                 const RunPlan& plan) {
  std::vector<hpu::CopyRange> ranges;
  ranges.reserve(std::min<size_t>(plan.runs, kRangesAtOnce));
  auto flush = [&] {
    check(stream.copyMany(direction, ranges), "copying a strided tensor");
    ranges.clear();
  };
  forEachRun(plan, [&](int64_t dstAt, int64_t srcAt) {
    ranges.push_back({dst + static_cast<uint64_t>(dstAt * itemBytes), src + static_cast<uint64_t>(srcAt * itemBytes),
                      plan.runElements * itemBytes});
    if (ranges.size() == kRangesAtOnce) flush();
  });
  if (!ranges.empty()) flush();
}

/// The returned tensor has the values when the current stream of the device has come there.
at::Tensor enqueueDownload(const at::Tensor& tensor) {
  if (tensor.numel() == 0)
    return withBitsOf(at::empty_strided(tensor.sizes(), tensor.strides(), hostOptions(tensor)), tensor);
  flushStorage(tensor.storage(), "copy to the host");
  OpenDevice& device = open(tensor.device().index());
  hpu::Stream& stream = currentStream(device);
  const auto itemBytes = static_cast<int64_t>(tensor.itemsize());
  const int64_t span = spanOf(tensor);
  ++copyCounters().toHost;
  if (span <= 4 * tensor.numel() + 1024) {  // Gaps are cheaper to copy than to leave out.
    at::Tensor host = at::empty({span}, hostOptions(tensor));
    check(stream.copyToHost(host.data_ptr(), addressOf(tensor), span * itemBytes), "copying to the host");
    return withBitsOf(host.as_strided(tensor.sizes(), tensor.strides()), tensor);
  }
  at::Tensor host = at::empty(tensor.sizes(), hostOptions(tensor));
  enqueueRuns(stream, hpu::CopyDirection::kToHost, reinterpret_cast<uint64_t>(host.data_ptr()), addressOf(tensor),
              itemBytes, planRuns(tensor.sizes(), host.strides(), tensor.strides()));
  return withBitsOf(host, tensor);
}

/// Enqueues the copy of `host` (of dst's sizes and type) and returns the host tensor that is read by it.
at::Tensor enqueueUpload(const at::Tensor& host, const at::Tensor& dst) {
  flushStorage(dst.storage(), "copy from the host");
  OpenDevice& device = open(dst.device().index());
  hpu::Stream& stream = currentStream(device);
  ++copyCounters().toDevice;
  if (isDense(dst)) {
    at::Tensor laidOut = host;
    if (!areAlike(host, dst)) {
      laidOut = withBitsOf(at::empty_strided(dst.sizes(), dst.strides(), hostOptions(dst)), dst);
      laidOut.copy_(host);
    }
    check(stream.copyToDevice(addressOf(dst), laidOut.data_ptr(), bytesOf(dst)), "copying to the device");
    return laidOut;
  }
  // What lies between the elements may be another stream's, so nothing but the elements is written.
  at::Tensor laidOut =
      haveSameBits(host, dst) ? host.contiguous() : withBitsOf(at::empty(dst.sizes(), hostOptions(dst)), dst);
  if (!haveSameBits(host, dst)) laidOut.copy_(host);
  enqueueRuns(stream, hpu::CopyDirection::kToDevice, addressOf(dst), reinterpret_cast<uint64_t>(laidOut.data_ptr()),
              static_cast<int64_t>(dst.itemsize()), planRuns(dst.sizes(), dst.strides(), laidOut.strides()));
  return laidOut;
}

void keepUntilCopied(const at::Tensor& host, const at::Tensor& dst) {
  OpenDevice& device = open(dst.device().index());
  device.streams->keepUntilDone(currentStreamId(device.index), std::make_shared<at::Tensor>(host),
                                static_cast<int64_t>(host.storage().nbytes()));
}
void waitFor(const at::Tensor& tensor) {
  OpenDevice& device = open(tensor.device().index());
  device.streams->synchronize(currentStreamId(device.index));
}

void copyToDevice(const at::Tensor& src, const at::Tensor& dst, bool nonBlocking) {
  const bool isOurs = src.scalar_type() != dst.scalar_type();
  if (isOurs) return uploadOwned(src.to(dst.scalar_type()), dst);
  const bool isAsync = nonBlocking && isPinned(src.storage().data());
  if (!isAsync && (nonBlocking || bytesOf(src) <= kStagedBytes)) {
    at::Tensor staged = isDense(dst) ? at::empty_strided(dst.sizes(), dst.strides(), hostOptions(dst))
                                     : at::empty(dst.sizes(), hostOptions(dst));
    return uploadOwned(withBitsOf(staged, dst).copy_(src), dst);
  }
  at::Tensor read = enqueueUpload(src, dst);
  if (isAsync || !read.is_alias_of(src)) return keepUntilCopied(read, dst);
  waitFor(dst);
}

void copyToHost(const at::Tensor& src, const at::Tensor& dst, bool nonBlocking) {
  if (!areAlike(src, dst)) {
    dst.copy_(toHost(src));
    return;
  }
  flushStorage(src.storage(), "copy to the host");
  hpu::Stream& stream = currentStream(open(src.device().index()));
  ++copyCounters().toHost;
  check(stream.copyToHost(dst.data_ptr(), addressOf(src), bytesOf(src)), "copying to the host");
  if (nonBlocking && isPinned(dst.storage().data())) return keepUntilCopied(dst, src);
  waitFor(src);
}

void copyOnDevice(const at::Tensor& src, const at::Tensor& dst) {
  if (isRecording(dst.device().index()) && recordCopy(src, dst)) {
    ++copyCounters().onDevice;
    return;
  }
  flushStorage(src.storage(), "copy");
  flushStorage(dst.storage(), "copy");
  hpu::Stream& stream = currentStream(open(dst.device().index()));
  const bool mayMeet = src.storage().unsafeGetStorageImpl() == dst.storage().unsafeGetStorageImpl() &&
                       at::get_overlap_status(src, dst) != at::MemOverlapStatus::No;
  ++copyCounters().onDevice;
  if (!mayMeet && areAlike(src, dst)) {
    check(stream.copyOnDevice(addressOf(dst), addressOf(src), bytesOf(dst)), "copying on the device");
    return;
  }
  // Each run is an operation of its own: a graph for all of them costs less, where the device has one for the type.
  const bool areRuns = !mayMeet && src.scalar_type() == dst.scalar_type() && haveSameBits(src, dst);
  const RunPlan plan = areRuns ? planRuns(dst.sizes(), dst.strides(), src.strides()) : RunPlan();
  auto copyRuns = [&] {
    enqueueRuns(stream, hpu::CopyDirection::kOnDevice, addressOf(dst), addressOf(src),
                static_cast<int64_t>(dst.itemsize()), plan);
  };
  if (areRuns && plan.runs <= kFewRuns) return copyRuns();
  if (recordCopy(src, dst)) return;
  if (areRuns && (plan.runs <= 1024 || plan.runElements * static_cast<int64_t>(dst.itemsize()) >= 256))
    return copyRuns();
  // Types that the device does not compute, and signs, through host memory.
  ++copyCounters().overHost;
  at::Tensor host = toHost(src);
  uploadOwned(host.scalar_type() == dst.scalar_type() ? host : host.to(dst.scalar_type()), dst);
}

void copyBetweenDevices(const at::Tensor& src, const at::Tensor& dst) {
  at::Tensor from = src;
  if (!isDense(src)) {
    c10::DeviceGuard guard(src.device());
    from = at::empty(src.sizes(), src.options());
    copyOnDevice(src, withBitsOf(from, src));
  }
  at::Tensor to = dst;
  if (!areAlike(from, dst)) {
    c10::DeviceGuard guard(dst.device());
    to = withBitsOf(at::empty_strided(from.sizes(), from.strides(), from.options().device(dst.device())), from);
  }
  flushStorage(from.storage(), "copy");
  flushStorage(to.storage(), "copy");
  OpenDevice &source = open(src.device().index()), &target = open(dst.device().index());
  hpu::Stream &reads = currentStream(source), &writes = currentStream(target);
  // Both ways: what the source's stream does next may use the memory again.
  hpu::Event written, copied;
  check(reads.record(written), "recording an event");
  check(writes.wait(written), "waiting for an event");
  hpu::Buffer fromBuffer = take(source.device.find(addressOf(from)), "copying between devices");
  hpu::Buffer toBuffer = take(target.device.find(addressOf(to)), "copying between devices");
  check(writes.copyFromDevice(toBuffer, static_cast<int64_t>(addressOf(to) - toBuffer.address()), fromBuffer,
                              static_cast<int64_t>(addressOf(from) - fromBuffer.address()), bytesOf(from)),
        "copying between devices");
  check(writes.record(copied), "recording an event");
  check(reads.wait(copied), "waiting for an event");
  ++copyCounters().betweenDevices;
  if (!to.is_same(dst)) copyOnDevice(to, dst);
}

}  // namespace

CopyCounters& copyCounters() {
  static CopyCounters& counters = *new CopyCounters;
  return counters;
}

void copyValues(const at::Tensor& source, const at::Tensor& dst, bool nonBlocking) {
  TORCH_CHECK(source.layout() == at::kStrided && dst.layout() == at::kStrided, "copying between ", source.device(),
              " (", source.layout(), ") and ", dst.device(), " (", dst.layout(),
              "): hpu devices have dense tensors only");
  TORCH_CHECK((isHpu(source) || source.device().is_cpu()) && (isHpu(dst) || dst.device().is_cpu()), "copying from ",
              source.device(), " to ", dst.device(),
              ": one side must be on an hpu device, the other there or on the CPU");
  if (source.is_same(dst)) return;
  const at::Tensor src = source.sizes() == dst.sizes() ? source : source.expand(dst.sizes());
  if (dst.numel() == 0) return;
  at::assert_no_internal_overlap(dst);
  if (!isHpu(src)) return copyToDevice(src, dst, nonBlocking);
  if (!isHpu(dst)) return copyToHost(src, dst, nonBlocking);
  if (src.device() != dst.device()) return copyBetweenDevices(src, dst);
  at::assert_no_partial_overlap(dst, src);
  if (at::get_overlap_status(src, dst) == at::MemOverlapStatus::Full && areAlike(src, dst)) return;
  copyOnDevice(src, dst);
}

std::vector<at::Tensor> toHost(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> host;
  host.reserve(tensors.size());
  bool waits[kMaxDevices] = {};
  for (const at::Tensor& tensor : tensors) {
    host.push_back(enqueueDownload(tensor));
    if (tensor.numel() > 0) waits[tensor.device().index()] = true;
  }
  for (c10::DeviceIndex i = 0; i < kMaxDevices; ++i)
    if (waits[i]) open(i).streams->synchronize(currentStreamId(i));
  return host;
}
at::Tensor toHost(const at::Tensor& tensor) {
  return toHost(std::vector<at::Tensor>{tensor})[0];
}

at::Storage storageToHost(const c10::Storage& storage, int64_t begin, int64_t end) {
  at::Tensor host = at::empty({end - begin}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  flushStorage(storage, "copy to the host");
  OpenDevice& device = open(storage.device().index());
  ++copyCounters().toHost;
  check(currentStream(device).copyToHost(host.data_ptr(), deviceAddress(storage.data()) + begin, end - begin),
        "copying to the host");
  device.streams->synchronize(currentStreamId(device.index));
  return host.storage();
}

void uploadOwned(const at::Tensor& host, const at::Tensor& dst) {
  if (dst.numel() > 0) keepUntilCopied(enqueueUpload(host, dst), dst);
}

at::Tensor toDevice(const at::Tensor& host, c10::Device device) {
  c10::DeviceGuard guard(device);
  const at::TensorOptions options = at::TensorOptions().dtype(host.scalar_type()).device(device);
  at::Tensor dst =
      isDense(host) ? at::empty_strided(host.sizes(), host.strides(), options) : at::empty(host.sizes(), options);
  uploadOwned(host, dst);
  return dst;
}

void fillValues(const at::Tensor& dst, const at::Scalar& value) {
  const at::Tensor one = at::empty({}, hostOptions(dst)).fill_(value);
  if (dst.numel() == 0) return;
  at::assert_no_internal_overlap(dst);
  if (isRecording(dst.device().index()) && recordFill(dst, value)) return;
  flushStorage(dst.storage(), "fill");
  const auto itemBytes = static_cast<int64_t>(dst.itemsize());
  hpu::Stream& stream = currentStream(open(dst.device().index()));
  // The device repeats patterns of 1, 2 and 4 bytes; longer ones where their words are equal, as those of 0 are.
  uint32_t words[4] = {};
  std::memcpy(words, one.data_ptr(), itemBytes);
  bool isPattern = true;
  for (int64_t i = 1; i < itemBytes / 4; ++i) isPattern = isPattern && words[i] == words[0];
  const int patternBytes = static_cast<int>(std::min<int64_t>(itemBytes, 4));
  auto fillAt = [&](uint64_t address, int64_t bytes) {
    check(stream.fill(address, words[0], patternBytes, bytes / patternBytes), "filling a tensor");
  };
  if (isPattern && isDense(dst)) return fillAt(addressOf(dst), bytesOf(dst));
  if (isPattern) {
    const RunPlan plan = planRuns(dst.sizes(), dst.strides(), dst.strides());
    if (plan.runs <= kFewRuns)
      return forEachRun(plan, [&](int64_t at, int64_t) {
        fillAt(addressOf(dst) + static_cast<uint64_t>(at * itemBytes), plan.runElements * itemBytes);
      });
  }
  if (!recordFill(dst, value)) uploadOwned(one.expand(dst.sizes()), dst);
}

}  // namespace hpu_torch
