#include "isochron/backends/cpu/normalization/group_norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/backends/cpu/common/rows_kernel.h"
#include "isochron/backends/cpu/normalization/group_norm_functions.h"
#include "isochron/core/base/checked.h"
#include "isochron/ops/normalization/group_view.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

/// The number of positions per row. If there are few channels, a row holds enough positions to fill whole
/// vectors, so that a number takes no longer with 3 channels than with 64.
int64_t folded_positions(const GroupView& view) {
  constexpr int64_t kVector = 16;  // f32 numbers of the widest vectors
  constexpr int64_t kRun = 4 * kVector;
  constexpr int64_t kLongest = 1024;
  const int64_t channels = view.channels();
  if (channels >= 4 * kRun) return 1;
  int64_t fold = kRun / std::gcd(channels, kRun);
  if (channels * fold > kLongest) fold = kVector / std::gcd(channels, kVector);
  if (channels * fold > kLongest) fold = 1;
  return std::max<int64_t>(1, std::min(fold, view.positions / 8));
}

/// Divides a sample into rows of `width` elements, which hold a few positions each, and groups the rows into
/// slabs. The last row may be shorter.
struct Rows {
  explicit Rows(const GroupView& view)
      : fold(folded_positions(view)),
        width(view.channels() * fold),
        whole(view.positions / fold),
        rest(view.positions % fold * view.channels()) {
    constexpr int64_t kSlabElems = 32 * 1024;
    constexpr int64_t kMaxSlabs = 32;
    slabs =
        std::clamp<int64_t>(whole * width / kSlabElems, 1, std::min(kMaxSlabs, std::max<int64_t>(whole, 1)));
  }
  int64_t begin(int64_t slab) const { return whole * slab / slabs; }
  int64_t count(int64_t slab) const { return begin(slab + 1) - begin(slab); }
  /// The number of elements in the short row, which belongs to the last slab.
  int64_t rest_of(int64_t slab) const { return slab + 1 == slabs ? rest : 0; }

  int64_t fold;
  int64_t width;
  int64_t whole;
  int64_t rest;
  int64_t slabs = 1;
};

/// The common part of both directions: how samples are distributed over threads, and where sums and tables
/// are stored. A slot holds the tables and the slab sums of one sample. There is one slot per thread if each
/// thread processes whole samples, and one per sample if all threads share each sample.
template <typename E>
class GroupKernel : public graph::Kernel {
 public:
  using T = ComputeType<E>;

  size_t workspace_bytes() const override {
    return static_cast<size_t>(slots()) * slot_bytes() + static_cast<size_t>(threads_) * scratch_bytes() +
           static_cast<size_t>(chunks_ * chunk_numbers_) * sizeof(double);
  }

 protected:
  GroupKernel(const KernelRequest& request, const GroupView& view, int64_t tables, int64_t chunk_numbers)
      : view_(view),
        rows_(view),
        chunks_(std::min(view.samples, kMaxChunks)),
        functions_(group_norm_functions<E>()),
        tables_(tables),
        chunk_numbers_(chunk_numbers),
        threads_(request.inputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1),
        by_samples_(threads_ == 1 || chunks_ % threads_ == 0 || chunks_ >= 4 * threads_) {}

