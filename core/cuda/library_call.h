// One way in which a library computes something: found while a plan is made, put in its stream among the
// other kernels.
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
  /// Tells it from the other ways, the same in every process with this version of the library on such a
  /// device.
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// `tensors`, in the order that who made this says, are multiples of kLibraryAlignment, `workspace` of
  /// kDeviceAlignment.
  /// Equal runs give equal bits. Throws kDevice.
  virtual void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) = 0;
};

using LibraryCalls = std::vector<std::unique_ptr<LibraryCall>>;

inline constexpr size_t kLibraryAlignment = 16;
/// What a call may need at most: as much as NVIDIA advises for its newest devices.
inline constexpr size_t kMostLibraryWorkspace = size_t{32} << 20;
/// How many of a library's ways are compared by timing.
inline constexpr int kMostLibraryCalls = 8;
/// A library that compiles kernels when it plans keeps what it planned for so many specs of a kind, for calls
/// that are alike.
inline constexpr size_t kMostPlansKept = 64;

/// A library of kernels; what it computes is known to those who ask for it.
class AnyKernelLibrary {
 public:
  virtual ~AnyKernelLibrary() = default;
  virtual int64_t version() = 0;
};

/// A library that computes what a Spec describes.
template <typename Spec>
class KernelLibrary : public AnyKernelLibrary {
 public:
  /// At most kMostLibraryCalls ways, those first that the library expects to be fastest; empty where it has
  /// none. The spec says which tensors they take. Throws kDevice, and kInvalidArgument for a spec that
  /// contradicts itself.
  virtual LibraryCalls ways(Context& context, const Spec& spec) = 0;
};

}  // namespace isochron::cuda
