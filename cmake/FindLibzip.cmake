# libzip, whose own CMake package asks for its command line tools too. Defines Libzip::Libzip.
include(${CMAKE_CURRENT_LIST_DIR}/IsochronFind.cmake)
isochron_find(Libzip zip.h zip)
