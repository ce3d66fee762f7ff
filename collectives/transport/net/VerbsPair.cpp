// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsPair.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"
#include "collectives/roce/Psn.h"
#include "collectives/transport/net/VerbsEngine.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

// Requests that the device has at most: frames, and parts of writes.
constexpr uint32_t kMostRequests = 128;
// Of one WRITE, though devices take more: a registration of that much takes milliseconds.
constexpr uint64_t kMostWriteBytes = uint64_t{1} << 30;
// Timeouts without an answer, the most that the field takes. 7 of the other: without end.
constexpr uint8_t kRetries = 7, kRetriesWithoutEnd = 7;
// 0.64 ms: credits see to it that it is never used.
constexpr uint8_t kNotReadyTimer = 12;
constexpr uint8_t kHops = 64;
// Of receives.
constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

ibv_mtu mtuOf(uint32_t bytes) {
  return bytes >= 4096   ? IBV_MTU_4096
         : bytes >= 2048 ? IBV_MTU_2048
         : bytes >= 1024 ? IBV_MTU_1024
         : bytes >= 512  ? IBV_MTU_512
                         : IBV_MTU_256;
}

roce::Outcome outcomeOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return roce::Outcome::kSuccess;
    case IBV_WC_WR_FLUSH_ERR:
      return roce::Outcome::kFlushed;
    case IBV_WC_REM_ACCESS_ERR:
      return roce::Outcome::kRemoteAccess;
    case IBV_WC_REM_OP_ERR:
      return roce::Outcome::kRemoteOperation;
    case IBV_WC_RETRY_EXC_ERR:
      return roce::Outcome::kRetriesExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return roce::Outcome::kReceiverNotReady;
    case IBV_WC_LOC_LEN_ERR:
      return roce::Outcome::kLocalLength;
    default:
      return roce::Outcome::kInvalidRequest;
  }
}

}  // namespace

VerbsDevice& VerbsPair::device() const {
  return engine_.device();
}

Status VerbsPair::failedTo(const char* what, int error) const {
  return resourceExhausted(strCat("RDMA device ", device().name(), " cannot ", what, ": ", base::errnoText(error)));
}

Status VerbsPair::open(int vector) {
  VerbsDevice& device = this->device();
  const VerbsLibrary& library = device.library();
  const ibv_device_attr& limits = device.limits();
  const auto mostRequests = static_cast<uint32_t>(std::max(limits.max_qp_wr, 1));
  depth_ = std::min(kMostRequests, mostRequests);
  const uint32_t receives = kPairFrames;
  if (mostRequests < receives || limits.max_cqe < static_cast<int>(depth_ + receives))
    return resourceExhausted(strCat("RDMA device ", device.name(), " takes ", limits.max_qp_wr, " requests and ",
                                    limits.max_cqe, " completions a queue; a link needs ", receives, " and ",
                                    depth_ + receives));
  queue_ = library.createCq(device.context(), static_cast<int>(depth_ + receives), this, device.channel(), vector);
  if (!queue_) return failedTo("make a completion queue for another peer", errno);
  HPU_RETURN_IF_ERROR(arm());
  ibv_qp_init_attr initial{};
  initial.qp_context = this;
  initial.send_cq = initial.recv_cq = queue_;
  initial.cap.max_send_wr = depth_;
  initial.cap.max_recv_wr = receives;
  initial.cap.max_send_sge = initial.cap.max_recv_sge = 1;
  initial.qp_type = IBV_QPT_RC;
  initial.sq_sig_all = 1;
  pair_ = library.createQp(device.domain(), &initial);
  if (!pair_) return failedTo("make a queue pair for another peer", errno);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<uint8_t>(device.choice().gid.port);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "prepare a queue pair");
}

VerbsPair::~VerbsPair() {
  const VerbsLibrary& library = device().library();
  if (pair_) engine_.forget(pair_->qp_num);
  // The device has no part in anything of it when this returns, whatever was posted or comes.
  const auto kept = [&](const char* what, int error) {
    if (error != 0)
      HPU_LOG(kError, strCat("RDMA device ", device().name(), " keeps a ", what, ": ", base::errnoText(error)));
  };
  if (pair_) kept("queue pair", library.destroyQp(pair_));
  if (queue_) kept("completion queue", library.destroyCq(queue_));
  for (const auto* all : {&posted_, &asked_})
    for (const Asked& asked : *all)
      if (asked.source) device().releaseSource(asked.source);
  for (const auto& [key, window] : windows_) device().deregister(window);
  if (frames_) device().deregister(frames_);
}

