// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/LaunchedRanks.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "runtime/node/Protocol.h"

namespace hpu::tools {
namespace {

using base::Deadline;
using base::strCat;
using collectives::LauncherEnvironment;
using collectives::UniqueId;
using node::Fd;

constexpr uint32_t kMagic = 0x70636368;
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr int64_t kOthersMs = 10000;  ///< For the others to fail too, when one has failed.
constexpr int64_t kHeardMs = 60000;   ///< For rank 0 to end after a rank has told of its failure.

/// What a rank says first, and rank 0's answer.
struct Hello {
  uint32_t magic = kMagic;
  int32_t rank = 0, ranks = 0;
  int32_t code = 0;  ///< Its device cannot be had.
  char text[1024] = {};
};
struct Answer {
  uint32_t magic = kMagic;
  int32_t failed = 0;  ///< Rank 0 has said why.
  UniqueId id;
};

template <typename Packet>
StatusOr<bool> receive(int socket, Packet& packet, Fd* fd = nullptr) {
  std::string data;
  HPU_ASSIGN(bool came, node::receivePacket(socket, data, fd));
  if (!came) return false;
  if (data.size() != sizeof packet) return invalidArgument("another release of hccl-perf");
  std::memcpy(&packet, data.data(), sizeof packet);
  if (packet.magic != kMagic) return invalidArgument("another release of hccl-perf");
  return true;
}

StatusOr<Fd> newSocket() {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return resourceExhausted(strCat("cannot create a socket: ", std::strerror(errno)));
  return socket;
}

int pollMs(const Deadline& deadline) {
  return static_cast<int>(std::clamp<int64_t>(deadline.remainingMs(), 0, 1000));
}

bool hungUp(int socket) {
  pollfd event{socket, 0, 0};
  return ::poll(&event, 1, 0) == 1 && (event.revents & (POLLHUP | POLLERR)) != 0;
}

bool sameUser(int socket) {
  auto peer = node::peerOf(socket);
  return peer.ok() && peer->uid == ::geteuid();
}

// ---- Rank 0 -------------------------------------------------------------------------------------

/// The other ranks as they come.
class Meeting {
 public:
  Meeting(const LauncherEnvironment& launch, const Deadline& deadline)
      : launch_(launch), deadline_(deadline), ranks_(static_cast<size_t>(launch.ranks)) {}

  Status open(const std::string& name) {
    HPU_ASSIGN(listener_, newSocket());
    sockaddr_un address;
    uint32_t bytes = node::socketAddress(name, address);
    // An earlier run of the same job may just be ending.
    while (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
      if (errno != EADDRINUSE) return unavailable(strCat("cannot meet the other ranks: ", std::strerror(errno)));
      if (deadline_.expired())
        return alreadyExists(strCat("another hccl-perf is rank 0 of this ", launch_.source,
                                    " job; set HCCL_COMM_ID differently for each to tell them "
                                    "apart, or give --ranks"));
      std::this_thread::sleep_for(kPause);
    }
    if (::listen(listener_.get(), 128) != 0)
      return unavailable(strCat("cannot meet the other ranks: ", std::strerror(errno)));
    return okStatus();
  }

