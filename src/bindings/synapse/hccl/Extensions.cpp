// SPDX-License-Identifier: Apache-2.0
// Entry points of hcclx.h.
#include <cstring>
#include <vector>

#include "base/Format.h"
#include "bindings/synapse/hccl/Communicators.h"
#include "bindings/synapse/hccl/UniqueIds.h"
#include "habanalabs/hcclx.h"

using namespace hpu::synapse;
namespace collectives = hpu::collectives;

namespace {

/// Fields that a program of an older header does not have are zeros.
HcclResult readConfig(const hcclx_config* given, hcclx_config& config, collectives::CommunicatorOptions& options) {
  config = {};
  if (!given) return {};
  if (given->size < sizeof(size_t) || given->size > sizeof(config))
    return {hcclInvalidArgument, hpu::base::strCat("config->size is ", given->size,
                                                   "; set it to sizeof(hcclx_config), which is ", sizeof(config))};
  std::memcpy(&config, given, given->size);
  if (config.initTimeoutMs < 0 || config.timeoutMs < 0 || config.deadlineMs < 0)
    return {hcclInvalidArgument, "a timeout of the config is negative"};
  options.blocking = config.nonBlocking == 0;
  if (config.initTimeoutMs) options.initTimeoutMs = config.initTimeoutMs;
  if (config.timeoutMs) options.timeoutMs = config.timeoutMs;
  if (config.deadlineMs) options.deadlineMs = config.deadlineMs;
  if (config.name) options.name = config.name;
  if (config.tunerTable) options.tunerTable = config.tunerTable;
  return {};
}

/// Counts or displacements of a C array, one for each rank.
HcclResult readCounts(const uint64_t* values, int ranks, std::vector<int64_t>& out) {
  out.resize(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) HCCL_RETURN_IF_ERROR(elementCount(values[i], out[static_cast<size_t>(i)]));
  return {};
}

}  // namespace

hcclResult_t hcclx_CommInitRankConfig(hcclComm_t* comm, int nranks, hcclUniqueId commId, int rank,
                                      const hcclx_config* config) {
  return guardedHccl("hcclx_CommInitRankConfig", [&]() -> HcclResult {
    HCCL_REQUIRE(comm);
    *comm = nullptr;
    collectives::UniqueId id;
    HCCL_RETURN_IF_ERROR(fromHcclId(commId, id));
    collectives::CommunicatorOptions options;
    std::shared_ptr<DeviceObject> device;
    auto read = [&]() -> HcclResult {
      hcclx_config fields;
      HCCL_RETURN_IF_ERROR(readConfig(config, fields, options));
      if (fields.device == 0) return deviceForRank(device);
      if (fields.device < 0) return {hcclInvalidArgument, "config->device is negative"};
      auto wanted = static_cast<synDeviceId>(fields.device - 1);
      device = Library::get().findDevice(wanted);
      if (!device) return {hcclNoDeviceFound, Library::get().missingDevice(wanted).text()};
      return {};
    };
    HCCL_RETURN_IF_ERROR(orDecline(read(), id, rank, nranks));
    auto made = collectives::Communicator::create(id, rank, nranks, device->device(), options);
    if (!made.ok()) return ofInit(made.status());
    return keepCommunicator(device, std::move(*made), comm);
  });
}

hcclResult_t hcclx_CommReady(hcclComm_t comm) {
  return guardedHccl("hcclx_CommReady", [&]() -> HcclResult {
    HCCL_FIND(object, comm);
    return notReady(*object);
  });
}

hcclResult_t hcclx_CommSplit(hcclComm_t comm, int color, int key, hcclComm_t* newComm, const hcclx_config* config) {
  return guardedHccl("hcclx_CommSplit", [&]() -> HcclResult {
    HCCL_REQUIRE(newComm);
    *newComm = nullptr;
    HCCL_FIND(object, comm);
    hcclx_config fields;
    collectives::CommunicatorOptions options;
    HCCL_RETURN_IF_ERROR(readConfig(config, fields, options));
    HCCL_RETURN_IF_ERROR(notReady(*object));
    auto made = object->comm.split(color, key, options);
    if (!made.ok()) return ofCall(*object, ofInit(made.status()));
    return keepCommunicator(object->device, std::move(*made), newComm);
  });
}

