// A clock that moves only when a test says so: recorded runs become exact and take no time.
#pragma once

#include <cstdint>

namespace isochron::observe {

inline int64_t g_simulated_ns = 1'000'000'000;
inline int64_t simulated_now_ns() { return g_simulated_ns; }
inline void spend(int64_t ns) { g_simulated_ns += ns; }

}  // namespace isochron::observe
