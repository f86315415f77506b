// Collects the library's events of kind kNotice.
#pragma once

#include <string>
#include <vector>

#include "isochron/core/telemetry/event.h"

namespace isochron {

/// The notices during its lifetime, as "name: text".
class Notices {
 public:
  Notices() {
    sink_ = add_event_sink([this](const Event& event) {
      if (event.kind == EventKind::kNotice) texts_.push_back(event.name + ": " + event.text);
    });
  }
  ~Notices() { remove_event_sink(sink_); }
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  int sink_;
  std::vector<std::string> texts_;
};

}  // namespace isochron
