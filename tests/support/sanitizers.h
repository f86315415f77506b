// Whether the tests run under a sanitizer, which takes memory, time and file handles of its own.
#pragma once

namespace isochron {

/// Then neither address space (terabytes are its shadow) nor file handles (some open a pipe to look at
/// memory) can be limited, and stack traces have frames of the sanitizer's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

}  // namespace isochron
