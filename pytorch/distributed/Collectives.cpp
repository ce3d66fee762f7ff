// SPDX-License-Identifier: Apache-2.0
// The calls of ProcessGroupHCCL. Lists of tensors go through a flat piece of device memory, by copies on the group's
// stream; where their sizes differ, each rank sends its part to all (all_gather), or is the root of a reduce of its own
// (reduce_scatter).
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "pytorch/distributed/ProcessGroupHCCL.h"

namespace hpu_torch {

using c10d::OpType;
using hpu::Status;
using hpu::Stream;
using hpu::collectives::Communicator;
using WorkPtr = ProcessGroupHCCL::WorkPtr;

namespace {

/// Tensors one behind the other in a flat piece of memory, in elements that travel.
struct Layout {
  std::vector<int64_t> counts, offsets;
  int64_t total = 0;
  bool isEven = true;

  Layout(const std::vector<at::Tensor>& tensors, int64_t each) {
    for (const at::Tensor& tensor : tensors) {
      counts.push_back(tensor.numel() * each);
      offsets.push_back(total);
      total += counts.back();
      isEven = isEven && counts.back() == counts.front();
    }
  }
};

std::vector<hpu::CopyRange> copies(const std::vector<at::Tensor>& tensors, uint64_t flat, bool fromFlat) {
  std::vector<hpu::CopyRange> ranges;
  for (const at::Tensor& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes > 0 && fromFlat) ranges.push_back({addressOf(tensor), flat, bytes});
    if (bytes > 0 && !fromFlat) ranges.push_back({flat, addressOf(tensor), bytes});
    flat += static_cast<uint64_t>(bytes);
  }
  return ranges;
}

Status copyAll(Stream& stream, const std::vector<hpu::CopyRange>& ranges) {
  return ranges.empty() ? Status() : stream.copyMany(hpu::CopyDirection::kOnDevice, ranges);
}

bool isListEmpty(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.numel() > 0) return false;
  return true;
}

Status reduceAll(Communicator& communicator, Stream& stream, const at::Tensor& tensor, const Reduction& reduction) {
  const uint64_t at = addressOf(tensor);
  if (tensor.numel() == 0) return {};
  return reduction.isScaled ? communicator.allReduceScaled(at, at, tensor.numel(), reduction.type, reduction.op,
                                                           reduction.scale, stream)
                            : communicator.allReduce(at, at, tensor.numel(), reduction.type, reduction.op, stream);
}

Status scatterReduced(Communicator& communicator, Stream& stream, uint64_t input, uint64_t output, int64_t count,
                      const Reduction& reduction) {
  if (count == 0) return {};
  return reduction.isScaled ? communicator.reduceScatterScaled(input, output, count, reduction.type, reduction.op,
                                                               reduction.scale, stream)
                            : communicator.reduceScatter(input, output, count, reduction.type, reduction.op, stream);
}

/// Lengths and offsets of the parts of `tensor` along its first dim, in elements that travel.
void partsOf(const std::vector<int64_t>& splits, const at::Tensor& tensor, int ranks, int64_t each,
             std::vector<int64_t>& lengths, std::vector<int64_t>& offsets) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, "all_to_all_single: a tensor without dims cannot be split");
  c10d::checkSplitSizes(splits, tensor, ranks);
  const int64_t rows = tensor.size(0), row = rows ? tensor.numel() / rows * each : each;
  int64_t offset = 0;
  for (int i = 0; i < ranks; ++i) {
    lengths.push_back(row * (splits.empty() ? rows / ranks : splits[static_cast<size_t>(i)]));
    offsets.push_back(offset);
    offset += lengths.back();
  }
}

}  // namespace

WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Operands operands = operandsOf("broadcast", tensors);
  checkRoot("broadcast", options.rootRank);
  const at::Tensor& given = single("broadcast", tensors);
  const at::Tensor tensor = operands.output(given, rank_ == options.rootRank);
  const Elements elements = movedAs(tensor.scalar_type());
  return enqueue(OpType::BROADCAST, std::move(operands),
                 [address = addressOf(tensor), count = tensor.numel() * elements.each, type = elements.type,
                  root = static_cast<int>(options.rootRank)](Communicator& c, Stream& s) {
                   return count == 0 ? Status() : c.broadcast(address, address, count, type, root, s);
                 });
}

WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Operands operands = operandsOf("all_reduce", tensors);
  const at::Tensor tensor = operands.output(single("all_reduce", tensors), true);
  const Reduction reduction = reductionOf("all_reduce", tensor.scalar_type(), options.reduceOp);
  return enqueue(OpType::ALLREDUCE, std::move(operands),
                 [tensor, reduction](Communicator& c, Stream& s) { return reduceAll(c, s, tensor, reduction); });
}

WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const char* name = "all_reduce_coalesced";
  TORCH_CHECK_VALUE(!tensors.empty(), name, ": the list is empty");
  Operands operands = operandsOf(name, tensors);
  std::vector<std::pair<at::Tensor, Reduction>> all;
  for (const at::Tensor& tensor : tensors)
    all.emplace_back(operands.output(tensor, true), reductionOf(name, tensor.scalar_type(), options.reduceOp));
  return enqueue(OpType::ALLREDUCE_COALESCED, std::move(operands), [all](Communicator& c, Stream& s) {
    Status status = hpu::collectives::groupStart();
    if (!status.ok()) return status;
    for (const auto& [tensor, reduction] : all)
      if (status.ok()) status = reduceAll(c, s, tensor, reduction);
    const Status end = hpu::collectives::groupEnd();
    return status.ok() ? end : status;
  });
}

WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Operands operands = operandsOf("reduce", tensors);
  checkRoot("reduce", options.rootRank);
  const bool isRoot = rank_ == options.rootRank;
  const at::Tensor& given = single("reduce", tensors);
  const at::Tensor tensor = isRoot ? operands.output(given, true) : operands.input(given);
  const Reduction reduction = reductionOf("reduce", tensor.scalar_type(), options.reduceOp);
  TORCH_CHECK_VALUE(!reduction.isScaled, "reduce: PREMUL_SUM is there for all_reduce and reduce_scatter only");
  return enqueue(OpType::REDUCE, std::move(operands),
                 [address = addressOf(tensor), count = tensor.numel(), reduction,
                  root = static_cast<int>(options.rootRank)](Communicator& c, Stream& s) {
                   return count == 0 ? Status()
                                     : c.reduce(address, address, count, reduction.type, reduction.op, root, s);
                 });
}

WorkPtr ProcessGroupHCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  const char* name = "all_gather";
  const at::Tensor& given = single(name, inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, name, ": a rank has one device, and one list of results");
  checkList(name, outputs[0]);
  Operands operands = operandsOf(name, inputs);
  const at::Tensor input = operands.input(given);
  Tensors results;
  for (const at::Tensor& output : outputs[0]) {
    checkSameType(name, given, output);
    results.push_back(operands.output(output, false));
  }
  TORCH_CHECK_VALUE(results[static_cast<size_t>(rank_)].numel() == input.numel(), name, ": the tensor at place ", rank_,
                    " has ", results[static_cast<size_t>(rank_)].numel(), " elements, and this rank's input ",
                    input.numel());
  const Elements elements = movedAs(input.scalar_type());
  const Layout layout(results, elements.each);
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  const uint64_t flat =
      scratch(operands, *channel, layout.total * static_cast<int64_t>(hpu::elementSize(elements.type)));
  return enqueue(OpType::ALLGATHER, std::move(operands), channel,
                 [input, results, elements, layout, flat, ranks = size_](Communicator& c, Stream& s) {
                   if (isListEmpty(results)) return Status();
                   const int64_t count = input.numel() * elements.each;
                   Status status;
                   if (layout.isEven) {
                     status = c.allGather(addressOf(input), flat, count, elements.type, s);
                   } else {
                     const std::vector<int64_t> counts(static_cast<size_t>(ranks), count),
                         offsets(static_cast<size_t>(ranks), 0);
                     status = c.allToAllV(count ? addressOf(input) : flat, counts, offsets, flat, layout.counts,
                                          layout.offsets, elements.type, s);
                   }
                   return status.ok() ? copyAll(s, copies(results, flat, true)) : status;
                 });
}

