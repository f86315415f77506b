// Tests readers with truncated or changed files. Each file must give an isochron::Error or a result, but
// never a crash.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "isochron/core/base/error.h"

namespace isochron {

/// Calls `read(text)` for `whole` cut short at every byte; expects an error of `code` that contains `text`.
template <typename Read>
void expect_truncation_errors(const std::string& whole, Read&& read, ErrorCode code,
                              const std::string& text = "", size_t first = 0) {
  for (size_t size = first; size < whole.size(); ++size) {
    try {
      read(whole.substr(0, size));
      ADD_FAILURE() << "cut to " << size << " bytes of " << whole.size() << ": expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << size << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << size << ": " << error.what();
    }
  }
}

/// Calls `read(text)` with each bit of `whole` flipped in turn; errors must have the code `code`. Returns how
/// many flips were refused.
template <typename Read>
size_t count_refused_flips(const std::string& whole, Read&& read, ErrorCode code = ErrorCode::kBadFormat) {
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      read(flipped);
    } catch (const Error& error) {
      EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << bit << ": " << error.what();
      ++refused;
    }
  }
  return refused;
}

}  // namespace isochron
