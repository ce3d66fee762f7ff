// SPDX-License-Identifier: Apache-2.0
// Communicators: the handles of HCCL's C API and what the entry points look up for a call.
#pragma once

#include <memory>
#include <string>

#include "bindings/synapse/api/Handles.h"
#include "bindings/synapse/api/Library.h"
#include "bindings/synapse/hccl/HcclResult.h"
#include "habanalabs/hccl.h"
#include "hpu/collectives.h"
#include "hpu/memory.h"
#include "hpu/stream.h"

namespace hpu::synapse {

struct CommObject {
  std::shared_ptr<DeviceObject> device;
  collectives::Communicator comm;
};

Handles<CommObject, hcclComm_t>& communicators();

/// The device of a new rank: the one that the calling thread acquired last, else the only one of
/// the process. Errors: hcclNoDeviceFound, hcclInvalidUsage (several, none of them this thread's).
HcclResult deviceForRank(std::shared_ptr<DeviceObject>& device);
/// A rank that fails on its own before it meets the others tells them why; gives `own` back.
HcclResult orDecline(HcclResult own, const collectives::UniqueId& id, int rank, int ranks);
/// Gives the handle of a communicator that was made; null for one that is not valid.
HcclResult keepCommunicator(const std::shared_ptr<DeviceObject>& device, collectives::Communicator comm,
                            hcclComm_t* out);

/// The element type of `type` on the communicator's device. Errors: hcclInvalidArgument.
HcclResult elementType(hcclDataType_t type, const CommObject& object, ElementType& out);
HcclResult reduceOp(hcclRedOp_t op, collectives::ReduceOp& out);
/// Errors: hcclInvalidArgument (more than a device can hold).
HcclResult elementCount(uint64_t count, int64_t& out);

/// Memory that hcclx_CommRegister was given; it stays allocated until then.
struct Registration {
  std::shared_ptr<CommObject> object;
  hpu::Buffer buffer;
};
Handles<Registration, void*>& registrations();

/// Why calls on the communicator fail, whichever call says so: hcclBusy while it is being made,
/// hcclSocketError when its ranks did not meet, hcclInvalidUsage after ranks called different
/// things. Success when they need not.
HcclResult failureOf(const CommObject& object);
/// The same when it is not ready; else success, whatever has happened since.
HcclResult notReady(const CommObject& object);
/// What a call on the communicator gave: its failure has one result, as failureOf says.
HcclResult ofCall(const CommObject& object, HcclResult result);

/// What all operations on a stream look up.
struct Call {
  std::shared_ptr<CommObject> object;
  std::shared_ptr<StreamObject> stream;
  ElementType type = ElementType::kInvalid;
  int64_t count = 0;
  collectives::Communicator& comm() { return object->comm; }
  const hpu::Stream& onStream() const { return stream->stream; }
};
HcclResult findCall(hcclComm_t comm, void* stream, uint64_t count, hcclDataType_t type, Call& call);

/// When the calling thread has a group: it ends with this failed call, and with nothing enqueued.
/// `result` is handed on.
hcclResult_t inGroup(hcclResult_t result) noexcept;
/// guardedHccl for what enqueues: `body(call)` of what findCall finds.
template <typename Body>
hcclResult_t enqueueHccl(const char* function, hcclComm_t comm, void* stream, uint64_t count, hcclDataType_t type,
                         Body&& body) noexcept {
  return inGroup(guardedHccl(function, [&]() -> HcclResult {
    Call call;
    HcclResult found = findCall(comm, stream, count, type, call);
    return found.ok() ? ofCall(*call.object, body(call)) : found;
  }));
}
/// The end of the calling thread's group: the result of its first failed call, when it has one.
HcclResult endGroup();

inline uint64_t address(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

/// In an init, ranks that did not meet are a matter of sockets.
HcclResult ofInit(const Status& status);

}  // namespace hpu::synapse

/// As HPU_RETURN_IF_ERROR for a HcclResult.
#define HCCL_RETURN_IF_ERROR(expression)                   \
  do {                                                     \
    ::hpu::synapse::HcclResult hccl_result = (expression); \
    if (!hccl_result.ok()) return hccl_result;             \
  } while (false)

/// `HCCL_FIND(object, comm)`: a std::shared_ptr<CommObject>, or the body's end.
#define HCCL_FIND(name, comm)                             \
  auto name = ::hpu::synapse::communicators().find(comm); \
  if (!name) return ::hpu::synapse::HcclResult(::hpu::synapse::communicators().missing(comm))
