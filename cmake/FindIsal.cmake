# Intel's Intelligent Storage Acceleration Library, which comes without a CMake package. Defines Isal::Isal.
include(${CMAKE_CURRENT_LIST_DIR}/IsochronFind.cmake)
isochron_find(Isal isa-l/crc.h isal)
