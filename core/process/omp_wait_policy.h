// How long OpenMP threads spin while they wait for each other, before they sleep.
#pragma once

namespace isochron {

/// Call this first in main(), with main()'s argv. It re-executes the program (same process id) with
/// GOMP_SPINCOUNT=1000 in the environment, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is already set. Does
/// nothing if the program can't be re-executed.
///
/// By default libgomp's threads spin for some ms while they wait. If other programs want the cores, a
/// spinning thread occupies the core that the thread it waits for needs. With three busy programs on two
/// cores, a step then takes 2 to 4 times as long as with 1,000 spins (some tens of us). On an idle machine
/// both settings are equally fast. libgomp reads its settings before main() and before any constructor, so
/// the program must start a second time, which takes some ms.
void limit_omp_spinning(char** argv);

}  // namespace isochron
