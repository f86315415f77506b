#include "isochron/train/loop/data_parallel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "isochron/comm/group/broadcast_text.h"
#include "isochron/core/base/crc32c.h"
#include "isochron/core/base/error.h"
#include "isochron/data/pipeline/recipe.h"
#include "isochron/graph/passes/side_effects.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/train/loop/batch_plan.h"

namespace isochron::train {
namespace {

constexpr std::string_view kWhere = "fit";
constexpr size_t kMaxText = 512;  // of a rank's message about a difference

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    lines.push_back(text.substr(at, text.find('\n', at) - at));
  return lines;
}

/// The first line in which a rank's settings differ from rank 0's: a line that only one of them has, or a
/// different line in its place.
std::string difference(const std::vector<std::string>& own, const std::vector<std::string>& firsts,
                       int rank) {
  const auto first_missing = [](const auto& lines, const auto& others) {
    return std::ranges::find_if(
               lines,
               [&](const std::string& line) { return std::ranges::find(others, line) == others.end(); }) -
           lines.begin();
  };
  auto here = first_missing(own, firsts), there = first_missing(firsts, own);
  if (here == std::ssize(own) && there == std::ssize(firsts))  // the same ones in another order
    here = there = std::ranges::mismatch(own, firsts).in1 - own.begin();
  const auto shown = [](const auto& lines, int64_t at, int64_t other) {
    return at < std::ssize(lines) && at <= other ? lines[static_cast<size_t>(at)] : std::string("nothing");
  };
  return fmt::format("rank {} has {}, rank 0 has {}", rank, shown(own, here, there),
                     shown(firsts, there, here));
}

/// The number of batches of an epoch over all ranks. Throws if it isn't known.
int64_t epoch_batches(const data::Dataset& batches, int64_t steps_per_epoch, int64_t group_batches) {
  require(batches.size() != data::kUnknown, ErrorCode::kUnsupported, kWhere,
          "the number of batches isn't known, so ranks can't divide them; cache() the dataset, which counts "
          "them");
  if (steps_per_epoch == 0) return batches.size();
  // If epochs don't end with the data, no epoch ends in the middle of an update.
  return (steps_per_epoch + group_batches - 1) / group_batches * group_batches;
}

/// How many of the first `batches` belong to a rank, if blocks are assigned round-robin.
int64_t share_of(int64_t batches, int64_t ranks, int64_t rank, int64_t block) {
  const int64_t rest = batches % (ranks * block);
  return batches / (ranks * block) * block + std::clamp<int64_t>(rest - rank * block, 0, block);
}

/// Repeats the batches endlessly. Maps get the same positions as in a fit without ranks, which begins each
/// pass anew.
data::Dataset endless_passes(const data::Dataset& batches) {
  auto recipe = std::make_shared<data::Recipe>(*batches.repeat().recipe());
  recipe->order.back().passes_are_epochs = true;
  return data::Dataset(std::move(recipe));
}

/// This rank's batches. With `steps_per_epoch`, an epoch continues over the ends of passes.
data::Dataset own_batches(const data::Dataset& batches, int64_t steps_per_epoch, const comm::Group& group,
                          int64_t block) {
  const bool goes_on = steps_per_epoch > 0 && batches.size() > 0;
  return (goes_on ? endless_passes(batches) : batches).shard(group.size(), group.rank(), block);
}

/// The number of collective ops in `step`: those that sum gradients if `of_gradients`, otherwise all others.
/// Includes ops in nested graphs: with accumulation, the sums of gradients are in the body of a conditional.
int64_t exchanges_of(const graph::Graph& step, bool of_gradients) {
  int64_t count = 0;
  for (const auto& node : step.nodes()) {
    count += node->op->collective && node->attributes.get_or("gradients", false) == of_gradients ? 1 : 0;
    for (const graph::Graph* body : graph::sub_graphs(*node)) count += exchanges_of(*body, of_gradients);
  }
  return count;
}

/// Merges one number of a tally: `before` over the earlier ranks, and `next` of the next rank.
double merged_numbers(std::string_view name, double before, double next) {
  static const std::string batches = kOfLoss + std::string(LossTally::kBatches),
                           first_not_finite = kOfLoss + std::string(LossTally::kFirstNotFinite);
  if (name == batches) return before;
  if (name != first_not_finite) return before + next;
  return before == 0 || next == 0 ? before + next : std::min(before, next);
}

/// Tallies are f64 or i64.
void write_numbers(const NamedVariables& sums, const std::vector<double>& numbers) {
  auto next = numbers.begin();
  for (const auto& [name, variable] : sums) {
    const Tensor content = variable.tensor();
    for (int64_t i = 0; i < content.elems(); ++i, ++next) {
      if (content.dtype() == DType::kF64) {
        content.data<double>()[i] = *next;
      } else {
        content.data<int64_t>()[i] = static_cast<int64_t>(*next);
      }
    }
  }
}

}  // namespace

