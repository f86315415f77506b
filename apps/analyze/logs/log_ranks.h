// The process (rank) that wrote a line of a log in which several write: launchers put it before each line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isochron::apps {

struct RankedLine {
  std::string rank;
  std::string text;  // the line without the rank
};

/// The rank of a line: "[rank3]: ", "rank=3 ", "[default3]:" (torchrun), "[1,3]<stdout>: " (Open MPI), "3: "
/// (srun --label), "(RayTrainWorker pid=123) ". Nothing if the line names none. "3: " may be something else:
/// the caller must see whether the lines look as if processes wrote them at the same time.
std::optional<RankedLine> rank_of_line(std::string_view line);

}  // namespace isochron::apps
