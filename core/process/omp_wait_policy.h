// How long the threads of a team turn in a loop for each other before they sleep.
#pragma once

namespace isochron {

/// To be called first in main(), with its argument: starts the program anew (the same process) with
/// GOMP_SPINCOUNT=1000 in its environment, unless that or OMP_WAIT_POLICY is set there. Does nothing where
/// that can't be done.
///
/// libgomp's threads by default turn for some ms. Where other programs want the cores, a thread that turns
/// keeps its core from the very thread it waits for, and a step takes many times as long: 2 to 4 times as
/// with 1,000 turns (some tens of us) beside three busy programs on two cores. Alone the two are equally
/// fast. libgomp reads its settings before main() and any constructor, hence the second start, which takes
/// some ms.
void limit_omp_spinning(char** argv);

}  // namespace isochron
