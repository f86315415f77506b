// Runs a shell command like a user, and returns its exit status and output.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace isochron {

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

}  // namespace isochron
