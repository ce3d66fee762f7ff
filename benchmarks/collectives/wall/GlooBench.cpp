// SPDX-License-Identifier: Apache-2.0
// gloo_bench OP RANKS SIZES [INTERFACE [NAMESPACE,...]]: gloo's collectives over TCP among local ranks; one JSON
// object. f32 sums; sizes are those of the largest buffer, as hccl-perf has them. Rank r is in the network namespace
// (of `ip netns`) with number r modulo how many are given.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "Ranks.h"

namespace {

using Call = std::function<void()>;

/// One call, its buffers kept; empty for an unknown name.
Call makeCall(const std::string& op, const std::shared_ptr<gloo::Context>& context, size_t bytes) {
  auto ranks = static_cast<size_t>(context->size);
  size_t count = bytes / sizeof(float);
  auto in = std::make_shared<std::vector<float>>(count, 1.0f);
  auto out = std::make_shared<std::vector<float>>(count, 0.0f);
  auto sum = static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>);
  if (op == "all_reduce")
    return [=] {
      gloo::AllreduceOptions options(context);
      options.setInput(in->data(), count);
      options.setOutput(out->data(), count);
      options.setReduceFunction(sum);
      gloo::allreduce(options);
    };
  if (op == "all_gather")
    return [=] {
      gloo::AllgatherOptions options(context);
      options.setInput(in->data(), count / ranks);
      options.setOutput(out->data(), count / ranks * ranks);
      gloo::allgather(options);
    };
  if (op == "all_to_all")
    return [=] {
      gloo::AlltoallOptions options(context);
      options.setInput(in->data(), count / ranks * ranks);
      options.setOutput(out->data(), count / ranks * ranks);
      gloo::alltoall(options);
    };
  if (op == "broadcast")
    return [=] {
      gloo::BroadcastOptions options(context);
      options.setOutput(out->data(), count);
      options.setRoot(0);
      gloo::broadcast(options);
    };
  if (op == "reduce")
    return [=] {
      gloo::ReduceOptions options(context);
      options.setInput(in->data(), count);
      options.setOutput(out->data(), count);
      options.setRoot(0);
      options.setReduceFunction(sum);
      gloo::reduce(options);
    };
  if (op == "reduce_scatter") {
    std::vector<int> parts(ranks, static_cast<int>(count / ranks));
    auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
        context, std::vector<float*>{in->data()}, static_cast<int>(count / ranks * ranks), parts,
        gloo::ReductionFunction<float>::sum);
    return [=] {
      (void)in;
      algorithm->run();
    };
  }
  return {};
}

int runRank(wall::Shared& shared, int rank, int ranks, const std::string& op, const std::vector<size_t>& sizes,
            const std::string& folder, const std::string& interface, const std::vector<std::string>& namespaces) {
  try {
    if (!namespaces.empty()) {
      const std::string path = "/run/netns/" + namespaces[static_cast<size_t>(rank) % namespaces.size()];
      const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        std::perror(path.c_str());
        return 1;
      }
      close(fd);
    }
    gloo::transport::tcp::attr attributes;
    attributes.iface = interface;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    if (rank == 0)
      std::printf("{\"library\": \"gloo\", \"op\": \"%s\", \"ranks\": %d, \"results\": [", op.c_str(), ranks);
    for (size_t i = 0; i < sizes.size(); ++i) {
      Call call = makeCall(op, context, sizes[i]);
      if (!call) {
        std::fprintf(stderr, "gloo_bench: no collective '%s'\n", op.c_str());
        return 1;
      }
      double us = wall::timed(shared, rank, ranks, wall::iterationsFor(sizes[i]), call);
      if (rank == 0) std::printf("%s{\"bytes\": %zu, \"us\": %.3f}", i ? ", " : "", sizes[i], us);
    }
    if (rank == 0) std::printf("]}\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_bench, rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: gloo_bench OP RANKS SIZE,SIZE... [INTERFACE [NAMESPACE,...]]\n");
    return 1;
  }
  char folder[] = "/tmp/gloo_bench_XXXXXX";
  if (!mkdtemp(folder)) return 1;
  int ranks = std::atoi(argv[2]);
  std::vector<size_t> sizes = wall::sizesOf(argv[3]);
  std::string interface = argc > 4 ? argv[4] : "lo";
  std::vector<std::string> namespaces;
  if (argc > 5) {
    std::stringstream list(argv[5]);
    for (std::string name; std::getline(list, name, ',');) namespaces.push_back(name);
  }
  int failed = wall::forkRanks(ranks, [&](wall::Shared& shared, int rank) {
    return runRank(shared, rank, ranks, argv[1], sizes, folder, interface, namespaces);
  });
  std::string remove = std::string("rm -rf ") + folder;
  if (std::system(remove.c_str()) != 0) std::fprintf(stderr, "gloo_bench: cannot remove %s\n", folder);
  return failed;
}