hcclResult_t hcclx_CommShrink(hcclComm_t comm, const int* excluded, int count, hcclComm_t* newComm,
                              const hcclx_config* config) {
  return guardedHccl("hcclx_CommShrink", [&]() -> HcclResult {
    HCCL_REQUIRE(newComm);
    *newComm = nullptr;
    HCCL_FIND(object, comm);
    if (count < 0 || count > object->comm.ranks() || (count > 0 && !excluded))
      return {hcclInvalidArgument,
              hpu::base::strCat("excluded must name `count` ranks, ", count, ", of ", object->comm.ranks())};
    hcclx_config fields;
    collectives::CommunicatorOptions options;
    HCCL_RETURN_IF_ERROR(readConfig(config, fields, options));
    HCCL_RETURN_IF_ERROR(notReady(*object));
    auto made = object->comm.shrink(std::vector<int>(excluded, excluded + count), options);
    if (!made.ok()) return ofInit(made.status());
    return keepCommunicator(object->device, std::move(*made), newComm);
  });
}

hcclResult_t hcclx_Gather(const void* sendbuff, void* recvbuff, uint64_t sendcount, hcclDataType_t datatype, int root,
                          hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_Gather", comm, stream, sendcount, datatype, [&](Call& call) -> HcclResult {
    return call.comm().gather(address(sendbuff), address(recvbuff), call.count, call.type, root, call.onStream());
  });
}

hcclResult_t hcclx_Scatter(const void* sendbuff, void* recvbuff, uint64_t recvcount, hcclDataType_t datatype, int root,
                           hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_Scatter", comm, stream, recvcount, datatype, [&](Call& call) -> HcclResult {
    return call.comm().scatter(address(sendbuff), address(recvbuff), call.count, call.type, root, call.onStream());
  });
}

hcclResult_t hcclx_AlltoAllv(const void* sendbuff, const uint64_t* sendcounts, const uint64_t* senddispls,
                             void* recvbuff, const uint64_t* recvcounts, const uint64_t* recvdispls,
                             hcclDataType_t datatype, hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_AlltoAllv", comm, stream, 0, datatype, [&](Call& call) -> HcclResult {
    HCCL_REQUIRE(sendcounts);
    HCCL_REQUIRE(senddispls);
    HCCL_REQUIRE(recvcounts);
    HCCL_REQUIRE(recvdispls);
    int ranks = call.comm().ranks();
    std::vector<int64_t> sends, sendOffsets, receives, receiveOffsets;
    HCCL_RETURN_IF_ERROR(readCounts(sendcounts, ranks, sends));
    HCCL_RETURN_IF_ERROR(readCounts(senddispls, ranks, sendOffsets));
    HCCL_RETURN_IF_ERROR(readCounts(recvcounts, ranks, receives));
    HCCL_RETURN_IF_ERROR(readCounts(recvdispls, ranks, receiveOffsets));
    return call.comm().allToAllV(address(sendbuff), sends, sendOffsets, address(recvbuff), receives, receiveOffsets,
                                 call.type, call.onStream());
  });
}

hcclResult_t hcclx_AllGatherv(const void* sendbuff, void* recvbuff, const uint64_t* recvcounts, const uint64_t* displs,
                              hcclDataType_t datatype, hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_AllGatherv", comm, stream, 0, datatype, [&](Call& call) -> HcclResult {
    HCCL_REQUIRE(recvcounts);
    HCCL_REQUIRE(displs);
    int ranks = call.comm().ranks(), rank = call.comm().rank();
    std::vector<int64_t> receives, offsets;
    HCCL_RETURN_IF_ERROR(readCounts(recvcounts, ranks, receives));
    HCCL_RETURN_IF_ERROR(readCounts(displs, ranks, offsets));
    // Everybody sends the same part to all.
    std::vector<int64_t> sends(receives.size(), receives[static_cast<size_t>(rank)]), sendOffsets(receives.size(), 0);
    return call.comm().allToAllV(address(sendbuff), sends, sendOffsets, address(recvbuff), receives, offsets, call.type,
                                 call.onStream());
  });
}

