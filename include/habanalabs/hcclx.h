// SPDX-License-Identifier: Apache-2.0
// What OpenHPU adds to HCCL: configured and non-blocking initialisation, split and shrink, gather and scatter,
// all-to-all with sizes of its own for
// each rank, scaled sums, fp8, registration, predicted times.
// The one thing to know: nothing here changes what hccl.h's functions do.
#ifndef HABANALABS_HCCLX_H
#define HABANALABS_HCCLX_H

#include "hccl.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Further hcclDataType_t, for all functions that take one; the last values that C++ lets that enumeration hold. E4M3
 * is the device's: Gaudi 2's range (largest 240) or OCP's (448). */
#define hcclxFloat8E4M3 ((hcclDataType_t)14)
#define hcclxFloat8E5M2 ((hcclDataType_t)15)

/* Set size to sizeof(hcclx_config); zeros mean defaults. */
typedef struct hcclx_config {
  size_t size;
  int nonBlocking; /* hcclx_CommInitRankConfig returns at once; what needs its peers is hcclBusy until it is ready. */
  int device;      /* 1 + the synDeviceId of the rank's device; 0: as hcclCommInitRank. */
  int64_t initTimeoutMs;  /* 0: HPU_COMM_INIT_TIMEOUT_MS. */
  int64_t timeoutMs;      /* Without progress of an awaited rank; 0: HPU_COMM_TIMEOUT_MS. */
  const char* name;       /* For errors and traces. */
  const char* tunerTable; /* File of rules that choose algorithms. */
  int64_t deadlineMs;     /* Of an operation in all; 0: HPU_COMM_DEADLINE_MS. */
} hcclx_config;

/* What is known about a call beforehand; texts are valid until the thread's next call. */
typedef struct hcclx_prediction {
  int64_t predictedNs;  /* Modelled device time when all ranks arrive at once. */
  int64_t lowerBoundNs; /* What the links allow at best. */
  const char* algorithm;
  const char* reason;
  int slices;
} hcclx_prediction;

/* For hcclx_Predict. */
typedef enum hcclx_collective {
  hcclxAllReduce = 0,
  hcclxReduceScatter = 1,
  hcclxAllGather = 2,
  hcclxAlltoAll = 3,
  hcclxBroadcast = 4,
  hcclxReduce = 5,
  hcclxGather = 6,
  hcclxScatter = 7,
  hcclxBarrier = 8,
  hcclxRelay = 9
} hcclx_collective;

hcclResult_t hcclx_CommInitRankConfig(hcclComm_t* comm, int nranks, hcclUniqueId commId, int rank,
                                      const hcclx_config* config);
/* hcclSuccess when ready, hcclBusy before that, the failure of the initialisation after that. */
hcclResult_t hcclx_CommReady(hcclComm_t comm);
/* Every rank calls it; ranks with one colour (>= 0) get a new communicator, ordered by (key, rank). Colour < 0: null.
 * */
hcclResult_t hcclx_CommSplit(hcclComm_t comm, int color, int key, hcclComm_t* newComm, const hcclx_config* config);
/* The ranks that are not excluded call it, also after a failure of `comm` and the end of any excluded rank's process,
 * rank 0's too. hcclSocketError: the process of a rank that is not excluded has ended; call it again without that rank.
 * A stream on which an operation of `comm` failed is synchronized (which returns that failure) before the new
 * communicator uses it. */
hcclResult_t hcclx_CommShrink(hcclComm_t comm, const int* excluded, int count, hcclComm_t* newComm,
                              const hcclx_config* config);

/* sendcount and recvcount: elements of one rank's part. */
hcclResult_t hcclx_Gather(const void* sendbuff, void* recvbuff, uint64_t sendcount, hcclDataType_t datatype, int root,
                          hcclComm_t comm, void* stream);
hcclResult_t hcclx_Scatter(const void* sendbuff, void* recvbuff, uint64_t recvcount, hcclDataType_t datatype, int root,
                           hcclComm_t comm, void* stream);
/* Arrays of nranks elements; displacements in elements. What is received overlaps nothing else. */
hcclResult_t hcclx_AlltoAllv(const void* sendbuff, const uint64_t* sendcounts, const uint64_t* senddispls,
                             void* recvbuff, const uint64_t* recvcounts, const uint64_t* recvdispls,
                             hcclDataType_t datatype, hcclComm_t comm, void* stream);
/* recvcounts[r] elements come from rank r (this rank sends recvcounts[rank]); every rank passes the same counts.
 * In place: sendbuff is the rank's part of recvbuff. */
hcclResult_t hcclx_AllGatherv(const void* sendbuff, void* recvbuff, const uint64_t* recvcounts, const uint64_t* displs,
                              hcclDataType_t datatype, hcclComm_t comm, void* stream);
/* From one rank to another over the links of all: every rank calls it. */
hcclResult_t hcclx_Relay(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype, int from,
                         int to, hcclComm_t comm, void* stream);
/* hcclSum or hcclAvg of contributions, each multiplied by its own rank's `scale` first. */
hcclResult_t hcclx_AllReduceScaled(const void* sendbuff, void* recvbuff, uint64_t count, hcclDataType_t datatype,
                                   hcclRedOp_t reduceOp, double scale, hcclComm_t comm, void* stream);
hcclResult_t hcclx_ReduceScatterScaled(const void* sendbuff, void* recvbuff, uint64_t recvcount,
                                       hcclDataType_t datatype, hcclRedOp_t reduceOp, double scale, hcclComm_t comm,
                                       void* stream);

/* Device memory that is used again and again; every transfer inside a node is without copies anyway, so that this
 * only checks the range and gives a handle for hcclx_CommDeregister. */
hcclResult_t hcclx_CommRegister(hcclComm_t comm, void* buffer, uint64_t bytes, void** handle);
hcclResult_t hcclx_CommDeregister(hcclComm_t comm, void* handle);

/* Does not communicate. */
hcclResult_t hcclx_Predict(hcclComm_t comm, hcclx_collective collective, uint64_t count, hcclDataType_t datatype,
                           hcclx_prediction* prediction);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
