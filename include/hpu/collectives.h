// SPDX-License-Identifier: Apache-2.0
// Communicator: collective operations and point-to-point messages among devices, HCCL's way.
// The one thing to know: calls only enqueue on the stream; every rank makes the same collective
// calls in the same order, and a rank that does not gets, like all others, an error that says who
// differs and in what.
//
//   namespace coll = hpu::collectives;
//   HPU_ASSIGN(coll::UniqueId id, coll::createUniqueId());   // rank 0; it sends it to the others
//   HPU_ASSIGN(auto comm, coll::Communicator::create(id, rank, ranks, device));
//   HPU_RETURN_IF_ERROR(comm.allReduce(in, out, count, hpu::ElementType::kBF16,
//                                      coll::ReduceOp::kSum, stream));
//   HPU_RETURN_IF_ERROR(stream.synchronize());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/status.h"
#include "hpu/stream.h"
#include "hpu/types.h"

namespace hpu::collectives {

/// The values are hcclRedOp_t's. The average is the sum divided once, at the end.
enum class ReduceOp : uint8_t { kSum = 0, kProd = 1, kMin = 2, kMax = 3, kAverage = 4 };

/// Names a communicator to be: where its coordinator listens, and a number that tells it from
/// others. Plain bytes.
struct UniqueId {
  uint8_t bytes[128] = {};
};
/// Starts a coordinator in this process (its thread ends with the process or when the communicator
/// is gone everywhere). HCCL_COMM_ID=ip:port, when set, says where; HCCL_SOCKET_IFNAME which
/// interface. Errors: kUnavailable, kInvalidArgument, kFailedPrecondition (HCCL_COMM_ID is an address that others
/// reach, and there is no secret: docs/collectives.md).
HPU_API StatusOr<UniqueId> createUniqueId();

/// Which rank of how many a launcher made this process: mpirun (Open MPI), PMIx, PMI (MPICH, Intel
/// MPI), Slurm's srun, torchrun; the innermost one when they are nested.
struct LauncherEnvironment {
  std::string source;  ///< "Open MPI"; empty: nobody did, and it is rank 0 of 1.
  int rank = 0, ranks = 1;
  int localRank = 0;          ///< Among those of this machine; -1: not told.
  int localRanks = 0;         ///< 0: not told.
  std::string masterAddress;  ///< MASTER_ADDR and MASTER_PORT, which torchrun's own store uses.
  int masterPort = 0;
};
/// Errors: kInvalidArgument (variables that are no numbers, or contradict each other; names them).
HPU_API StatusOr<LauncherEnvironment> launcherEnvironment();

struct CommunicatorOptions {
  std::string name;            ///< For errors and traces; empty: "comm N".
  int64_t initTimeoutMs = -1;  ///< < 0: HPU_COMM_INIT_TIMEOUT_MS (120,000).
  int64_t timeoutMs = -1;      ///< Without progress of an awaited rank; 0: none; < 0: HPU_COMM_TIMEOUT_MS (30,000).
  int64_t deadlineMs = -1;     ///< Of an operation in all; 0: none; < 0: HPU_COMM_DEADLINE_MS (1,800,000).
  std::string tunerTable;      ///< File; empty: HPU_COMM_TUNER_TABLE, else none.
  bool blocking = true;        ///< False: create returns at once; state() and every call tell how far it is.
};

/// What is known about one call beforehand.
struct Prediction {
  std::string algorithm, reason;
  int32_t slices = 1;
  int64_t predictedNs = 0;   ///< Modelled device time when all ranks arrive at once.
  int64_t lowerBoundNs = 0;  ///< What the links allow at best.
};
/// For Communicator::predict; a superset of what has a call of its own.
enum class Operation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kBarrier,
  kPointToPoint
};

class CommunicatorState;

/// A shared handle. Any thread may call anything; calls of one communicator are numbered in the
/// order in which they are made. Buffers are device addresses of the communicator's device, and
/// stay allocated until the work is done. Counts are elements, as HCCL has them. All ten HCCL types
/// and fp8, for movement and reduction; 16- and 8-bit floats accumulate in f32. Results are
/// bit-identical on every rank and from run to run (docs/collectives.md has the contract). Errors
/// of the calls: kInvalidArgument (what the rank itself can see: count, root, addresses, type),
/// kFailedPrecondition (not ready, destroyed), the communicator's failure. What comes later is an
/// error of the stream, and asyncError().
class HPU_API Communicator {
 public:
  Communicator();
  ~Communicator();
  static StatusOr<Communicator> create(const UniqueId& id, int rank, int ranks, const Device& device,
                                       const CommunicatorOptions& options = {}) {
    return create(id, rank, ranks, device, options, sizeof(CommunicatorOptions));
  }
  static StatusOr<Communicator> create(const UniqueId& id, int rank, int ranks, const Device& device,
                                       const CommunicatorOptions& options, size_t optionsBytes);
  /// All ranks in this process, one for each device. Errors: as create.
  static StatusOr<std::vector<Communicator>> createAll(const std::vector<Device>& devices,
                                                       const CommunicatorOptions& options = {}) {
    return createAll(devices, options, sizeof(CommunicatorOptions));
  }
  static StatusOr<std::vector<Communicator>> createAll(const std::vector<Device>& devices,
                                                       const CommunicatorOptions& options, size_t optionsBytes);
  /// In place of create, for a rank that cannot call it: the others' creation ends with `why` at
  /// once instead of waiting. Waits for the coordinator for 10 s at most. Errors: nobody was told.
  static Status decline(const UniqueId& id, int rank, int ranks, const Status& why);
  bool valid() const { return state_ != nullptr; }
  int rank() const;
  int ranks() const;
  const Device& device() const;
  /// Ok when ready; kUnavailable while a non-blocking create goes on; its error after that, which
  /// may be kUnavailable too: pending() tells them apart.
  Status ready() const;
  /// A non-blocking create goes on: ready() will change.
  bool pending() const;
  /// The first failure of any operation or of a peer; ok when there was none.
  Status asyncError() const;