  /// Until all have come. Errors name the ranks that have not, or what is wrong with one; then too the others
  /// are given time to come, or they would look for a rank 0 that has ended.
  Status gather() {
    Status status;
    Deadline patience = deadline_;
    auto fail = [&](Status why) {
      if (!status.ok()) return;
      status = std::move(why);
      patience = Deadline::afterMs(std::min(kOthersMs, deadline_.remainingMs()));
    };
    for (size_t came = 1; came < ranks_.size();) {
      if (patience.expired()) {
        fail(missing());
        break;
      }
      std::vector<pollfd> wanted{{listener_.get(), POLLIN, 0}};
      for (const Fd& one : unnamed_) wanted.push_back({one.get(), POLLIN, 0});
      for (const Fd& one : ranks_)
        if (one.valid()) wanted.push_back({one.get(), 0, 0});
      ::poll(wanted.data(), wanted.size(), pollMs(patience));
      for (size_t rank = 1; rank < ranks_.size(); ++rank) {
        if (!ranks_[rank].valid() || !hungUp(ranks_[rank].get())) continue;
        ranks_[rank].reset();
        fail(unavailable(strCat("rank ", rank, " ended before all ranks had come")));
      }
      for (size_t i = 0; i < unnamed_.size();) {
        Hello hello;
        auto said = receive(unnamed_[i].get(), hello);
        if (said.ok() && !*said) {
          ++i;
          continue;
        }
        Fd socket = std::move(unnamed_[i]);
        unnamed_.erase(unnamed_.begin() + static_cast<std::ptrdiff_t>(i));
        if (!said.ok()) continue;
        ++came;
        if (Status seated = seat(hello, std::move(socket)); !seated.ok()) fail(std::move(seated));
      }
      Fd next(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (next.valid() && sameUser(next.get())) unnamed_.push_back(std::move(next));
    }
    listener_.reset();
    return status;
  }

  /// The last word to all that have come: the id and where results go, or that there is none.
  Status answer(const StatusOr<UniqueId>& id, int results) {
    Answer answer;
    answer.failed = id.ok() ? 0 : 1;
    if (id.ok()) answer.id = *id;
    Status status = id.status();
    for (const Fd& one : ranks_) {
      if (!one.valid()) continue;
      Status sent = node::sendPacket(one.get(), &answer, sizeof answer, id.ok() ? results : -1);
      if (status.ok()) status = sent;
    }
    return status;
  }

  /// Tells the others that it is all over; they can still see when this process ends.
  void giveUp() {
    for (const Fd& one : ranks_)
      if (one.valid()) ::shutdown(one.get(), SHUT_WR);
  }
  bool ended(int rank) const {
    const Fd& one = ranks_[static_cast<size_t>(rank)];
    return one.valid() && hungUp(one.get());
  }

 private:
  Status seat(const Hello& hello, Fd socket) {
    if (hello.ranks != launch_.ranks || hello.rank < 1 || hello.rank >= launch_.ranks)
      return invalidArgument(strCat("a process came as rank ", hello.rank, " of ", hello.ranks, ", but ",
                                    launch_.source, " made this one rank 0 of ", launch_.ranks));
    Fd& place = ranks_[static_cast<size_t>(hello.rank)];
    if (place.valid()) return invalidArgument(strCat("two processes are rank ", hello.rank));
    place = std::move(socket);
    if (hello.code == 0) return okStatus();
    return Status(static_cast<StatusCode>(hello.code),
                  strCat("rank ", hello.rank, ": ", std::string(hello.text, ::strnlen(hello.text, sizeof hello.text))));
  }
  Status missing() const {
    std::string text;
    for (size_t rank = 1; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].valid()) text += strCat(text.empty() ? "" : ", ", rank);
    return deadlineExceeded(strCat("rank 0 of ", launch_.ranks, " (", launch_.source, ") waited ", deadline_.totalMs(),
                                   " ms (HPU_COMM_INIT_TIMEOUT_MS) for hccl-perf as rank ", text,
                                   " on this machine; --ranks N starts ranks of its own"));
  }

  const LauncherEnvironment& launch_;
  const Deadline& deadline_;
  Fd listener_;
  std::vector<Fd> unnamed_;  ///< Have not said which rank they are.
  std::vector<Fd> ranks_;    ///< None for rank 0.
};

StatusOr<ExitCode> runFirst(const LauncherEnvironment& launch, const std::string& name,
                            const std::vector<Workload>& works, const RankOptions& options,
                            const StatusOr<hpu::Device>& device, const Deadline& deadline, const Report& report) {
  Pipe results;
  HPU_RETURN_IF_ERROR(results.open());
  // Until the process ends: a rank that has failed ends no sooner than this one, because launchers end
  // the others with the first that fails, and the reason would be lost.
  static Meeting* meeting;
  meeting = new Meeting(launch, deadline);
  HPU_RETURN_IF_ERROR(meeting->open(name));
  Status met = meeting->gather();
  if (met.ok() && !device.ok()) met = device.status().withContext("rank 0");
  StatusOr<UniqueId> id = met.ok() ? collectives::createUniqueId() : StatusOr<UniqueId>(met);
  HPU_RETURN_IF_ERROR(meeting->answer(id, results.write));
  std::atomic<bool> over{false};
  std::jthread own([&] {
    Status status = runOneRank(0, works, options, results.write, *device, *id,
                               [&] { return over ? unavailable("another rank failed") : okStatus(); });
    sendEnd(0, status, results.write).ignore();
  });
  // A rank that fails makes the others fail: they are never left waiting.
  ResultCollector collector(options, results.read, report);
  auto ended = [](int rank) { return std::string(meeting->ended(rank) ? "ended without a word" : ""); };
  Status status = collector.run([](const UniqueId&) { return okStatus(); }, ended);
  if (!status.ok()) {
    over = true;
    meeting->giveUp();
    collector.awaitEnds(ended, kOthersMs);
    return status;
  }
  return ExitCode::kOk;
}

// ---- The others ---------------------------------------------------------------------------------

StatusOr<Fd> findFirst(const LauncherEnvironment& launch, const std::string& name, const Deadline& deadline) {
  sockaddr_un address;
  uint32_t bytes = node::socketAddress(name, address);
  for (;;) {
    HPU_ASSIGN(Fd socket, newSocket());
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes) == 0) {
      if (sameUser(socket.get())) return socket;
      return Status(StatusCode::kPermissionDenied, "rank 0 is another user's");
    }
    if (errno != ECONNREFUSED && errno != ENOENT && errno != EAGAIN && errno != EINTR)
      return unavailable(strCat("cannot reach rank 0: ", std::strerror(errno)));
    if (deadline.expired())
      return deadlineExceeded(strCat("rank ", launch.rank, " of ", launch.ranks, " (", launch.source,
                                     ") found no rank 0 of ", "its job on this machine within ", deadline.totalMs(),
                                     " ms (HPU_COMM_INIT_TIMEOUT_MS); --ranks N starts ranks of its own"));
    std::this_thread::sleep_for(kPause);
  }
}

