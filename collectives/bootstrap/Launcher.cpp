// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Launcher.h"

#include <cstdlib>
#include <optional>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Wire.h"

namespace hpu::collectives {
namespace {

using Getter = base::FunctionRef<const char*(const char*)>;

/// The variables of a launcher; null where it has none.
struct Launcher {
  const char* source;
  const char *rank, *ranks, *localRank, *localRanks;
};
// The innermost first: torchrun may run below mpirun, and mpirun below Slurm.
constexpr Launcher kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Launcher kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                               "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Launcher kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Launcher kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr};
constexpr const char* kPmixRank = "PMIX_RANK";

StatusOr<std::optional<int>> number(Getter get, const char* name, int least, int most) {
  const char* text = name ? get(name) : nullptr;
  if (!text || !*text) return std::optional<int>();
  auto value = base::parseInt(text);
  if (!value.ok() || *value < least || *value > most)
    return invalidArgument(base::strCat(name, " is '", text, "', which is not a number from ", least, " to ", most));
  return std::optional<int>(static_cast<int>(*value));
}

/// Nothing when the launcher is not there.
StatusOr<std::optional<LauncherEnvironment>> read(Getter get, const Launcher& launcher) {
  LauncherEnvironment found;
  found.source = launcher.source;
  HPU_ASSIGN(auto rank, number(get, launcher.rank, 0, wire::kMaxRanks - 1));
  HPU_ASSIGN(auto ranks, number(get, launcher.ranks, 1, wire::kMaxRanks));
  if (!rank && !ranks) return std::optional<LauncherEnvironment>();
  if (!rank || !ranks)
    return invalidArgument(base::strCat(rank ? launcher.rank : launcher.ranks, " is set but ",
                                        rank ? launcher.ranks : launcher.rank, " is not: a rank needs both"));
  HPU_ASSIGN(auto localRank, number(get, launcher.localRank, 0, wire::kMaxRanks - 1));
  HPU_ASSIGN(auto localRanks, number(get, launcher.localRanks, 1, wire::kMaxRanks));
  found.rank = *rank;
  found.ranks = *ranks;
  found.localRank = localRank.value_or(-1);
  found.localRanks = localRanks.value_or(0);
  auto below = [](const char* name, int value, const char* limitName, int limit) {
    return invalidArgument(base::strCat(name, " is ", value, ", but ", limitName, " is ", limit));
  };
  if (found.rank >= found.ranks) return below(launcher.rank, found.rank, launcher.ranks, found.ranks);
  if (found.localRanks > 0 && found.localRank >= found.localRanks)
    return below(launcher.localRank, found.localRank, launcher.localRanks, found.localRanks);
  if (found.localRanks > found.ranks) return below(launcher.localRanks, found.localRanks, launcher.ranks, found.ranks);
  return std::optional<LauncherEnvironment>(found);
}

/// srun tells the step; where nothing tells the job either, the variables were set by hand.
bool inSlurmStep(Getter get) {
  constexpr int64_t kSpecialSteps = 0xfffffff0;  // Those of batch scripts, interactive shells, ...
  const char *job = get("SLURM_JOB_ID"), *step = get("SLURM_STEP_ID");
  if (!step || !*step) return !job || !*job;
  auto number = base::parseInt(step);
  return !number.ok() || *number < kSpecialSteps;
}

}  // namespace

StatusOr<LauncherEnvironment> readLauncher(Getter get) {
  HPU_ASSIGN(auto torchrun, read(get, kTorchrun));
  HPU_ASSIGN(auto openMpi, read(get, kOpenMpi));
  HPU_ASSIGN(auto pmi, read(get, kPmi));
  // A batch script and a shell of salloc have the job's variables, but are no task of a step.
  std::optional<LauncherEnvironment> slurm;
  if (inSlurmStep(get)) {
    HPU_ASSIGN(slurm, read(get, kSlurm));
  }
  HPU_ASSIGN(auto pmixRank, number(get, kPmixRank, 0, wire::kMaxRanks - 1));

  // A launcher below another one has other sizes; with the same size it is the same job, and a
  // rank that differs was set by hand for all processes. (Slurm's is its batch step's then.)
  auto compare = [](const auto& one, const auto& other, const Launcher& first, const Launcher& second) -> Status {
    if (!one || !other || one->ranks != other->ranks || one->rank == other->rank) return okStatus();
    return invalidArgument(base::strCat("the environment contradicts itself: ", first.rank, " is ", one->rank, " and ",
                                        second.rank, " is ", other->rank, " of ", one->ranks,
                                        " ranks both; unset one launcher's variables"));
  };
  HPU_RETURN_IF_ERROR(compare(torchrun, openMpi, kTorchrun, kOpenMpi));
  HPU_RETURN_IF_ERROR(compare(torchrun, pmi, kTorchrun, kPmi));
  HPU_RETURN_IF_ERROR(compare(openMpi, pmi, kOpenMpi, kPmi));
  if (pmixRank && openMpi && *pmixRank != openMpi->rank)
    return invalidArgument(base::strCat("the environment contradicts itself: ", kPmixRank, " is ", *pmixRank, " and ",
                                        kOpenMpi.rank, " is ", openMpi->rank));

  LauncherEnvironment found;
  if (torchrun) {
    found = *torchrun;
  } else if (openMpi) {
    found = *openMpi;
  } else if (pmi) {
    found = *pmi;
  } else if (pmixRank) {
    // PMIx has no variable for the size; Slurm's is right when it started this very process.
    if (!slurm || slurm->rank != *pmixRank)
      return invalidArgument(base::strCat(kPmixRank, " is set, but no variable says how many ranks there are: set ",
                                          kTorchrun.rank, " and ", kTorchrun.ranks, ", or start with srun or mpirun"));
    found = *slurm;
    found.source = "PMIx";
  } else if (slurm) {
    found = *slurm;
  } else {
    return found;
  }
  if (const char* address = get("MASTER_ADDR")) found.masterAddress = address;
  HPU_ASSIGN(auto port, number(get, "MASTER_PORT", 1, 65535));
  found.masterPort = port.value_or(0);
  // A process that was started alone on its machine, or a launcher that does not say.
  if (found.localRank < 0) found.localRank = found.ranks == 1 ? 0 : -1;
  return found;
}

std::string launcherSecret(Getter get) {
  // Open MPI's mpirun makes a key of 128 random bits for each job and gives it to the job's processes only.
  const char *key = get("OMPI_MCA_orte_precondition_transports"), *rank = get(kOpenMpi.rank);
  if (!key || !rank || !*rank) return {};
  const std::string_view text = key;
  constexpr size_t kHalf = 16, kWord = 8;  // "0123456789abcdef-0123456789abcdef".
  if (text.size() != 2 * kHalf + 1 || text[kHalf] != '-') return {};
  // Without mpirun (below srun) the library makes one up of the job's numbers: a word of it is zero then.
  for (size_t at : {size_t{0}, kWord, kHalf + 1, kHalf + 1 + kWord}) {
    const std::string_view word = text.substr(at, kWord);
    if (word.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return {};
    if (word.find_first_not_of('0') == std::string_view::npos) return {};
  }
  return std::string(text);
}

StatusOr<LauncherEnvironment> launcherEnvironment() {
  return readLauncher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace hpu::collectives
