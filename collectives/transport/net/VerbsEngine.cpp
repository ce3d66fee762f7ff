// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsEngine.h"

#include <cerrno>
#include <utility>

#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"
#include "collectives/roce/udp/Endpoint.h"
#include "collectives/transport/net/VerbsPair.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

// Of completion queues or the device, at a time.
constexpr int kMostEvents = 64;

}  // namespace

VerbsEngine::VerbsEngine(std::unique_ptr<VerbsDevice> device, const Address& local)
    : device_(std::move(device)), local_(local) {}

roce_wire::End VerbsEngine::end() const {
  roce_wire::End end;
  end.pathMtu = device_->choice().pathMtu;
  end.packets = 1;  // How many is the devices' business.
  end.address = local_;
  end.address.port = roce::kUdpPort;
  return end;
}

StatusOr<std::unique_ptr<Pair>> VerbsEngine::makePair(const PairOptions& options) {
  if (!broken_.ok()) return broken_;
  auto pair = std::make_unique<VerbsPair>(*this, options);
  const int vectors = device_->context()->num_comp_vectors;
  HPU_RETURN_IF_ERROR(pair->open(vectors > 0 ? nextVector_++ % vectors : 0));
  pairs_[pair->number()] = pair.get();
  return std::unique_ptr<Pair>(std::move(pair));
}

bool VerbsEngine::progress(int batches) {
  return takeEvents(batches * kMostEvents);
}

void VerbsEngine::drain() {
  takeEvents(kMostEvents);
  // An event comes a little after its completion.
  for (const auto& [number, pair] : pairs_) completed_.push_back(number);
}

uint32_t VerbsEngine::takeCompleted() {
  if (completed_.empty()) return 0;
  const uint32_t number = completed_.front();
  completed_.pop_front();
  return number;
}

void VerbsEngine::lookAtDevice() {
  const VerbsLibrary& library = device_->library();
  ibv_async_event event;
  for (int i = 0; i < kMostEvents && library.getAsyncEvent(device_->context(), &event) == 0; ++i) {
    takeDeviceEvent(event);
    library.ackAsyncEvent(&event);
  }
}

bool VerbsEngine::takeEvents(int most) {
  const VerbsLibrary& library = device_->library();
  bool some = false, gone = false;
  // Also those of a device that was removed are readable, for ever.
  const auto none = [&](int result) {
    if (result == 0) return false;
    gone |= errno != EAGAIN && errno != EINTR;
    return true;
  };
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  for (int i = 0; i < most && !none(library.getCqEvent(device_->channel(), &queue, &context)); ++i) {
    some = true;
    library.ackCqEvents(queue, 1);
    // First this, then polling until there is nothing: so none is missed.
    auto* const pair = static_cast<VerbsPair*>(context);
    if (const Status status = pair->arm(); !status.ok()) pair->fail(status);
    completed_.push_back(pair->number());
  }
  ibv_async_event event;
  for (int i = 0; i < most && !none(library.getAsyncEvent(device_->context(), &event)); ++i) {
    some = true;
    takeDeviceEvent(event);
    library.ackAsyncEvent(&event);
  }
  if (gone && device_->leaveEvents() && broken_.ok())
    breakAll(unavailable(strCat("RDMA device ", device_->name(), " was removed; its links are given up")));
  return some;
}

void VerbsEngine::takeDeviceEvent(const ibv_async_event& event) {
  const std::string text =
      strCat("RDMA device ", device_->name(), ": ", device_->library().eventText(event.event_type));
  const auto failPair = [](void* context, const Status& why) { static_cast<VerbsPair*>(context)->fail(why); };
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
      return failPair(event.element.qp->qp_context, unavailable(text));
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return failPair(event.element.qp->qp_context,
                      invalidArgument(strCat(text,
                                             ": the peer wrote where it may not (any more), or sent what no RoCE "
                                             "link sends; it was refused")));
    case IBV_EVENT_CQ_ERR:
      return failPair(event.element.cq->cq_context, unavailable(text));
    case IBV_EVENT_DEVICE_FATAL:
      return breakAll(unavailable(strCat(text, ": it was reset or removed; its links are given up")));
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num != static_cast<int>(device_->choice().gid.port)) return;
      return breakAll(unavailable(strCat(text, ": port ", event.element.port_num, " (interface ",
                                         device_->choice().gid.interface, ") is down; its links are given up")));
    case IBV_EVENT_PORT_ACTIVE:
      if (event.element.port_num == static_cast<int>(device_->choice().gid.port)) broken_ = okStatus();
      [[fallthrough]];
    default:
      HPU_LOG(kInfo, text);
  }
}

void VerbsEngine::breakAll(const Status& why) {
  HPU_LOG(kWarning, why.message());
  broken_ = why;
  for (const auto& [number, pair] : pairs_) pair->fail(why);
}

}  // namespace hpu::collectives::net
