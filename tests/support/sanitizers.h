// Whether the tests run under a sanitizer, which needs memory, time and file handles itself.
#pragma once

namespace isochron {

/// If true, address space can't be limited (the sanitizer's shadow takes terabytes), nor can file handles
/// (some sanitizers open a pipe to look at memory). Stack traces contain frames of the sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

}  // namespace isochron
