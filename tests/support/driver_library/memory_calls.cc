// Memory, streams and events of the tests' libcuda.so.1.
#include <algorithm>

#include "support/driver_library/library.h"

using namespace isochron;
using namespace isochron::cuda;

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return in_context([&](SimulatedContext& context) {
    const MemoryInfo info = context.memory_info();
    *free = info.free_bytes;
    *total = info.total_bytes;
  });
}
void demand_of_device(const CUmemAllocationProp& properties) {
  demand(properties.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
             properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id == 0,
         "memory that isn't the device's");
}
CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return in_context([&](SimulatedContext& context) {
    demand_of_device(*properties);
    *bytes = context.granularity();
  });
}
CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == 0, "flags are 0");
    *pointer = context.reserve(bytes);
  });
}
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  return in_context([&](SimulatedContext& context) {
    for (const auto& [begin, mapping] : library().primary.inaccessible)
      demand(begin + mapping.bytes <= pointer || pointer + bytes <= begin, "memory is still mapped there");
    context.release(pointer, bytes);
  });
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == 0, "flags are 0");
    demand_of_device(*properties);
    *memory = static_cast<CUmemGenericAllocationHandle>(context.create(bytes));
  });
}
CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
  return in_context([&](SimulatedContext& context) { context.destroy(static_cast<PhysicalMemory>(memory)); });
}
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory,
                  unsigned long long flags) {
  return in_context([&](SimulatedContext&) {
    demand(flags == 0 && offset == 0, "flags and offset are 0");
    const bool new_here =
        library()
            .primary.inaccessible.try_emplace(pointer, bytes, static_cast<PhysicalMemory>(memory))
            .second;
    demand(new_here, "mapped already");
  });
}
CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return in_context([&](SimulatedContext& context) {
    auto& inaccessible = library().primary.inaccessible;
    const auto found = inaccessible.find(pointer);
    demand(found != inaccessible.end() && found->second.bytes == bytes, "nothing is mapped so");
    demand(count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && access->location.id == 0 &&
               access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
           "access of another device, or less than all");
    context.map(pointer, bytes, found->second.memory);
    inaccessible.erase(found);
  });
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  return in_context([&](SimulatedContext& context) {
    auto& inaccessible = library().primary.inaccessible;
    const auto found = inaccessible.find(pointer);
    if (found == inaccessible.end()) return context.unmap(pointer, bytes);
    demand(found->second.bytes == bytes, "not mapped so");
    inaccessible.erase(found);
  });
}
CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  return in_context([&](SimulatedContext& context) {
    demand(bytes > 0, "no bytes");
    *pointer = context.allocate(bytes);
  });
}
CUresult cuMemFree(CUdeviceptr pointer) {
  return in_context([&](SimulatedContext& context) { context.free(pointer); });
}
CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return in_context([&](SimulatedContext& context) {
    demand(bytes > 0, "no bytes");
    *pointer = context.allocate_async(bytes, handle(stream));
  });
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.free_async(pointer, handle(stream)); });
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  return initialized([&] { *pool = reinterpret_cast<CUmemoryPool>(&library().primary.device); });
}
void demand_pool(CUmemoryPool pool) {
  demand(pool == reinterpret_cast<CUmemoryPool>(&library().primary.device), "no such pool");
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void*) {
  return initialized([&] {
    demand_pool(pool);
    demand(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, "an attribute that can't be set here");
  });
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return in_context([&](SimulatedContext& context) {
    demand_pool(pool);
    const bool reserved = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    demand(reserved || attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT, "an attribute that isn't known here");
    *static_cast<cuuint64_t*>(value) = reserved ? context.pool_reserved_bytes() : context.pool_used_bytes();
  });
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t kept) {
  return in_context([&](SimulatedContext& context) {
    demand_pool(pool);
    demand(kept == 0, "the simulated pool gives back all or nothing");
    context.pool_trim();
  });
}
CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return in_context([&](SimulatedContext& context) {
    demand((flags & ~unsigned{CU_MEMHOSTALLOC_PORTABLE}) == 0 && bytes > 0, "no bytes, or unknown flags");
    *pointer = context.allocate_pinned(bytes);
  });
}
CUresult cuMemFreeHost(void* pointer) {
  return in_context([&](SimulatedContext& context) { context.free_pinned(pointer); });
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return in_context([&](SimulatedContext& context) {
    demand(attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "an attribute that isn't known here");
    const bool host = context.pinned(reinterpret_cast<const void*>(pointer), 1);
    demand(host || context.on_device(pointer), "not memory of the driver");
    *static_cast<CUmemorytype*>(value) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == CU_STREAM_NON_BLOCKING || flags == CU_STREAM_DEFAULT, "unknown flags");
    demand(priority <= 0 && priority >= -5, "a priority out of range");
    *stream = raw<CUstream>(context.create_stream(priority < 0));
  });
}
CUresult cuStreamDestroy(CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.destroy(handle(stream)); });
}
CUresult cuStreamSynchronize(CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.synchronize(handle(stream)); });
}
CUresult cuStreamQuery(CUstream stream) {
  return in_context([&](SimulatedContext& context) {
    return context.done(handle(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == CU_EVENT_WAIT_DEFAULT, "unknown flags");
    context.wait(handle(stream), handle(event));
  });
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return in_context([&](SimulatedContext& context) {
    demand(flags == CU_EVENT_DEFAULT || flags == CU_EVENT_DISABLE_TIMING, "unknown flags");
    *event = raw<CUevent>(context.create_event(flags == CU_EVENT_DEFAULT));
  });
}
CUresult cuEventDestroy(CUevent event) {
  return in_context([&](SimulatedContext& context) { context.destroy(handle(event)); });
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.record(handle(event), handle(stream)); });
}
CUresult cuEventSynchronize(CUevent event) {
  return in_context([&](SimulatedContext& context) { context.synchronize(handle(event)); });
}
CUresult cuEventQuery(CUevent event) {
  return in_context([&](SimulatedContext& context) {
    return context.done(handle(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return in_context([&](SimulatedContext& context) {
    for (const CUevent event : {begin, end}) {
      if (!context.timed(handle(event)))
        return refuse(CUDA_ERROR_INVALID_HANDLE, "an event that isn't timed");
      if (!context.ever_recorded(handle(event)))
        return refuse(CUDA_ERROR_INVALID_HANDLE, "an event that was never recorded");
    }
    for (const CUevent event : {begin, end}) {
      if (!context.recorded(handle(event))) return refuse(CUDA_ERROR_NOT_READY, "an event that isn't done");
    }
    *milliseconds = static_cast<float>(context.elapsed_ns(handle(begin), handle(end)) / 1e6);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return in_context(
      [&](SimulatedContext& context) { context.copy_to_device(to, from, bytes, handle(stream)); });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return in_context(
      [&](SimulatedContext& context) { context.copy_to_host(to, from, bytes, handle(stream)); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.copy(to, from, bytes, handle(stream)); });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return in_context([&](SimulatedContext& context) { context.fill(to, value, bytes, handle(stream)); });
}

}  // extern "C"
