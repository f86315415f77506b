// Checks of numbers on the command line: a number that doesn't fit is rejected, never wrapped or truncated.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace isochron::apps {

/// A whole number in [least, most].
inline CLI::Validator whole_number(int64_t least, int64_t most = INT64_MAX) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, status] = std::from_chars(text.data(), end, value);
        if (status == std::errc{} && stop == end && value >= least && value <= most) return "";
        const std::string range = most == INT64_MAX && status != std::errc::result_out_of_range
                                      ? fmt::format(">= {}", least)
                                      : fmt::format("from {} to {}", least, most);
        return fmt::format("expected a whole number {}, got '{}'", range, text);
      },
      "");
}

/// A number above 0, at most `most`, neither infinite nor NaN.
inline CLI::Validator positive_number(double most = std::numeric_limits<double>::max()) {
  return CLI::Validator(
      [most](std::string& text) -> std::string {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, status] = std::from_chars(text.data(), end, value);
        if (status == std::errc{} && stop == end && value > 0 && std::isfinite(value) && value <= most)
          return "";
        const bool any = most == std::numeric_limits<double>::max();
        return fmt::format("expected a finite number above 0{}, got '{}'",
                           any ? "" : fmt::format(", at most {:g}", most), text);
      },
      "");
}

/// The largest change that still counts as flat, in %.
inline CLI::Validator bound_percent() { return positive_number(1e6); }

}  // namespace isochron::apps
