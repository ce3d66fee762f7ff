// SPDX-License-Identifier: Apache-2.0
// A libibverbs for tests: one device, fake0, whose queue pairs are all in this process. What is posted is done at once,
// in its order, with the checks that an adapter makes; completions and events come over descriptors, as real ones.
// The tests find fake_verbs_* beside the library's functions.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

constexpr uint32_t kMessageBytes = 64 << 10, kPathMtu = 1024;

struct Channel {
  ibv_comp_channel base{};
  int in = -1;
};
struct Queue {
  ibv_cq base{};
  std::deque<ibv_wc> done;
  bool armed = false;
};
struct Memory {
  ibv_mr base{};
  uint64_t address = 0;
  int access = 0;
};
struct Send {
  ibv_send_wr work{};
  ibv_sge place{};
};
struct Receive {
  uint64_t id = 0;
  ibv_sge place{};
};
struct Context {
  ibv_context base{};
  int in = -1;
};
struct QueuePair {
  ibv_qp base{};
  ibv_qp_cap cap{};
  uint32_t peer = 0;
  std::deque<Send> sends;
  std::deque<Receive> receives;
};

struct World {
  std::mutex mutex;  // Guards all.
  std::map<uint32_t, QueuePair*> pairs;
  std::map<uint32_t, Memory*> memories;
  std::vector<Context*> contexts;
  std::vector<int> descriptors;  ///< That a program gets.
  uint32_t nextPair = 17, nextKey = 1;
  int failRegistrations = 0;
  bool deaf = false;  // Nothing that is posted is done.
};
World& world() {
  static World* instance = new World;
  return *instance;
}
ibv_device& device() {
  static ibv_device* instance = [] {
    auto* made = new ibv_device{};
    std::strcpy(made->name, "fake0");
    return made;
  }();
  return *instance;
}

int pipeOf(int& in) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  in = ends[1];
  return ends[0];
}

void complete(ibv_cq* cq, ibv_wc done) {
  auto* queue = reinterpret_cast<Queue*>(cq);
  queue->done.push_back(done);
  if (!std::exchange(queue->armed, false)) return;
  if (::write(reinterpret_cast<Channel*>(cq->channel)->in, &cq, sizeof cq) != sizeof cq) std::abort();
}

void complete(const QueuePair& pair, uint64_t id, ibv_wc_status status, bool isReceive, uint32_t bytes = 0) {
  ibv_wc done{};
  done.wr_id = id;
  done.status = status;
  done.byte_len = bytes;
  done.opcode = isReceive ? IBV_WC_RECV : IBV_WC_SEND;
  done.qp_num = pair.base.qp_num;
  complete(isReceive ? pair.base.recv_cq : pair.base.send_cq, done);
}

void tell(Context& context, const ibv_async_event& event) {
  if (::write(context.in, &event, sizeof event) != sizeof event) std::abort();
}

void breakPair(QueuePair& pair) {
  pair.base.state = IBV_QPS_ERR;
  for (const Send& send : pair.sends) complete(pair, send.work.wr_id, IBV_WC_WR_FLUSH_ERR, false);
  for (const Receive& receive : pair.receives) complete(pair, receive.id, IBV_WC_WR_FLUSH_ERR, true);
  pair.sends.clear();
  pair.receives.clear();
}

std::byte* find(uint32_t key, uint64_t address, uint64_t bytes, int access, bool isLocal) {
  const auto it = world().memories.find(key);
  if (it == world().memories.end()) return nullptr;
  const Memory& memory = *it->second;
  const uint64_t begin = isLocal ? reinterpret_cast<uintptr_t>(memory.base.addr) : memory.address;
  if ((memory.access & access) != access || address < begin || bytes > memory.base.length ||
      address - begin > memory.base.length - bytes)
    return nullptr;
  return static_cast<std::byte*>(memory.base.addr) + (address - begin);
}

