#include "isochron/core/tensor/tensor.h"

#include <array>
#include <cmath>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron {
namespace {

class ExternalStorage final : public Storage {
 public:
  ExternalStorage(void* data, size_t size_bytes) : Storage(static_cast<std::byte*>(data), size_bytes) {}
  std::string owner() const override { return "the caller's memory"; }
};

bool is_contiguous(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

double element_as_f64(const std::byte* address, DType dtype) {
  return dispatch_dtype(dtype, [&]<typename T>(T) -> double {
    const T& value = *reinterpret_cast<const T*>(address);
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      return static_cast<float>(value);
    } else {
      return static_cast<double>(value);
    }
  });
}

}  // namespace

void Storage::read(size_t offset, std::byte* to, size_t bytes) const {
  if (bytes > 0) std::memcpy(to, data_ + offset, bytes);
}

void Storage::write(size_t offset, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(data_ + offset, from, bytes);
}

TensorImpl::TensorImpl(TensorSpec s, Strides st, Ref<Storage> storage_in, size_t offset)
    : spec(s), strides(st), elems(spec.shape.elems()), offset_bytes(offset), storage(std::move(storage_in)) {
  contiguous = elems == 0 || is_contiguous(spec.shape, strides);
  count(Counter::kLiveTensors, 1);
  note_made(Made::kTensor);
}

TensorImpl::TensorImpl(TensorSpec s, Ref<ValueBase> v)
    : spec(s), strides(contiguous_strides(s.shape)), elems(spec.shape.elems()), value(std::move(v)) {
  count(Counter::kLiveTensors, 1);
  note_made(Made::kTensor);
}

TensorImpl::~TensorImpl() { count(Counter::kLiveTensors, -1); }

Tensor Tensor::over(Ref<Storage> storage, const TensorSpec& spec, size_t offset_bytes) {
  // Not `require`: it would print the spec on every call.
  if (checked_add(offset_bytes, spec.size_bytes()) > storage->size_bytes()) [[unlikely]] {
    fail(ErrorCode::kOutOfRange, "tensor", "{} at byte {} needs {} bytes, but the storage has {}", spec.str(),
         offset_bytes, spec.size_bytes(), storage->size_bytes());
  }
  return Tensor(make_ref<TensorImpl>(spec, contiguous_strides(spec.shape), std::move(storage), offset_bytes));
}

Tensor Tensor::from_external(void* data, const TensorSpec& spec, const Strides& strides) {
  require(strides.rank() == spec.shape.rank(), ErrorCode::kShapeMismatch, "from_external",
          "shape {} has rank {}, strides have {}", spec.shape.str(), spec.shape.rank(), strides.rank());
  require(data != nullptr || spec.shape.elems() == 0, ErrorCode::kInvalidArgument, "from_external",
          "the address of {} is null; give it memory that outlives the tensor", spec.str());
  int64_t reach = 0;  // the largest distance from the first element, in elements
  for (int i = 0; i < spec.shape.rank() && spec.shape.elems() > 0; ++i) {
    int64_t along = 0;
    require(strides[i] != INT64_MIN &&
                !__builtin_mul_overflow(spec.shape[i] - 1, std::abs(strides[i]), &along) &&
                !__builtin_add_overflow(reach, along, &reach) && reach <= INT64_MAX / 16,
            ErrorCode::kOverflow, "from_external", "stride {} of axis {} of {} reaches beyond any memory",
            strides[i], i, spec.str());
  }
  const size_t alignment = dtype_size(spec.dtype);
  require(
      reinterpret_cast<uintptr_t>(data) % alignment == 0, ErrorCode::kInvalidArgument, "from_external",
      "the address {} isn't a multiple of {} bytes, as that of {} must be; copy the elements to memory of "
      "their own type",
      data, alignment, spec.str());
  return Tensor(make_ref<TensorImpl>(
      spec, strides, Ref<Storage>(make_ref<ExternalStorage>(data, spec.size_bytes())), size_t{0}));
}

Tensor Tensor::from_external(void* data, const TensorSpec& spec) {
  return from_external(data, spec, contiguous_strides(spec.shape));
}

