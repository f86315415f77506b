# libdw of elfutils, which comes without a CMake package. Defines Libdw::Libdw.
include(${CMAKE_CURRENT_LIST_DIR}/IsochronFind.cmake)
isochron_find(Libdw elfutils/libdwfl.h dw)
