// The content of event files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "isochron/core/files/record_file.h"

namespace isochron::train {

/// The records of the files in `folder`.
inline std::vector<std::string> records_in(const std::filesystem::path& folder) {
  std::vector<std::string> records;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    RecordReader reader(entry.path());
    std::vector<std::byte> record;
    while (reader.next(record)) {
      records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
    }
  }
  return records;
}

/// How many of them contain `text`.
inline int64_t holding(const std::vector<std::string>& records, const std::string& text) {
  return std::count_if(records.begin(), records.end(),
                       [&](const std::string& record) { return record.find(text) != std::string::npos; });
}

}  // namespace isochron::train