/// Does what can be done of a pair's sends.
void advance(QueuePair& pair) {
  while (!pair.sends.empty() && pair.base.state == IBV_QPS_RTS && !world().deaf) {
    const auto it = world().pairs.find(pair.peer);
    if (it == world().pairs.end() || it->second->base.state < IBV_QPS_RTR) return;  // Perhaps later.
    QueuePair& peer = *it->second;
    const Send send = pair.sends.front();
    const auto fail = [&](ibv_wc_status status, bool peersFault) {
      pair.sends.pop_front();
      complete(pair, send.work.wr_id, status, false);
      breakPair(pair);
      if (!peersFault) return;
      ibv_async_event event{};
      event.event_type = IBV_EVENT_QP_ACCESS_ERR;
      event.element.qp = &peer.base;
      tell(*reinterpret_cast<Context*>(peer.base.context), event);
      breakPair(peer);
    };
    if (peer.base.state == IBV_QPS_ERR) return fail(IBV_WC_RETRY_EXC_ERR, false);
    const uint32_t bytes = send.place.length;
    const std::byte* from = find(send.place.lkey, send.place.addr, bytes, 0, true);
    if (!from || bytes > kMessageBytes) return fail(IBV_WC_LOC_PROT_ERR, false);
    if (send.work.opcode == IBV_WR_RDMA_WRITE) {
      std::byte* to =
          find(send.work.wr.rdma.rkey, send.work.wr.rdma.remote_addr, bytes, IBV_ACCESS_REMOTE_WRITE, false);
      if (!to) return fail(IBV_WC_REM_ACCESS_ERR, true);
      std::memcpy(to, from, bytes);
    } else {
      if (peer.receives.empty()) return;  // RNR, without end.
      const Receive receive = peer.receives.front();
      std::byte* to = find(receive.place.lkey, receive.place.addr, bytes, IBV_ACCESS_LOCAL_WRITE, true);
      if (!to || bytes > receive.place.length) return fail(IBV_WC_REM_INV_REQ_ERR, true);
      std::memcpy(to, from, bytes);
      peer.receives.pop_front();
      complete(peer, receive.id, IBV_WC_SUCCESS, true, bytes);
    }
    pair.sends.pop_front();
    complete(pair, send.work.wr_id, IBV_WC_SUCCESS, false);
  }
}

void advanceAll() {
  for (const auto& [number, pair] : world().pairs) advance(*pair);
}

int postSend(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr** bad) {
  std::lock_guard lock(world().mutex);
  auto& pair = *reinterpret_cast<QueuePair*>(qp);
  if (pair.sends.size() >= pair.cap.max_send_wr || work->next || work->num_sge != 1) {
    *bad = work;
    return ENOMEM;
  }
  if (pair.base.state == IBV_QPS_ERR) {
    complete(pair, work->wr_id, IBV_WC_WR_FLUSH_ERR, false);
    return 0;
  }
  if (pair.base.state != IBV_QPS_RTS) return EINVAL;
  pair.sends.push_back({*work, *work->sg_list});
  advanceAll();
  return 0;
}
int postReceive(ibv_qp* qp, ibv_recv_wr* work, ibv_recv_wr** bad) {
  std::lock_guard lock(world().mutex);
  auto& pair = *reinterpret_cast<QueuePair*>(qp);
  if (pair.receives.size() >= pair.cap.max_recv_wr) {
    *bad = work;
    return ENOMEM;
  }
  if (pair.base.state == IBV_QPS_ERR) {
    complete(pair, work->wr_id, IBV_WC_WR_FLUSH_ERR, true);
    return 0;
  }
  pair.receives.push_back({work->wr_id, *work->sg_list});
  advanceAll();
  return 0;
}
int pollQueue(ibv_cq* cq, int, ibv_wc* done) {
  std::lock_guard lock(world().mutex);
  auto& queue = *reinterpret_cast<Queue*>(cq);
  if (queue.done.empty()) return 0;
  *done = queue.done.front();
  queue.done.pop_front();
  return 1;
}
int requestNotify(ibv_cq* cq, int) {
  std::lock_guard lock(world().mutex);
  reinterpret_cast<Queue*>(cq)->armed = true;
  return 0;
}

