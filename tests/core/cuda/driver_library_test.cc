// Driver misuse that the tests' libcuda.so.1 detects, call by call. Tests that run on it thus reveal errors
// that a device would punish with wrong numbers, a much later error, or a dead process.
#include <gtest/gtest.h>

#ifdef ISOCHRON_SIMULATED_DRIVER

#include <cuda.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "isochron/core/cuda/driver_calls-inl.h"
#include "support/driver_library/library_device.h"

namespace isochron::cuda {
namespace {

const Calls& calls() {
  static const SharedLibrary library("the tests' driver", {ISOCHRON_SIMULATED_DRIVER}, "");
  static const Calls found(library);
  return found;
}

/// The text of the latest error of this thread.
std::string text_of(CUresult result) {
  const char* text = nullptr;
  calls().cuGetErrorString(result, &text);
  return text;
}

#define EXPECT_REFUSED(call, result, part)                                       \
  do {                                                                           \
    EXPECT_EQ(calls().call, result) << #call;                                    \
    EXPECT_NE(text_of(result).find(part), std::string::npos) << text_of(result); \
  } while (false)
#define ASSERT_DONE(call) \
  ASSERT_EQ(calls().call, CUDA_SUCCESS) << #call << ": " << text_of(CUDA_ERROR_UNKNOWN)

class DriverLibrary : public testing::Test {
 protected:
  void SetUp() override {
    library_.left_behind();
    ASSERT_DONE(cuInit(0));
    ASSERT_DONE(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_DONE(cuCtxSetCurrent(context_));
    ASSERT_DONE(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
    ASSERT_DONE(cuStreamCreateWithPriority(&other_, CU_STREAM_NON_BLOCKING, 0));
    ASSERT_DONE(cuMemAlloc(&memory_, 256));
  }
  void TearDown() override {
    while (calls().cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS) continue;
  }
  void begin() { ASSERT_DONE(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); }
  CUgraph end() {
    CUgraph graph = nullptr;
    calls().cuStreamEndCapture(stream_, &graph);
    return graph;
  }
  struct Capture {
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    size_t count = 0;
  };
  Capture capture(CUstream stream) {
    Capture open;
    CUstreamCaptureStatus status{};
    const CUgraphEdgeData* edges = nullptr;
    calls().cuStreamGetCaptureInfo(stream, &status, nullptr, &open.graph, &open.nodes, &edges, &open.count);
    return open;
  }
  CUgraphConditionalHandle condition(CUgraph graph) {
    CUgraphConditionalHandle handle = 0;
    calls().cuGraphConditionalHandleCreate(&handle, graph, context_, 0, CU_GRAPH_COND_ASSIGN_DEFAULT);
    return handle;
  }
  CUgraphNodeParams conditional(CUgraphConditionalHandle handle) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context_;
    return params;
  }
  /// A graph of one fill.
  CUgraphExec step() {
    begin();
    calls().cuMemsetD8Async(memory_, 1, 256, stream_);
    const CUgraph graph = end();
    CUgraphExec made = nullptr;
    calls().cuGraphInstantiateWithFlags(&made, graph, 0);
    calls().cuGraphDestroy(graph);
    return made;
  }

  LibraryDevice library_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUdeviceptr memory_ = 0;
};

/// Ends the process with 0 where the library isn't used before it is begun.
[[noreturn]] void use_before_the_beginning() {
  int count = 0;
  size_t free = 0, total = 0;
  const bool refused = calls().cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                       calls().cuMemGetInfo(&free, &total) == CUDA_ERROR_NOT_INITIALIZED &&
                       calls().cuInit(1) == CUDA_ERROR_INVALID_VALUE && calls().cuInit(0) == CUDA_SUCCESS &&
                       calls().cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 1 &&
                       calls().cuMemGetInfo(&free, &total) == CUDA_ERROR_INVALID_CONTEXT;
  std::_Exit(refused ? 0 : 1);
}

TEST(DriverLibraryBegins, WithCuInit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use_before_the_beginning(), testing::ExitedWithCode(0), "");
}

TEST_F(DriverLibrary, HasAContextAThread) {
  std::thread([&] {
    EXPECT_REFUSED(cuMemFree(memory_), CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
    EXPECT_REFUSED(cuStreamSynchronize(stream_), CUDA_ERROR_INVALID_CONTEXT, "no context");
  }).join();
  CUcontext none = nullptr;
  EXPECT_REFUSED(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&none)), CUDA_ERROR_INVALID_VALUE,
                 "no such context");
}

TEST_F(DriverLibrary, EndsAContextWithWhatWasMadeInIt) {
  ASSERT_DONE(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(library_.left_behind(), "1 allocations, 2 streams");
  EXPECT_REFUSED(cuMemFree(memory_), CUDA_ERROR_CONTEXT_IS_DESTROYED, "destroyed");
  EXPECT_REFUSED(cuCtxSetCurrent(context_), CUDA_ERROR_CONTEXT_IS_DESTROYED, "destroyed");
  EXPECT_REFUSED(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_VALUE, "more often than retained");
  CUcontext again = nullptr;
  ASSERT_DONE(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context_) << "the handle tells nothing";
  EXPECT_REFUSED(cuMemFree(memory_), CUDA_ERROR_CONTEXT_IS_DESTROYED, "destroyed");
  ASSERT_DONE(cuCtxSetCurrent(again));
  EXPECT_REFUSED(cuMemFree(memory_), CUDA_ERROR_INVALID_VALUE, "not allocated");
  EXPECT_REFUSED(cuStreamSynchronize(stream_), CUDA_ERROR_INVALID_VALUE, "no such stream");
}

TEST_F(DriverLibrary, MapsChunksAsAWhole) {
  CUmemAllocationProp of_device{};
  of_device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of_device.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  size_t chunk = 0;
  ASSERT_DONE(cuMemGetAllocationGranularity(&chunk, &of_device, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle first = 0, second = 0;
  EXPECT_REFUSED(cuMemAddressReserve(&range, chunk / 2, 0, 0, 0), CUDA_ERROR_INVALID_VALUE, "reserve");
  EXPECT_REFUSED(cuMemCreate(&first, chunk + 1, &of_device, 0), CUDA_ERROR_INVALID_VALUE, "create");
  CUmemAllocationProp of_host = of_device;
  of_host.location.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_REFUSED(cuMemCreate(&first, chunk, &of_host, 0), CUDA_ERROR_INVALID_VALUE, "isn't the device's");
  ASSERT_DONE(cuMemAddressReserve(&range, 4 * chunk, 0, 0, 0));
  ASSERT_DONE(cuMemCreate(&first, chunk, &of_device, 0));
  ASSERT_DONE(cuMemCreate(&second, chunk, &of_device, 0));
  const CUmemAccessDesc access{of_device.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
      reads{of_device.location, CU_MEM_ACCESS_FLAGS_PROT_READ};

  ASSERT_DONE(cuMemMap(range, chunk, 0, first, 0));
  EXPECT_REFUSED(cuMemMap(range, chunk, 0, second, 0), CUDA_ERROR_INVALID_VALUE, "mapped already");
  EXPECT_REFUSED(cuMemsetD8Async(range, 0, 4, stream_), CUDA_ERROR_INVALID_VALUE, "isn't memory");
  EXPECT_REFUSED(cuMemSetAccess(range, 2 * chunk, &access, 1), CUDA_ERROR_INVALID_VALUE,
                 "nothing is mapped so");
  EXPECT_REFUSED(cuMemSetAccess(range, chunk, &reads, 1), CUDA_ERROR_INVALID_VALUE, "less than all");
  ASSERT_DONE(cuMemSetAccess(range, chunk, &access, 1));
  ASSERT_DONE(cuMemsetD8Async(range, 0, 4, stream_));
  EXPECT_REFUSED(cuMemUnmap(range, chunk), CUDA_ERROR_INVALID_VALUE, "still to come");
  ASSERT_DONE(cuStreamSynchronize(stream_));

  ASSERT_DONE(cuMemMap(range + chunk, chunk, 0, second, 0));
  ASSERT_DONE(cuMemSetAccess(range + chunk, chunk, &access, 1));
  EXPECT_REFUSED(cuMemUnmap(range, 2 * chunk), CUDA_ERROR_INVALID_VALUE, "not mapped so");
  EXPECT_REFUSED(cuMemUnmap(range, chunk / 2), CUDA_ERROR_INVALID_VALUE, "not mapped so");
  EXPECT_REFUSED(cuMemAddressFree(range, 4 * chunk), CUDA_ERROR_INVALID_VALUE, "still mapped");
  ASSERT_DONE(cuMemUnmap(range, chunk));
  ASSERT_DONE(cuMemUnmap(range + chunk, chunk));
  ASSERT_DONE(cuMemRelease(first));
  EXPECT_REFUSED(cuMemRelease(first), CUDA_ERROR_INVALID_VALUE, "no such memory");
  ASSERT_DONE(cuMemRelease(second));
  ASSERT_DONE(cuMemAddressFree(range, 4 * chunk));
}

TEST_F(DriverLibrary, KnowsWhatMemoryIs) {
  CUdeviceptr none = 0;
  EXPECT_REFUSED(cuMemAlloc(&none, 0), CUDA_ERROR_INVALID_VALUE, "no bytes");
  EXPECT_REFUSED(cuMemAlloc(&none, size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY, "are free");
  EXPECT_REFUSED(cuMemsetD8Async(memory_ + 200, 0, 100, stream_), CUDA_ERROR_INVALID_VALUE, "isn't memory");
  EXPECT_REFUSED(cuMemFreeAsync(memory_, stream_), CUDA_ERROR_INVALID_VALUE, "not of the pool");
  void* pinned = nullptr;
  ASSERT_DONE(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_PORTABLE));
  CUmemorytype type{};
  ASSERT_DONE(
      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  ASSERT_DONE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory_));
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(calls().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                          reinterpret_cast<CUdeviceptr>(&type)),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_DONE(cuMemcpyHtoDAsync(memory_, pinned, 64, stream_));
  EXPECT_REFUSED(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE, "still to come");
  ASSERT_DONE(cuStreamSynchronize(stream_));
  ASSERT_DONE(cuMemFreeHost(pinned));
}

TEST_F(DriverLibrary, TimesEventsThatAreTimedAndDone) {
  CUevent begin = nullptr, end = nullptr, untimed = nullptr;
  ASSERT_DONE(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  ASSERT_DONE(cuEventCreate(&end, CU_EVENT_DEFAULT));
  ASSERT_DONE(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  float milliseconds = 0;
  EXPECT_REFUSED(cuEventElapsedTime(&milliseconds, begin, untimed), CUDA_ERROR_INVALID_HANDLE,
                 "was never recorded");
  ASSERT_DONE(cuEventRecord(begin, stream_));
  ASSERT_DONE(cuEventRecord(untimed, stream_));
  ASSERT_DONE(cuMemsetD8Async(memory_, 0, 4, stream_));
  ASSERT_DONE(cuEventRecord(end, stream_));
  EXPECT_REFUSED(cuEventElapsedTime(&milliseconds, begin, end), CUDA_ERROR_NOT_READY, "isn't done");
  ASSERT_DONE(cuEventSynchronize(end));
  ASSERT_DONE(cuEventElapsedTime(&milliseconds, begin, end));
  EXPECT_REFUSED(cuEventElapsedTime(&milliseconds, begin, untimed), CUDA_ERROR_INVALID_HANDLE, "isn't timed");
}

TEST_F(DriverLibrary, CapturesWhatCanBeCaptured) {
  EXPECT_REFUSED(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_INVALID_VALUE,
                 "other threads would be held up");
  const std::pair<const char*, std::function<CUresult()>> breaks[] = {
      {"allocate",
       [&] {
         CUdeviceptr none = 0;
         return calls().cuMemAlloc(&none, 64);
       }},
      {"free", [&] { return calls().cuMemFree(memory_); }},
      {"synchronize", [&] { return calls().cuStreamSynchronize(other_); }},
      {"done", [&] { return calls().cuStreamQuery(other_); }},
      {"load",
       [&] {
         CUmodule none = nullptr;
         return calls().cuModuleLoadData(&none, "PTX");
       }},
  };
  for (const auto& [what, call] : breaks) {
    begin();
    EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << what;
    CUstreamCaptureStatus status{};
    ASSERT_DONE(cuStreamIsCapturing(stream_, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED) << what;
    CUgraph graph = nullptr;
    EXPECT_REFUSED(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                   "a call broke it");
    EXPECT_EQ(graph, nullptr);
  }
  const CUgraphExec made = step();
  begin();
  EXPECT_REFUSED(cuGraphLaunch(made, other_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "launch graph");
  end();
  begin();
  EXPECT_REFUSED(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "under way");
  EXPECT_REFUSED(cuStreamDestroy(stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "captured");
  std::thread([&] {
    ASSERT_DONE(cuCtxSetCurrent(context_));
    CUgraph graph = nullptr;
    EXPECT_REFUSED(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                   "another thread");
  }).join();
  EXPECT_NE(end(), nullptr);
}

TEST_F(DriverLibrary, JoinsWhatItForks) {
  CUevent event = nullptr;
  ASSERT_DONE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_DONE(cuEventRecord(event, other_));
  begin();
  EXPECT_REFUSED(cuStreamWaitEvent(stream_, event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                 "for an event outside");
  ASSERT_DONE(cuEventRecord(event, stream_));
  ASSERT_DONE(cuStreamWaitEvent(other_, event, 0));
  ASSERT_DONE(cuMemsetD8Async(memory_, 0, 4, other_));
  CUgraph graph = nullptr;
  EXPECT_REFUSED(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "isn't joined");
  EXPECT_REFUSED(cuStreamWaitEvent(other_, event, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "that is over");
  ASSERT_DONE(cuStreamSynchronize(other_));
}

TEST_F(DriverLibrary, PutsPartsInTheirOwnGraph) {
  begin();
  ASSERT_DONE(cuMemsetD8Async(memory_, 0, 4, stream_));
  const Capture first = capture(stream_);
  ASSERT_EQ(first.count, 1u);
  CUgraphNode node = first.nodes[0];
  CUgraphNode twice[] = {node, node};
  EXPECT_REFUSED(
      cuStreamUpdateCaptureDependencies(stream_, twice, nullptr, 2, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      CUDA_ERROR_INVALID_VALUE, "the same twice");
  CUgraphExec early = nullptr;
  EXPECT_REFUSED(cuGraphInstantiateWithFlags(&early, first.graph, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                 "instantiate");
  end();
  begin();
  EXPECT_REFUSED(
      cuStreamUpdateCaptureDependencies(stream_, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      CUDA_ERROR_INVALID_VALUE, "no such node here");
  const CUgraph graph = end();
  EXPECT_REFUSED(
      cuStreamUpdateCaptureDependencies(stream_, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
      CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "outside of a capture");
  ASSERT_DONE(cuGraphDestroy(graph));
  EXPECT_REFUSED(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE, "no such graph");
  const CUgraphExec made = step();
  ASSERT_DONE(cuGraphExecDestroy(made));
  EXPECT_REFUSED(cuGraphLaunch(made, stream_), CUDA_ERROR_INVALID_VALUE, "no such graph");
}

TEST_F(DriverLibrary, HasBodiesOfWhatMayBeInThem) {
  begin();
  const CUgraph graph = capture(stream_).graph;
  CUgraphConditionalHandle flag = condition(graph);
  CUgraphNodeParams params = conditional(flag);
  params.conditional.size = 2;
  CUgraphNode node = nullptr;
  EXPECT_REFUSED(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE,
                 "more than one body");
  params = conditional(flag);
  ASSERT_DONE(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  const CUgraph body = params.conditional.phGraph_out[0];
  EXPECT_REFUSED(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE,
                 "one that a node has");
  EXPECT_REFUSED(cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE, "its graph's");
  ASSERT_DONE(
      cuStreamBeginCaptureToGraph(other_, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUgraphNodeParams inner = conditional(condition(graph));
  EXPECT_REFUSED(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &inner), CUDA_ERROR_INVALID_VALUE,
                 "not a condition of this graph");
  int number = 0;
  EXPECT_REFUSED(cuMemcpyHtoDAsync(memory_, &number, 4, other_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                 "page-locked memory alone");
  EXPECT_REFUSED(cuMemcpyDtoHAsync(&number, memory_, 4, other_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                 "page-locked memory alone");
  CUgraph ended = nullptr;
  EXPECT_REFUSED(cuStreamEndCapture(stream_, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "still open");
  ASSERT_DONE(cuStreamEndCapture(other_, &ended));
}

TEST_F(DriverLibrary, HasNodesInBodiesThatTheDeviceRunsItself) {
  begin();
  const CUgraph graph = capture(stream_).graph;
  CUgraphNodeParams params = conditional(condition(graph));
  CUgraphNode node = nullptr;
  ASSERT_DONE(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  const CUgraph body = params.conditional.phGraph_out[0];
  for (const CUgraphNodeType type :
       {CU_GRAPH_NODE_TYPE_HOST, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        CU_GRAPH_NODE_TYPE_MEM_FREE, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP}) {
    CUgraphNodeParams refused{};
    refused.type = type;
    EXPECT_REFUSED(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &refused), CUDA_ERROR_INVALID_VALUE,
                   "nodes of other types");
  }
  ASSERT_DONE(
      cuStreamBeginCaptureToGraph(other_, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_DONE(cuMemsetD8Async(memory_, 1, 4, other_));
  ASSERT_DONE(cuMemcpyDtoDAsync(memory_ + 4, memory_, 4, other_));
  CUgraphNodeParams empty{}, inner = conditional(condition(body));
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  ASSERT_DONE(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &empty));
  ASSERT_DONE(cuGraphAddNode(&node, body, nullptr, nullptr, 0, &inner));
  CUgraphNode nodes[8] = {};
  size_t count = std::size(nodes);
  ASSERT_DONE(cuGraphGetNodes(body, nodes, &count));
  std::vector<CUgraphNodeType> types(count);
  for (size_t i = 0; i < count; ++i) ASSERT_DONE(cuGraphNodeGetType(nodes[i], &types[i]));
  EXPECT_EQ(types, (std::vector{CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_CONDITIONAL}));
  CUdeviceptr more = 0;  // would be a node that allocates
  EXPECT_REFUSED(cuMemAllocAsync(&more, 4, other_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "captur");
}

TEST_F(DriverLibrary, LoadsCodeOfItsCapability) {
  std::string elf(sizeof(Elf64_Ehdr), '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  CUmodule module = nullptr;
  header.e_machine = EM_X86_64;
  std::memcpy(elf.data(), &header, sizeof header);
  EXPECT_REFUSED(cuModuleLoadData(&module, elf.data()), CUDA_ERROR_INVALID_IMAGE, "another machine");
  header.e_machine = EM_CUDA;
  header.e_flags = 80 << 8;
  std::memcpy(elf.data(), &header, sizeof header);
  EXPECT_REFUSED(cuModuleLoadData(&module, elf.data()), CUDA_ERROR_NO_BINARY_FOR_GPU, "capability 80");
  EXPECT_REFUSED(cuModuleUnload(module), CUDA_ERROR_INVALID_VALUE, "no such module");
}

TEST_F(DriverLibrary, StaysLost) {
  library_.fail("launch graph", 1, ErrorCode::kDeviceLost);
  const CUgraphExec made = step();
  EXPECT_REFUSED(cuGraphLaunch(made, stream_), CUDA_ERROR_LAUNCH_FAILED, "");
  EXPECT_REFUSED(cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED, "failed before");
  EXPECT_REFUSED(cuMemFree(memory_), CUDA_ERROR_LAUNCH_FAILED, "failed before");
}

}  // namespace
}  // namespace isochron::cuda

#endif
