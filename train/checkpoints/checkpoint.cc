#include "isochron/train/checkpoints/checkpoint.h"

#include <nlohmann/json.hpp>
#include <set>

#include "isochron/core/base/crc32c.h"
#include "isochron/core/text/json_depth.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/nn/weights/weights.h"

namespace isochron::train {
namespace {

using nlohmann::ordered_json;

constexpr const char* kVersion = "4";
constexpr const char* kDocumentKey = "isochron.document";
constexpr const char* kDocumentChecksumKey = "isochron.document.crc32c";
constexpr const char* kChecksumsKey = "isochron.crc32c";
constexpr std::string_view kBlobPrefix = "isochron.blob/";

uint32_t checksum(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

const std::string& metadata_of(const nn::SafetensorsFile& file, const char* key, const std::string& where) {
  const auto found = file.metadata().find(key);
  require(
      found != file.metadata().end(), ErrorCode::kBadFormat, where,
      "is a safetensors file without '{}', so it is not a checkpoint; read weights alone with load_weights",
      key);
  return found->second;
}

/// {"name": checksum, ...}, as `save_checkpoint` writes it.
std::map<std::string, uint32_t, std::less<>> parse_checksums(const std::string& text,
                                                             const std::string& where) {
  require(!json_too_deep(text), ErrorCode::kBadFormat, where, "'{}' is nested more than {} levels deep",
          kChecksumsKey, kDeepestJson);
  const ordered_json list = ordered_json::parse(text, nullptr, false);
  require(list.is_object(), ErrorCode::kBadFormat, where, "'{}' is not a list of checksums", kChecksumsKey);
  std::map<std::string, uint32_t, std::less<>> result;
  for (const auto& [name, value] : list.items()) {
    require(value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX, ErrorCode::kBadFormat, where,
            "'{}': the checksum of '{}' is invalid", kChecksumsKey, name.substr(0, 100));
    result[name] = value.get<uint32_t>();
  }
  return result;
}

}  // namespace

NamedVariables weights_of(nn::Module& model) {
  NamedVariables result = model.named_parameters();
  for (auto& buffer : model.named_buffers()) result.push_back(std::move(buffer));
  return result;
}

NamedVariables slots_of(const optim::Optimizer& optimizer) {
  NamedVariables result;
  std::map<std::string, int> seen;
  for (const Variable& variable : optimizer.state()) {
    std::string name = "optimizer/" + variable.name();
    const int before = seen[name]++;
    if (before > 0) name += fmt::format("#{}", before);
    result.emplace_back(std::move(name), variable);
  }
  return result;
}

void save_checkpoint(const std::filesystem::path& path, const NamedVariables& variables,
                     const std::string& document, const NamedBlobs& blobs,
                     const std::filesystem::path& temporary_folder) {
  std::vector<Tensor> tensors;  // on the CPU
  std::vector<const std::byte*> contents;
  for (const auto& [name, variable] : variables) {
    tensors.push_back(to_device(variable.tensor(), {}));
    contents.push_back(tensors.back().raw());
  }
  save_checkpoint(path, variables, contents, document, blobs, temporary_folder);
}

void save_checkpoint(const std::filesystem::path& path, const NamedVariables& variables,
                     std::span<const std::byte* const> contents, const std::string& document,
                     const NamedBlobs& blobs, const std::filesystem::path& temporary_folder) {
  ordered_json checksums = ordered_json::object();
  std::vector<nn::SafetensorsSource> sources;
  const auto add = [&](const std::string& name, const TensorSpec& spec, std::span<const std::byte> content) {
    checksums[name] = crc32c(content);
    sources.push_back({name, spec, [spec, bytes = content.data()] {
                         return Tensor::from_external(const_cast<std::byte*>(bytes), spec);
                       }});
  };
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto& [name, variable] = variables[i];
    add(name, variable.spec(), {contents[i], variable.size_bytes()});
  }
  for (const auto& [name, bytes] : blobs) {
    add(std::string(kBlobPrefix) + name, {DType::kU8, {std::ssize(bytes)}}, std::as_bytes(std::span(bytes)));
  }
  std::string list;
  try {
    list = checksums.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "save_checkpoint", "names must be UTF-8");
  }
  nn::write_safetensors(path, sources,
                        {{kCheckpointKey, kVersion},
                         {kDocumentKey, document},
                         {kDocumentChecksumKey, fmt::format("{}", checksum(document))},
                         {kChecksumsKey, list}},
                        temporary_folder);
}

