// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace hpu::collectives {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

StatusOr<LauncherEnvironment> with(const Variables& variables) {
  return readLauncher([&](const char* name) -> const char* {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

// As Open MPI 4 and 5, Hydra, srun and torchrun set them.
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_RANK", "3"}};
const Variables kHydra = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSrun = {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "2"}};
const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node-a"},
                             {"MASTER_PORT", "29500"}};

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

TEST(Launcher, KnowsEachOne) {
  LauncherEnvironment alone = with({}).value();
  EXPECT_EQ(alone.source, "");
  EXPECT_EQ(alone.ranks, 1);
  LauncherEnvironment found = with(kOpenMpi).value();
  EXPECT_EQ(found.source, "Open MPI");
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.ranks, 8);
  EXPECT_EQ(found.localRank, 1);
  EXPECT_EQ(found.localRanks, 2);
  found = with(kHydra).value();
  EXPECT_EQ(found.source, "PMI");
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.localRank, 0);
  found = with(kSrun).value();
  EXPECT_EQ(found.source, "Slurm");
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.localRank, 2);
  found = with(kSrun + Variables{{"PMIX_RANK", "5"}}).value();
  EXPECT_EQ(found.source, "PMIx");
  EXPECT_EQ(found.ranks, 6);
  found = with(kTorchrun).value();
  EXPECT_EQ(found.source, "torchrun");
  EXPECT_EQ(found.masterAddress, "node-a");
  EXPECT_EQ(found.masterPort, 29500);
}

TEST(Launcher, OnlyWhatMpirunMadeAtRandomIsASecret) {
  auto secret = [](const Variables& variables) {
    return launcherSecret([&](const char* name) -> const char* {
      auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
  };
  auto key = [](const char* text) { return Variables{{"OMPI_MCA_orte_precondition_transports", text}}; };
  const Variables random = key("ce3a1bd5713d2ebb-054140d7500f01d1");
  EXPECT_EQ(secret(kOpenMpi + random), "ce3a1bd5713d2ebb-054140d7500f01d1");
  EXPECT_EQ(secret(kOpenMpi + kTorchrun + random), "ce3a1bd5713d2ebb-054140d7500f01d1");
  // Not of a rank, numbers of the job (Open MPI without mpirun), not a key at all.
  EXPECT_EQ(secret(random), "");
  EXPECT_EQ(secret(kOpenMpi), "");
  for (const char* text :
       {"017569a900000000-017569a900000000", "00000000713d2ebb-054140d7500f01d1", "", "ce3a1bd5713d2ebb",
        "ce3a1bd5713d2ebb-054140d7500f01d12", "ce3a1bd5713d2ebbx054140d7500f01d1", "ce3a1bd5713d2ebg-054140d7500f01d1"})
    EXPECT_EQ(secret(kOpenMpi + key(text)), "") << text;
  for (const Variables& other : {kHydra, kSrun, kTorchrun}) EXPECT_EQ(secret(other), "");
}

TEST(Launcher, OnlyTasksOfSlurmStepsAreRanks) {
  const Variables job = {{"SLURM_JOB_ID", "7"}};
  EXPECT_EQ(with(kSrun + job + Variables{{"SLURM_STEP_ID", "0"}}).value().rank, 5);
  // A batch script; an interactive step of salloc; a shell of salloc, which has no rank.
  const Variables script = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(with(script + job).value().source, "");
  EXPECT_EQ(with(script + job + Variables{{"SLURM_STEP_ID", "4294967290"}}).value().source, "");
  EXPECT_EQ(with(job + Variables{{"SLURM_NTASKS", "8"}}).value().source, "");
  EXPECT_EQ(with(job + script + kOpenMpi).value().rank, 3);
}

TEST(Launcher, TakesTheInnermost) {
  // mpirun inside a batch script: every process sees the script's own Slurm variables.
  EXPECT_EQ(with(kOpenMpi + Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).value().rank, 3);
  // torchrun below mpirun: one of eight machines, two processes each.
  Variables nested = kOpenMpi + kTorchrun;
  nested["WORLD_SIZE"] = "16";
  EXPECT_EQ(with(nested).value().source, "torchrun");
}

TEST(Launcher, ContradictionsAreErrors) {
  struct Case {
    Variables variables;
    const char* text;
  } cases[] = {
      {kOpenMpi + Variables{{"RANK", "0"}, {"WORLD_SIZE", "8"}}, "OMPI_COMM_WORLD_RANK is 3"},
      {kOpenMpi + Variables{{"PMIX_RANK", "4"}}, "PMIX_RANK is 4"},
      {{{"RANK", "0"}}, "WORLD_SIZE is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "4"}}, "OMPI_COMM_WORLD_RANK is not"},
      {kTorchrun + Variables{{"RANK", "2"}}, "RANK is 2, but WORLD_SIZE is 2"},
      {kTorchrun + Variables{{"RANK", "one"}}, "RANK is 'one'"},
      {kTorchrun + Variables{{"RANK", "-1"}}, "RANK is '-1'"},
      {kTorchrun + Variables{{"LOCAL_RANK", "2"}}, "LOCAL_RANK is 2"},
      {kTorchrun + Variables{{"MASTER_PORT", "0"}}, "MASTER_PORT"},
      {{{"PMIX_RANK", "1"}}, "how many ranks"},
      {kSrun + Variables{{"PMIX_RANK", "1"}}, "how many ranks"},
  };
  for (const Case& one : cases) {
    auto found = with(one.variables);
    ASSERT_FALSE(found.ok()) << one.text;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(found.status().message(), HasSubstr(one.text));
  }
}

}  // namespace
}  // namespace hpu::collectives
