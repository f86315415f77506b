# RE2, regular expressions in linear time, by its library and header: Debian's package has no CMake file. Defines Re2::Re2.
include(${CMAKE_CURRENT_LIST_DIR}/IsochronFind.cmake)
isochron_find(Re2 re2/re2.h re2)
