// The driver's functions, found at run time. Only this file includes <cuda.h>, and only for its types:
// nothing is linked.
#pragma once

#include <cuda.h>

#include "isochron/core/base/error.h"
#include "isochron/core/base/library_call.h"
#include "isochron/core/cuda/shared_library.h"

namespace isochron::cuda {

// clang-format off
#define ISOCHRON_CUDA_CALLS(X) \
  X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetPCIBusId) X(cuDeviceGetAttribute) \
  X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuCtxGetCurrent) \
  X(cuGetErrorName) X(cuGetErrorString) X(cuMemGetInfo) X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) \
  X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemAlloc) \
  X(cuMemFree) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuDeviceGetDefaultMemPool) X(cuMemPoolSetAttribute) \
  X(cuMemPoolGetAttribute) X(cuMemPoolTrimTo) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuStreamCreateWithPriority) \
  X(cuCtxGetStreamPriorityRange) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventQuery) X(cuEventElapsedTime) \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuModuleLoadData) \
  X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuStreamBeginCapture) \
  X(cuStreamEndCapture) X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphInstantiateWithFlags) X(cuGraphDestroy) \
  X(cuGraphExecDestroy) X(cuGraphUpload) X(cuGraphLaunch) X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) \
  X(cuStreamUpdateCaptureDependencies) X(cuStreamBeginCaptureToGraph) X(cuGraphAddNode) \
  X(cuGraphConditionalHandleCreate) X(cuPointerGetAttribute)
// clang-format on

/// The driver's functions under the names that <cuda.h> gives their newest versions.
struct Calls {
#define X(name) decltype(&::name) name = nullptr;
  ISOCHRON_CUDA_CALLS(X)
#undef X

  explicit Calls(const SharedLibrary& library) {
#define ISOCHRON_TEXT_OF(name) #name
#define X(name) library.find(this->name, ISOCHRON_TEXT_OF(name));
    ISOCHRON_CUDA_CALLS(X)
#undef X
#undef ISOCHRON_TEXT_OF
  }

  /// Returns the result of `call`, which calls one of these functions.
  template <typename Call>
  static CUresult run(const Call& call) {
    const SingleThreadLibraryCall inside;
    return call();
  }

  /// Throws for anything but success. `allowed`: a result that the caller handles itself.
  CUresult check(CUresult result, const char* call, CUresult allowed = CUDA_SUCCESS) const {
    if (result == CUDA_SUCCESS || result == allowed) return result;
    const char *name = nullptr, *text = nullptr;  // stay null for errors that this driver doesn't know
    cuGetErrorName(result, &name);
    cuGetErrorString(result, &text);
    fail(code_of(result), "cuda", "{}: {} ({}: {})", call, text != nullptr ? text : "no text",
         name != nullptr ? name : "unknown", static_cast<int>(result));
  }

 private:
  static ErrorCode code_of(CUresult result) {
    switch (result) {
      case CUDA_ERROR_OUT_OF_MEMORY:
        return ErrorCode::kOutOfMemory;
      case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      case CUDA_ERROR_STREAM_CAPTURE_MERGE:
      case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
      case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
      case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
        return ErrorCode::kCaptureViolation;
      case CUDA_ERROR_NO_DEVICE:
      case CUDA_ERROR_NO_BINARY_FOR_GPU:
      case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return ErrorCode::kUnsupported;
      case CUDA_ERROR_ECC_UNCORRECTABLE:
      case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      case CUDA_ERROR_CONTAINED:
      case CUDA_ERROR_TENSOR_MEMORY_LEAK:
      case CUDA_ERROR_EXTERNAL_DEVICE:
      case CUDA_ERROR_MPS_CLIENT_TERMINATED:
      case CUDA_ERROR_MPS_RPC_FAILURE:
      case CUDA_ERROR_DEVICE_UNAVAILABLE:
      case CUDA_ERROR_ILLEGAL_ADDRESS:
      case CUDA_ERROR_LAUNCH_TIMEOUT:
      case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      case CUDA_ERROR_ASSERT:
      case CUDA_ERROR_HARDWARE_STACK_ERROR:
      case CUDA_ERROR_ILLEGAL_INSTRUCTION:
      case CUDA_ERROR_MISALIGNED_ADDRESS:
      case CUDA_ERROR_INVALID_ADDRESS_SPACE:
      case CUDA_ERROR_INVALID_PC:
      case CUDA_ERROR_LAUNCH_FAILED:
      case CUDA_ERROR_UNKNOWN:  // reported for faults that have no number of their own
        return ErrorCode::kDeviceLost;
      default:
        return ErrorCode::kDevice;
    }
  }
};

}  // namespace isochron::cuda