void check_names(const NamedVariables& variables) {
  ordered_json names = ordered_json::object();
  for (const auto& [name, variable] : variables) {
    require(!names.contains(name), ErrorCode::kInvalidArgument, "checkpoint",
            "two variables are called '{}'; give layers, metrics and callbacks different names", name);
    names[name] = 0;
    try {
      static_cast<void>(ordered_json(name).dump());
    } catch (const nlohmann::json::exception&) {
      fail(ErrorCode::kInvalidArgument, "checkpoint", "the name of a variable is not UTF-8, after '{}'",
           names.size() > 1 ? std::prev(names.end(), 2).key() : "the beginning");
    }
  }
}

Checkpoint::Checkpoint(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::string where = path.string();
  const std::string& version = metadata_of(file_, kCheckpointKey, where);
  require(version == kVersion, ErrorCode::kUnsupported, where,
          "is a checkpoint of version '{}'; this library reads version {}", version.substr(0, 20), kVersion);
  document_ = metadata_of(file_, kDocumentKey, where);
  require(metadata_of(file_, kDocumentChecksumKey, where) == fmt::format("{}", checksum(document_)),
          ErrorCode::kBadFormat, where, "entry '{}': the checksum is wrong; the file is damaged",
          kDocumentKey);
  checksums_ = parse_checksums(metadata_of(file_, kChecksumsKey, where), where);
}

Tensor Checkpoint::read(const std::string& name) const {
  const auto expected = checksums_.find(name);
  require(file_.find(name) != nullptr, ErrorCode::kOutOfRange, path_.string(), "contains nothing called '{}'",
          name.substr(0, 100));
  require(expected != checksums_.end(), ErrorCode::kBadFormat, path_.string(),
          "tensor '{}' has no checksum; the file is damaged", name.substr(0, 100));
  const Tensor tensor = file_.read(name);
  const uint32_t found = crc32c({tensor.raw(), tensor.size_bytes()});
  require(found == expected->second, ErrorCode::kBadFormat, path_.string(),
          "tensor '{}': its checksum is {:08x}, expected {:08x}; the file is damaged", name.substr(0, 100),
          found, expected->second);
  return tensor;
}

std::string Checkpoint::blob(const std::string& name) const {
  const Tensor tensor = read(std::string(kBlobPrefix) + name);
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.size_bytes()};
}

void Checkpoint::verify() const {
  for (const nn::SafetensorsEntry& entry : file_.entries()) static_cast<void>(read(entry.name));
}

void Checkpoint::restore(const NamedVariables& variables) const {
  const std::vector<Tensor> contents = read(variables);
  for (size_t i = 0; i < contents.size(); ++i) variables[i].second.assign(contents[i]);
}

std::vector<Tensor> Checkpoint::read(const NamedVariables& variables,
                                     const std::function<bool(std::string_view name)>& passed_over) const {
  nn::LoadReport report;
  std::set<std::string_view> known;
  for (const auto& [name, variable] : variables) {
    known.insert(name);
    const nn::SafetensorsEntry* entry = file_.find(name);
    if (entry == nullptr) {
      report.missing.push_back(name);
    } else if (!(entry->spec == variable.spec())) {
      report.mismatched.push_back(
          fmt::format("{}: the file has {}, the run {}", name, entry->spec.str(), variable.spec().str()));
    }
  }
  for (const nn::SafetensorsEntry& entry : file_.entries()) {
    const bool expected = known.contains(entry.name) || entry.name.starts_with(kBlobPrefix);
    if (!expected && !(passed_over && passed_over(entry.name))) report.unexpected.push_back(entry.name);
  }
  require(report.fits(), report.mismatched.empty() ? ErrorCode::kOutOfRange : ErrorCode::kShapeMismatch,
          path_.string(), "the checkpoint does not match this run, nothing was loaded:{}", report.str());
  std::vector<Tensor> contents;
  for (const auto& [name, variable] : variables) contents.push_back(read(name));
  return contents;
}

}  // namespace isochron::train
