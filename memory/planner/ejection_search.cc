#include "isochron/memory/planner/ejection_search.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "isochron/core/base/rng.h"

namespace isochron::internal {
namespace {

class EjectionSearch {
 public:
  EjectionSearch(const PlacementProblem& problem, StepBudget& budget)
      : problem_(problem),
        items_(problem.items),
        budget_(budget),
        worth_(items_.size()),
        price_(items_.size(), 1.0),
        placed_at_(items_.size(), kLongAgo),
        inside_(items_.size(), 1),
        begins_room_(items_.size()),
        ends_room_(items_.size()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      worth_[i] =
          static_cast<double>(items_[i].size) * static_cast<double>(items_[i].upper - items_[i].lower);
    }
  }

  void lower(Placement& best, int64_t target) {
    offsets_ = best.offsets;
    while (best.height > target) {
      const int64_t above = best.height - problem_.bound;
      limit_ = std::max(target, best.height - std::max<int64_t>(1, above / kStages));
      for (size_t i = 0; i < items_.size(); ++i) {
        if (end_of(static_cast<int32_t>(i)) > limit_) eject(static_cast<int32_t>(i));
      }
      sort_edges();
      while (!outside_.empty()) {
        if (budget_.left <= 0) return;
        insert(draw_outside());
        if (++moves_ % kMovesPerSettling == 0) settle(rng_.below(2) == 0);
      }
      settle(true);
      best.height = 0;
      for (size_t i = 0; i < items_.size(); ++i) {
        best.height = std::max(best.height, end_of(static_cast<int32_t>(i)));
      }
      best.offsets = offsets_;
    }
  }

 private:
  /// The start or the end of an item in the arena. The item's lifetime is stored next to it for locality.
  struct Edge {
    int64_t at;
    int32_t lower;
    int32_t upper;
    int32_t index;
  };
  /// An edge of an item whose lifetime overlaps that of the item to be inserted, and the cost of ejecting it.
  struct Cost {
    int64_t at;
    int32_t index;
    double cost = 0;
  };
  /// The best place for an item so far.
  struct Choice {
    int64_t offset = -1;
    double cost = std::numeric_limits<double>::infinity();
    int64_t gap = std::numeric_limits<int64_t>::max();  // for free places: free space that would remain
    uint64_t equals = 1;
  };

  static constexpr int64_t kStages = 24;  // each lowers the arena by this fraction of the excess
  static constexpr int64_t kMovesPerSettling = 50;
  static constexpr double kPriceRise = 0.1;      // for each time that an item forced its way in
  static constexpr int64_t kProtectedMoves = 2;  // moves during which a newly placed item stays
  static constexpr double kProtection = 1000;
  static constexpr int64_t kLongAgo = -kProtectedMoves;

  int64_t end_of(int32_t index) const { return offsets_[index] + items_[index].size; }
  double cost_of(int32_t index) const {
    const double cost = worth_[index] * price_[index];
    return moves_ - placed_at_[index] < kProtectedMoves ? cost * kProtection : cost;
  }

  void eject(int32_t index) {
    inside_[index] = 0;
    outside_.push_back(index);
  }

  int32_t draw_outside() {
    std::swap(outside_[rng_.below(outside_.size())], outside_.back());
    const int32_t index = outside_.back();
    outside_.pop_back();
    return index;
  }

  void sort_edges() {
    begins_.clear();
    ends_.clear();
    for (size_t i = 0; i < items_.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      if (!inside_[i]) continue;
      begins_.push_back({offsets_[i], items_[i].lower, items_[i].upper, index});
      ends_.push_back({end_of(index), items_[i].lower, items_[i].upper, index});
    }
    const auto less = [](const Edge& a, const Edge& b) {
      return std::pair(a.at, a.index) < std::pair(b.at, b.index);
    };
    std::sort(begins_.begin(), begins_.end(), less);
    std::sort(ends_.begin(), ends_.end(), less);
  }

  static void add_edge(std::vector<Edge>& edges, const Edge& edge) {
    const auto after = [](int64_t at, const Edge& other) { return at < other.at; };
    edges.insert(std::upper_bound(edges.begin(), edges.end(), edge.at, after), edge);
  }

  void insert(int32_t index) {
    const PlacementItem& item = items_[index];
    const Choice choice = choose(item);
    if (choice.cost > 0) {
      price_[index] += kPriceRise;
      eject_between(item, choice.offset, choice.offset + item.size);
    }
    inside_[index] = 1;
    offsets_[index] = choice.offset;
    placed_at_[index] = moves_;
    add_edge(begins_, {choice.offset, item.lower, item.upper, index});
    add_edge(ends_, {choice.offset + item.size, item.lower, item.upper, index});
  }