  /// For each sample, calls begin(slot, sample), then sum(slot, sample, slab, scratch) for each slab, then
  /// end(slot, sample, chunk), and, if `applies`, apply(slot, sample, slab) for each slab. `end` is called
  /// for the samples of a chunk in order, on one thread.
  template <class Begin, class Sum, class End, class Apply>
  void go_through(const KernelArgs& args, bool applies, Begin begin, Sum sum, End end, Apply apply) const {
    if (by_samples_) {
      each_thread(threads_, [&](int64_t t) {
        const Slot slot = slot_at(args, t);
        T* scratch = scratch_at(args, t);
        for (int64_t c = chunks_ * t / threads_; c < chunks_ * (t + 1) / threads_; ++c) {
          for (int64_t n = first_sample(c); n < first_sample(c + 1); ++n) {
            begin(slot, n);
            for (int64_t s = 0; s < rows_.slabs; ++s) sum(slot, n, s, scratch);
            end(slot, n, c);
            for (int64_t s = rows_.slabs; applies && s-- > 0;) apply(slot, n, s);
          }
        }
      });
      return;
    }
    each_thread(threads_, [&](int64_t t) {
      for (int64_t n = 0; n < view_.samples; ++n) {
        if (n % threads_ == t) begin(slot_at(args, n), n);
      }
    });
    const int64_t parts = view_.samples * rows_.slabs;
    each_thread(threads_, [&](int64_t t) {
      for (int64_t p = parts * t / threads_; p < parts * (t + 1) / threads_; ++p) {
        sum(slot_at(args, p / rows_.slabs), p / rows_.slabs, p % rows_.slabs, scratch_at(args, t));
      }
    });
    for (int64_t c = 0; c < chunks_; ++c) {
      for (int64_t n = first_sample(c); n < first_sample(c + 1); ++n) end(slot_at(args, n), n, c);
    }
    if (!applies) return;
    each_thread(threads_, [&](int64_t t) {
      for (int64_t p = parts * (t + 1) / threads_; p-- > parts * t / threads_;) {
        apply(slot_at(args, p / rows_.slabs), p / rows_.slabs, p % rows_.slabs);
      }
    });
  }

  struct Slot {
    double* sums;  // (slabs, 2, width)
    T* tables;     // (tables, width)
  };

  int64_t element(int64_t sample, int64_t slab) const {
    return sample * view_.positions * view_.channels() + rows_.begin(slab) * rows_.width;
  }
  /// Calls f(first element, rows, positions per row) for a slab, and separately for its short row.
  template <class F>
  void each_part(int64_t sample, int64_t slab, F f) const {
    const int64_t at = element(sample, slab);
    const int64_t count = rows_.count(slab);
    if (count > 0) f(at, count, rows_.width);
    if (rows_.rest_of(slab) > 0) f(at + count * rows_.width, int64_t{1}, rows_.rest_of(slab));
  }
  double* slab_sums(const Slot& slot, int64_t slab) const { return slot.sums + 2 * slab * rows_.width; }
  T* table(const Slot& slot, int64_t i) const { return slot.tables + i * rows_.width; }
  double* chunk_at(const KernelArgs& args, int64_t chunk) const {
    return reinterpret_cast<double*>(args.workspace + static_cast<size_t>(slots()) * slot_bytes() +
                                     static_cast<size_t>(threads_) * scratch_bytes()) +
           chunk * chunk_numbers_;
  }

  /// Adds the sums of all slabs, and the sums of all places in a row that hold the same channel. The result,
  /// (2, C), is at the front of the slot.
  void add_up(const Slot& slot) const {
    const int64_t channels = view_.channels();
    for (int64_t s = 1; s < rows_.slabs; ++s) functions_.add(slab_sums(slot, s), 2 * rows_.width, slot.sums);
    for (int64_t j = 1; j < rows_.fold; ++j) {
      functions_.add(slot.sums + j * channels, channels, slot.sums);
      functions_.add(slot.sums + rows_.width + j * channels, channels, slot.sums + rows_.width);
    }
  }
  /// Repeats the first C numbers of a table along the row.
  void repeat(T* table) const {
    for (int64_t j = 1; j < rows_.fold; ++j)
      std::copy_n(table, view_.channels(), table + j * view_.channels());
  }

  static const E* input(const KernelArgs& args, int i) { return reinterpret_cast<const E*>(args.inputs[i]); }
  static E* output(const KernelArgs& args, int i) { return reinterpret_cast<E*>(args.outputs[i]); }
  static const T* number_input(const KernelArgs& args, int i) {
    return reinterpret_cast<const T*>(args.inputs[i]);
  }
  static T* number_output(const KernelArgs& args, int i) { return reinterpret_cast<T*>(args.outputs[i]); }