StatusOr<ExitCode> runOther(const LauncherEnvironment& launch, const std::string& name,
                            const std::vector<Workload>& works, const RankOptions& options,
                            const StatusOr<hpu::Device>& device, const Deadline& deadline) {
  HPU_ASSIGN(Fd first, findFirst(launch, name, deadline));
  Hello hello;
  hello.rank = launch.rank;
  hello.ranks = launch.ranks;
  hello.code = static_cast<int32_t>(device.status().code());
  std::strncpy(hello.text, device.status().message().c_str(), sizeof hello.text - 1);
  HPU_RETURN_IF_ERROR(node::sendPacket(first.get(), &hello, sizeof hello));
  auto awaitFirst = [&](int64_t ms) {
    for (Deadline patience = Deadline::afterMs(ms); !patience.expired();) {
      pollfd end{first.get(), 0, 0};
      if (::poll(&end, 1, pollMs(patience)) == 1) return;
    }
  };

  Answer answer;
  Fd results;
  // Rank 0 waits for all until its own deadline, which may have begun later.
  for (Deadline patience = Deadline::afterMs(2 * deadline.totalMs());;) {
    auto came = receive(first.get(), answer, &results);
    if (!came.ok()) return came.status().withContext(strCat("rank ", launch.rank, " waited for rank 0"));
    if (*came) break;
    if (patience.expired()) return deadlineExceeded(strCat("rank ", launch.rank, ": rank 0 does not answer"));
    pollfd event{first.get(), POLLIN, 0};
    ::poll(&event, 1, pollMs(patience));
  }
  if (answer.failed || !device.ok() || !results.valid()) {
    awaitFirst(kHeardMs);
    return ExitCode::kUserError;
  }
  Status status = runOneRank(launch.rank, works, options, results.get(), *device, answer.id, [&first] {
    pollfd end{first.get(), POLLIN | POLLRDHUP, 0};
    return ::poll(&end, 1, 0) == 1 ? unavailable("rank 0 gave up") : okStatus();
  });
  Status told = sendEnd(launch.rank, status, results.get());
  if (!told.ok()) return (status.ok() ? told : status).withContext(strCat("rank ", launch.rank));
  if (status.ok()) return ExitCode::kOk;
  awaitFirst(kHeardMs);
  return ExitCode::kUserError;
}

}  // namespace

std::string jobName(const LauncherEnvironment& launch, base::FunctionRef<const char*(const char*)> get) {
  struct Job {
    const char* source;
    std::array<const char*, 4> variables;
  };
  static constexpr Job kJobs[] = {
      {"Open MPI", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
      {"PMIx", {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {"Slurm", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {"torchrun", {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}}};
  std::string name = strCat(launch.source, " ", launch.ranks);
  bool known = false;
  auto add = [&](const char* variable) {
    const char* text = variable ? get(variable) : nullptr;
    if (!text || !*text) return;
    name += strCat(" ", variable, "=", text);
    known = true;
  };
  for (const Job& job : kJobs)
    if (launch.source == job.source)
      for (const char* variable : job.variables) add(variable);
  add("HCCL_COMM_ID");
  // One that says nothing of its job is at least one process.
  if (!known) name += strCat(" of process ", ::getppid());
  return name;
}

StatusOr<ExitCode> runLaunchedRank(const LauncherEnvironment& launch, const std::vector<Workload>& works,
                                   const RankOptions& options, const Report& report) {
  ::signal(SIGPIPE, SIG_IGN);
  HPU_ASSIGN(int64_t timeoutMs, settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS));
  Deadline deadline = Deadline::afterMs(timeoutMs);
  // Not the node: a job may have ranks on several of this machine.
  std::string job = jobName(launch, [](const char* variable) -> const char* { return std::getenv(variable); });
  std::string name = strCat("openhpu/perf/", ::geteuid(), "/", base::hash64(job));
  // A rank without a device tells so when they meet, or the others would wait for it.
  StatusOr<hpu::Device> device = openDeviceOf(launch, options.target);
  return launch.rank == 0 ? runFirst(launch, name, works, options, device, deadline, report)
                          : runOther(launch, name, works, options, device, deadline);
}

}  // namespace hpu::tools
