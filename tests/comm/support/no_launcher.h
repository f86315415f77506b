// A test whose process looks as if no launcher had started it, whatever started the test program.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace isochron::comm {

class NoLauncher : public testing::Test {
 protected:
  NoLauncher() {
    for (const char* name :
         {"ISOCHRON_MPI", "ISOCHRON_MPI_MODULE_PATH", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "PMI_FD",
          "PMIX_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_NTASKS",
          "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASKS_PER_NODE",
          "SLURM_STEP_TASKS_PER_NODE"}) {
      set(name, nullptr);
    }
  }
  ~NoLauncher() override {
    for (const auto& [name, text] : before_) put(name, text ? text->c_str() : nullptr);
  }
  /// Until the end of the test; null: not set.
  void set(const std::string& name, const char* text) {
    const char* const now = std::getenv(name.c_str());
    before_.try_emplace(name, now != nullptr ? std::optional<std::string>(now) : std::nullopt);
    put(name, text);
  }
  void set(const std::map<std::string, const char*>& variables) {
    for (const auto& [name, text] : variables) set(name, text);
  }

 private:
  static void put(const std::string& name, const char* text) {
    if (text != nullptr) {
      setenv(name.c_str(), text, 1);
    } else {
      unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace isochron::comm