WorkPtr ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) {
  const char* name = "all_gather_into_tensor";
  Operands operands = operandsOf(name, {input, output});
  checkSameType(name, input, output);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, name, ": the output has ", output.numel(),
                    " elements, and must have ", size_, " times the input's ", input.numel());
  const at::Tensor from = operands.input(input), to = operands.output(output, false);
  const Elements elements = movedAs(input.scalar_type());
  return enqueue(
      OpType::_ALLGATHER_BASE, std::move(operands),
      [from = addressOf(from), to = addressOf(to), count = from.numel() * elements.each, type = elements.type](
          Communicator& c, Stream& s) { return count == 0 ? Status() : c.allGather(from, to, count, type, s); });
}

WorkPtr ProcessGroupHCCL::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const char* name = "all_gather_coalesced";
  TORCH_CHECK_VALUE(!inputs.empty() && static_cast<int>(outputs.size()) == size_, name, ": ", outputs.size(),
                    " lists of results for ", size_, " ranks and ", inputs.size(), " inputs");
  WorkPtr last;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Tensors> results(1);
    for (const Tensors& ofRank : outputs) {
      TORCH_CHECK_VALUE(ofRank.size() == inputs.size(), name, ": a rank's list has ", ofRank.size(), " tensors for ",
                        inputs.size(), " inputs");
      results[0].push_back(ofRank[i]);
    }
    Tensors one{inputs[i]};
    if (last && inputs[i].is_cpu()) last->wait();
    last = allgather(results, one, options);
  }
  return last;
}

WorkPtr ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const char* name = "gather";
  checkRoot(name, options.rootRank);
  const at::Tensor& given = single(name, inputs);
  Operands operands = operandsOf(name, inputs);
  const at::Tensor input = operands.input(given);
  const bool isRoot = rank_ == options.rootRank;
  Tensors results;
  if (isRoot) {
    TORCH_CHECK_VALUE(outputs.size() == 1, name, ": the root has one list of results");
    checkList(name, outputs[0]);
    for (const at::Tensor& output : outputs[0]) {
      checkSameType(name, given, output);
      TORCH_CHECK_VALUE(output.numel() == given.numel(), name, ": results have the input's ", given.numel(),
                        " elements, not ", output.numel(), "; all_gather takes different sizes");
      results.push_back(operands.output(output, false));
    }
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs[0].empty(), name, ": only the root has results");
  }
  const Elements elements = movedAs(input.scalar_type());
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  const uint64_t flat = isRoot ? scratch(operands, *channel, static_cast<int64_t>(input.nbytes()) * size_) : 0;
  return enqueue(
      OpType::GATHER, std::move(operands), channel,
      [input, results, elements, flat, root = static_cast<int>(options.rootRank)](Communicator& c, Stream& s) {
        const int64_t count = input.numel() * elements.each;
        if (count == 0) return Status();
        const Status status = c.gather(addressOf(input), flat, count, elements.type, root, s);
        return status.ok() ? copyAll(s, copies(results, flat, true)) : status;
      });
}

WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const char* name = "scatter";
  checkRoot(name, options.rootRank);
  const at::Tensor& given = single(name, outputs);
  Operands operands = operandsOf(name, outputs);
  const at::Tensor output = operands.output(given, false);
  const bool isRoot = rank_ == options.rootRank;
  Tensors parts;
  if (isRoot) {
    TORCH_CHECK_VALUE(inputs.size() == 1, name, ": the root has one list of inputs");
    checkList(name, inputs[0]);
    for (const at::Tensor& input : inputs[0]) {
      checkSameType(name, input, given);
      TORCH_CHECK_VALUE(input.numel() == given.numel(), name, ": inputs have the output's ", given.numel(),
                        " elements, not ", input.numel());
      parts.push_back(operands.input(input));
    }
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs[0].empty(), name, ": only the root has inputs");
  }
  const Elements elements = movedAs(output.scalar_type());
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  const uint64_t flat = isRoot ? scratch(operands, *channel, static_cast<int64_t>(output.nbytes()) * size_) : 0;
  return enqueue(
      OpType::SCATTER, std::move(operands), channel,
      [output, parts, elements, flat, root = static_cast<int>(options.rootRank)](Communicator& c, Stream& s) {
        const int64_t count = output.numel() * elements.each;
        if (count == 0) return Status();
        const Status status = copyAll(s, copies(parts, flat, false));
        return status.ok() ? c.scatter(flat, addressOf(output), count, elements.type, root, s) : status;
      });
}

WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const char* name = "reduce_scatter";
  const at::Tensor& given = single(name, outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1, name, ": a rank has one device, and one list of inputs");
  checkList(name, inputs[0]);
  Operands operands = operandsOf(name, outputs);
  const at::Tensor output = operands.output(given, false);
  Tensors parts;
  for (const at::Tensor& input : inputs[0]) {
    checkSameType(name, input, given);
    parts.push_back(operands.input(input));
  }
  TORCH_CHECK_VALUE(parts[static_cast<size_t>(rank_)].numel() == output.numel(), name, ": the input at place ", rank_,
                    " has ", parts[static_cast<size_t>(rank_)].numel(), " elements, and this rank's output ",
                    output.numel());
  const Reduction reduction = reductionOf(name, output.scalar_type(), options.reduceOp);
  const Layout layout(parts, 1);
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  const int64_t each = hpu::elementSize(reduction.type);
  const uint64_t flat = scratch(operands, *channel, layout.total * each);
  if (!layout.isEven) TORCH_CHECK_VALUE(!reduction.isScaled, name, ": PREMUL_SUM takes parts of the same size");
  return enqueue(OpType::REDUCE_SCATTER, std::move(operands), channel,
                 [output, parts, reduction, layout, flat, each, rank = rank_](Communicator& c, Stream& s) {
                   Status status = copyAll(s, copies(parts, flat, false));
                   if (!status.ok()) return status;
                   if (layout.isEven) return scatterReduced(c, s, flat, addressOf(output), output.numel(), reduction);
                   for (size_t root = 0; root < parts.size() && status.ok(); ++root) {
                     if (layout.counts[root] == 0) continue;
                     const uint64_t from = flat + static_cast<uint64_t>(layout.offsets[root] * each);
                     status = c.reduce(from, static_cast<int>(root) == rank ? addressOf(output) : from,
                                       layout.counts[root], reduction.type, reduction.op, static_cast<int>(root), s);
                   }
                   return status;
                 });
}

WorkPtr ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  const char* name = "reduce_scatter_tensor";
  Operands operands = operandsOf(name, {input, output});
  checkSameType(name, input, output);
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size_, name, ": the input has ", input.numel(),
                    " elements, and must have ", size_, " times the output's ", output.numel());
  const Reduction reduction = reductionOf(name, input.scalar_type(), options.reduceOp);
  const at::Tensor from = operands.input(input), to = operands.output(output, false);
  return enqueue(OpType::_REDUCE_SCATTER_BASE, std::move(operands), [from, to, reduction](Communicator& c, Stream& s) {
    return scatterReduced(c, s, addressOf(from), addressOf(to), to.numel(), reduction);
  });
}

WorkPtr ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& outputSplits,
                                        std::vector<int64_t>& inputSplits, const c10d::AllToAllOptions&) {
  const char* name = "all_to_all_single";
  Operands operands = operandsOf(name, {input, output});
  checkSameType(name, input, output);
  const at::Tensor from = operands.input(input), to = operands.output(output, false);
  const Elements elements = movedAs(input.scalar_type());
  if (outputSplits.empty() && inputSplits.empty()) {
    TORCH_CHECK_VALUE(input.numel() == output.numel() && input.dim() > 0 && input.size(0) % size_ == 0, name,
                      ": without split sizes input and output have the same number of elements, and a first dim that ",
                      size_, " ranks divide; they have sizes ", input.sizes(), " and ", output.sizes());
    return enqueue(OpType::ALLTOALL_BASE, std::move(operands),
                   [from = addressOf(from), to = addressOf(to), count = from.numel() * elements.each / size_,
                    type = elements.type](Communicator& c, Stream& s) {
                     return count == 0 ? Status() : c.allToAll(from, to, count, type, s);
                   });
  }
  std::vector<int64_t> inCounts, inOffsets, outCounts, outOffsets;
  partsOf(inputSplits, input, size_, elements.each, inCounts, inOffsets);
  partsOf(outputSplits, output, size_, elements.each, outCounts, outOffsets);
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  // A rank may have nothing to give, or to get; the call has addresses all the same.
  const uint64_t fromAt = from.numel() ? addressOf(from) : scratch(operands, *channel, 16);
  const uint64_t toAt = to.numel() ? addressOf(to) : scratch(operands, *channel, 16);
  return enqueue(OpType::ALLTOALL_BASE, std::move(operands), channel, [=](Communicator& c, Stream& s) {
    return c.allToAllV(fromAt, inCounts, inOffsets, toAt, outCounts, outOffsets, elements.type, s);
  });
}

WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) {
  const char* name = "all_to_all";
  checkList(name, outputs);
  checkList(name, inputs);
  Operands operands = operandsOf(name, inputs);
  Tensors from, to;
  for (const at::Tensor& tensor : inputs) {
    checkSameType(name, inputs[0], tensor);
    from.push_back(operands.input(tensor));
  }
  for (const at::Tensor& tensor : outputs) {
    checkSameType(name, inputs[0], tensor);
    to.push_back(operands.output(tensor, false));
  }
  const Elements elements = movedAs(inputs[0].scalar_type());
  const Layout in(from, elements.each), out(to, elements.each);
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  const int64_t each = hpu::elementSize(elements.type);
  const uint64_t flatIn = scratch(operands, *channel, in.total * each);
  const uint64_t flatOut = scratch(operands, *channel, out.total * each);
  return enqueue(OpType::ALLTOALL, std::move(operands), channel,
                 [from, to, in, out, flatIn, flatOut, type = elements.type](Communicator& c, Stream& s) {
                   Status status = copyAll(s, copies(from, flatIn, false));
                   if (status.ok())
                     status = c.allToAllV(flatIn, in.counts, in.offsets, flatOut, out.counts, out.offsets, type, s);
                   return status.ok() ? copyAll(s, copies(to, flatOut, true)) : status;
                 });
}

WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int to, int tag) {
  checkRoot("send", to);
  TORCH_CHECK_VALUE(to != rank_, "send: rank ", to, " is this one");
  Operands operands = operandsOf("send", tensors);
  const at::Tensor tensor = operands.input(single("send", tensors));
  const Elements elements = movedAs(tensor.scalar_type());
  const std::shared_ptr<Channel> channel = pairChannel(operands.device(), rank_, to, tag);
  return enqueue(
      OpType::SEND, std::move(operands), channel,
      [address = addressOf(tensor), count = tensor.numel() * elements.each, type = elements.type](
          Communicator& c, Stream& s) { return count == 0 ? Status() : c.send(address, count, type, 1, s); });
}

WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int from, int tag) {
  checkRoot("recv", from);
  TORCH_CHECK_VALUE(from != rank_, "recv: rank ", from, " is this one");
  Operands operands = operandsOf("recv", tensors);
  const at::Tensor tensor = operands.output(single("recv", tensors), false);
  const Elements elements = movedAs(tensor.scalar_type());
  const std::shared_ptr<Channel> channel = pairChannel(operands.device(), from, rank_, tag);
  auto work = enqueue(
      OpType::RECV, std::move(operands), channel,
      [address = addressOf(tensor), count = tensor.numel() * elements.each, type = elements.type](
          Communicator& c, Stream& s) { return count == 0 ? Status() : c.receive(address, count, type, 0, s); });
  work->source = from;
  return work;
}

WorkPtr ProcessGroupHCCL::recvAnysource(Tensors&, int) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "recv: HCCL has no receive from any rank; name the rank (src=)");
}

WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& options) {
  Operands operands = operandsOf("barrier", {});
  if (!options.device_ids.empty())
    operands = Operands("barrier", checkedIndex(static_cast<c10::DeviceIndex>(options.device_ids[0])));
  auto work = enqueue(OpType::BARRIER, std::move(operands), [](Communicator& c, Stream& s) { return c.barrier(s); });
  work->holdsThread = true;
  return work;
}

}  // namespace hpu_torch
