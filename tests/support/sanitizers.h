// Whether the tests run under a sanitizer, which takes memory, time and file handles of its own.
#pragma once

namespace isochron {

#ifdef __SANITIZE_ADDRESS__
/// Then neither address space (terabytes are its shadow) nor file handles (it opens a pipe to look at memory)
/// can be limited.
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#ifdef __SANITIZE_THREAD__
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = kAddressSanitizer;
#endif

}  // namespace isochron
