#include "isochron/data/formats/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/core/files/file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/formats/byte_reader.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;  // far more than the dictionary of any array takes
constexpr std::string_view kPiecewise = "data::from_npy, which reads row by row";

struct NpyHeader {
  TensorSpec spec;
  bool fortran_order = false;
  bool swap_bytes = false;
};

/// The header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, keys in any
/// order.
class NpyDictionary {
 public:
  NpyDictionary(std::string_view text, const ByteReader& reader) : text_(text), reader_(reader) {}

  NpyHeader parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        has_descr = true;
        parse_descr(quoted(), header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran_order = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.spec.shape = shape();
      } else {
        reader_.refuse("unexpected or repeated key '{}' in the header", key);
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty()) reader_.refuse("unexpected '{}' after the header's dictionary", text_.substr(0, 20));
    if (!has_descr || !has_order || !has_shape)
      reader_.refuse("the header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip_space() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n\t"), text_.size())); }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) {
      reader_.refuse("expected '{}' in the header, got '{}'; is this an .npy file?", c, text_.substr(0, 20));
    }
  }
  std::string_view quoted() {
    skip_space();
    const char quote = text_.empty() ? '\0' : text_[0];
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      reader_.refuse("expected a quoted text in the header, got '{}' (records are not supported)",
                     text_.substr(0, 20));
    }
    const std::string_view result = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return result;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(std::strlen(word));
        return value;
      }
    }
    reader_.refuse("expected True or False in the header, got '{}'", text_.substr(0, 20));
  }
  Shape shape() {
    Shape result;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [stop, status] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (status != std::errc() || extent < 0) {
        reader_.refuse("expected an extent >= 0 in the header's shape, got '{}'", text_.substr(0, 20));
      }
      text_.remove_prefix(static_cast<size_t>(stop - text_.data()));
      if (result.rank() == kMaxRank) reader_.refuse("the array's rank exceeds the maximum {}", kMaxRank);
      result.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return result;
  }
  void parse_descr(std::string_view descr, NpyHeader& header) const {
    constexpr std::pair<std::string_view, DType> kTypes[] = {
        {"f8", DType::kF64}, {"f4", DType::kF32}, {"f2", DType::kF16}, {"i8", DType::kI64},
        {"i4", DType::kI32}, {"u1", DType::kU8},  {"b1", DType::kBool}};
    if (descr.size() == 3 && std::string_view("<>|=").find(descr[0]) != std::string_view::npos) {
      for (const auto& [code, dtype] : kTypes) {
        if (descr.substr(1) != code) continue;
        header.spec.dtype = dtype;
        header.swap_bytes = descr[0] == '>' && dtype_size(dtype) > 1;
        return;
      }
    }
    reader_.refuse("dtype '{}' is not supported; expected one of f8 f4 f2 i8 i4 u1 b1: convert with astype",
                   descr);
  }

  std::string_view text_;
  const ByteReader& reader_;
};

NpyHeader parse_header(ByteReader& reader) {
  const std::string_view magic = reader.take_text(kMagic.size(), "the magic text");
  if (magic != kMagic) reader.refuse("does not begin with \\x93NUMPY; is this an .npy file?");
  const int major = reader.take_le<uint8_t>("the version");
  const int minor = reader.take_le<uint8_t>("the version");
  if (major < 1 || major > 3 || minor != 0) reader.refuse("NPY version {}.{} is unknown", major, minor);
  const uint32_t length = major == 1 ? reader.take_le<uint16_t>("the header's length")
                                     : reader.take_le<uint32_t>("the header's length");
  if (length > kMaxHeaderBytes) {
    reader.refuse("the header has {} bytes; expected at most {}", length, kMaxHeaderBytes);
  }
  const std::string_view text = reader.take_text(length, "the header");
  return NpyDictionary(text, reader).parse();
}

/// Copies a strided array of `item_bytes` elements into row-major order; the source need not be aligned.
void copy_row_major(std::byte* to, const std::byte* from, const Shape& shape, const Strides& strides,
                    size_t item_bytes) {
  const int64_t elems = shape.elems();
  Dims index = shape;
  std::fill(index.begin(), index.end(), 0);
  for (int64_t n = 0; n < elems; ++n, to += item_bytes) {
    int64_t offset = 0;
    for (int i = 0; i < shape.rank(); ++i) offset += index[i] * strides[i];
    std::memcpy(to, from + offset * static_cast<int64_t>(item_bytes), item_bytes);
    for (int i = shape.rank() - 1; i >= 0 && ++index[i] == shape[i]; --i) index[i] = 0;
  }
}

Strides fortran_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

void swap_each(std::span<std::byte> bytes, size_t item_bytes) {
  for (size_t i = 0; i < bytes.size(); i += item_bytes) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + item_bytes));
  }
}

std::string_view npy_descr(DType dtype) {
  constexpr std::string_view kDescr[kDTypeCount] = {"<f8", "<f4", "<f2", "", "<i8", "<i4", "|u1", "|b1"};
  require(dtype != DType::kBF16, ErrorCode::kUnsupported, "npy",
          "NumPy has no bf16; convert the tensor to f32 first");
  return kDescr[static_cast<int>(dtype)];
}

