// SPDX-License-Identifier: Apache-2.0
// VerbsLibrary: the functions of libibverbs, looked up when they are needed: nothing links it.
// The one thing to know: only files that are compiled where infiniband/verbs.h is may include this; what the header
// has inline (posting, polling) goes through the device's own table and is in nobody's library.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "hpu/status.h"

// The header makes other names of these.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace hpu::collectives::net {

// What it is called here, and there.
#define HPU_VERBS_FUNCTIONS(X)                    \
  X(getDeviceList, ibv_get_device_list)           \
  X(freeDeviceList, ibv_free_device_list)         \
  X(getDeviceName, ibv_get_device_name)           \
  X(openDevice, ibv_open_device)                  \
  X(closeDevice, ibv_close_device)                \
  X(queryDevice, ibv_query_device)                \
  X(queryPort, ibv_query_port)                    \
  X(queryGid, ibv_query_gid)                      \
  X(allocPd, ibv_alloc_pd)                        \
  X(deallocPd, ibv_dealloc_pd)                    \
  X(regMr, ibv_reg_mr)                            \
  X(regMrIova, ibv_reg_mr_iova)                   \
  X(deregMr, ibv_dereg_mr)                        \
  X(createCompChannel, ibv_create_comp_channel)   \
  X(destroyCompChannel, ibv_destroy_comp_channel) \
  X(createCq, ibv_create_cq)                      \
  X(destroyCq, ibv_destroy_cq)                    \
  X(getCqEvent, ibv_get_cq_event)                 \
  X(ackCqEvents, ibv_ack_cq_events)               \
  X(createQp, ibv_create_qp)                      \
  X(modifyQp, ibv_modify_qp)                      \
  X(destroyQp, ibv_destroy_qp)                    \
  X(getAsyncEvent, ibv_get_async_event)           \
  X(ackAsyncEvent, ibv_ack_async_event)           \
  X(eventText, ibv_event_type_str)                \
  X(statusText, ibv_wc_status_str)                \
  X(forkInit, ibv_fork_init)

struct VerbsLibrary {
#define HPU_VERBS_MEMBER(member, function) decltype(&::function) member = nullptr;
  HPU_VERBS_FUNCTIONS(HPU_VERBS_MEMBER)
#undef HPU_VERBS_MEMBER

  /// Of that file ("libibverbs.so.1"), which stays loaded. Errors: kNotFound, which package has it; kUnimplemented (too
  /// old a library; names the function).
  static StatusOr<VerbsLibrary> load(const std::string& file);
};

}  // namespace hpu::collectives::net