Tensor Tensor::of_value(Ref<ValueBase> value, const TensorSpec& spec) {
  return Tensor(make_ref<TensorImpl>(spec, std::move(value)));
}

void Tensor::throw_undefined() {
  fail(ErrorCode::kInvalidArgument, "tensor", "an undefined tensor has no content; assign one first");
}

void Tensor::throw_unreadable() const {
  if (!defined()) throw_undefined();
  require(!is_value(), ErrorCode::kCaptureViolation, "tensor",
          "{} is a value of the graph being captured and has no content yet; return it from the captured "
          "function and "
          "read the result, or use where/cond instead of branching on it",
          spec().str());
  require(!stale(), ErrorCode::kStale, "tensor",
          "{} was replaced by {} (made at generation {}, now {}); keep a copy() to read it later",
          spec().str(), impl_->storage->owner(), generation_, impl_->storage->generation());
  fail(ErrorCode::kDevice, "tensor", "{} lives on {}; copy it to the CPU with to_device() to read it there",
       spec().str(), device().str());
}

void Tensor::throw_not_typed(DType wanted) const {
  if (!defined()) throw_undefined();
  require(dtype() == wanted, ErrorCode::kDtypeMismatch, "tensor",
          "expected dtype {}, but the tensor is {}; cast() it, or read it as its own type",
          dtype_name(wanted), dtype_name(dtype()));
  fail(ErrorCode::kInvalidArgument, "tensor", "{} is strided; call contiguous() before taking its address",
       spec().str());
}

void Tensor::throw_out_of_range() const {
  fail(ErrorCode::kOutOfRange, "item", "{} does not fit the requested integer type; use item<double>()",
       str());
}

void Tensor::read(std::byte* to) const {
  static_cast<void>(device_address());
  require(contiguous(), ErrorCode::kInvalidArgument, "tensor", "{} is strided; read its contiguous() copy",
          spec().str());
  impl_->storage->read(impl_->offset_bytes, to, size_bytes());
}

double Tensor::item_f64() const {
  require(defined() && elems() == 1, ErrorCode::kShapeMismatch, "item", "expected one element, got {}",
          defined() ? spec().str() : "an undefined tensor");
  alignas(8) std::array<std::byte, 8> bytes;
  read(bytes.data());
  const double value = element_as_f64(bytes.data(), dtype());
  if (!std::isfinite(value)) [[unlikely]]
    count(Counter::kNotFinite, 1);
  return value;
}

int64_t Tensor::item_i64() const {
  if (defined() && elems() == 1 && dtype() == DType::kI64) {  // a double can't hold every i64 exactly
    int64_t exact = 0;
    read(reinterpret_cast<std::byte*>(&exact));
    return exact;
  }
  const double value = item_f64();
  constexpr double kMax = 0x1p63;
  if (!(value >= -kMax && value < kMax)) throw_out_of_range();
  return static_cast<int64_t>(value);
}

std::vector<double> Tensor::to_vector() const {
  std::vector<std::byte> fetched;
  const std::byte* base = device_address();
  if (!device().is_cpu()) {  // on devices, all tensors are contiguous
    fetched.resize(size_bytes());
    read(fetched.data());
    base = fetched.data();
  }
  std::vector<double> result;
  result.reserve(static_cast<size_t>(elems()));
  Dims index = shape();
  std::fill(index.begin(), index.end(), 0);
  for (int64_t n = 0; n < elems(); ++n) {
    int64_t offset = 0;
    for (int i = 0; i < rank(); ++i) offset += index[i] * strides()[i];
    result.push_back(element_as_f64(base + offset * static_cast<int64_t>(dtype_size(dtype())), dtype()));
    for (int i = rank() - 1; i >= 0 && ++index[i] == shape()[i]; --i) index[i] = 0;
  }
  return result;
}

std::string Tensor::str() const {
  if (!defined()) return "Tensor(undefined)";
  if (is_value()) return fmt::format("Tensor({}, in capture)", spec().str());
  constexpr size_t kShown = 16;
  const std::vector<double> values = to_vector();
  std::string text = fmt::format("Tensor({}: ", spec().str());
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i)
    text += fmt::format("{}{:g}", i ? " " : "", values[i]);
  return text + (values.size() > kShown ? " ...)" : ")");
}

}  // namespace isochron
