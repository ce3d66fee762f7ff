// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/SpreadRanks.h"

#include <array>

#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "hpu/stream.h"

namespace hpu::tools {
namespace {

using collectives::Communicator;
using collectives::ReduceOp;

/// One rank's figures to those of all: the slowest rank's times, the sum of the wrong elements.
class Combiner {
 public:
  static StatusOr<Combiner> create(hpu::Device device, const Communicator& communicator) {
    Combiner combiner(communicator);
    HPU_ASSIGN(combiner.stream_, Stream::create(device, {"hccl-perf results", 0}));
    HPU_ASSIGN(combiner.memory_, device.allocate(sizeof(Values), "hccl-perf results"));
    return combiner;
  }
  StatusOr<Measurement> combine(const Measurement& own) {
    HPU_ASSIGN(const Values most, reduced({own.wallUs, own.deviceUs, static_cast<double>(own.wrong)}, ReduceOp::kMax));
    Measurement all;
    all.wallUs = most[0];
    all.deviceUs = most[1];
    all.wrong = -1;
    if (most[2] < 0) return all;
    HPU_ASSIGN(const Values sum, reduced({0, 0, static_cast<double>(own.wrong)}, ReduceOp::kSum));
    all.wrong = static_cast<int64_t>(sum[2]);
    return all;
  }

 private:
  using Values = std::array<double, 3>;
  explicit Combiner(const Communicator& communicator) : communicator_(communicator) {}
  StatusOr<Values> reduced(Values values, ReduceOp op) {
    HPU_RETURN_IF_ERROR(stream_.copyToDevice(memory_, values.data(), sizeof values));
    HPU_RETURN_IF_ERROR(
        communicator_.allReduce(memory_.address(), memory_.address(), values.size(), ElementType::kF64, op, stream_));
    HPU_RETURN_IF_ERROR(stream_.copyToHost(values.data(), memory_, sizeof values));
    HPU_RETURN_IF_ERROR(stream_.synchronize());
    return values;
  }

  Communicator communicator_;
  Stream stream_;
  Buffer memory_;
};

}  // namespace

Status runSpreadRank(const collectives::LauncherEnvironment& launch, const std::vector<Workload>& works,
                     const RankOptions& options, const Report& report) {
  HPU_ASSIGN(const std::string where, settings::getString(Setting::HCCL_COMM_ID));
  if (where.empty())
    return invalidArgument(
        base::strCat("the ", launch.ranks, " ranks of ", launch.source,
                     " are on several machines: set HCCL_COMM_ID=ip:port on all of them, an address "
                     "of rank 0's machine and a free port, and HPU_COMM_SECRET to a long random text"));
  // A rank without a device tells so where all meet, or the others would wait for it.
  StatusOr<hpu::Device> device = openDeviceOf(launch, options.target);
  collectives::CommunicatorOptions comm;
  comm.tunerTable = options.tunerTable;
  const std::string who = base::strCat("rank ", launch.rank);
  auto communicator = Communicator::create(collectives::UniqueId{}, launch.rank, launch.ranks,
                                           device.ok() ? *device : hpu::Device(), comm);
  if (!device.ok()) return device.status().withContext(who);
  if (!communicator.ok()) return communicator.status().withContext(who);
  HPU_ASSIGN(Combiner combiner, Combiner::create(*device, *communicator));
  Status status = runRank(
      *device, *communicator, works, options.run, [&](size_t work, bool inPlace, const Measurement& result) -> Status {
        HPU_ASSIGN(const Measurement all, combiner.combine(result));
        Combined combined{work, inPlace, all, std::nullopt};
        if (works[work].op != PerfOp::kSendRecv) {
          HPU_ASSIGN(combined.prediction,
                     communicator->predict(works[work].operation(), works[work].count, works[work].type));
        }
        if (launch.rank == 0) report(combined);
        return okStatus();
      });
  return status.ok() ? status : status.withContext(who);
}

}  // namespace hpu::tools
