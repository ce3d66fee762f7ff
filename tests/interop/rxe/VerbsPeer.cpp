// SPDX-License-Identifier: Apache-2.0
// The other side of the lab: a reliable connection of libibverbs, told what to do by lines over TCP.
//
//   verbs_peer PORT GID_INDEX MTU
//
// connect QPN PSN IPV6         the peer's; answers "QPN PSN KEY ADDRESS BYTES" of its own
// fill SEED FROM BYTES         its memory gets numbers; answers "ok"
// sum FROM BYTES               answers FNV-1a of its memory
// receive COUNT                posts so many receives of 64 KiB at the memory's second half; answers "ok"
// received                     answers how many completed, and the last one's bytes and immediate
// send|write|writeimm|read FROM BYTES [ADDRESS KEY]     answers "STATUS-NUMBER text"
// add|swap VALUE COMPARE ADDRESS KEY                    answers "STATUS-NUMBER text ORIGINAL"
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kBytes = 2 << 20, kReceiveBytes = 64 << 10;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}
template <typename T>
T need(T value, const char* what) {
  if (!value) fail(what);
  return value;
}

struct Connection {
  ibv_context* context = nullptr;
  ibv_mr* region = nullptr;
  ibv_cq *sendQueue = nullptr, *receiveQueue = nullptr;
  ibv_qp* pair = nullptr;
  uint8_t* memory = nullptr;
  int gidIndex = 1;
  ibv_mtu mtu = IBV_MTU_1024;
  int received = 0;
  ibv_wc last{};

  void open() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (!list || count == 0) fail("no RDMA device");
    context = need(ibv_open_device(list[0]), "ibv_open_device");
    ibv_pd* domain = need(ibv_alloc_pd(context), "ibv_alloc_pd");
    memory = static_cast<uint8_t*>(need(std::aligned_alloc(4096, kBytes), "memory"));
    std::memset(memory, 0, kBytes);
    const int access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    region = need(ibv_reg_mr(domain, memory, kBytes, access), "ibv_reg_mr");
    sendQueue = need(ibv_create_cq(context, 64, nullptr, nullptr, 0), "ibv_create_cq");
    receiveQueue = need(ibv_create_cq(context, 256, nullptr, nullptr, 0), "ibv_create_cq");
    ibv_qp_init_attr initial{};
    initial.send_cq = sendQueue;
    initial.recv_cq = receiveQueue;
    initial.cap = {64, 128, 1, 1, 0};
    initial.qp_type = IBV_QPT_RC;
    pair = need(ibv_create_qp(domain, &initial), "ibv_create_qp");
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = static_cast<unsigned>(access);
    if (ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
      fail("INIT");
  }

  void connect(uint32_t number, uint32_t psn, const char* ip) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = mtu;
    attributes.dest_qp_num = number;
    attributes.rq_psn = psn;
    attributes.max_dest_rd_atomic = 16;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.hop_limit = 64;
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gidIndex);
    if (inet_pton(AF_INET6, ip, attributes.ah_attr.grh.dgid.raw) != 1) fail("the peer's address");
    if (ibv_modify_qp(pair, &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
      fail("RTR");
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = 0xFFFFF8;  // Soon around.
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 16;
    if (ibv_modify_qp(pair, &attributes,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC))
      fail("RTS");
  }

  void receive(int count) {
    for (int i = 0; i < count; ++i) {
      ibv_sge place{reinterpret_cast<uintptr_t>(memory) + kBytes / 2, kReceiveBytes, region->lkey};
      ibv_recv_wr request{}, *bad = nullptr;
      request.sg_list = &place;
      request.num_sge = 1;
      if (ibv_post_recv(pair, &request, &bad)) fail("ibv_post_recv");
    }
  }
  void takeReceived() {
    ibv_wc completion;
    while (ibv_poll_cq(receiveQueue, 1, &completion) > 0) {
      ++received;
      last = completion;
    }
  }

  ibv_wc run(ibv_send_wr request, uint64_t from, uint32_t bytes) {
    ibv_sge place{reinterpret_cast<uintptr_t>(memory) + from, bytes, region->lkey};
    request.sg_list = &place;
    request.num_sge = bytes > 0 ? 1 : 0;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(pair, &request, &bad)) fail("ibv_post_send");
    ibv_wc completion{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (ibv_poll_cq(sendQueue, 1, &completion) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        completion.status = IBV_WC_RESP_TIMEOUT_ERR;
        break;
      }
      usleep(200);
    }
    return completion;
  }
};

