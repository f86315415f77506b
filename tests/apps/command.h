// The built command as a user meets it: its exit status and what it prints.
#pragma once

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace isochron::apps {

struct Outcome {
  int status = -1;
  std::string text;  // both streams
};

inline Outcome run_shell(const std::string& line) {
  Outcome outcome;
  std::FILE* pipe = popen(("{ " + line + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) {
    outcome.text.append(part.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

/// `in`: the working directory, the test's own where it is empty.
inline Outcome run_isochron(const std::string& arguments, const std::filesystem::path& in = {}) {
  return run_shell((in.empty() ? std::string() : "cd '" + in.string() + "' && ") +
                   std::string(ISOCHRON_COMMAND) + " " + arguments);
}

MATCHER_P2(Ends, status, text, "") {
  *result_listener << "status " << arg.status << ", printed:\n" << arg.text;
  return arg.status == status && arg.text.find(text) != std::string::npos;
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace isochron::apps
