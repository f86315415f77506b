// Files of the planner: reads buffers from a CSV file and writes them with their offsets. The format is that
// of MiniMalloc's benchmarks: a header with the columns id, lower, upper, size in any order (others are
// ignored), then one buffer per row. Empty lines and lines that start with '#' are skipped.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "isochron/memory/planner/planner.h"

namespace isochron {

/// Buffers by name, in the order of the file.
struct BufferTable {
  std::vector<std::string> ids;
  std::vector<BufferRequest> requests;
};

/// Reads `path`. Throws kIo; kBadFormat for more than 256 MiB; and kBadFormat with path and line for a
/// missing or duplicate column, a row with too few or too many fields, text instead of a number, a number
/// beyond 63 bits, lower >= upper, or a duplicate id.
BufferTable read_buffers_csv(const std::filesystem::path& path);

/// Writes the header "id,lower,upper,size,offset" and one row per buffer.
void write_plan_csv(std::ostream& out, const BufferTable& table, const MemoryPlan& plan);

/// A summary of a plan in a few lines: arena, lower bound, ratio, waste, method, owners at the peak. `ids`
/// names the buffers; if empty, they are numbered.
std::string describe_plan(std::span<const BufferRequest> requests, const MemoryPlan& plan,
                          std::span<const std::string> ids = {});

}  // namespace isochron
