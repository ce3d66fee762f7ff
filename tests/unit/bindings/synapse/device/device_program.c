// SPDX-License-Identifier: Apache-2.0
// A program in C11 over the installed headers alone: acquire, copy through two streams with an event, time it, and
// the misuse that a C program is prone to. Exits with 0 when everything is as it should be.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

#define CHECK(condition)                                                                                          \
  do {                                                                                                            \
    if (!(condition)) {                                                                                           \
      fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__, #condition, hpuSynLastError()); \
      return 1;                                                                                                   \
    }                                                                                                             \
  } while (0)
#define OK(call) CHECK((call) == synSuccess)

static uint64_t address(const void* pointer) {
  return (uint64_t)(uintptr_t)pointer;
}

int main(void) {
  enum { kBytes = 3 << 20 };
  synDeviceId device = SYN_INVALID_DEVICE_ID;
  synStreamHandle in = NULL, out = NULL;
  synEventHandle start = NULL, end = NULL;
  uint64_t memory = 0, nanoseconds = 0;
  void* pinned = NULL;
  unsigned char* back = malloc(kBytes);
  char text[STATUS_DESCRIPTION_MAX_SIZE];
  size_t i;

  CHECK(back);
  OK(synConfigurationSet("HPU_SIM_HBM_BYTES", "64M"));
  OK(synInitialize());
  OK(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  OK(synStreamCreateGeneric(&in, device, 0));
  OK(synStreamCreateGeneric(&out, device, 0));
  OK(synEventCreate(&start, device, EVENT_COLLECT_TIME));
  OK(synEventCreate(&end, device, EVENT_COLLECT_TIME));
  OK(synDeviceMalloc(device, kBytes, 0, 0, &memory));
  OK(synHostMalloc(device, kBytes, 0, &pinned));
  for (i = 0; i < kBytes; ++i) ((unsigned char*)pinned)[i] = (unsigned char)(i * 7 + i / 251);

  OK(synEventRecord(start, in));
  OK(synMemCopyAsync(in, address(pinned), kBytes, memory, HOST_TO_DRAM));
  OK(synMemsetD16Async(memory + 1000, 0xBEEF, 500, in));
  OK(synEventRecord(end, in));
  OK(synStreamWaitEvent(out, end, 0));
  OK(synMemCopyAsync(out, memory, kBytes, address(back), DRAM_TO_HOST));
  OK(synStreamSynchronize(out));
  for (i = 0; i < 500; ++i) memcpy((char*)pinned + 1000 + 2 * i, "\xEF\xBE", 2);
  CHECK(memcmp(back, pinned, kBytes) == 0);
  OK(synEventElapsedTime(&nanoseconds, start, end));
  CHECK(nanoseconds >= kBytes / 64); /* PCIe gives 64 GB/s at most. */

  CHECK(synMemCopyAsync(in, address(pinned), kBytes + 1, memory, HOST_TO_DRAM) != synSuccess);
  OK(synStatusGetBriefDescription(hpuSynLastStatus(), text, sizeof(text)));
  CHECK(strlen(text) > 0 && strstr(hpuSynLastError(), "synMemCopyAsync: "));
  OK(synStreamDestroy(in));
  CHECK(synStreamSynchronize(in) == synInvalidArgument);
  CHECK(synMemCopyAsync((synStreamHandle)start, address(pinned), 1, memory, HOST_TO_DRAM) == synInvalidArgument);
  OK(synHostFree(device, pinned, 0));
  OK(synDeviceFree(device, memory, 0));
  OK(synDeviceRelease(device));
  CHECK(synEventQuery(end) == synInvalidArgument);
  OK(synDestroy());
  CHECK(synStreamQuery(out) == synUninitialized);
  free(back);
  return 0;
}
