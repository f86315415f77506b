// Diagnoses the loops of a scenario: the symptom, its start, its causes and the cure. The command prints the
// diagnoses, and the page begins with them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

struct Diagnosis {
  enum class Kind {  // worst first
    kSlowsDown,      // the time of an iteration grows
    kFills,          // memory or disk grows
    kSlow,           // slower than the cured form, from the first iteration on
    kPauses,         // long iterations, periodically
    kTrainsWrongly,
  };
  Kind kind = Kind::kSlow;
  std::string scenario;
  std::string loop;
  std::string what;   // "slows down from 425 us to 4.94 ms per iteration"
  std::string since;  // "iteration 830", "the first iteration"; empty if unknown
  std::string also;   // what else happens, "takes 16.4x the time of 'planned arena'"; may be empty
  std::vector<observe::Cause> causes;  // except causes in the machine; may be empty
};

/// A diagnosis for each loop that needs one, worst first, otherwise in the scenario's order. A cured loop
/// gets a diagnosis only if its time, memory or disk use was found growing.
std::vector<Diagnosis> diagnoses_of(const ScenarioResult& result);
/// The diagnoses of all scenarios, worst first.
std::vector<Diagnosis> diagnoses_of(std::span<const ScenarioResult> results);

/// "Of 6 loops, 2 slow down as they run, 1 is slow from its first iteration on. 3 of 3 cured loops stay
/// flat."
std::string headline(std::span<const ScenarioResult> results);

/// The time of one iteration of the document if a recorded iteration takes `ns`.
double per_iteration(const Loop& loop, double ns);
/// "1,000".
std::string count_text(int64_t count);

}  // namespace isochron::apps
