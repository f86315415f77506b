#include "isochron/comm/launch/launch.h"
#include "isochron/comm/launch/join.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "comm/support/no_launcher.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::comm {
namespace {

using testing::HasSubstr;

class LaunchDetection : public NoLauncher {};

MATCHER_P5(Is, mpi, rank, size, local_rank, local_size, "") {
  if (!arg) return false;
  *result_listener << arg->mpi << " " << arg->rank << "/" << arg->size << ", here " << arg->local_rank << "/"
                   << arg->local_size;
  return arg->mpi == mpi && arg->rank == rank && arg->size == size && arg->local_rank == local_rank &&
         arg->local_size == local_size;
}

const std::map<std::string, const char*> kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "4"},
                                                     {"OMPI_COMM_WORLD_RANK", "3"},
                                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                     {"PMIX_RANK", "3"}};
const std::map<std::string, const char*> kMpich = {{"PMI_RANK", "2"},
                                                   {"PMI_SIZE", "5"},
                                                   {"PMI_FD", "6"},
                                                   {"MPI_LOCALRANKID", "2"},
                                                   {"MPI_LOCALNRANKS", "3"}};
const std::map<std::string, const char*> kSlurm = {{"SLURM_PROCID", "4"},
                                                   {"SLURM_NTASKS", "7"},
                                                   {"SLURM_LOCALID", "1"},
                                                   {"SLURM_NODEID", "2"},
                                                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2),4,1"}};

TEST_F(LaunchDetection, FindsNothingWithoutALauncher) { EXPECT_FALSE(detect_launch()); }

TEST_F(LaunchDetection, KnowsOpenMpi) {
  set(kOpenMpi);
  EXPECT_THAT(detect_launch(), Is("openmpi", 3, 4, 1, 2));
  EXPECT_EQ(detect_launch()->launcher, "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE)");
}

TEST_F(LaunchDetection, KnowsMpich) {
  set(kMpich);
  EXPECT_THAT(detect_launch(), Is("mpich", 2, 5, 2, 3));
  EXPECT_EQ(detect_launch()->launcher, "MPICH's mpirun (PMI_RANK)");
}

TEST_F(LaunchDetection, TakesOneRankAMachineWhereTheLauncherDoesNotSay) {
  set({{"PMI_RANK", "2"}, {"PMI_SIZE", "5"}, {"MPI_LOCALRANKID", "1"}});
  EXPECT_THAT(detect_launch(), Is("mpich", 2, 5, 0, 1));
  set({{"PMI_RANK", nullptr}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}});
  EXPECT_THAT(detect_launch(), Is("openmpi", 1, 2, 0, 1));
}

TEST_F(LaunchDetection, KnowsSlurmOnlyWithPmi) {
  set(kSlurm);
  EXPECT_FALSE(detect_launch());
  set("PMIX_RANK", "4");
  EXPECT_THAT(detect_launch(), Is("openmpi", 4, 7, 1, 4));
  set({{"PMIX_RANK", nullptr}, {"PMI_RANK", "4"}});
  EXPECT_THAT(detect_launch(), Is("mpich", 4, 7, 1, 4));
  EXPECT_EQ(detect_launch()->launcher, "Slurm's srun (PMI_RANK)");
}

TEST_F(LaunchDetection, ReadsTasksANodeOfSlurm) {
  set(kSlurm);
  set("PMI_RANK", "4");
  const auto local_size = [&](const char* list, const char* node) {
    set({{"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", "0"}});
    return detect_launch()->local_size;
  };
  EXPECT_EQ(local_size("2(x3),1", "0"), 2);
  EXPECT_EQ(local_size("2(x3),1", "2"), 2);
  EXPECT_EQ(local_size("2(x3),1", "3"), 1);
  EXPECT_EQ(local_size("7", "0"), 7);
  EXPECT_EQ(local_size("2(x3),1", "4"), 1);  // not in the list
  EXPECT_EQ(local_size("3(x", "0"), 1);      // nothing that can be read
  EXPECT_EQ(local_size("", "0"), 1);
}

TEST_F(LaunchDetection, FollowsIsochronMpi) {
  set(kOpenMpi);
  set("ISOCHRON_MPI", "mpich");
  EXPECT_THAT(detect_launch(), Is("mpich", 3, 4, 1, 2));  // another module for the same launcher
  set(kMpich);
  EXPECT_THAT(detect_launch(), Is("mpich", 2, 5, 2, 3));  // the one of two launchers that is meant
  set("ISOCHRON_MPI", "openmpi");
  EXPECT_THAT(detect_launch(), Is("openmpi", 3, 4, 1, 2));
  set("ISOCHRON_MPI", "off");
  EXPECT_FALSE(detect_launch());
  set("ISOCHRON_MPI", "lam");
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "[ISOCHRON_MPI] 'lam' is not a known MPI");
}

TEST_F(LaunchDetection, IsochronMpiAloneIsNoLauncher) {
  set("ISOCHRON_MPI", "openmpi");
  EXPECT_FALSE(detect_launch());
}

