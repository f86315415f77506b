// One of the ways (algorithms) in which a library can compute something. It is found while a plan is made,
// and runs in the plan's stream among the other kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// Identifies this way among the others. It is the same in every process with this version of the library
  /// on this kind of device.
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// The addresses `tensors`, in the order defined by the code that made this call, are multiples of
  /// kLibraryAlignment; `workspace` is a multiple of kDeviceAlignment. Equal runs give equal bits. Throws
  /// kDevice.
  virtual void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) = 0;
};

using LibraryCalls = std::vector<std::unique_ptr<LibraryCall>>;

inline constexpr size_t kLibraryAlignment = 16;
/// The most workspace that a call may need: as much as NVIDIA advises for its newest devices.
inline constexpr size_t kMostLibraryWorkspace = size_t{32} << 20;
/// At most this many of a library's ways are compared by timing.
inline constexpr int kMostLibraryCalls = 8;
/// A library that compiles kernels while it plans caches its plans for at most this many specs of each kind,
/// so that equal calls share them.
inline constexpr size_t kMostPlansKept = 64;

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
  /// Returns at most kMostLibraryCalls ways, beginning with those that the library expects to be fastest;
  /// empty if it has none. The spec says which tensors they take. Throws kDevice, and kInvalidArgument for a
  /// spec that contradicts itself.
  virtual LibraryCalls ways(Context& context, const Spec& spec) = 0;
};

}  // namespace isochron::cuda