StatusOr<std::shared_ptr<std::byte>> VerbsPair::buffers(size_t bytes) {
  // Pages of their own, which children do not get: what is pinned is this process's.
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return resourceExhausted("no memory for the frames of another peer");
  ::madvise(memory, bytes, MADV_DONTFORK);
  memory_ =
      std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [bytes](std::byte* at) { ::munmap(at, bytes); });
  HPU_ASSIGN(frames_, device().registerBuffers(memory, bytes));
  return memory_;
}

Status VerbsPair::modify(ibv_qp_attr& attributes, int which, const char* what) {
  const int error = device().library().modifyQp(pair_, &attributes, which);
  if (error == 0) return okStatus();
  return unavailable(strCat("RDMA device ", device().name(), " cannot ", what, ": ", base::errnoText(error)));
}

Status VerbsPair::connect(const roce_wire::End& own, const roce_wire::End& peer, uint32_t mtu) {
  if (failed()) return failure_;  // While the ends met.
  if (own.address.v6 != peer.address.v6)
    return invalidArgument(strCat("the peer's data goes out of ", peer.address.text(), ", this rank's of ",
                                  own.address.text(), ": give all ranks interfaces of one family (HPU_COMM_IFNAME)"));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtuOf(mtu);
  attributes.dest_qp_num = peer.queuePair;
  attributes.rq_psn = peer.firstPsn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = static_cast<uint8_t>(device().choice().gid.port);
  attributes.ah_attr.grh.hop_limit = kHops;
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device().choice().gid.index);
  gidOf(peer.address, attributes.ah_attr.grh.dgid.raw);
  // The kernel looks up the peer's Ethernet address; TCP has talked to it just now, so that it is known.
  HPU_RETURN_IF_ERROR(modify(attributes,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                             "find the way to the peer"));
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own.firstPsn;
  attributes.timeout = verbsTimeout(options_.silenceMs, kRetries + 1);
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRetriesWithoutEnd;
  attributes.max_rd_atomic = 1;
  return modify(
      attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
      "start a queue pair");
}

// ---- Out ----------------------------------------------------------------------------------------

uint64_t VerbsPair::mostWriteBytes() const {
  return std::clamp<uint64_t>(device().mostMessageBytes(), 1, kMostWriteBytes);
}

Status VerbsPair::post(const roce::Request& request) {
  if (failed()) return failure_;
  Asked asked;
  asked.request = request;
  if (request.verb == roce::Verb::kWrite) {
    auto source = device().registerSource(request.local.data(), request.local.size());
    if (!source.ok()) {
      fail(source.status());
      return failure_;
    }
    asked.source = *source;
  }
  asked_.push_back(asked);
  postMore();
  return failure_;
}

void VerbsPair::postMore() {
  while (!asked_.empty() && posted_.size() < depth_ && !failed()) {
    const int error = postOne(asked_.front());
    // It is full, though it should not be: completions make room.
    if (error == ENOMEM && !posted_.empty()) return;
    if (error != 0) return fail(failedTo("send", error));
    posted_.push_back(asked_.front());
    asked_.pop_front();
  }
}

int VerbsPair::postOne(const Asked& asked) {
  const roce::Request& request = asked.request;
  ibv_sge place{};
  place.addr = reinterpret_cast<uintptr_t>(request.local.data());
  place.length = static_cast<uint32_t>(request.local.size());
  place.lkey = asked.source ? asked.source->lkey : frames_->lkey;
  ibv_send_wr work{}, *bad = nullptr;
  work.sg_list = &place;
  work.num_sge = 1;
  work.opcode = asked.source ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
  work.wr.rdma.remote_addr = request.remoteAddress;
  work.wr.rdma.rkey = request.remoteKey;
  return ibv_post_send(pair_, &work, &bad);
}

