// SPDX-License-Identifier: Apache-2.0
// Types of HCCL's C API, with its names and values.
// The one thing to know: hcclMin is 2 and hcclMax is 3; NCCL has them the other way round.
#ifndef HABANALABS_HCCL_TYPES_H
#define HABANALABS_HCCL_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* A communicator. Never an address: a stale or foreign one is an error, not a crash. */
typedef void* hcclComm_t;

/* Where the ranks of a communicator meet. Plain bytes that one rank gets from hcclGetUniqueId and sends to the others
 * by any means. `length` is how many of them count. */
typedef struct hcclUniqueId {
  uint8_t internal[1024];
  size_t length;
} hcclUniqueId;

typedef enum hcclResult_t {
  hcclUninitialized = -1,
  hcclSuccess = 0,
  hcclNoDeviceFound = 1, /* The process has acquired no device. */
  hcclUnsupported = 2,   /* Something that OpenHPU does not have; the message says what. */
  hcclOutOfMemory = 3,
  hcclUnhandledSynapseError = 4,
  hcclSystemError = 5,   /* The operating system refused something; also a peer whose process is gone. */
  hcclInternalError = 6, /* A bug of OpenHPU. */
  hcclInvalidArgument = 7,
  hcclInvalidUsage = 8, /* Calls in a wrong order, or ranks that call different things. */
  hcclSocketError = 9,  /* The ranks could not meet. */
  hcclLibfabricError = 10,
  hcclTryAgainError = 11,
  hcclBusy = 12, /* A communicator that is not ready yet. */
  hcclNumResults = 13,
  hcclStreamError = 14, /* The stream's work failed. */
  hcclSynapseTerminated = 15,
  hcclPortDown = 16
} hcclResult_t;

typedef enum hcclRedOp_t {
  hcclSum = 0,
  hcclProd = 1,
  hcclMin = 2,
  hcclMax = 3,
  hcclAvg = 4,
  hcclOpNone = 5
} hcclRedOp_t;

typedef enum hcclDataType_t {
  hcclInt8 = 0,
  hcclChar = 0,
  hcclUint8 = 1,
  hcclInt32 = 2,
  hcclInt = 2,
  hcclUint32 = 3,
  hcclInt64 = 4,
  hcclUint64 = 5,
  hcclFloat16 = 6,
  hcclHalf = 6,
  hcclFloat32 = 7,
  hcclFloat = 7,
  hcclFloat64 = 8,
  hcclDouble = 8,
  hcclBfloat16 = 9,
  hcclNumTypes = 10
} hcclDataType_t;

#endif
