#include "isochron/apps/analyze/logs/log_ranks.h"

#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace isochron::apps {
namespace {

constexpr size_t kSearched = 200;  // bytes of a line

/// The group of each expression is the rank.
constexpr const char* kExpressions[] = {
    R"(^\s*\[(?:\d+,|[\w.-]+@\d+,)?(\d+)\]<std(?:out|err)>:?\s*)",  // mpirun, horovodrun
    R"(^\s*\((?:\w+ )?pid=(\d+)(?:, ip=[\d.:]+)?\)\s*)",            // Ray
    R"(^\s*\[pod/[\w.-]*?(\d+)(?:/[\w.-]+)?\]\s*)",                 // kubectl logs --prefix
    R"(^\s*\[(?i:default|gpu|device|worker|process|proc)[ =:_#]?(\d+)\]:?\s*)",
    R"(^\s*(?i:gpu|device|worker|process|proc)[ =:_#](\d+)\s*[:|\]]\s*)",
    R"(^\s*(\d+):\s+)",                        // srun --label
    R"(^\s*\(?[A-Za-z][\w.-]*?(\d+)\s+\|\s)",  // docker compose
    R"([\[({<]?\b(?i:(?:(?:local|global|node|world)[ _-]?)?rank|cuda)[ =:_#-]{0,2}(\d+)\b[\])}>]?\s*[:|,]?\s*)",
    R"(^\s*\[?[A-Za-z][\w.-]*?(\d+)\]?:\s)",  // hosts: "node3: "
};

}  // namespace

std::optional<RankedLine> rank_of_line(std::string_view line) {
  static const std::vector<std::unique_ptr<RE2>> expressions = [] {
    std::vector<std::unique_ptr<RE2>> compiled;
    for (const char* text : kExpressions) compiled.push_back(std::make_unique<RE2>(text));
    return compiled;
  }();
  const re2::StringPiece begin(line.data(), std::min(line.size(), kSearched));
  for (const auto& expression : expressions) {
    re2::StringPiece pieces[2];
    if (!expression->Match(begin, 0, begin.size(), RE2::UNANCHORED, pieces, 2)) continue;
    const auto at = static_cast<size_t>(pieces[0].data() - line.data());
    std::string text(line.substr(0, at));
    return RankedLine{std::string(pieces[1]), text.append(line.substr(at + pieces[0].size()))};
  }
  return std::nullopt;
}

RankedLine RankReader::of(const std::string& update, int64_t line) {
  std::optional<RankedLine> found = rank_of_line(update);
  if (found) {
    rank_ = found->rank;
    line_ = line;
    return *std::move(found);
  }
  return {line == line_ ? rank_ : std::string(kNoRank), update};
}

}  // namespace isochron::apps
