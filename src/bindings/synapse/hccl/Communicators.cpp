// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/hccl/Communicators.h"

#include <utility>

#include "base/Format.h"
#include "base/PerThread.h"
#include "bindings/synapse/device/DeviceTypes.h"
#include "habanalabs/hcclx.h"

namespace hpu::synapse {

Handles<CommObject, hcclComm_t>& communicators() {
  static auto* table = [] {
    // A released device ends its communicators, as it ends its streams.
    Library::get().addReleaseHook([](const DeviceObject& device) {
      registrations().removeIf(
          [&](const Registration& registration) { return registration.object->device.get() == &device; });
      communicators().removeIf([&](const CommObject& object) { return object.device.get() == &device; });
    });
    return new Handles<CommObject, hcclComm_t>(HandleKind::kCommunicator);
  }();
  return *table;
}

Handles<Registration, void*>& registrations() {
  static auto* table = new Handles<Registration, void*>(HandleKind::kRegistration);
  return *table;
}

HcclResult deviceForRank(std::shared_ptr<DeviceObject>& device) {
  device = Library::get().deviceOfThread();
  if (device) return {};
  auto devices = Library::get().devices();
  if (devices.empty()) return {hcclNoDeviceFound, "this process has no device; call synDeviceAcquire first"};
  if (devices.size() > 1)
    return {hcclInvalidUsage, base::strCat("this process has ", devices.size(),
                                           " devices, and the calling thread has acquired none of them: "
                                           "use hcclx_CommInitRankConfig with a device, or hcclCommInitAll")};
  device = devices.front();
  return {};
}

HcclResult orDecline(HcclResult own, const collectives::UniqueId& id, int rank, int ranks) {
  if (!own.ok()) collectives::Communicator::decline(id, rank, ranks, failedPrecondition(own.text())).ignore();
  return own;
}

HcclResult keepCommunicator(const std::shared_ptr<DeviceObject>& device, collectives::Communicator comm,
                            hcclComm_t* out) {
  *out = nullptr;
  if (!comm.valid()) return {};
  auto object = std::make_shared<CommObject>();
  object->device = device;
  object->comm = std::move(comm);
  hcclComm_t handle = communicators().insert(std::move(object));
  // Released meanwhile: nobody would end it.
  if (!Library::get().owns(device)) {
    communicators().remove(handle);
    return {hcclInvalidUsage, "the communicator's device was released while it was made"};
  }
  *out = handle;
  return {};
}

HcclResult elementType(hcclDataType_t type, const CommObject& object, ElementType& out) {
  static constexpr ElementType kTypes[] = {ElementType::kI8,  ElementType::kU8,  ElementType::kI32, ElementType::kU32,
                                           ElementType::kI64, ElementType::kU64, ElementType::kF16, ElementType::kF32,
                                           ElementType::kF64, ElementType::kBF16};
  static_assert(std::size(kTypes) == hcclNumTypes);
  if (type >= 0 && type < hcclNumTypes) {
    out = kTypes[type];
  } else if (type == hcclxFloat8E4M3) {
    out = object.device->device().info().target == Target::kGaudi2 ? ElementType::kF8E4M3Ieee : ElementType::kF8E4M3;
  } else if (type == hcclxFloat8E5M2) {
    out = ElementType::kF8E5M2;
  } else {
    return {hcclInvalidArgument, base::strCat("there is no data type ", static_cast<int>(type), "; there are 0 to ",
                                              hcclNumTypes - 1, " and the fp8 types of hcclx.h")};
  }
  return {};
}

HcclResult reduceOp(hcclRedOp_t op, collectives::ReduceOp& out) {
  if (op < hcclSum || op > hcclAvg)
    return {hcclInvalidArgument, base::strCat("there is no reduction ", static_cast<int>(op),
                                              "; there are sum (0), prod (1), min (2), max (3) and avg (4)")};
  out = static_cast<collectives::ReduceOp>(op);
  return {};
}

HcclResult elementCount(uint64_t count, int64_t& out) {
  if (count > static_cast<uint64_t>(INT64_MAX) / 16)
    return {hcclInvalidArgument, base::strCat("a count of ", count, " elements is more than any device holds")};
  out = static_cast<int64_t>(count);
  return {};
}

HcclResult findCall(hcclComm_t comm, void* stream, uint64_t count, hcclDataType_t type, Call& call) {
  call.object = communicators().find(comm);
  if (!call.object) return HcclResult(communicators().missing(comm));
  auto handle = static_cast<synStreamHandle>(stream);
  call.stream = streams().find(handle);
  if (!call.stream) return {hcclInvalidArgument, streams().missing(handle).text()};
  if (call.stream->device != call.object->device)
    return {hcclInvalidArgument, base::strCat("the stream is of device ", call.stream->device->id(),
                                              " and the communicator of device ", call.object->device->id())};
  HCCL_RETURN_IF_ERROR(elementCount(count, call.count));
  HCCL_RETURN_IF_ERROR(elementType(type, *call.object, call.type));
  return notReady(*call.object);
}

HcclResult failureOf(const CommObject& object) {
  Status ready = object.comm.ready();
  if (object.comm.pending()) return {hcclBusy, ready.message()};
  ready = object.comm.ready();  // It does not change any more.
  const Status failure = ready.ok() ? object.comm.asyncError() : ready;
  if (failure.ok()) return {};
  HcclResult ofMeeting = ready.ok() ? HcclResult(failure) : ofInit(failure);
  // Ranks that differ used the communicator wrongly; no argument of one of them is wrong.
  if (failure.code() == StatusCode::kInvalidArgument) return {hcclInvalidUsage, failure.message()};
  return ofMeeting;
}

HcclResult notReady(const CommObject& object) {
  if (object.comm.ready().ok()) [[likely]]
    return {};
  return failureOf(object);
}

HcclResult ofCall(const CommObject& object, HcclResult result) {
  // Nothing but arguments of the call itself and a communicator that has failed give this.
  if (result.result() == hcclInvalidArgument && object.comm.asyncError().code() == StatusCode::kInvalidArgument)
    return {hcclInvalidUsage, result.text()};
  return result;
}

namespace {

/// The first failed call of the calling thread's group.
struct FailedCall {
  hcclResult_t result = hcclSuccess;
  std::string text;
};

/// Made beforehand, for when there is none left.
const hpu::Status* const noMemory = new hpu::Status(resourceExhausted("the host has no memory left"));

}  // namespace

hcclResult_t inGroup(hcclResult_t result) noexcept {
  if (result == hcclSuccess) [[likely]]
    return result;
  try {
    const char* words = lastHcclError();
    std::string text = words ? words : hcclGetErrorString(result);
    if (!collectives::groupFail(internalError(text))) return result;
    auto& failed = base::perThread<FailedCall>();
    if (failed.result == hcclSuccess) failed = {result, std::move(text)};
  } catch (...) {
    collectives::groupFail(*noMemory);
  }
  return result;
}

HcclResult endGroup() {
  Status ended = collectives::groupEnd();
  if (ended.ok()) return {};
  auto failed = std::exchange(base::perThread<FailedCall>(), {});
  if (failed.result == hcclSuccess) return ended;
  return {failed.result, "nothing of the group was enqueued: " + failed.text};
}

HcclResult ofInit(const Status& status) {
  if (status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kUnavailable)
    return {hcclSocketError, status.message()};
  return status;
}

}  // namespace hpu::synapse
