// SPDX-License-Identifier: Apache-2.0
// What OpenHPU adds to the SynapseAI C API: the words of the last error, device reset, stream priorities and
// memory statistics.
// The one thing to know: programs that must also link SynapseAI's own library look these up with dlsym.
//
//   if (synStreamSynchronize(stream) != synSuccess) fprintf(stderr, "%s\n", hpuSynLastError());
#ifndef HABANALABS_HPU_SYNAPSE_EXT_H
#define HABANALABS_HPU_SYNAPSE_EXT_H

#include "synapse_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The line for people of the last call of this thread that failed: function, object, reason and mend. "" when
 * none failed. Valid until the next failing call of the thread. */
const char* hpuSynLastError(void);
/* The status of that call. */
synStatus hpuSynLastStatus(void);

/* Clears the sticky errors of the device's streams, drops their work and makes the device usable again after
 * a fatal failure. Memory stays allocated; its contents are what the failed work left. */
synStatus hpuSynDeviceReset(synDeviceId deviceId);

/* As synStreamCreateGeneric, with a priority: the higher first among work that may start at one device time
 * (the default is 0). */
synStatus hpuSynStreamCreateWithPriority(synStreamHandle* pStreamHandle, synDeviceId deviceId, int32_t priority);

typedef struct hpuSynMemoryStatistics {
  uint64_t totalBytes;
  uint64_t usedBytes;
  uint64_t peakBytes;        /* Since the device was acquired. */
  uint64_t largestFreeBytes; /* Fragmentation is 1 - largestFree / (total - used). */
  uint64_t allocations;
} hpuSynMemoryStatistics;

synStatus hpuSynDeviceGetMemoryStatistics(synDeviceId deviceId, hpuSynMemoryStatistics* statistics);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
