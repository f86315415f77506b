// A checkpoint: one safetensors file that contains every variable of a run as a tensor, and blobs (bytes of
// any kind and size, such as a dataset's state) as u8 tensors. Its `__metadata__` contains the document (a
// text with everything else; Trainer::fit stores a RunDocument) and a CRC-32C of the document and of each
// tensor. Any reader of safetensors finds the model's weights in it, under the names that nn::save_weights
// uses.
//
// For a loop written by hand:
//   train::save_checkpoint("step.safetensors", variables, "step 1200");
//   const train::Checkpoint checkpoint("step.safetensors");
//   checkpoint.restore(variables);
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isochron/nn/module/module.h"
#include "isochron/nn/weights/safetensors.h"
#include "isochron/optim/optimizer.h"

namespace isochron::train {

using NamedVariables = nn::Module::NamedVariables;
/// Any bytes, each under a name; in the file the tensor "isochron.blob/NAME".
using NamedBlobs = std::map<std::string, std::string>;

/// In the metadata of every checkpoint.
inline constexpr const char* kCheckpointKey = "isochron.checkpoint";

/// The parameters and buffers of `model` built so far, each once, under their paths.
NamedVariables weights_of(nn::Module& model);
/// The slots and states that `optimizer` has made so far, below "optimizer/"; names that occur twice get a
/// number.
NamedVariables slots_of(const optim::Optimizer& optimizer);

/// Writes the present content of `variables`, completely or not at all, with one variable in memory at a
/// time. `temporary_folder`: where the file is until it is complete, see write_file_atomically. Throws kIo,
/// and kInvalidArgument for names that occur twice or text that isn't UTF-8.
void save_checkpoint(const std::filesystem::path& path, const NamedVariables& variables,
                     const std::string& document, const NamedBlobs& blobs = {},
                     const std::filesystem::path& temporary_folder = {});
/// The same, but with the bytes at `contents[i]` as the content of variables[i].
void save_checkpoint(const std::filesystem::path& path, const NamedVariables& variables,
                     std::span<const std::byte* const> contents, const std::string& document,
                     const NamedBlobs& blobs, const std::filesystem::path& temporary_folder);

/// Throws kInvalidArgument for names that occur twice or aren't UTF-8: a checkpoint can't hold them.
void check_names(const NamedVariables& variables);

/// A checkpoint open for reading.
class Checkpoint {
 public:
  /// Reads the header and compares the document's checksum. Throws like nn::SafetensorsFile, kBadFormat for a
  /// safetensors file that is no checkpoint, and kUnsupported for one of another version.
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::string& document() const { return document_; }
  /// The bytes saved under that name. Throws like `verify`, and kOutOfRange when there are none.
  std::string blob(const std::string& name) const;
  /// Reads every tensor and compares its checksum. Throws kIo, kBadFormat naming the tensor.
  void verify() const;
  /// Fills each variable with the tensor of its name. On any error no variable is changed, because all
  /// tensors are read first. Captured steps see the new content. Throws like `verify`. If tensors are missing
  /// or unexpected, throws kOutOfRange; if shapes or dtypes differ, kShapeMismatch. Both errors list
  /// everything that is missing, unexpected or mismatched.
  void restore(const NamedVariables& variables) const;
  /// What `restore` would assign, in the order of `variables`. Throws like `restore`, but ignores tensors
  /// that only the file has if `passed_over` returns true for their names.
  std::vector<Tensor> read(const NamedVariables& variables,
                           const std::function<bool(std::string_view name)>& passed_over = {}) const;
  /// Reads one tensor and compares its checksum. Throws kOutOfRange if there is none of that name, and like
  /// `verify`.
  Tensor read(const std::string& name) const;
  bool contains(const std::string& name) const { return file_.find(name) != nullptr; }

 private:
  std::filesystem::path path_;
  nn::SafetensorsFile file_;
  std::string document_;
  std::map<std::string, uint32_t, std::less<>> checksums_;
};

}  // namespace isochron::train