hcclResult_t hcclx_Relay(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype, int from,
                         int to, hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_Relay", comm, stream, count, datatype, [&](Call& call) -> HcclResult {
    return call.comm().relay(address(sendbuff), address(recvbuff), call.count, call.type, from, to, call.onStream());
  });
}

hcclResult_t hcclx_AllReduceScaled(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                                   hcclRedOp_t reduceOperation, double scale, hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_AllReduceScaled", comm, stream, count, datatype, [&](Call& call) -> HcclResult {
    collectives::ReduceOp op;
    HCCL_RETURN_IF_ERROR(reduceOp(reduceOperation, op));
    return call.comm().allReduceScaled(address(sendbuff), address(recvbuff), call.count, call.type, op, scale,
                                       call.onStream());
  });
}

hcclResult_t hcclx_ReduceScatterScaled(const void* sendbuff, void* recvbuff, uint64_t recvcount,
                                       hcclDataType_t datatype, hcclRedOp_t reduceOperation, double scale,
                                       hcclComm_t comm, void* stream) {
  return enqueueHccl("hcclx_ReduceScatterScaled", comm, stream, recvcount, datatype, [&](Call& call) -> HcclResult {
    collectives::ReduceOp op;
    HCCL_RETURN_IF_ERROR(reduceOp(reduceOperation, op));
    return call.comm().reduceScatterScaled(address(sendbuff), address(recvbuff), call.count, call.type, op, scale,
                                           call.onStream());
  });
}

hcclResult_t hcclx_CommRegister(hcclComm_t comm, void* buffer, uint64_t bytes, void** handle) {
  return guardedHccl("hcclx_CommRegister", [&]() -> HcclResult {
    HCCL_REQUIRE(handle);
    *handle = nullptr;
    HCCL_FIND(object, comm);
    int64_t size = 0;
    HCCL_RETURN_IF_ERROR(elementCount(bytes, size));
    hpu::StatusOr<hpu::Buffer> memory = object->device->device().find(address(buffer));
    if (!memory.ok()) return memory.status();
    if (size <= 0 || address(buffer) - memory->address() + bytes > static_cast<uint64_t>(memory->size()))
      return {hcclInvalidArgument,
              hpu::base::strCat("the allocation at the address has ", memory->size(), " bytes, not ", bytes)};
    *handle = registrations().insert(std::make_shared<Registration>(Registration{object, *memory}));
    return {};
  });
}

hcclResult_t hcclx_CommDeregister(hcclComm_t comm, void* handle) {
  return guardedHccl("hcclx_CommDeregister", [&]() -> HcclResult {
    HCCL_FIND(object, comm);
    auto registration = registrations().find(handle);
    if (!registration) return HcclResult(registrations().missing(handle));
    if (registration->object != object) return {hcclInvalidArgument, "the registration is one of another communicator"};
    registrations().remove(handle);
    return {};
  });
}

hcclResult_t hcclx_Predict(hcclComm_t comm, hcclx_collective collective, uint64_t count, hcclDataType_t datatype,
                           hcclx_prediction* prediction) {
  return guardedHccl("hcclx_Predict", [&]() -> HcclResult {
    HCCL_REQUIRE(prediction);
    HCCL_FIND(object, comm);
    if (collective < hcclxAllReduce || collective > hcclxRelay)
      return {hcclInvalidArgument, hpu::base::strCat("there is no collective ", static_cast<int>(collective))};
    hpu::ElementType type;
    int64_t elements = 0;
    HCCL_RETURN_IF_ERROR(elementType(datatype, *object, type));
    HCCL_RETURN_IF_ERROR(elementCount(count, elements));
    if (collective == hcclxAlltoAll) elements /= object->comm.ranks();
    auto known = object->comm.predict(static_cast<collectives::Operation>(collective), elements, type);
    if (!known.ok()) return known.status();
    *prediction = {};
    prediction->predictedNs = known->predictedNs;
    prediction->lowerBoundNs = known->lowerBoundNs;
    prediction->slices = known->slices;
    // One text for both, since a thread keeps one.
    size_t reason = known->algorithm.size() + 1;
    const char* texts = keepHcclText(known->algorithm + '\0' + known->reason);
    prediction->algorithm = texts;
    prediction->reason = texts + reason;
    return {};
  });
}