bool DataParallel::needed(const optim::Optimizer* optimizer) {
  return optimizer != nullptr &&
         (optimizer->group().size() > 1 || (optimizer->exact_sums() && optimizer->accumulate() > 1));
}

DataParallel::DataParallel(optim::Optimizer& optimizer, const data::Dataset& batches, int64_t steps_per_epoch)
    : optimizer_(optimizer),
      group_(optimizer.group()),
      block_(optimizer.accumulate()),
      data_batches_(batches.size()),
      data_fingerprint_(data::fingerprint(*batches.recipe())),
      epoch_batches_(epoch_batches(batches, steps_per_epoch, group_batches())),
      own_steps_(share_of(epoch_batches_, group_.size(), group_.rank(), block_)),
      first_steps_(share_of(epoch_batches_, group_.size(), 0, block_)),
      dataset_(own_batches(batches, steps_per_epoch, group_, block_)),
      empty_update_(
          [this](std::span<const Tensor>) {
            optimizer_.apply_nothing(optimizer_.parameters());
            return std::vector<Tensor>{};
          },
          {.name = "update without a batch"}),
      from_ranks_(static_cast<size_t>(group_.size())) {
  require(epoch_batches_ != 0, ErrorCode::kInvalidArgument, kWhere, "the data contain no batch");
  dataset_.set_epoch(batches.next_epoch());
  group_.notes().request(false);  // an end requested too late in an earlier fit
}

std::vector<std::string> DataParallel::data_of_all(const data::Dataset* validation) const {
  const auto counted = [](int64_t batches) {
    return batches == data::kUnknown ? std::string("an unknown number") : std::to_string(batches);
  };
  const auto print = [](std::string_view which, uint64_t fingerprint) {
    return fmt::format("{} of fingerprint {:016x} (files' names, sizes, stages, seeds)", which, fingerprint);
  };
  std::vector<std::string> lines = {
      fmt::format("{} batches of data, {} per epoch, {} of validation data", counted(data_batches_),
                  epoch_batches_, validation != nullptr ? counted(validation->size()) : "0"),
      print("data", data_fingerprint_)};
  if (validation != nullptr)
    lines.push_back(print("validation data", data::fingerprint(*validation->recipe())));
  return lines;
}

bool DataParallel::lacks_last_update() const {
  return epoch_batches_ % group_batches() > 0 && own_steps_ == common_steps();
}

DataParallel::Part DataParallel::part_of(const data::Dataset& batches) const {
  if (group_.size() == 1 || batches.size() < group_.size()) return {batches, false};
  return {batches.shard(group_.size(), group_.rank()), true};
}

void DataParallel::prepare(const CapturedFunction& step) {
  if (group_.size() == 1) return;
  empty_update_.prepare({});
  const graph::Graph &train = step.largest_plan().graph, &nothing = empty_update_.largest_plan().graph;
  // An update without a batch takes part in the sums of its own optimizer's gradients, and in nothing else.
  const int64_t of_others = exchanges_of(train, true) - exchanges_of(nothing, true);
  step_exchanges_ = exchanges_of(train, false) + std::max<int64_t>(of_others, 0);
  require(
      step_exchanges_ == 0 || epoch_batches_ % group_batches() == 0, ErrorCode::kUnsupported, kWhere,
      "the ranks exchange more in a train step than the gradients of the trainer's optimizer (such as the "
      "statistics of a synchronized batch_norm, or the gradients of a second optimizer), so all {} ranks "
      "need the same number of batches, but the {} batches of an epoch don't divide into updates of {}; set "
      "steps_per_epoch (--steps), which is rounded up to whole updates, or leave out {} batches with take()",
      group_.size(), epoch_batches_, group_batches(), epoch_batches_ % group_batches());
}

