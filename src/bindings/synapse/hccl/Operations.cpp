// SPDX-License-Identifier: Apache-2.0
// Entry points that enqueue collectives and messages.
#include "base/Format.h"
#include "bindings/synapse/hccl/Communicators.h"

using namespace hpu::synapse;
namespace collectives = hpu::collectives;

hcclResult_t hcclReduce(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                        hcclRedOp_t reduceOperation, int root, hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclReduce", comm, stream_handle, count, datatype, [&](Call& call) -> HcclResult {
    collectives::ReduceOp op;
    HCCL_RETURN_IF_ERROR(reduceOp(reduceOperation, op));
    return call.comm().reduce(address(sendbuff), address(recvbuff), call.count, call.type, op, root, call.onStream());
  });
}

hcclResult_t hcclBcast(void* buff, uint64_t count, hcclDataType_t datatype, int root, hcclComm_t comm,
                       void* stream_handle) {
  return enqueueHccl("hcclBcast", comm, stream_handle, count, datatype, [&](Call& call) -> HcclResult {
    return call.comm().broadcast(address(buff), address(buff), call.count, call.type, root, call.onStream());
  });
}

hcclResult_t hcclBroadcast(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype, int root,
                           hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclBroadcast", comm, stream_handle, count, datatype, [&](Call& call) -> HcclResult {
    return call.comm().broadcast(address(sendbuff), address(recvbuff), call.count, call.type, root, call.onStream());
  });
}

hcclResult_t hcclAllReduce(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                           hcclRedOp_t reduceOperation, hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclAllReduce", comm, stream_handle, count, datatype, [&](Call& call) -> HcclResult {
    collectives::ReduceOp op;
    HCCL_RETURN_IF_ERROR(reduceOp(reduceOperation, op));
    return call.comm().allReduce(address(sendbuff), address(recvbuff), call.count, call.type, op, call.onStream());
  });
}

hcclResult_t hcclReduceScatter(const void* sendbuff, void* recvbuff, uint64_t recvcount, hcclDataType_t datatype,
                               hcclRedOp_t reduceOperation, hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclReduceScatter", comm, stream_handle, recvcount, datatype, [&](Call& call) -> HcclResult {
    collectives::ReduceOp op;
    HCCL_RETURN_IF_ERROR(reduceOp(reduceOperation, op));
    return call.comm().reduceScatter(address(sendbuff), address(recvbuff), call.count, call.type, op, call.onStream());
  });
}

hcclResult_t hcclAllGather(const void* sendbuff, void* recvbuff, uint64_t sendcount, hcclDataType_t datatype,
                           hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclAllGather", comm, stream_handle, sendcount, datatype, [&](Call& call) -> HcclResult {
    return call.comm().allGather(address(sendbuff), address(recvbuff), call.count, call.type, call.onStream());
  });
}

hcclResult_t hcclAlltoAll(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                          hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclAlltoAll", comm, stream_handle, count, datatype, [&](Call& call) -> HcclResult {
    int ranks = call.comm().ranks();
    if (call.count % ranks != 0)
      return {hcclInvalidArgument,
              hpu::base::strCat("a count of ", count, " elements cannot be divided among ", ranks, " ranks")};
    return call.comm().allToAll(address(sendbuff), address(recvbuff), call.count / ranks, call.type, call.onStream());
  });
}

hcclResult_t hcclBarrier(hcclComm_t comm, void* stream_handle) {
  return enqueueHccl("hcclBarrier", comm, stream_handle, 0, hcclUint8,
                     [&](Call& call) -> HcclResult { return call.comm().barrier(call.onStream()); });
}

hcclResult_t hcclSend(const void* sendbuff, uint64_t count, hcclDataType_t datatype, int peer, hcclComm_t comm,
                      void* stream) {
  return enqueueHccl("hcclSend", comm, stream, count, datatype, [&](Call& call) -> HcclResult {
    return call.comm().send(address(sendbuff), call.count, call.type, peer, call.onStream());
  });
}

hcclResult_t hcclRecv(void* recvbuff, uint64_t count, hcclDataType_t datatype, int peer, hcclComm_t comm,
                      void* stream) {
  return enqueueHccl("hcclRecv", comm, stream, count, datatype, [&](Call& call) -> HcclResult {
    return call.comm().receive(address(recvbuff), call.count, call.type, peer, call.onStream());
  });
}

hcclResult_t hcclGroupStart(void) {
  return guardedHccl("hcclGroupStart", [&]() -> HcclResult { return collectives::groupStart(); });
}

hcclResult_t hcclGroupEnd(void) {
  return guardedHccl("hcclGroupEnd", [&]() -> HcclResult { return endGroup(); });
}
