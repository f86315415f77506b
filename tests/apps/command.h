// Runs the built command as a user does: its exit status and output.
#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/process/shell.h"

namespace isochron::apps {

/// `in`: the working directory; if empty, the test's own.
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
