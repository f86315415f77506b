"""Misuse of the CUDA driver by machine_driver.cc, which the tests' libcuda.so.1 finds: a part of mutants_list.py."""

# Each row: a name, the text, what takes its place, and the tests that find it.
MISUSE = [
    ("context-of-the-one-before", "if (entered == number_) return;", "if (entered != 0) return;", "Over/Contexts.*"),
    ("a-call-in-no-context", "bool capturing(Stream stream) override {\n    enter();", "bool capturing(Stream stream) override {",
     "Over/Contexts.ServeThreads*"),
    ("memory-mapped-without-access", "const CUresult allowed = ISOCHRON_RUN(cuMemSetAccess, pointer, bytes, &access, 1);",
     "static_cast<void>(access);\n    const CUresult allowed = CUDA_SUCCESS;", "Over/Contexts.MapMemory*"),
    ("memory-of-the-host-read-late", "wait_for_pageable(from, stream);", "", "Over/Contexts.CopyMemoryThatTheDevice*"),
    ("memory-of-the-host-written-late", "wait_for_pageable(to, stream);", "", "Over/Contexts.CopyMemoryThatTheDevice*"),
    ("context-never-released", "    ISOCHRON_RUN(cuDevicePrimaryCtxRelease, device_);\n", "", "Over/Contexts.*"),
    ("streams-left-behind", "for (const Stream stream : spare_streams_) ISOCHRON_RUN(cuStreamDestroy, raw(stream));", "",
     "Over/Contexts.*"),
    ("capture-that-holds-up-other-threads", "ISOCHRON_CALL(cuStreamBeginCapture, raw(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);",
     "ISOCHRON_CALL(cuStreamBeginCapture, raw(stream), CU_STREAM_CAPTURE_MODE_GLOBAL);", "Over/Contexts.CaptureForOneThread*"),
    ("spare-stream-not-given-back", "      spare_streams_.push_back(body);\n", "", "Over/Contexts.HaveBodies*"),
    ("what-follows-a-body-does-not-wait", "ISOCHRON_CALL(cuStreamUpdateCaptureDependencies, raw(stream), &node, nullptr, 1,\n"
     "                  CU_STREAM_SET_CAPTURE_DEPENDENCIES);", "", "Over/Contexts.RunConditional*"),
    ("nothing-followed-by-nothing", "if (all.empty()) {", "if (false) {", "Over/Contexts.LetPartsOfAGraph*"),
    ("events-that-tell-no-time", "timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING", "timed ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DISABLE_TIMING",
     "Over/Contexts.TellTime*"),
    ("condition-kept-from-launch-to-launch", "CU_GRAPH_COND_ASSIGN_DEFAULT);", "0);", "Over/Contexts.RunConditional*"),
    ("reserved-pool-told-as-used", "pool_attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)", "pool_attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)",
     "Over/Contexts.KeepAPool*"),
    ("conditional-parts-counted-as-others", ": type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? counts.conditionals\n", "",
     "Over/Contexts.RunConditional*"),
]


def faults(mutant):
    return [mutant(name, "core/cuda/machine_driver.cc", old, new, "core", tests) for name, old, new, tests in MISUSE]
