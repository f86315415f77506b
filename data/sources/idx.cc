#include "isochron/data/sources/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/input_stream.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the elements' bytes are turned around");

constexpr size_t kFirstPiece = size_t{1} << 20;
constexpr int64_t kClasses = 10;

struct StoredType {
  uint8_t code;
  size_t bytes;
  DType dtype;  // of the tensor
};
constexpr StoredType kTypes[] = {{0x08, 1, DType::kU8},  {0x09, 1, DType::kI32}, {0x0b, 2, DType::kI32},
                                 {0x0c, 4, DType::kI32}, {0x0d, 4, DType::kF32}, {0x0e, 8, DType::kF64}};

class IdxReader {
 public:
  IdxReader(const fs::path& path, const IdxOptions& options) : stream_(path), options_(options) {}

  Tensor read() {
    const auto magic = take<4>("the magic number");
    const auto* type = std::ranges::find(kTypes, std::to_integer<uint8_t>(magic[2]), &StoredType::code);
    const int rank = std::to_integer<int>(magic[3]);
    if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type == std::end(kTypes)) {
      refuse(0,
             "expected two zero bytes and a dtype code of 8 to 14, got {:02x} {:02x} {:02x}; is this an IDX "
             "file?",
             std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]), std::to_integer<int>(magic[2]));
    }
    if (rank > kMaxRank) refuse(3, "the array's rank {} exceeds the maximum {}", rank, kMaxRank);
    Shape shape;
    for (int axis = 0; axis < rank; ++axis) shape.push_back(take_extent());
    const uint64_t bytes = stored_bytes(shape, *type);
    ReadMemory memory(stream_.where());
    std::vector<std::byte> content = take_all(bytes, memory);
    if (const size_t more = stream_.peek().size(); more > 0) {
      refuse(stream_.position(), "unexpected bytes follow the array of {}", shape.str());
    }
    memory.add(TensorSpec{type->dtype, shape}.size_bytes());
    return tensor_of(content, *type, shape);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(uint64_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadFormat, stream_.where(), "byte {}: {}", offset,
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <size_t kBytes>
  std::array<std::byte, kBytes> take(std::string_view what) {
    const uint64_t offset = stream_.position();
    std::array<std::byte, kBytes> bytes;
    if (const size_t got = stream_.read(bytes); got < kBytes) {
      refuse(offset, "expected {} bytes of {}, got {}; is the file truncated?", kBytes, what, got);
    }
    return bytes;
  }
  int64_t take_extent() {
    int64_t extent = 0;
    for (const std::byte byte : take<4>("an extent")) extent = extent << 8 | std::to_integer<int64_t>(byte);
    return extent;
  }
  uint64_t stored_bytes(const Shape& shape, const StoredType& type) const {
    try {
      static_cast<void>(contiguous_strides(shape));
      const auto elems = static_cast<uint64_t>(shape.elems());
      const size_t widest = std::max(type.bytes, dtype_size(type.dtype));
      if (checked_mul<uint64_t>(elems, widest) <= options_.limit_bytes) return elems * type.bytes;
    } catch (const Error&) {
      // A size that overflows exceeds the limit, too.
    }
    refuse(4, "the array of {} exceeds the limit of {} bytes", shape.str(), options_.limit_bytes);
  }
  /// Reads in pieces, because the sizes in the header don't justify allocating all of the memory at once.
  std::vector<std::byte> take_all(uint64_t bytes, ReadMemory& memory) {
    const uint64_t offset = stream_.position(), left = stream_.most_bytes_left();
    if (bytes > left) {
      refuse(offset, "expected {} bytes of elements, got {}; is the file truncated?", bytes, left);
    }
    std::vector<std::byte> content;
    while (content.size() < bytes) {
      const size_t before = content.size();
      const size_t grown = before + std::min<size_t>(bytes - before, std::max(kFirstPiece, before));
      memory.hold(grown);
      content.resize(grown);
      const size_t got = stream_.read(std::span(content).subspan(before));
      if (before + got < content.size()) {
        refuse(offset, "expected {} bytes of elements, got {}; is the file truncated?", bytes, before + got);
      }
    }
    return content;
  }
  static Tensor tensor_of(std::span<std::byte> content, const StoredType& type, const Shape& shape) {
    Tensor result = empty({type.dtype, shape}, "dataset");
    if (type.code == 0x09) {
      std::ranges::transform(content, result.data<int32_t>(),
                             [](std::byte byte) { return std::to_integer<int8_t>(byte); });
    } else if (type.code == 0x0b) {
      int32_t* to = result.data<int32_t>();
      for (size_t i = 0; i + 1 < content.size(); i += 2) {
        const int bits = std::to_integer<int>(content[i]) << 8 | std::to_integer<int>(content[i + 1]);
        *to++ = static_cast<int16_t>(bits);
      }
    } else {
      for (size_t i = 0; i < content.size(); i += type.bytes) {
        std::ranges::reverse(content.subspan(i, type.bytes));
      }
      if (!content.empty()) std::memcpy(result.raw(), content.data(), content.size());
    }
    return result;
  }

  InputStream stream_;
  IdxOptions options_;
};