TEST_F(LaunchDetection, RejectsVariablesThatSayNoNumber) {
  for (const char* wrong : {"four", "4x", "-1", "99999999999", " 4"}) {
    set(kOpenMpi);
    set("OMPI_COMM_WORLD_SIZE", wrong);
    EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument,
                 fmt::format("[OMPI_COMM_WORLD_SIZE] '{}' is not a whole number of at least 1", wrong));
  }
  set("OMPI_COMM_WORLD_SIZE", "0");
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "'0' is not a whole number of at least 1");
}

TEST_F(LaunchDetection, RejectsVariablesThatContradictEachOther) {
  set({{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "[OMPI_COMM_WORLD_RANK] isn't set");
  set(kOpenMpi);
  set("OMPI_COMM_WORLD_RANK", "4");
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "rank 4 of 4");
  set(kOpenMpi);
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "5");
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "rank 1 of 5 on this machine, of 4 in total");
  set({{"OMPI_COMM_WORLD_SIZE", nullptr}, {"PMIX_RANK", nullptr}, {"PMI_RANK", "0"}});
  EXPECT_ERROR(detect_launch(), ErrorCode::kInvalidArgument, "[PMI_SIZE] isn't set, but PMI_RANK is");
}

class Modules : public NoLauncher {
 protected:
  const Launch launch_{.mpi = "mpich", .launcher = "MPICH's mpirun (PMI_RANK)", .rank = 0, .size = 2};
};

TEST_F(Modules, AreLookedForInTheFoldersOfTheVariableFirst) {
  set("ISOCHRON_MPI_MODULE_PATH", "/one::/two/three/");
  const auto folders = module_folders();
  ASSERT_GT(folders.size(), 2u);
  EXPECT_EQ(folders[0], "/one");
  EXPECT_EQ(folders[1], "/two/three/");
}

TEST_F(Modules, AreFoundBesideTheProgram) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_THAT(module_folders(),
              testing::Contains((program.parent_path().parent_path() / "lib" / "isochron").string()));
}

TEST_F(Modules, AreTakenFromTheFirstFolderThatHasOne) {
  const TempFolder empty, first, second;
  for (const TempFolder* folder : {&first, &second}) write_quickly(*folder / "libisochron_mpich.so", "");
  EXPECT_EQ(module_path(launch_, {empty.path().string(), first.path().string(), second.path().string()}),
            (first / "libisochron_mpich.so").string());
}

TEST_F(Modules, ThatAreMissingAreToldWithWhatToInstall) {
  const TempFolder empty;
  EXPECT_ERROR(module_path(launch_, {empty.path().string()}), ErrorCode::kUnsupported,
               "[mpi] MPICH's mpirun (PMI_RANK) has started this process, but the module for MPICH was not "
               "found: libisochron_mpich.so is in none of " +
                   empty.path().string() + "; install libmpich-dev");
}

TEST_F(Modules, ThatCannotBeLoadedAreToldWithTheReason) {
  const TempFolder folder;
  write_quickly(folder / "libisochron_mpich.so", "no library");
  set("ISOCHRON_MPI_MODULE_PATH", folder.path().c_str());
  EXPECT_ERROR(open_launched(launch_), ErrorCode::kUnsupported,
               (folder / "libisochron_mpich.so can't be loaded").string());
}

TEST_F(Modules, TellTheirVersionWithoutMpiInThisProcess) {
  for (const ModuleState& module : module_states()) {
    if (!module.built) continue;
    EXPECT_NE(module.path, "") << module.spelled;
    EXPECT_THAT(module.version, testing::StartsWith(module.spelled + " ")) << module.problem;
  }
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(mapped, testing::AllOf(HasSubstr(".so"), testing::Not(HasSubstr("libmp")),
                                     testing::Not(HasSubstr("libisochron_"))));
}

TEST_F(Modules, AreDescribedWithWhatIsWrong) {
  const TempFolder folder;
  write_quickly(folder / "libisochron_mpich.so", "no library");
  const auto states = module_states({folder.path().string()});
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].path, "");
  EXPECT_EQ(states[1].path, (folder / "libisochron_mpich.so").string());
  EXPECT_EQ(states[1].version, "");
  EXPECT_THAT(states[1].problem, testing::StartsWith(states[1].path + " can't be loaded: "));
}

TEST_F(Modules, OfAnUnknownMpiAreNotLookedFor) {
  EXPECT_ERROR(open_launched({.mpi = "lam", .launcher = "lamboot"}), ErrorCode::kInvalidArgument,
               "'lam' is not a known MPI");
}

TEST(Join, ARankTakesItsShareOfTheCores) {
  // Not bound: 8 cores for 2, 3 and 16 ranks, and 4 of 8 cores because of a quota.
  EXPECT_EQ(share_of_cores(8, 8, 8, 2), 4);
  EXPECT_EQ(share_of_cores(8, 8, 8, 3), 2);
  EXPECT_EQ(share_of_cores(8, 8, 8, 16), 1);
  EXPECT_EQ(share_of_cores(4, 8, 8, 2), 2);
  // Bound to its own cores, or to a socket shared by two ranks.
  EXPECT_EQ(share_of_cores(4, 4, 8, 2), 4);
  EXPECT_EQ(share_of_cores(1, 1, 8, 2), 1);
  EXPECT_EQ(share_of_cores(8, 8, 16, 4), 4);
  // The launcher's aren't known.
  EXPECT_EQ(share_of_cores(8, 8, 0, 2), 4);
}

}  // namespace
}  // namespace isochron::comm
