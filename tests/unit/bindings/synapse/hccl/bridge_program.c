/* SPDX-License-Identifier: Apache-2.0 */
/* A framework's bridge opens libSynapse.so by name and looks these functions up; each must be there, and the library
 * must load alone. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  static const char* const kNames[] = {"hcclGetVersion",     "hcclGetUniqueId",       "hcclCommInitRank",
                                       "hcclCommInitAll",    "hcclCommDestroy",       "hcclCommAbort",
                                       "hcclGetErrorString", "hcclCommGetAsyncError", "hcclCommCount",
                                       "hcclCommUserRank",   "hcclLookupDMABuff",     "hcclReduce",
                                       "hcclBroadcast",      "hcclAllReduce",         "hcclReduceScatter",
                                       "hcclAllGather",      "hcclAlltoAll",          "hcclSend",
                                       "hcclRecv",           "hcclGroupStart",        "hcclGroupEnd"};
  unsigned i;
  int missing = 0;
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: bridge_program PATH");
    return 1;
  }
  for (i = 0; i < sizeof kNames / sizeof kNames[0]; ++i)
    if (!dlsym(library, kNames[i])) {
      fprintf(stderr, "%s is missing\n", kNames[i]);
      missing = 1;
    }
  return missing;
}
