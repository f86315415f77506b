// Prints the confusion matrix of docs/causes.md: runs every planted fault and every healthy loop several
// times, and counts the causes that the reports name.
//   fault_matrix [REPETITIONS] [--markdown] [--only TEXT]   TEXT: a part of a cause's or a variant's name
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "causes/planted.h"
#include "isochron/core/base/clock.h"
#include "isochron/observe/diagnose/cause.h"

namespace {

using namespace isochron;
using causes::Planted;

struct Row {
  int runs = 0;
  std::map<std::string, int> named;  // "none" if no cause was named
  int machine_too = 0;               // runs in which a cause outside the program was named too
};

/// Long names don't fit in a column, so rows and columns are numbered, and a legend lists the names.
void print_text(const std::vector<std::string>& names, const std::map<std::string, Row>& rows) {
  fmt::print("{:>4}", "");
  for (size_t c = 0; c < names.size(); ++c) fmt::print("{:>4}", c);
  fmt::print("\n");
  for (size_t r = 0; r < names.size(); ++r) {
    const auto row = rows.find(names[r]);
    if (row == rows.end()) continue;
    fmt::print("{:>4}", r);
    for (const std::string& name : names) {
      const auto found = row->second.named.find(name);
      fmt::print("{:>4}", found == row->second.named.end() ? "." : std::to_string(found->second));
    }
    fmt::print("  of {} {}\n", row->second.runs, names[r]);
  }
}

void print_markdown(const std::vector<std::string>& names, const std::map<std::string, Row>& rows) {
  fmt::print("| planted \\ named |");
  for (size_t c = 0; c < names.size(); ++c) fmt::print(" {} |", c);
  fmt::print(" runs |\n|---|");
  for (size_t c = 0; c <= names.size(); ++c) fmt::print("---|");
  fmt::print("\n");
  for (size_t r = 0; r < names.size(); ++r) {
    const auto row = rows.find(names[r]);
    if (row == rows.end()) continue;
    fmt::print("| {} {} |", r, names[r]);
    for (const std::string& name : names) {
      const auto found = row->second.named.find(name);
      fmt::print(" {} |", found == row->second.named.end() ? "" : std::to_string(found->second));
    }
    fmt::print(" {} |\n", row->second.runs);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 1;
  bool markdown = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--markdown") {
      markdown = true;
    } else if (argument == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      repetitions = std::max(1, std::atoi(argv[i]));
    }
  }
  std::vector<std::string> names{"none"};
  for (const observe::CatalogueEntry& entry : observe::catalogue()) names.emplace_back(entry.cause);
  std::map<std::string, Row> rows;
  int wrong = 0, runs = 0, machine = 0;
  const std::vector<Planted> all = causes::all_planted();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (const Planted& planted : all) {
      const std::string cause = planted.cause.empty() ? "none" : std::string(planted.cause);
      if (!only.empty() && cause.find(only) == std::string::npos &&
          planted.what.find(only) == std::string::npos)
        continue;
      const int64_t began_ns = now_ns();
      const observe::RunReport report = planted.run();
      std::vector<std::string> found = causes::named(report, planted.cause);
      Row& row = rows[cause];
      ++row.runs;
      ++runs;
      const bool also = report.causes.size() > found.size();
      row.machine_too += also;
      machine += also;
      if (found.empty()) found.emplace_back("none");
      const bool right = found.size() == 1 && found.front() == cause;
      wrong += !right;
      for (const std::string& name : found) {
        ++row.named[name];
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
      fmt::print(stderr, "{:5.2f} s, {:.2f} of them judged  {} / {}: {}{}\n",
                 static_cast<double>(now_ns() - began_ns) * 1e-9,
                 report.evidence.get("run.seconds").value_or(0), cause, planted.what, fmt::join(found, ", "),
                 right ? "" : "   <-- wrong");
      if (right) continue;
      fmt::print(stderr, "{}", observe::summary_text({&report, 1}));
      for (const auto& [name, value] : report.evidence.values())
        fmt::print(stderr, "  {} {:.6g}\n", name, value);
    }
  }
  print_text(names, rows);
  if (markdown) print_markdown(names, rows);
  fmt::print(
      "{} runs, {} of them named anything but what was planted; in {} a cause outside the program was named "
      "besides\n",
      runs, wrong, machine);
  return wrong == 0 ? 0 : 1;
}