Status VerbsPair::post(const roce::Receive& receive) {
  ibv_sge place{};
  place.addr = reinterpret_cast<uintptr_t>(receive.buffer.data());
  place.length = static_cast<uint32_t>(receive.buffer.size());
  place.lkey = frames_->lkey;
  ibv_recv_wr work{}, *bad = nullptr;
  work.wr_id = receive.id | kReceiveBit;
  work.sg_list = &place;
  work.num_sge = 1;
  if (const int error = ibv_post_recv(pair_, &work, &bad); error != 0) fail(failedTo("receive", error));
  return failure_;
}

// ---- In -----------------------------------------------------------------------------------------

Status VerbsPair::arm() {
  if (const int error = ibv_req_notify_cq(queue_, 0); error != 0) return failedTo("tell of completions", error);
  return okStatus();
}

std::optional<roce::Completion> VerbsPair::poll() {
  ibv_wc done{};
  const int count = ibv_poll_cq(queue_, 1, &done);
  if (count < 0) fail(failedTo("tell its completions", -count));
  if (count <= 0) return std::nullopt;
  if (done.status != IBV_WC_SUCCESS) noteFailure(done);
  roce::Completion completion;
  completion.outcome = outcomeOf(done.status);
  if (done.wr_id & kReceiveBit) {
    completion.isReceive = true;
    completion.id = done.wr_id & ~kReceiveBit;
    completion.bytes = done.status == IBV_WC_SUCCESS ? done.byte_len : 0;
    return completion;
  }
  if (posted_.empty()) {
    fail(Status(StatusCode::kInternal, strCat("RDMA device ", device().name(), " has a completion of nothing")));
    return std::nullopt;
  }
  if (posted_.front().source) device().releaseSource(posted_.front().source);
  posted_.pop_front();
  postMore();
  return completion;
}

void VerbsPair::noteFailure(const ibv_wc& done) {
  if (done.status == IBV_WC_WR_FLUSH_ERR) {
    // Of requests it comes behind a failure that another completion tells of; receives alone end with what came, or
    // with the device, which its own events say.
    engine_.lookAtDevice();
    if (failed()) return;
    return fail(invalidArgument(strCat("RDMA device ", device().name(),
                                       " has given up the queue pair: the peer wrote where it may not (any more), or "
                                       "sent what no RoCE link sends; it was refused")));
  }
  const std::string text = strCat("RDMA device ", device().name(), ": ", device().library().statusText(done.status),
                                  " (vendor's code ", done.vendor_err, ")");
  switch (done.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return fail(unavailable(
          strCat(text,
                 ": the peer does not answer packets of RoCE (UDP port 4791), though its process lives: does a "
                 "firewall drop them, or has its port gone?")));
    case IBV_WC_REM_ACCESS_ERR:
      return fail(invalidArgument(strCat(text, ": the peer has not given that memory, or has taken it back")));
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return fail(invalidArgument(text));
    default:
      return fail(unavailable(text));
  }
}

void VerbsPair::fail(const Status& why) {
  if (failed()) return;
  failure_ = why;
  if (pair_) engine_.note(pair_->qp_num);
}

// ---- Windows ------------------------------------------------------------------------------------

StatusOr<Window> VerbsPair::openWindow(std::byte* data, int64_t bytes) {
  Window window;
  // A key that the peer may still use for a window that was taken back is not given again.
  std::vector<ibv_mr*> passed;
  ibv_mr* region = nullptr;
  Status status;
  do {
    auto made = device().registerWindow(data, static_cast<size_t>(std::max<int64_t>(bytes, 0)), window.address);
    if (!made.ok()) status = made.status();
    region = made.ok() ? *made : nullptr;
    if (region && (closed_.contains(region->rkey) || region->rkey == 0))
      passed.push_back(std::exchange(region, nullptr));
  } while (!region && status.ok());
  for (ibv_mr* other : passed) device().deregister(other);
  if (!status.ok()) return status;
  window.key = region->rkey;
  windows_[window.key] = region;
  return window;
}

void VerbsPair::closeWindow(uint32_t key) {
  if (takeWritten(key)) closed_.insert(key);
}

bool VerbsPair::takeWritten(uint32_t key) {
  const auto it = windows_.find(key);
  if (it == windows_.end()) return closed_.erase(key) > 0;
  device().deregister(it->second);
  windows_.erase(it);
  return true;
}

}  // namespace hpu::collectives::net
