# CUDA is used through libraries that are loaded at run time (core/cuda/shared_library.h), so a build needs only headers.
# ISOCHRON_CUDA selects whether to use it.
find_path(CUDA_INCLUDE_DIR cuda.h
          HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES include)
# cuDNN is next to the toolkit or, with NVIDIA's Debian packages, among the system's headers.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDA_INCLUDE_DIR} ENV CUDNN_PATH PATH_SUFFIXES include)
mark_as_advanced(CUDA_INCLUDE_DIR CUDNN_INCLUDE_DIR)
set(ISOCHRON_WITH_CUDA FALSE)
if(ISOCHRON_CUDA AND CUDA_INCLUDE_DIR)
  file(STRINGS ${CUDA_INCLUDE_DIR}/cuda.h cuda_version REGEX "^#define CUDA_VERSION [0-9]+")
  string(REGEX REPLACE "[^0-9]" "" cuda_version "${cuda_version}")
  if(cuda_version GREATER_EQUAL 13000 AND EXISTS ${CUDA_INCLUDE_DIR}/nvrtc.h AND EXISTS ${CUDA_INCLUDE_DIR}/nvJitLink.h
     AND EXISTS ${CUDA_INCLUDE_DIR}/cublasLt.h AND CUDNN_INCLUDE_DIR)
    set(ISOCHRON_WITH_CUDA TRUE)
  else()
    set(cuda_found " (${CUDA_INCLUDE_DIR}/cuda.h is of version ${cuda_version}; nvrtc.h, nvJitLink.h and cublasLt.h must be beside it, and cuDNN's cudnn.h there, where the compiler finds it or in CUDNN_PATH)")
    message(NOTICE "No CUDA Toolkit of 13.0 or later is found${cuda_found}")
    unset(CUDA_INCLUDE_DIR CACHE)  # so that another CUDA_PATH is looked at
    unset(CUDNN_INCLUDE_DIR CACHE)
  endif()
endif()
if(ISOCHRON_CUDA AND NOT ISOCHRON_CUDA STREQUAL "AUTO" AND NOT ISOCHRON_WITH_CUDA)
  message(FATAL_ERROR "ISOCHRON_CUDA is on, but no CUDA Toolkit of 13.0 or later is found${cuda_found}; set CUDA_PATH")
endif()

# The folders that the compiler doesn't search by itself: if its own were passed too, they would no longer come last.
set(ISOCHRON_CUDA_INCLUDES ${CUDA_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
list(REMOVE_DUPLICATES ISOCHRON_CUDA_INCLUDES)
list(REMOVE_ITEM ISOCHRON_CUDA_INCLUDES "" ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
list(TRANSFORM ISOCHRON_CUDA_INCLUDES PREPEND "-isystem;")

# isochron_cuda(<folder> <source>...): the sources that include its headers. Call it before their library is defined.
function(isochron_cuda folder)
  if(NOT ISOCHRON_WITH_CUDA)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_DEFINITIONS ISOCHRON_CUDA
                              COMPILE_OPTIONS "${ISOCHRON_CUDA_INCLUDES}")
endfunction()