  GroupView view_;
  Rows rows_;
  int64_t chunks_;  // of samples; sums over samples are first computed per chunk
  GroupNormFunctions<E> functions_;

 private:
  static constexpr int64_t kElemsPerThread = 16 * 1024;  // elements that make another thread pay off
  static constexpr int64_t kMaxChunks = 32;

  int64_t slots() const { return by_samples_ ? threads_ : view_.samples; }
  size_t sum_bytes() const {
    return align_up<size_t>(static_cast<size_t>(2 * rows_.slabs * rows_.width) * sizeof(double), 64);
  }
  size_t slot_bytes() const {
    return sum_bytes() + align_up<size_t>(static_cast<size_t>(tables_ * rows_.width) * sizeof(T), 64);
  }
  size_t scratch_bytes() const {
    return align_up<size_t>(static_cast<size_t>(3 * rows_.width) * sizeof(T), 64);
  }
  Slot slot_at(const KernelArgs& args, int64_t i) const {
    std::byte* at = args.workspace + static_cast<size_t>(i) * slot_bytes();
    return {reinterpret_cast<double*>(at), reinterpret_cast<T*>(at + sum_bytes())};
  }
  T* scratch_at(const KernelArgs& args, int64_t thread) const {
    return reinterpret_cast<T*>(args.workspace + static_cast<size_t>(slots()) * slot_bytes() +
                                static_cast<size_t>(thread) * scratch_bytes());
  }
  int64_t first_sample(int64_t chunk) const { return view_.samples * chunk / chunks_; }

  int64_t tables_;
  int64_t chunk_numbers_;
  int threads_;
  bool by_samples_;
};

/// The results from `first_moment` on are mean and variance. If `first_moment` is 1, result 0 is y.
template <typename E>
class GroupNormKernel final : public GroupKernel<E> {
 public:
  using typename GroupKernel<E>::T;
  using typename GroupKernel<E>::Slot;

  GroupNormKernel(const KernelRequest& request, const GroupView& view, double epsilon, int first_moment)
      : GroupKernel<E>(request, view, 3, 0),
        epsilon_(epsilon),
        first_moment_(first_moment),
        inputs_(request.inputs.size()) {}

  void run(const KernelArgs& args) override {
    const E* x = this->input(args, 0);
    E* y = first_moment_ > 0 ? this->output(args, 0) : nullptr;
    const int64_t width = this->rows_.width;
    this->go_through(
        args, y != nullptr,
        [&](const Slot& slot, int64_t n) {
          // Sums are computed relative to the values at the sample's first position.
          T* base = this->table(slot, 0);
          const E* first = x + this->element(n, 0);
          for (int64_t c = 0; c < this->view_.channels(); ++c) base[c] = static_cast<T>(first[c]);
          this->repeat(base);
        },
        [&](const Slot& slot, int64_t n, int64_t s, T* scratch) {
          double* sums = this->slab_sums(slot, s);
          std::fill_n(sums, 2 * width, 0.0);
          this->each_part(n, s, [&](int64_t at, int64_t rows, int64_t places) {
            this->functions_.add_moments(x + at, this->table(slot, 0), rows, width, places, scratch, sums,
                                         sums + width);
          });
        },
        [&](const Slot& slot, int64_t n, int64_t) { finish_moments(args, slot, n); },
        [&](const Slot& slot, int64_t n, int64_t s) {
          this->each_part(n, s, [&](int64_t at, int64_t rows, int64_t places) {
            this->functions_.normalize(x + at, this->table(slot, 0), this->table(slot, 1),
                                       this->table(slot, 2), rows, width, places, y + at);
          });
        });
  }