/// The path with .gz appended if there is no such file without it.
Tensor read_either(const fs::path& path) {
  std::error_code ignored;
  const fs::path zipped = path.string() + ".gz";
  return read_idx(!fs::exists(path, ignored) && fs::exists(zipped, ignored) ? zipped : path);
}

LabelledImages load_part(const fs::path& folder, const std::string& part) {
  constexpr float kWhite = 255;
  const fs::path image_path = folder / (part + "-images-idx3-ubyte");
  const fs::path label_path = folder / (part + "-labels-idx1-ubyte");
  const Tensor pixels = read_either(image_path), numbers = read_either(label_path);
  require(pixels.dtype() == DType::kU8 && pixels.rank() == 3, ErrorCode::kBadFormat, image_path.string(),
          "expected images as u8 (N, height, width), got {}", pixels.spec().str());
  require(numbers.dtype() == DType::kU8 && numbers.rank() == 1, ErrorCode::kBadFormat, label_path.string(),
          "expected labels as u8 (N), got {}", numbers.spec().str());
  require(numbers.extent(0) == pixels.extent(0), ErrorCode::kBadFormat, label_path.string(),
          "expected {} labels, one per image, got {}", pixels.extent(0), numbers.extent(0));
  const TensorSpec image_spec{DType::kF32, {pixels.extent(0), pixels.extent(1), pixels.extent(2), 1}};
  ReadMemory memory(image_path.native());
  memory.hold(checked_add(pixels.size_bytes(), image_spec.size_bytes()));
  LabelledImages result{empty(image_spec, "dataset"), empty({DType::kI64, {numbers.extent(0)}}, "dataset")};
  std::ranges::transform(pixels.span<uint8_t>(), result.images.data<float>(),
                         [](uint8_t value) { return static_cast<float>(value) / kWhite; });
  for (int64_t i = 0; i < numbers.elems(); ++i) {
    const int64_t label = numbers.data<uint8_t>()[i];
    require(label < kClasses, ErrorCode::kBadFormat, label_path.string(), "label {} is {}; expected 0 to {}",
            i, label, kClasses - 1);
    result.labels.data<int64_t>()[i] = label;
  }
  return result;
}

}  // namespace

Tensor read_idx(const fs::path& path, const IdxOptions& options) { return IdxReader(path, options).read(); }

std::string format_idx(const Tensor& tensor) {
  const auto* type = std::ranges::find_if(kTypes, [&](const StoredType& candidate) {
    return candidate.dtype == tensor.dtype() && candidate.bytes == dtype_size(tensor.dtype());
  });
  require(type != std::end(kTypes), ErrorCode::kUnsupported, "idx",
          "IDX files hold u8, i32, f32 or f64, got {}; convert the tensor first", tensor.spec().str());
  std::string result = {'\0', '\0', static_cast<char>(type->code), static_cast<char>(tensor.rank())};
  for (const int64_t extent : tensor.shape()) {
    require(extent <= UINT32_MAX, ErrorCode::kUnsupported, "idx", "an extent has 32 bits, got {}", extent);
    for (int shift = 24; shift >= 0; shift -= 8) result += static_cast<char>(extent >> shift);
  }
  Dims index = tensor.shape();
  std::fill(index.begin(), index.end(), 0);
  for (int64_t n = 0; n < tensor.shape().elems(); ++n) {
    int64_t offset = 0;
    for (int axis = 0; axis < tensor.rank(); ++axis) offset += index[axis] * tensor.strides()[axis];
    const auto* element =
        reinterpret_cast<const char*>(tensor.raw()) + offset * static_cast<int64_t>(type->bytes);
    for (size_t i = type->bytes; i-- > 0;) result += element[i];
    for (int axis = tensor.rank() - 1; axis >= 0 && ++index[axis] == tensor.extent(axis); --axis)
      index[axis] = 0;
  }
  return result;
}

Mnist load_mnist(const fs::path& folder) { return {load_part(folder, "train"), load_part(folder, "t10k")}; }

}  // namespace isochron::data