/// The header of a file, and where its content lies.
struct NpyParts {
  NpyHeader header;
  size_t content_offset;
  size_t content_bytes;
};

/// `begin`: the beginning of the file, at least its header. `file_bytes`: the size of the whole file.
NpyParts parse_parts(std::span<const std::byte> begin, uint64_t file_bytes, const std::string& where) {
  ByteReader reader(begin, where);
  const NpyHeader header = parse_header(reader);
  size_t size_bytes = 0;
  try {
    size_bytes = header.spec.size_bytes();
    static_cast<void>(contiguous_strides(header.spec.shape));
  } catch (const Error&) {
    reader.refuse("the header's shape {} is too large for any memory", header.spec.shape.str());
  }
  const uint64_t left = file_bytes - reader.offset();
  if (size_bytes > left) {
    reader.refuse("expected {} bytes of elements, got {}; is the file truncated?", size_bytes, left);
  }
  if (size_bytes < left) {
    reader.refuse("{} unexpected bytes follow the array of {}", left - size_bytes, header.spec.str());
  }
  return {header, reader.offset(), size_bytes};
}

NpyParts read_parts(const InputFile& file) {
  constexpr size_t kPreambleBytes = 12;
  std::vector<std::byte> begin(std::min<uint64_t>(file.size_bytes(), kPreambleBytes + kMaxHeaderBytes));
  file.read_at(0, begin);
  return parse_parts(begin, file.size_bytes(), file.path().string());
}

/// The memory, beside the result, that reading an array takes.
size_t kept_bytes(const NpyParts& parts) { return parts.header.fortran_order ? parts.content_bytes : 0; }

/// Makes the array; `read(into)` reads the elements' bytes.
template <typename Read>
Tensor tensor_of(const NpyParts& parts, Read read) {
  const auto& [header, content_offset, size_bytes] = parts;
  const size_t item_bytes = dtype_size(header.spec.dtype);
  Tensor result = empty(header.spec, "npy");
  if (size_bytes == 0) return result;
  const std::span<std::byte> elements(result.raw(), size_bytes);
  if (header.fortran_order) {
    const Shape& shape = header.spec.shape;
    std::vector<std::byte> content(size_bytes);
    read(std::span(content));
    copy_row_major(result.raw(), content.data(), shape, fortran_strides(shape), item_bytes);
  } else {
    read(elements);
  }
  if (header.swap_bytes) swap_each(elements, item_bytes);
  if (header.spec.dtype == DType::kBool) {  // bytes other than 0 and 1 become 1
    for (std::byte& byte : elements) byte = std::byte{byte != std::byte{0}};
  }
  return result;
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const NpyParts parts = parse_parts(bytes, bytes.size(), where);
  ReadMemory memory(where, kPiecewise);
  memory.hold(checked_add(parts.content_bytes, kept_bytes(parts)));
  return tensor_of(parts, [&](std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + parts.content_offset, into.size());
  });
}

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
  const NpyParts parts = read_parts(file_);
  require(!parts.header.fortran_order && !parts.header.swap_bytes, ErrorCode::kUnsupported,
          file_.path().string(),
          "an array in Fortran order or big-endian can't be read row by row; read_npy converts it");
  spec_ = parts.header.spec;
  content_offset_ = parts.content_offset;
}

Tensor read_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  const NpyParts parts = read_parts(file);
  const std::string where = path.string();
  ReadMemory memory(where, kPiecewise);
  memory.hold(checked_add(parts.content_bytes, kept_bytes(parts)));
  return tensor_of(parts, [&](std::span<std::byte> into) { file.read_at(parts.content_offset, into); });
}

std::string npy_header(const TensorSpec& spec, size_t least_bytes) {
  const Shape& shape = spec.shape;
  std::string extents;
  for (int i = 0; i < shape.rank(); ++i) extents += fmt::format("{}{}", i ? ", " : "", shape[i]);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   npy_descr(spec.dtype), extents, shape.rank() == 1 ? "," : "");
  constexpr size_t kPreambleBytes = 10;
  const size_t unpadded = kPreambleBytes + header.size() + 1;
  header.append(std::max(align_up<size_t>(unpadded, 64), least_bytes) - unpadded, ' ').push_back('\n');
  std::string result(kMagic);
  result.append({'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)});
  return result + header;
}

std::string format_npy(const Tensor& tensor) {
  std::string result = npy_header(tensor.spec());
  const size_t begin = result.size();
  result.resize(checked_add(begin, tensor.size_bytes()));
  if (tensor.elems() > 0) {
    copy_row_major(reinterpret_cast<std::byte*>(result.data() + begin), tensor.raw(), tensor.shape(),
                   tensor.strides(), dtype_size(tensor.dtype()));
  }
  return result;
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  write_file_atomically(path, format_npy(tensor));
}

}  // namespace isochron::data
