#include "isochron/comm/watch/wait_report.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <vector>

namespace isochron::comm {
namespace {

constexpr size_t kMaxNamed = 4;  // ranks that get their own sentence

/// "rank 1 (host b, process 4711)".
std::string name_of(const RankStatus& status) {
  return fmt::format("rank {} (host {}, process {})", status.rank, status.host, status.process);
}

std::string place_text(const RankStatus& status) {
  return status.step > 0 ? fmt::format("step {} of epoch {}", status.step, status.epoch) : "";
}

/// "computing step 812 of epoch 3"; `before_place` comes before "at step ...".
std::string doing_text(const RankStatus& status, const std::string& before_place = "") {
  const std::string place = place_text(status);
  if (place.empty()) return status.doing + before_place;
  if (status.doing == "computing") return fmt::format("computing {}{}", place, before_place);
  return fmt::format("{}{}, at {}", status.doing, before_place, place);
}

/// What holds up a rank that doesn't run, or that has yet to enter the collective that the others wait for.
std::string missing_text(const RankView& view, const RankStatus& own, double still_s, bool first) {
  const RankStatus& status = *view.status;
  const int64_t number = own.finished + 1;
  const std::string what = first ? collective_text(own) : "it";
  std::string text = name_of(status);
  if (status.entered < number) {
    text += fmt::format(" has not entered {}{}", what, first ? "" : " either");
  } else {
    text += fmt::format(" has {} {}", status.finished < number ? "entered" : "finished", what);
  }
  if (!view.alive(still_s)) {
    const std::string did =
        status.waits() ? "in " + (status.finished + 1 == number ? std::string("it") : collective_text(status))
                       : doing_text(status);
    return text + fmt::format("; it was last seen {} ago, {}", seconds_text(view.unchanged_s), did);
  }
  return text + fmt::format("; it has been {}", doing_text(status, " for " + seconds_text(status.doing_s)));
}

/// Appends a sentence. The first one begins with a lower-case letter, because it follows the program's name.
void add_sentence(std::string& text, std::string sentence) {
  if (!text.empty()) {
    text += ' ';
    if (sentence.front() >= 'a' && sentence.front() <= 'z')
      sentence.front() = static_cast<char>(sentence.front() - 'a' + 'A');
  }
  text += sentence + ".";
}

std::string unknown_text(const std::vector<int>& ranks, bool left, const WaitView& view) {
  const char* const have = ranks.size() == 1 ? "has" : "have";
  if (left) return fmt::format("{} {} left the run", list_text(ranks), have);
  return fmt::format(
      "{} {} no status in {} as seen from host {}: {} has ended, or its machine does not share this folder",
      list_text(ranks), have, view.folder, view.own.host, ranks.size() == 1 ? "it" : "each of them");
}

}  // namespace

std::string size_text(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  return seconds < 9.95 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string list_text(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t named = ranks.size() > 2 * kMaxNamed ? kMaxNamed : ranks.size();
  for (size_t i = 0; i < named; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  if (named < ranks.size()) text += fmt::format(" and {} others", ranks.size() - named);
  return text;
}

std::string collective_text(const RankStatus& waiting) {
  const std::string place = place_text(waiting);
  const std::string step = place.empty() ? "" : " of " + place;
  const std::string size = waiting.bytes > 0 ? ", " + size_text(waiting.bytes) : "";
  return fmt::format("collective {}{} ({}{})", waiting.finished + 1, step, waiting.label, size);
}

bool lower_rank_tells(const WaitView& view) {
  for (const RankView& rank : view.ranks.first(static_cast<size_t>(view.own.rank))) {
    if (rank.status && rank.status->doing == kEndingTheRun) return true;
    if (rank.alive(view.still_s) && rank.status->waits()) return true;
  }
  return false;
}

std::string wait_text(const WaitView& view) {
  const RankStatus& own = view.own;
  if (view.unanswered_s >= view.still_s) {
    return fmt::format(
        "{} waits in {}, for {} so far. The state of the other ranks is unknown: {} has not answered for {}.",
        name_of(own), collective_text(own), seconds_text(own.waited_s), view.folder,
        seconds_text(view.unanswered_s));
  }
  std::string text;
  std::vector<int> waiting, unknown, left;
  size_t missing = 0;
  std::string other_waits;
  for (int rank = 0; rank < static_cast<int>(view.ranks.size()); ++rank) {
    const RankView& other = view.ranks[static_cast<size_t>(rank)];
    if (rank == own.rank) {
      waiting.push_back(rank);
    } else if (!other.status) {
      unknown.push_back(rank);
    } else if (!other.present) {
      left.push_back(rank);
    } else if (other.alive(view.still_s) && other.status->waits()) {
      const bool same = other.status->finished == own.finished && other.status->label == own.label;
      if (same) waiting.push_back(rank);
      if (!same && other_waits.empty())
        other_waits = fmt::format("rank {} waits in {}", rank, collective_text(*other.status));
    } else if (!other.alive(view.still_s) || other.status->entered <= own.finished) {
      if (missing++ < kMaxNamed) add_sentence(text, missing_text(other, own, view.still_s, missing == 1));
    }
  }
  if (missing > kMaxNamed)
    add_sentence(text, fmt::format("the same applies to {} more", missing - kMaxNamed));
  if (!left.empty()) add_sentence(text, unknown_text(left, true, view));
  if (!unknown.empty()) add_sentence(text, unknown_text(unknown, false, view));
  const bool named = !text.empty();
  const std::string in = missing > 0 ? "" : " in " + collective_text(own);
  add_sentence(text, fmt::format("{} {}{}, for {} so far", list_text(waiting),
                                 waiting.size() == 1 ? "waits" : "wait", in, seconds_text(own.waited_s)));
  if (!named) {
    add_sentence(text, other_waits.empty()
                           ? "all ranks have entered it, but no data arrives; check the network between them"
                           : other_waits + ": the ranks don't make the same calls in the same order");
  }
  return text;
}

void print_message(const std::string& text) {
  // Ignores errors: the calling threads have nobody to report to if standard error can't be written.
  const std::string line = fmt::format("isochron: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace isochron::comm