uint32_t sumOf(const uint8_t* at, size_t bytes) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ at[i]) * 16777619u;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: verbs_peer PORT GID_INDEX MTU\n");
    return 1;
  }
  Connection connection;
  connection.gidIndex = std::atoi(argv[2]);
  const int mtu = std::atoi(argv[3]);
  connection.mtu = mtu >= 4096   ? IBV_MTU_4096
                   : mtu >= 2048 ? IBV_MTU_2048
                   : mtu >= 1024 ? IBV_MTU_1024
                   : mtu >= 512  ? IBV_MTU_512
                                 : IBV_MTU_256;
  connection.open();
  const int listener = socket(AF_INET6, SOCK_STREAM, 0), one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(std::atoi(argv[1])));
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) || listen(listener, 1)) fail("listen");
  const int control = accept(listener, nullptr, nullptr);
  FILE *in = fdopen(control, "r"), *out = fdopen(dup(control), "w");
  char line[256];
  while (fgets(line, sizeof line, in)) {
    char word[32] = "", ip[64] = "";
    uint64_t a = 0, b = 0, c = 0, d = 0;
    sscanf(line, "%31s", word);
    const std::string_view verb = word;
    if (verb == "connect") {
      unsigned number = 0, psn = 0;
      if (sscanf(line, "connect %u %u %63s", &number, &psn, ip) != 3) fail("connect");
      connection.connect(number, psn, ip);
      fprintf(out, "%u %u %u %" PRIu64 " %zu\n", connection.pair->qp_num, 0xFFFFF8, connection.region->rkey,
              static_cast<uint64_t>(reinterpret_cast<uintptr_t>(connection.memory)), kBytes);
    } else if (verb == "fill") {
      sscanf(line, "fill %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c);
      for (uint64_t i = 0; i < c; ++i) connection.memory[b + i] = static_cast<uint8_t>((a + i) * 2654435761u >> 16);
      fprintf(out, "ok\n");
    } else if (verb == "sum") {
      sscanf(line, "sum %" SCNu64 " %" SCNu64, &a, &b);
      fprintf(out, "%u\n", sumOf(connection.memory + a, b));
    } else if (verb == "receive") {
      sscanf(line, "receive %" SCNu64, &a);
      connection.receive(static_cast<int>(a));
      fprintf(out, "ok\n");
    } else if (verb == "received") {
      connection.takeReceived();
      fprintf(out, "%d %u %u\n", connection.received, connection.last.byte_len, ntohl(connection.last.imm_data));
    } else if (verb == "add" || verb == "swap") {
      sscanf(line, "%*s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c, &d);
      ibv_send_wr request{};
      request.opcode = verb == "add" ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
      request.wr.atomic.remote_addr = c;
      request.wr.atomic.rkey = static_cast<uint32_t>(d);
      request.wr.atomic.compare_add = verb == "add" ? a : b;
      request.wr.atomic.swap = a;
      const ibv_wc done = connection.run(request, 0, 8);
      uint64_t original = 0;
      std::memcpy(&original, connection.memory, 8);
      fprintf(out, "%d %s %" PRIu64 "\n", done.status, done.status == 0 ? "success" : "failed", original);
    } else if (verb == "send" || verb == "write" || verb == "writeimm" || verb == "read") {
      sscanf(line, "%*s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c, &d);
      ibv_send_wr request{};
      request.opcode = verb == "send"    ? IBV_WR_SEND
                       : verb == "write" ? IBV_WR_RDMA_WRITE
                       : verb == "read"  ? IBV_WR_RDMA_READ
                                         : IBV_WR_RDMA_WRITE_WITH_IMM;
      request.imm_data = htonl(0x1234ABCD);
      request.wr.rdma.remote_addr = c;
      request.wr.rdma.rkey = static_cast<uint32_t>(d);
      const ibv_wc done = connection.run(request, a, static_cast<uint32_t>(b));
      fprintf(out, "%d %s\n", done.status, ibv_wc_status_str(done.status));
    } else {
      fprintf(out, "unknown\n");
    }
    fflush(out);
  }
  return 0;
}