  // The candidate places are those at which the item touches another item or an end of the arena. The items
  // that overlap a place are those that begin below its end, minus those that end below its start. Walking
  // upwards, both sets only grow.
  Choice choose(const PlacementItem& item) {
    collect(item);
    Choice choice;
    const int64_t highest = limit_ - item.size;
    size_t begun = 0;
    size_t ended = 0;
    double begun_cost = 0;
    double ended_cost = 0;
    const auto consider = [&](int64_t offset) {
      for (; begun < met_begins_.size() && met_begins_[begun].at < offset + item.size; ++begun) {
        begun_cost += met_begins_[begun].cost;
      }
      for (; ended < met_ends_.size() && met_ends_[ended].at <= offset; ++ended) {
        ended_cost += met_ends_[ended].cost;
      }
      if (begun == ended) {
        const int64_t below = ended > 0 ? met_ends_[ended - 1].at : 0;
        const int64_t above = begun < met_begins_.size() ? met_begins_[begun].at : limit_;
        const int64_t gap = above - below - item.size;
        if (choice.cost > 0 || gap < choice.gap) choice = {offset, 0, gap};
        return;
      }
      // The costs are differences of running sums, so rounding makes equal costs slightly different.
      constexpr double kEqual = 1e-9;
      const double cost = std::max(begun_cost - ended_cost, std::numeric_limits<double>::min());
      if (cost < choice.cost * (1 - kEqual)) {
        choice = {offset, cost};
      } else if (cost <= choice.cost * (1 + kEqual) && rng_.below(++choice.equals) == 0) {
        choice.offset = offset;
      }
    };
    consider(0);
    int64_t last = 0;
    size_t on_top = 0;
    size_t beneath = 0;
    while (last < highest) {
      int64_t next = highest;
      for (; on_top < met_ends_.size(); ++on_top) {
        if (met_ends_[on_top].at > last) break;
      }
      for (; beneath < met_begins_.size(); ++beneath) {
        if (met_begins_[beneath].at - item.size > last) break;
      }
      if (on_top < met_ends_.size()) next = std::min(next, met_ends_[on_top].at);
      if (beneath < met_begins_.size()) next = std::min(next, met_begins_[beneath].at - item.size);
      consider(next);
      last = next;
    }
    return choice;
  }

  /// The edges of items that are live together with `item`, with costs.
  void collect(const PlacementItem& item) {
    const auto meet = [&](const std::vector<Edge>& edges, std::vector<Cost>& room) {
      size_t count = 0;
      for (const Edge& edge : edges) {  // branch-free, because a branch would be unpredictable
        room[count] = {edge.at, edge.index};
        count += static_cast<size_t>(edge.lower < item.upper) & static_cast<size_t>(item.lower < edge.upper);
      }
      for (size_t k = 0; k < count; ++k) room[k].cost = cost_of(room[k].index);
      return std::span<const Cost>(room).first(count);
    };
    met_begins_ = meet(begins_, begins_room_);
    met_ends_ = meet(ends_, ends_room_);
    budget_.spend(static_cast<int64_t>(60 + begins_.size() + 6 * met_begins_.size()));
  }

  void eject_between(const PlacementItem& item, int64_t bottom, int64_t top) {
    for (const Edge& edge : begins_) {
      if (edge.at >= top) break;
      if (edge.lower < item.upper && item.lower < edge.upper && end_of(edge.index) > bottom)
        eject(edge.index);
    }
    const auto gone = [&](const Edge& edge) { return !inside_[edge.index]; };
    std::erase_if(begins_, gone);
    std::erase_if(ends_, gone);
    budget_.spend(static_cast<int64_t>(2 * begins_.size()));
  }

  // Moves all items in the arena down to the floor, or up to the limit, in their order, so that gaps are
  // joined.
  void settle(bool down) {
    const std::vector<Edge> order = down ? begins_ : ends_;
    skyline_.assign(static_cast<size_t>(problem_.sections), 0);
    for (size_t k = 0; k < order.size(); ++k) {
      const Edge& edge = down ? order[k] : order[order.size() - 1 - k];
      const auto begin = skyline_.begin() + edge.lower;
      const auto end = skyline_.begin() + edge.upper;
      const int64_t from = *std::max_element(begin, end);  // from the floor, or from the limit downwards
      const int64_t size = items_[edge.index].size;
      offsets_[edge.index] = down ? from : limit_ - from - size;
      std::fill(begin, end, from + size);
      budget_.spend(20 + edge.upper - edge.lower);
    }
    sort_edges();
  }

  const PlacementProblem& problem_;
  const std::vector<PlacementItem>& items_;
  StepBudget& budget_;
  Rng rng_{1};
  int64_t limit_ = 0;
  int64_t moves_ = 0;
  std::vector<double> worth_;  // size x lifetime: the initial cost of ejecting each item
  std::vector<double> price_;  // the factor by which this cost has risen
  std::vector<int64_t> placed_at_;
  std::vector<char> inside_;
  std::vector<int64_t> offsets_;
  std::vector<int32_t> outside_;
  std::vector<Edge> begins_;  // of the items inside, by height
  std::vector<Edge> ends_;
  std::span<const Cost> met_begins_;
  std::span<const Cost> met_ends_;
  std::vector<Cost> begins_room_;  // storage of the two spans above
  std::vector<Cost> ends_room_;
  std::vector<int64_t> skyline_;
};

}  // namespace

void search_by_ejection(const PlacementProblem& problem, int64_t target, StepBudget& budget,
                        Placement& best) {
  EjectionSearch(problem, budget).lower(best, target);
}

}  // namespace isochron::internal
