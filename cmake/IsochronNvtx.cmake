# NVTX 3 is headers alone, part of the CUDA toolkit; what listens is loaded at run time. ISOCHRON_NVTX has the choice.
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

# isochron_nvtx(<folder> <source>): the one source that includes it.
function(isochron_nvtx folder source)
  if(NOT ISOCHRON_WITH_NVTX)
    return()
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS ISOCHRON_NVTX
                              COMPILE_OPTIONS "-isystem;${NVTX3_INCLUDE_DIR}")
  target_link_libraries(isochron_${folder} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