  Status allReduce(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op, const Stream& stream);
  Status reduceScatter(uint64_t input, uint64_t output, int64_t outputCount, ElementType type, ReduceOp op,
                       const Stream& stream);
  Status reduce(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op, int root,
                const Stream& stream);
  Status allGather(uint64_t input, uint64_t output, int64_t inputCount, ElementType type, const Stream& stream);
  /// `count` elements go to each rank.
  Status allToAll(uint64_t input, uint64_t output, int64_t count, ElementType type, const Stream& stream);
  Status broadcast(uint64_t input, uint64_t output, int64_t count, ElementType type, int root, const Stream& stream);
  Status gather(uint64_t input, uint64_t output, int64_t inputCount, ElementType type, int root, const Stream& stream);
  Status scatter(uint64_t input, uint64_t output, int64_t outputCount, ElementType type, int root,
                 const Stream& stream);
  Status barrier(const Stream& stream);
  /// From one rank to one other, over all links: every rank calls it.
  Status relay(uint64_t input, uint64_t output, int64_t count, ElementType type, int from, int to,
               const Stream& stream);
  /// Done when the receiver has taken the data, also of a small message: a send and a receive of both of two ranks
  /// must be in one group, or each would wait for the other.
  Status send(uint64_t input, int64_t count, ElementType type, int peer, const Stream& stream);
  Status receive(uint64_t output, int64_t count, ElementType type, int peer, const Stream& stream);
  /// Elements counts[p] at offset displacements[p] for each peer p; both sides agree in count. What
  /// is received overlaps nothing else, but a rank's part for itself may lie where it comes from.
  Status allToAllV(uint64_t input, const std::vector<int64_t>& inputCounts,
                   const std::vector<int64_t>& inputDisplacements, uint64_t output,
                   const std::vector<int64_t>& outputCounts, const std::vector<int64_t>& outputDisplacements,
                   ElementType type, const Stream& stream);
  /// Sums (or averages) of contributions that were multiplied by `scale`, each rank by its own.
  Status allReduceScaled(uint64_t input, uint64_t output, int64_t count, ElementType type, ReduceOp op, double scale,
                         const Stream& stream);
  Status reduceScatterScaled(uint64_t input, uint64_t output, int64_t outputCount, ElementType type, ReduceOp op,
                             double scale, const Stream& stream);

  /// What the call would take. `count` as in the call. Does not communicate. Simulates the operation where the choice
  /// does without: seconds for a reduce of 1 GiB on 128 nodes; where `reason` says "about" it has an estimate instead.
  StatusOr<Prediction> predict(Operation operation, int64_t count, ElementType type) const;

  /// A new communicator of the ranks with the same colour, ordered by (key, rank); invalid for
  /// colour < 0. Every rank calls it.
  StatusOr<Communicator> split(int color, int key, const CommunicatorOptions& options = {}) const {
    return split(color, key, options, sizeof(CommunicatorOptions));
  }
  StatusOr<Communicator> split(int color, int key, const CommunicatorOptions& options, size_t optionsBytes) const;
  /// A new communicator without the excluded ranks; only the others call it, also after a failure
  /// of this one and the end of any rank's process. They meet in the process of the first of them. A rank that was left
  /// out of a shrink takes part in no later one of the same communicator.
  /// A stream on which an operation of this one failed is synchronized, which returns that failure, before the new one
  /// uses it: it would skip the new one's operations, which fails the new one.
  /// Errors: as create; kUnavailable (the process of a rank that is not excluded has ended): call
  /// it again without that rank.
  StatusOr<Communicator> shrink(const std::vector<int>& excluded, const CommunicatorOptions& options = {}) const {
    return shrink(excluded, options, sizeof(CommunicatorOptions));
  }
  StatusOr<Communicator> shrink(const std::vector<int>& excluded, const CommunicatorOptions& options,
                                size_t optionsBytes) const;

  /// Waits until everything enqueued is done, on every rank. Errors: kDeadlineExceeded; it comes up to five seconds
  /// after the deadline when the process of rank 0, which knows who is missing, does not answer either;
  /// kFailedPrecondition inside of what the runtime calls (Stream::callHost, a hook), where it might wait for itself.
  Status finalize(int64_t deadlineMs = -1);
  /// Ends everything in progress, here with kAborted and at the peers with this rank's name.
  /// Returns at once.
  Status abort(const std::string& why = {});

  const std::shared_ptr<CommunicatorState>& state() const { return state_; }
  explicit Communicator(std::shared_ptr<CommunicatorState> state);

 private:
  std::shared_ptr<CommunicatorState> state_;
};

/// Between these calls of one thread (they nest), calls are kept and enqueued together at the
/// outermost end: sends and receives of a group wait for nothing but their peers, and wherever they
/// stand among its calls they come after all collectives of the group. An error of a kept call is
/// the group end's, and nothing of the group is enqueued then.
HPU_API Status groupStart();
HPU_API Status groupEnd();
/// Of a wrong call that a layer above refused itself: the calling thread's group ends with this
/// error, unless it has one. False when the thread has no group.
HPU_API bool groupFail(const Status& why);

}  // namespace hpu::collectives
