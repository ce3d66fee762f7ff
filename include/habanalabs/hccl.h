// SPDX-License-Identifier: Apache-2.0
// HCCL's C API: collective communication among HPUs. libSynapse.so has all of it.
// The one thing to know: collectives only enqueue on the stream; every rank makes the same calls in the same order.
// The result of
// a call is about the call; failures of the work come from the stream's next wait and from hcclCommGetAsyncError.
//
//   hcclUniqueId id;                                   // rank 0: hcclGetUniqueId(&id), and sends it to the others
//   hcclComm_t comm;
//   hcclCommInitRank(&comm, ranks, id, rank);          // after synDeviceAcquire
//   hcclAllReduce((const void*)in, (void*)out, count, hcclFloat32, hcclSum, comm, stream);
//   synStreamSynchronize(stream);
//
// Buffers are device addresses as pointers, streams are synStreamHandle. Any thread may call anything. Extensions:
// hcclx.h.
#ifndef HABANALABS_HCCL_H
#define HABANALABS_HCCL_H

#include "hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* 2604 for 2.6.4, the level of the interface. */
#define HCCL_MAJOR 2
#define HCCL_MINOR 6
#define HCCL_PATCH 4
#define HCCL_VERSION_CODE (HCCL_MAJOR * 1000 + HCCL_MINOR * 100 + HCCL_PATCH)

hcclResult_t hcclGetVersion(int* version);

/* Starts a coordinator in this process. With HCCL_COMM_ID=ip:port the first communicator meets there, whatever the id
 * says, and ranks other than 0 may pass a zeroed one. Errors: hcclSocketError, hcclInvalidArgument. */
hcclResult_t hcclGetUniqueId(hcclUniqueId* uniqueId);

/* Waits until all `nranks` ranks have called it (HPU_COMM_INIT_TIMEOUT_MS). The rank's device is the one that the
 * calling thread acquired last, else the process's. Errors: hcclNoDeviceFound, hcclInvalidArgument, hcclSocketError
 * (names the ranks that are missing). */
hcclResult_t hcclCommInitRank(hcclComm_t* comm, int nranks, hcclUniqueId commId, int rank);
/* A communicator of `ndev` devices of this process: comm[i] is rank i on the device with id devlist[i] (null: 0, 1,
 * ...), as synDeviceAcquire gave it. */
hcclResult_t hcclCommInitAll(hcclComm_t* comm, int ndev, const int* devlist);
/* Waits until what was enqueued is done on all ranks. */
hcclResult_t hcclCommFinalize(hcclComm_t comm);
/* Lets the communicator go and returns at once; work that is enqueued goes on (hcclCommFinalize waits for it). The
 * handle is dead afterwards in any case. */
hcclResult_t hcclCommDestroy(hcclComm_t comm);
/* Ends everything in progress and lets the communicator go. Returns at once, from any thread; peers get an error that
 * names this rank. */
hcclResult_t hcclCommAbort(hcclComm_t comm);

/* What a result means, in a few words. Never null. */
const char* hcclGetErrorString(hcclResult_t result);
/* Why the calling thread's last failed call failed; null when none has. Valid until the thread's next call. */
const char* hcclGetLastErrorMessage(void);
/* The first failure of the communicator's work or of a peer; hcclSuccess when there was none, hcclBusy
 * while the communicator is being made. Later calls on a communicator that has failed give the same result. */
hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* asyncError);
/* Its message, of any communicator for null; null when there is none. Valid until the thread's next call. */
const char* hcclCommGetAsyncErrorMessage(hcclComm_t comm);

hcclResult_t hcclCommCount(hcclComm_t comm, int* count);
/* The device's id as synDeviceAcquire gave it. */
hcclResult_t hcclCommSynDevice(hcclComm_t comm, int* device);
hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank);

/* A file descriptor for the device memory [addr, addr + size) of this process (a memfd of the whole memory, the
 * caller's to close). Returns 0, or -1 (hcclGetLastErrorMessage says why). */
int hcclLookupDMABuff(uint64_t addr, uint64_t size, int* fd);
/* Kept for programs that call it: devices are ready once they are acquired. `device` may be null. */
hcclResult_t hcclDeviceInit(void* device, void* context);

/* Counts are elements: of the whole buffer for reduce, broadcast and all-reduce; of one rank's output for
 * reduce-scatter; of one rank's input for all-gather; of all that one rank sends for all-to-all (divisible by the
 * number of ranks). In place: the same start; reduce-scatter: recvbuff is the rank's part of sendbuff; all-gather:
 * sendbuff is the rank's part of recvbuff; never all-to-all. */
hcclResult_t hcclReduce(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                        hcclRedOp_t reduceOp, int root, hcclComm_t comm, void* stream_handle);
hcclResult_t hcclBcast(void* buff, uint64_t count, hcclDataType_t datatype, int root, hcclComm_t comm,
                       void* stream_handle);
hcclResult_t hcclBroadcast(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype, int root,
                           hcclComm_t comm, void* stream_handle);
hcclResult_t hcclAllReduce(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                           hcclRedOp_t reduceOp, hcclComm_t comm, void* stream_handle);
hcclResult_t hcclReduceScatter(const void* sendbuff, void* recvbuff, uint64_t recvcount, hcclDataType_t datatype,
                               hcclRedOp_t reduceOp, hcclComm_t comm, void* stream_handle);
hcclResult_t hcclAllGather(const void* sendbuff, void* recvbuff, uint64_t sendcount, hcclDataType_t datatype,
                           hcclComm_t comm, void* stream_handle);
hcclResult_t hcclAlltoAll(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                          hcclComm_t comm, void* stream_handle);
hcclResult_t hcclBarrier(hcclComm_t comm, void* stream_handle);
/* Messages between two ranks; to the rank itself it is a copy. A send is done when its receiver has taken the data,
 * however small it is: ranks that send to each other do it in a group. In a group they wait for nothing but their
 * peers, and what one of them receives overlaps nothing that another one sends or receives. */
hcclResult_t hcclSend(const void* sendbuff, uint64_t count, hcclDataType_t datatype, int peer, hcclComm_t comm,
                      void* stream);
hcclResult_t hcclRecv(void* recvbuff, uint64_t count, hcclDataType_t datatype, int peer, hcclComm_t comm, void* stream);

/* The calling thread's calls in between are enqueued together at the outermost end, collectives first, then messages;
 * or, if one of them is wrong, not at all: hcclGroupEnd then returns the first error. */
hcclResult_t hcclGroupStart(void);
hcclResult_t hcclGroupEnd(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
