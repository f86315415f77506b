// The file side of the planner: buffers from a CSV file, and the same with their offsets.
// The format is that of MiniMalloc's benchmarks: a header with the columns id, lower, upper, size in any
// order (others are ignored), then one buffer a row; empty lines and lines that start with '#' are skipped.
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

/// Reads `path`. Throws kIo, and kBadFormat for more than 256 MiB, and with path and line for a missing or
/// doubled column, a row with too few or too many fields, text where a number belongs, a number beyond 63
/// bits, lower >= upper, or an id that came before.
BufferTable read_buffers_csv(const std::filesystem::path& path);

/// Writes "id,lower,upper,size,offset" and a row for each buffer.
void write_plan_csv(std::ostream& out, const BufferTable& table, const MemoryPlan& plan);

/// What people want to know of a plan, in a few lines: arena, lower bound, ratio, waste, method, owners at
/// the peak. `ids` names the buffers; empty: their numbers.
std::string describe_plan(std::span<const BufferRequest> requests, const MemoryPlan& plan,
                          std::span<const std::string> ids = {});

}  // namespace isochron
