// SPDX-License-Identifier: Apache-2.0
// Timing: what a schedule costs on the links and engines of a node, from when each rank arrives to
// when it is done. The one thing to know: one function serves the tuner, the prediction and the
// device clock; it is integer picoseconds, and every rank that calls it with the same arrivals gets
// the same answer. A time from here is a time of our model.
//
// The model: between each two devices one link each way, which takes a pair's messages in their
// order, one after another, and those of other operations (LinkState); a message starts when the sender's step is
// ready, the receiver's is, and the link is free; it takes the link for its packets, and is there one latency later.
// Each device does one copy or reduction at a time, in the order in which they become ready, at the rate of its memory.
// What overlaps follows from the schedule's `after` alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/node.h"

namespace hpu::collectives {

/// Of a message: how long it takes the link and until it is there.
struct StepTime {
  int64_t startPs = 0, endPs = 0;
};

struct ScheduleTiming {
  std::vector<int64_t> endPs;      ///< By rank.
  std::vector<StepTime> steps;     ///< By step, when asked for.
  std::vector<int64_t> linkBytes;  ///< Sent, by rank; without headers.
};

/// What else the links of the ranks carry, when ranks share devices or devices other operations.
struct LinkState {
  /// By rank, outwards and inwards: from when on its rail to other nodes is free; empty: from the beginning.
  std::array<std::vector<int64_t>, 2> railFreePs;
  /// [from * ranks + to]: from when on the link is free; empty: from the beginning.
  std::vector<int64_t> freePs;
  /// By rank: the device that it is on. Ranks of one device share its links. Empty: each has one.
  std::vector<int32_t> devices;
  bool trivial() const { return freePs.empty() && devices.empty() && railFreePs[0].empty() && railFreePs[1].empty(); }
  bool operator==(const LinkState&) const = default;
};

/// What a rank's messages take of its links, and the least that it takes by itself.
struct RankUse {
  struct Link {
    int32_t peer = 0;
    bool send = false;
    int64_t busyPs = 0;
    node::PortTraffic traffic;  ///< Of the rank's own messages: `busyPs` may have those of others, too.
  };
  std::vector<Link> links;
  int64_t leastPs = 0;  ///< From its arrival to its end, at least: when all arrive at once, or less.
};

/// What an operation costs in device time, asked often. Any thread may call.
class OperationTimer {
 public:
  virtual ~OperationTimer() = default;
  /// When each rank is done, into `ends`, whose memory is used again; `arrivalPs` has one entry a rank, `links` have
  /// only what is relevant (CollectiveRun::linkState). Remembers the last few patterns of arrival, whatever their
  /// absolute time, and is then a look-up.
  virtual void endPs(std::span<const int64_t> arrivalPs, const LinkState& links, std::vector<int64_t>& ends) const = 0;
  /// When each step of a rank begins and ends, in the order of its program: for traces.
  virtual std::vector<StepTime> stepsOf(int32_t rank, std::span<const int64_t> arrivalPs,
                                        const LinkState& links) const = 0;
  /// From a rank's arrival to its first message.
  virtual int64_t startPs() const = 0;
  /// Remembered: for every call of a rank.
  virtual std::shared_ptr<const RankUse> use(int32_t rank) const = 0;
  /// Of the whole operation when all arrive at once. May simulate it first.
  virtual int64_t predictPs() const = 0;
  /// How many steps it keeps by now: what it takes of the host's memory.
  virtual size_t steps() const = 0;
};

/// A schedule made ready to be timed often: for one that is kept; it does not refer to the schedule.
class ScheduleTimer final : public OperationTimer {
 public:
  /// The schedule has passed its check.
  ScheduleTimer(const Schedule& schedule, const LinkModel& links);
  ~ScheduleTimer() override;
  ScheduleTimer(const ScheduleTimer&) = delete;
  ScheduleTimer& operator=(const ScheduleTimer&) = delete;

  /// `arrivalPs` has one entry a rank.
  ScheduleTiming run(std::span<const int64_t> arrivalPs, bool wantSteps = false, const LinkState& links = {}) const;
  std::vector<int64_t> endPs(std::span<const int64_t> arrivalPs, const LinkState& links = {}) const;
  void endPs(std::span<const int64_t> arrivalPs, const LinkState& links, std::vector<int64_t>& ends) const override;
  std::vector<StepTime> stepsOf(int32_t rank, std::span<const int64_t> arrivalPs,
                                const LinkState& links) const override;
  int64_t startPs() const override;
  /// Of links that are free before the first message can use them nothing is left: so times are the same
  /// whether or not the ports were said to be free.
  LinkState relevant(std::span<const int64_t> arrivalPs, LinkState links) const;
  std::shared_ptr<const RankUse> use(int32_t rank) const override;
  int64_t predictPs() const override;
  size_t steps() const override;

 private:
  struct Plan;
  struct Memory;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Memory> memory_;
};

/// The same for once. Cost: n log n in steps, about 0.2 us each.
ScheduleTiming timeSchedule(const Schedule& schedule, const LinkModel& links, std::span<const int64_t> arrivalPs,
                            bool wantSteps = false);
/// Of the whole operation when all arrive at once: the prediction.
int64_t predictPs(const Schedule& schedule, const LinkModel& links);
/// The least time that the links allow, whatever the algorithm: bytes that must cross the busiest
/// rank's links over their rate on the wire, without headers and latency.
int64_t lowerBoundPs(const Problem& problem, const LinkModel& links);

/// One message of several that a rank begins together (grouped sends and receives).
struct TransferLeg {
  int32_t peer = 0;  ///< The rank itself: a copy; counted once, at its send.
  bool send = false;
  int64_t peerArrivalPs = 0;
  int64_t bytes = 0;
  int64_t ownArrivalPs = 0;  ///< When this rank's end of the link is free for it, less startPs; 0: at once.
  /// How it goes, when not by a link of the model's rate.
  struct Way {
    bool rail = false;      ///< By the rank's rail, which all its messages with other nodes share.
    int64_t busyPs = 0;     ///< It takes the link, or this end's rail.
    int64_t throughPs = 0;  ///< Until the last of the ports on its way is done with it.
    int64_t messagePs = 0;  ///< From then until the receiver's next step.
  };
  std::optional<Way> way = std::nullopt;
};
/// When the rank that arrived with these legs is done with all of them: each begins when both ends
/// have arrived; those to (from) one peer go in their order, and a rail takes what is ready first.
int64_t transfersEndPs(const LinkModel& links, int32_t rank, int64_t arrivalPs, std::span<const TransferLeg> legs);

}  // namespace hpu::collectives