void DataParallel::merge_averages(std::span<const Variable> averages) {
  if (group_.size() == 1 || averages.empty()) return;
  std::vector<double> own;
  for (const Variable& average : averages) {
    const std::vector<double> values = average.tensor().to_vector();
    own.insert(own.end(), values.begin(), values.end());
  }
  const auto ranks = static_cast<size_t>(group_.size());
  std::vector<double> all(own.size() * ranks);
  group_.gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), "moving averages");
  for (size_t i = 0; i < own.size(); ++i) {
    double apart = 0;
    for (size_t rank = 1; rank < ranks; ++rank) apart += all[rank * own.size() + i] - all[i];
    own[i] = all[i] + apart / static_cast<double>(ranks);
  }
  auto next = own.begin();
  for (const Variable& average : averages) {
    const auto end = next + average.elems();
    average.assign(from_vector(average.shape(), {next, end}, average.dtype()));
    next = end;
  }
}

void DataParallel::agree(const std::vector<std::string>& settings, const NamedVariables& variables) {
  std::string own;
  for (const std::string& line : settings) own += line + "\n";
  const std::string firsts = comm::broadcast_text(group_, own, "settings");
  // The message of each rank, padded to the same length.
  std::string said;
  if (own != firsts) said = difference(settings, lines_of(firsts), group_.rank());
  said.resize(kMaxText);
  std::string all(kMaxText * static_cast<size_t>(group_.size()), '\0');
  group_.gather(std::as_bytes(std::span(said)), std::as_writable_bytes(std::span(all)), "settings");
  for (size_t rank = 0; rank < static_cast<size_t>(group_.size()); ++rank) {
    const std::string text = all.substr(rank * kMaxText, kMaxText).c_str();
    require(text.empty(), ErrorCode::kInvalidArgument, kWhere,
            "the ranks don't agree on what to train: {}; start all of them with the same options and data",
            text);
  }
  for (const auto& [name, variable] : variables) {
    const Tensor content = variable.tensor();
    if (content.size_bytes() > 0) group_.broadcast({content.raw(), content.size_bytes()}, 0, "first weights");
  }
}

void DataParallel::compare_weights(const NamedVariables& weights, int epoch) {
  const auto checksum = [](const Variable& weight, uint32_t before) {
    if (!weight.trainable()) return before;
    const Tensor content = weight.tensor();
    return crc32c({content.raw(), content.size_bytes()}, before);
  };
  const auto ranks = static_cast<size_t>(group_.size());
  uint32_t own = 0;
  for (const auto& [name, weight] : weights) own = checksum(weight, own);
  group_.gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(from_ranks_)), "weights");
  const auto different = std::ranges::adjacent_find(from_ranks_, std::not_equal_to());
  if (different == from_ranks_.end()) return;
  std::vector<uint32_t> each, all(weights.size() * ranks);
  for (const auto& [name, weight] : weights) each.push_back(checksum(weight, 0));
  group_.gather(std::as_bytes(std::span(each)), std::as_writable_bytes(std::span(all)), "weights");
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t weight = i % weights.size();
    require(all[i] == all[weight], ErrorCode::kInvalidArgument, kWhere,
            "after epoch {}, '{}' of rank {} differs from that of rank 0; schedules, callbacks and "
            "everything else that changes weights must be the same on all ranks",
            epoch, weights[weight].first, i / weights.size());
  }
}

std::optional<int> DataParallel::first_rank_with(bool yes) {
  const uint32_t own = yes ? 1 : 0;
  group_.gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(from_ranks_)),
                "whether to go on");
  const auto found = std::ranges::find(from_ranks_, 1U);
  return found == from_ranks_.end() ? std::nullopt : std::optional<int>(found - from_ranks_.begin());
}

void DataParallel::begin_draws(int64_t phase) {
  const int64_t done = phase > 0 ? group_.rank() * block_ + phase : 0;
  first_draw_ = random::default_generator().step() - done;
}