 private:
  /// Mean and variance of each group, and y = (x - center) scale + shift. The center is the mean rounded to
  /// T; the shift compensates for the rounding error.
  void finish_moments(const KernelArgs& args, const Slot& slot, int64_t n) const {
    this->add_up(slot);
    const int64_t width = this->view_.width;
    const double position = 1 / static_cast<double>(this->view_.positions);
    const double place = 1 / static_cast<double>(width);
    const double* sums = slot.sums;
    const double* squares = slot.sums + this->rows_.width;
    T* center = this->table(slot, 0);  // still holds the base
    T* scale = this->table(slot, 1);
    T* shift = this->table(slot, 2);
    const T* gamma = inputs_ > 1 ? this->number_input(args, 1) : nullptr;
    const T* beta = inputs_ > 2 ? this->number_input(args, 2) : nullptr;
    T* means = this->number_output(args, first_moment_);
    T* variances = this->number_output(args, first_moment_ + 1);
    for (int64_t g = 0; g < this->view_.groups; ++g) {
      const int64_t begin = g * width;
      double mean = 0;
      for (int64_t c = begin; c < begin + width; ++c) {
        mean += static_cast<double>(center[c]) - static_cast<double>(center[begin]) + sums[c] * position;
      }
      mean = static_cast<double>(center[begin]) + mean * place;
      double variance = 0;
      for (int64_t c = begin; c < begin + width; ++c) {
        const double offset = sums[c] * position;
        const double apart = static_cast<double>(center[c]) + offset - mean;
        variance += squares[c] * position - offset * offset + apart * apart;
      }
      variance *= place;
      if (variance < 0) variance = 0;  // NaN stays
      const T rounded = static_cast<T>(mean);
      const double missing = mean - static_cast<double>(rounded);
      const double factor = 1 / std::sqrt(variance + epsilon_);
      for (int64_t c = begin; c < begin + width; ++c) {
        const double a = gamma ? static_cast<double>(gamma[c]) * factor : factor;
        center[c] = rounded;
        scale[c] = static_cast<T>(a);
        shift[c] = static_cast<T>((beta ? static_cast<double>(beta[c]) : 0.0) - missing * a);
      }
      if (means) means[n * this->view_.groups + g] = rounded;
      if (variances) variances[n * this->view_.groups + g] = static_cast<T>(variance);
    }
    for (int64_t i = 0; i < 3; ++i) this->repeat(this->table(slot, i));
  }

  double epsilon_;
  int first_moment_;
  size_t inputs_;
};

template <typename E>
class GroupNormGradientKernel final : public GroupKernel<E> {
 public:
  using typename GroupKernel<E>::T;
  using typename GroupKernel<E>::Slot;

  GroupNormGradientKernel(const KernelRequest& request, const GroupView& view, double epsilon)
      : GroupKernel<E>(request, view, 4, request.inputs.size() > 4 ? 2 * view.channels() : 0),
        epsilon_(epsilon),
        scaled_(request.inputs.size() > 4) {}

  void run(const KernelArgs& args) override {
    const E* x = this->input(args, 0);
    const E* dy = this->input(args, 3);
    E* dx = this->output(args, 0);
    const T* means = this->number_input(args, 1);
    const int64_t width = this->rows_.width;
    const int64_t channels = this->view_.channels();
    for (int64_t c = 0; scaled_ && c < this->chunks_; ++c)
      std::fill_n(this->chunk_at(args, c), 2 * channels, 0.0);
    this->go_through(
        args, dx != nullptr,
        [&](const Slot& slot, int64_t n) {
          T* center = this->table(slot, 0);
          const T* mean = means + n * this->view_.groups;
          for (int64_t g = 0; g < this->view_.groups; ++g) {
            std::fill_n(center + g * this->view_.width, this->view_.width, mean[g]);
          }
          this->repeat(center);
        },
        [&](const Slot& slot, int64_t n, int64_t s, T* scratch) {
          double* sums = this->slab_sums(slot, s);
          std::fill_n(sums, 2 * width, 0.0);
          this->each_part(n, s, [&](int64_t at, int64_t rows, int64_t places) {
            this->functions_.add_products(x + at, dy + at, this->table(slot, 0), rows, width, places, scratch,
                                          sums, sums + width);
          });
        },
        [&](const Slot& slot, int64_t n, int64_t chunk) { finish_sums(args, slot, n, chunk); },
        [&](const Slot& slot, int64_t n, int64_t s) {
          this->each_part(n, s, [&](int64_t at, int64_t rows, int64_t places) {
            this->functions_.gradient(x + at, dy + at, this->table(slot, 0), this->table(slot, 1),
                                      this->table(slot, 2), this->table(slot, 3), rows, width, places,
                                      dx + at);
          });
        });
    if (scaled_) store_totals(args);
  }

