// The states of callbacks as text: numbers in a fixed order, separated by spaces, exact.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isochron::train {

class StateText {
 public:
  StateText& add(std::integral auto number) { return append(std::to_string(number)); }
  /// "-" for none.
  StateText& add(const std::optional<double>& number);
  const std::string& str() const { return text_; }

 private:
  StateText& append(std::string_view word);
  std::string text_;
};

/// Reads what StateText wrote. Throws kBadFormat naming `where` for anything else.
class StateReader {
 public:
  StateReader(std::string_view text, std::string_view where) : text_(text), rest_(text), where_(where) {}
  int64_t whole();
  std::optional<double> optional();
  /// Throws unless the whole text has been read.
  void end() const;

 private:
  std::string_view word();
  [[noreturn]] void refuse() const;

  std::string_view text_, rest_, where_;
};

}  // namespace isochron::train
