#include "isochron/train/callbacks/state_text.h"

#include <charconv>

#include "isochron/core/base/error.h"

namespace isochron::train {

StateText& StateText::append(std::string_view word) {
  if (!text_.empty()) text_ += ' ';
  text_ += word;
  return *this;
}

StateText& StateText::add(const std::optional<double>& number) {
  return append(number ? fmt::format("{}", *number) : std::string("-"));
}

std::string_view StateReader::word() {
  const std::string_view word = rest_.substr(0, rest_.find(' '));
  if (word.empty()) refuse();
  rest_.remove_prefix(word.size() == rest_.size() ? word.size() : word.size() + 1);
  return word;
}

int64_t StateReader::whole() {
  const std::string_view text = word();
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) refuse();
  return number;
}

std::optional<double> StateReader::optional() {
  const std::string_view text = word();
  if (text == "-") return std::nullopt;
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) refuse();
  return number;
}

void StateReader::end() const {
  if (!rest_.empty()) refuse();
}

void StateReader::refuse() const {
  fail(ErrorCode::kBadFormat, where_,
       "'{}' is not the state of this callback; is the checkpoint from a run with other callbacks?",
       text_.substr(0, 100));
}

}  // namespace isochron::train
