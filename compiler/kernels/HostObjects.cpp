// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/HostObjects.h"

// HPU_HOST_OBJECTS is the folder of the files.
#define HPU_OBJECT(name)                                                           \
  asm(".pushsection .rodata\n.balign 16\n"                                         \
      ".hidden hpu_object_" #name "\n.hidden hpu_object_end_" #name                \
      "\n"                                                                         \
      ".globl hpu_object_" #name "\n.globl hpu_object_end_" #name                  \
      "\n"                                                                         \
      "hpu_object_" #name ":\n.incbin \"" HPU_HOST_OBJECTS "/" #name               \
      ".o\"\n"                                                                     \
      "hpu_object_end_" #name ":\n.byte 0\n.popsection\n");                        \
  extern "C" __attribute__((visibility("hidden"))) const char hpu_object_##name[]; \
  extern "C" __attribute__((visibility("hidden"))) const char hpu_object_end_##name[];

#define HPU_OBJECTS(name) HPU_OBJECT(name##_v3) HPU_OBJECT(name##_v4)
HPU_OBJECTS(order_1)
HPU_OBJECTS(order_2)
HPU_OBJECTS(order_4)
HPU_OBJECTS(order_8)
HPU_OBJECTS(boxes)

namespace hpu::kernels {
namespace {

llvm::StringRef between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

#define HPU_BYTES(name) between(hpu_object_##name, hpu_object_end_##name)

HostObject orderObject(int64_t bytes) {
  if (bytes == 1) return {HPU_BYTES(order_1_v3), HPU_BYTES(order_1_v4)};
  if (bytes == 2) return {HPU_BYTES(order_2_v3), HPU_BYTES(order_2_v4)};
  if (bytes == 4) return {HPU_BYTES(order_4_v3), HPU_BYTES(order_4_v4)};
  return {HPU_BYTES(order_8_v3), HPU_BYTES(order_8_v4)};
}

HostObject boxesObject() {
  return {HPU_BYTES(boxes_v3), HPU_BYTES(boxes_v4)};
}

}  // namespace hpu::kernels