void DataParallel::draw_from(int64_t place) const { random::default_generator().seek(first_draw_ + place); }

void DataParallel::before_step(int64_t phase) const { draw_from(group_.rank() * block_ + phase); }

void DataParallel::after_step(int64_t phase) {
  if (phase == 0) first_draw_ += group_batches();
  seek_draws(phase);
}

void DataParallel::seek_draws(int64_t phase) const {
  draw_from(phase == 0 ? 0 : group_.rank() * block_ + phase);
}

void DataParallel::update_without_batch() {
  optimizer_.flush_next();
  empty_update_.call({});
  after_step(0);
}

bool DataParallel::stop_requested(bool here) {
  if (group_.size() == 1) return here;
  comm::RankNotes& notes = group_.notes();
  if (here) notes.request(true);
  const bool agreed = notes.requests() > 0;
  if (agreed) notes.request(false);
  return agreed;
}

void DataParallel::batches_of(int64_t& step, int64_t& total_steps) const {
  const int64_t epochs = (total_steps - step) / first_steps_;
  step = step == first_steps_ ? epoch_batches_ : step / block_ * group_batches() + step % block_;
  total_steps = epochs * epoch_batches_ + step;
}

void DataParallel::steps_of(int64_t& step, int64_t& total_steps) const {
  const int64_t epochs = (total_steps - step) / epoch_batches_;
  step = share_of(step, group_.size(), 0, block_);
  total_steps = epochs * first_steps_ + step;
}

bool DataParallel::is_sum(std::string_view name) {
  return name == "optimizer/phase" || name == "optimizer/rows" || name == "optimizer/flush" ||
         name == "optimizer/unused" ||
         (name.starts_with("optimizer/") && name.find("/gradient_sum") != std::string_view::npos);
}

std::vector<Variable> DataParallel::take_out_sums(const Checkpoint& checkpoint,
                                                  NamedVariables& variables) const {
  std::vector<Variable> taken;
  std::erase_if(variables, [&](const auto& entry) {
    if (!is_sum(entry.first) || checkpoint.contains(entry.first)) return false;
    taken.push_back(entry.second);
    return true;
  });
  const std::string phase = "optimizer/phase";
  const int64_t done = checkpoint.contains(phase) ? checkpoint.read(phase).item<int64_t>() : 0;
  const bool same = taken.empty() && group_.size() == 1 && block_ > 1;
  require(done == 0 || same, ErrorCode::kInvalidArgument, checkpoint.path().string(),
          "was saved after {} of {} batches of an update; {} ranks that accumulate {} batches can't continue "
          "in the middle of an update: resume with the number of ranks and the accumulation that the run "
          "had, or from a checkpoint at the end of an epoch",
          done, group_batches(), group_.size(), block_);
  return taken;
}

DataParallel::Merged::Merged(DataParallel& parallel, const NamedVariables& tallies, const char* label,
                             bool divided)
    : parallel_(parallel), tallies_(tallies) {
  if (parallel.group_.size() == 1) return;
  std::vector<double>& own = parallel.own_;
  own.clear();
  for (const auto& [name, variable] : tallies) {
    const Tensor content = variable.tensor();
    for (int64_t i = 0; i < content.elems(); ++i) {
      own.push_back(content.dtype() == DType::kF64 ? content.data<double>()[i]
                                                   : static_cast<double>(content.data<int64_t>()[i]));
    }
  }
  const auto ranks = static_cast<size_t>(parallel.group_.size());
  std::vector<double>& all = parallel.all_;
  all.resize(own.size() * ranks);
  parallel.group_.gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), label);
  size_t at = 0;
  for (const auto& [name, variable] : tallies) {
    for (int64_t i = 0; i < variable.elems(); ++i, ++at) {
      for (size_t rank = 1; divided && rank < ranks; ++rank)
        all[at] = merged_numbers(name, all[at], all[rank * own.size() + at]);
    }
  }
  write_numbers(tallies, all);
}

DataParallel::Merged::~Merged() {
  if (parallel_.group_.size() > 1) write_numbers(tallies_, parallel_.own_);
}

}  // namespace isochron::train
