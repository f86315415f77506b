// Declarations shared by the source files of the tests' libcuda.so.1: the device's context, and how calls
// reach it.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/core/base/error.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

/// The device's primary context, which has the same handle each time that it is made.
struct Primary {
  SimulatedDevice device;
  std::unique_ptr<SimulatedContext> context;
  int retained = 0;
  uint64_t generation = 0;
  struct Mapping {
    size_t bytes;
    PhysicalMemory memory;
  };
  std::map<DevicePtr, Mapping> inaccessible;               // mapped, without access
  std::map<uintptr_t, std::vector<CUgraphNode>> followed;  // by stream, as last asked for
  std::map<uintptr_t, std::unique_ptr<CUgraph>> bodies;    // by node
};

struct Library {
  std::recursive_mutex mutex;
  bool initialized = false, configured = false;
  Primary primary;
  std::unique_ptr<SimulatedContext> last;  // the previous context, kept for readers of its call counts
  std::string left_behind;
};

Library& library();

inline thread_local uint64_t t_generation = 0;  // of the context that is current; 0: none
inline thread_local std::string t_text;         // of the last error

CUresult result_of(ErrorCode code);

inline CUresult refuse(CUresult result, std::string text) {
  t_text = std::move(text);
  return result;
}

/// Returns the result of `body`, or the code of the error that it throws.
template <typename Body>
CUresult tried(Body&& body) {
  try {
    if constexpr (std::is_same_v<decltype(body()), CUresult>) {
      return body();
    } else {
      body();
      return CUDA_SUCCESS;
    }
  } catch (const Error& error) {
    return refuse(result_of(error.code()), error.what());
  } catch (const std::exception& error) {
    return refuse(CUDA_ERROR_UNKNOWN, error.what());
  }
}

/// Success where the thread's current context is there.
CUresult context_state();

/// In the thread's current context.
template <typename Body>
CUresult in_context(Body&& body) {
  const std::lock_guard lock(library().mutex);
  const CUresult state = context_state();
  if (state != CUDA_SUCCESS) return state;
  return tried([&] { return body(*library().primary.context); });
}

template <typename Body>
CUresult initialized(Body&& body) {
  const std::lock_guard lock(library().mutex);
  if (!library().initialized) return refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  return tried(body);
}

inline void demand(bool holds, const char* what) {
  require(holds, ErrorCode::kInvalidArgument, "simulated driver", "{}", what);
}

template <typename Handle, typename Raw>
Handle handle(Raw* raw) {
  return static_cast<Handle>(reinterpret_cast<uintptr_t>(raw));
}
inline Stream handle(CUstream stream) { return handle<Stream>(stream); }
inline Event handle(CUevent event) { return handle<Event>(event); }
inline Graph handle(CUgraph graph) { return handle<Graph>(graph); }
inline GraphExec handle(CUgraphExec graph) { return handle<GraphExec>(graph); }
template <typename Raw, typename Handle>
Raw raw(Handle handle) {
  return reinterpret_cast<Raw>(static_cast<uintptr_t>(handle));
}

inline std::vector<GraphNode> nodes_at(const CUgraphNode* nodes, size_t count) {
  std::vector<GraphNode> result;
  for (size_t i = 0; i < count; ++i) result.push_back(handle<GraphNode>(nodes[i]));
  return result;
}

}  // namespace isochron::cuda
