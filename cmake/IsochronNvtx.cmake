# NVTX 3 consists only of headers, part of the CUDA toolkit; the tool that listens is loaded at run time. ISOCHRON_NVTX selects
# whether to use it.
find_path(NVTX3_INCLUDE_DIR nvtx3/nvToolsExt.h
          HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES include)
mark_as_advanced(NVTX3_INCLUDE_DIR)
if(ISOCHRON_NVTX STREQUAL "AUTO" OR NOT ISOCHRON_NVTX)
  set(required FALSE)
else()
  set(required TRUE)
endif()
if(required AND NOT NVTX3_INCLUDE_DIR)
  message(FATAL_ERROR "ISOCHRON_NVTX is on, but nvtx3/nvToolsExt.h is not found; set NVTX3_INCLUDE_DIR or CUDA_PATH")
endif()
set(ISOCHRON_WITH_NVTX FALSE)
if(ISOCHRON_NVTX AND NVTX3_INCLUDE_DIR)
  set(ISOCHRON_WITH_NVTX TRUE)
endif()

# isochron_nvtx(<source>): the one source that includes it. Call it before its library is defined.
function(isochron_nvtx source)
  if(NOT ISOCHRON_WITH_NVTX)
    return()
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS ISOCHRON_NVTX)
  if(NOT NVTX3_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-isystem;${NVTX3_INCLUDE_DIR}")
  endif()
endfunction()
