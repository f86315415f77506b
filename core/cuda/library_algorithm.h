// An algorithm by which a library can compute something. It is found while a plan is made,
// and runs in the plan's stream among the other kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

class LibraryAlgorithm {
 public:
  virtual ~LibraryAlgorithm() = default;
  /// Identifies this algorithm among the others. It is the same in every process with this version of the
  /// library on this kind of device.
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// The addresses `tensors`, in the order defined by the code that made this call, are multiples of
  /// kLibraryAlignment; `workspace` is a multiple of kDeviceAlignment. Equal runs give equal bits. Throws
  /// kDevice.
  virtual void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) = 0;
};

using LibraryAlgorithms = std::vector<std::unique_ptr<LibraryAlgorithm>>;

inline constexpr size_t kLibraryAlignment = 16;
/// The most workspace that a call may need: as much as NVIDIA advises for its newest devices.
inline constexpr size_t kMaxLibraryWorkspace = size_t{32} << 20;
/// At most this many of a library's algorithms are compared by timing.
inline constexpr int kMaxLibraryAlgorithms = 8;
/// A library that compiles kernels while it plans caches its plans for at most this many specs of each kind,
/// so that equal calls share them.
inline constexpr size_t kMaxPlansKept = 64;

/// The base of all kernel libraries, whatever they compute.
class AnyKernelLibrary {
 public:
  virtual ~AnyKernelLibrary() = default;
  virtual int64_t version() = 0;
};

/// A library that computes what a Spec describes.
template <typename Spec>
class KernelLibrary : public AnyKernelLibrary {
 public:
  /// Returns at most kMaxLibraryAlgorithms algorithms, beginning with those that the library expects to be
  /// fastest; empty if it has none. The spec says which tensors they take. Throws kDevice, and
  /// kInvalidArgument for a spec that contradicts itself.
  virtual LibraryAlgorithms algorithms(Context& context, const Spec& spec) = 0;
};

}  // namespace isochron::cuda