 private:
  /// dgamma and dbeta of one sample, and dx = dy scale - (x - center) dot - mean.
  void finish_sums(const KernelArgs& args, const Slot& slot, int64_t n, int64_t chunk) const {
    this->add_up(slot);
    const int64_t width = this->view_.width;
    const int64_t channels = this->view_.channels();
    const double share = 1 / static_cast<double>(this->view_.count());
    const double* sums = slot.sums;
    const double* products = slot.sums + this->rows_.width;
    const T* variances = this->number_input(args, 2) + n * this->view_.groups;
    const T* gamma = scaled_ ? this->number_input(args, 4) : nullptr;
    double* totals = scaled_ ? this->chunk_at(args, chunk) : nullptr;
    T* scale = this->table(slot, 1);
    T* dot = this->table(slot, 2);
    T* mean = this->table(slot, 3);
    for (int64_t g = 0; g < this->view_.groups; ++g) {
      const double factor = 1 / std::sqrt(static_cast<double>(variances[g]) + epsilon_);
      double sum = 0;
      double product = 0;
      for (int64_t c = g * width; c < (g + 1) * width; ++c) {
        const double weight = gamma ? static_cast<double>(gamma[c]) : 1.0;
        sum += weight * sums[c];
        product += weight * products[c];
        scale[c] = static_cast<T>(weight * factor);
        if (!totals) continue;
        totals[c] += products[c] * factor;
        totals[channels + c] += sums[c];
      }
      std::fill_n(dot + g * width, width, static_cast<T>(product * share * factor * factor * factor));
      std::fill_n(mean + g * width, width, static_cast<T>(sum * share * factor));
    }
    for (int64_t i = 1; i < 4; ++i) this->repeat(this->table(slot, i));
  }

  void store_totals(const KernelArgs& args) const {
    const int64_t channels = this->view_.channels();
    double* total = this->chunk_at(args, 0);
    for (int64_t c = 1; c < this->chunks_; ++c)
      this->functions_.add(this->chunk_at(args, c), 2 * channels, total);
    for (int part = 0; part < 2; ++part) {
      T* to = this->number_output(args, 1 + part);
      for (int64_t c = 0; to && c < channels; ++c) to[c] = static_cast<T>(total[part * channels + c]);
    }
  }

  double epsilon_;
  bool scaled_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_channel_moments(const KernelRequest& request) {
  const GroupView view(request.inputs[0].shape, request.inputs[0].shape.back(), true);
  return by_stored_dtype<GroupNormKernel>(request.inputs[0].dtype, request, view, 0.0, 0);
}
std::unique_ptr<graph::Kernel> prepare_group_norm(const KernelRequest& request) {
  if (request.outputs[0].dtype != request.inputs[0].dtype) return nullptr;
  return by_stored_dtype<GroupNormKernel>(request.inputs[0].dtype, request,
                                          group_view(request.inputs[0].shape, request.attributes),
                                          request.attributes.get<double>("epsilon"), 1);
}
std::unique_ptr<graph::Kernel> prepare_group_norm_gradient(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (request.inputs[3].dtype != dtype || request.outputs[0].dtype != dtype) return nullptr;
  return by_stored_dtype<GroupNormGradientKernel>(dtype, request,
                                                  group_view(request.inputs[0].shape, request.attributes),
                                                  request.attributes.get<double>("epsilon"));
}

}  // namespace isochron::ops