ibv_mr* remember(ibv_pd* pd, void* data, size_t bytes, uint64_t address, int access) {
  std::lock_guard lock(world().mutex);
  if (world().failRegistrations > 0) {
    --world().failRegistrations;
    errno = ENOMEM;
    return nullptr;
  }
  auto* made = new Memory;
  made->base = {pd->context, pd, data, bytes, 0, world().nextKey, world().nextKey};
  ++world().nextKey;
  made->address = address;
  made->access = access;
  world().memories[made->base.lkey] = made;
  return &made->base;
}

}  // namespace

extern "C" {

// ---- For the tests ----
size_t fake_verbs_registered() {
  std::lock_guard lock(world().mutex);
  return world().memories.size();
}
size_t fake_verbs_pairs() {
  std::lock_guard lock(world().mutex);
  return world().pairs.size();
}
/// The `at`-th descriptor of the library's; -1: there are fewer.
int fake_verbs_descriptor(size_t at) {
  std::lock_guard lock(world().mutex);
  return at < world().descriptors.size() ? world().descriptors[at] : -1;
}
void fake_verbs_refuse_registrations(int count) {
  std::lock_guard lock(world().mutex);
  world().failRegistrations = count;
}
void fake_verbs_deaf(bool deaf) {
  std::lock_guard lock(world().mutex);
  world().deaf = deaf;
  advanceAll();
}
void fake_verbs_port_event(bool up) {
  std::lock_guard lock(world().mutex);
  ibv_async_event event{};
  event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  event.element.port_num = 1;
  for (Context* context : world().contexts) tell(*context, event);
}

// ---- The library ----
int ibv_fork_init() {
  return 0;
}
ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device*[2]{&device(), nullptr};
}
void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* which) {
  return which->name;
}
ibv_context* ibv_open_device(ibv_device* which) {
  auto* made = new Context;
  made->base.device = which;
  made->base.ops.post_send = postSend;
  made->base.ops.post_recv = postReceive;
  made->base.ops.poll_cq = pollQueue;
  made->base.ops.req_notify_cq = requestNotify;
  made->base.async_fd = pipeOf(made->in);
  made->base.cmd_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  made->base.num_comp_vectors = 2;
  std::lock_guard lock(world().mutex);
  world().contexts.push_back(made);
  for (int fd : {made->base.async_fd, made->base.cmd_fd}) world().descriptors.push_back(fd);
  return &made->base;
}
int ibv_close_device(ibv_context* context) {
  auto* made = reinterpret_cast<Context*>(context);
  std::lock_guard lock(world().mutex);
  std::erase(world().contexts, made);
  for (int fd : {made->in, made->base.async_fd, made->base.cmd_fd}) {
    std::erase(world().descriptors, fd);
    ::close(fd);
  }
  delete made;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* out) {
  *out = {};
  out->max_qp_wr = 64;  // Fewer than a link could use.
  out->max_cqe = 1000;
  out->phys_port_cnt = 1;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* out) {
  auto* port = reinterpret_cast<ibv_port_attr*>(out);
  port->state = IBV_PORT_ACTIVE;
  port->active_mtu = IBV_MTU_1024;
  static_assert(kPathMtu == 1024);
  port->gid_tbl_len = 3;
  port->max_msg_sz = kMessageBytes;
  port->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int index, ibv_gid* gid) {
  std::memset(gid, 0, sizeof *gid);
  gid->raw[15] = index == 1 ? 2 : 1;
  if (index == 2) return 0;  // ::1
  gid->raw[10] = gid->raw[11] = 0xFF;
  gid->raw[12] = 127;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return new ibv_pd{context, 0};
}
int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* data, size_t bytes, int access) {
  return remember(pd, data, bytes, reinterpret_cast<uintptr_t>(data), access);
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* data, size_t bytes, uint64_t address, int access) {
  return remember(pd, data, bytes, address, access);
}
int ibv_dereg_mr(ibv_mr* region) {
  std::lock_guard lock(world().mutex);
  world().memories.erase(region->lkey);
  delete reinterpret_cast<Memory*>(region);
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* made = new Channel;
  made->base.context = context;
  made->base.fd = pipeOf(made->in);
  std::lock_guard lock(world().mutex);
  world().descriptors.push_back(made->base.fd);
  return &made->base;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  auto* made = reinterpret_cast<Channel*>(channel);
  std::lock_guard lock(world().mutex);
  std::erase(world().descriptors, made->base.fd);
  ::close(made->in);
  ::close(made->base.fd);
  delete made;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel, int) {
  auto* made = new Queue;
  made->base.context = context;
  made->base.channel = channel;
  made->base.cq_context = owner;
  made->base.cqe = entries;
  return &made->base;
}
int ibv_destroy_cq(ibv_cq* cq) {
  std::lock_guard lock(world().mutex);
  // Events that nobody has taken go with it.
  std::vector<ibv_cq*> others;
  ibv_cq* waiting = nullptr;
  while (::read(cq->channel->fd, &waiting, sizeof waiting) == sizeof waiting)
    if (waiting != cq) others.push_back(waiting);
  for (ibv_cq* other : others)
    if (::write(reinterpret_cast<Channel*>(cq->channel)->in, &other, sizeof other) != sizeof other) std::abort();
  delete reinterpret_cast<Queue*>(cq);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** owner) {
  if (::read(channel->fd, cq, sizeof *cq) != sizeof *cq) return -1;
  *owner = (*cq)->cq_context;
  return 0;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* initial) {
  auto* made = new QueuePair;
  made->base.context = pd->context;
  made->base.qp_context = initial->qp_context;
  made->base.pd = pd;
  made->base.send_cq = initial->send_cq;
  made->base.recv_cq = initial->recv_cq;
  made->base.qp_type = initial->qp_type;
  made->cap = initial->cap;
  std::lock_guard lock(world().mutex);
  made->base.qp_num = world().nextPair++;
  world().pairs[made->base.qp_num] = made;
  return &made->base;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int which) {
  std::lock_guard lock(world().mutex);
  auto& pair = *reinterpret_cast<QueuePair*>(qp);
  if (!(which & IBV_QP_STATE) || pair.base.state == IBV_QPS_ERR) return EINVAL;
  if (attributes->qp_state != pair.base.state + 1) return EINVAL;
  if (which & IBV_QP_PATH_MTU && attributes->path_mtu > IBV_MTU_1024) return EINVAL;
  pair.base.state = attributes->qp_state;
  if (which & IBV_QP_DEST_QPN) pair.peer = attributes->dest_qp_num;
  advanceAll();
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
  std::lock_guard lock(world().mutex);
  world().pairs.erase(qp->qp_num);
  // Events that nobody has taken go with it.
  auto& context = *reinterpret_cast<Context*>(qp->context);
  std::vector<ibv_async_event> others;
  ibv_async_event waiting;
  while (::read(context.base.async_fd, &waiting, sizeof waiting) == sizeof waiting)
    if (waiting.event_type != IBV_EVENT_QP_ACCESS_ERR || waiting.element.qp != qp) others.push_back(waiting);
  for (const ibv_async_event& other : others) tell(context, other);
  delete reinterpret_cast<QueuePair*>(qp);
  return 0;
}
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return ::read(context->async_fd, event, sizeof *event) == sizeof *event ? 0 : -1;
}
void ibv_ack_async_event(ibv_async_event*) {}
const char* ibv_event_type_str(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ERR ? "port error" : type == IBV_EVENT_PORT_ACTIVE ? "port active" : "QP access error";
}
const char* ibv_wc_status_str(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "failed";
}
}
