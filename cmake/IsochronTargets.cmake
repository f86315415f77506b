# How a folder becomes a library. Headers are spelled `isochron/<folder>/x.h` in the tree as when installed: there
# include/isochron is a link to the tree's root.

add_library(isochron_options INTERFACE)
# (In a unity build, the compiler mistakes a source for a header, whose types need linkage.)
target_compile_options(isochron_options INTERFACE -Wall -Wextra -Wshadow -Wno-unknown-pragmas
                                                  $<$<BOOL:${ISOCHRON_UNITY}>:-Wno-subobject-linkage>)
if(ISOCHRON_WERROR)
  target_compile_options(isochron_options INTERFACE -Werror)
endif()
if(ISOCHRON_SANITIZE STREQUAL "address")
  # Leaves out the checks that double the compile time and mostly find what the address sanitizer finds too. The fuzzers use all
  # of them.
  target_compile_options(isochron_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(isochron_options INTERFACE -fsanitize=address,undefined)
elseif(ISOCHRON_SANITIZE STREQUAL "fuzzer")
  target_compile_options(isochron_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(isochron_options INTERFACE -fsanitize=address,undefined)
elseif(ISOCHRON_SANITIZE STREQUAL "thread")
  target_compile_options(isochron_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(isochron_options INTERFACE -fsanitize=thread)
endif()

# The first rule of the installation: nothing is written unless everything that is to be installed has been built.
# IsochronInstall.cmake writes the script when all targets are known. A parent project decides itself what it installs.
set(ISOCHRON_INSTALL_CHECK ${PROJECT_BINARY_DIR}/check_built)
set(configuration ${CMAKE_BUILD_TYPE})
if(several_configurations)
  set(configuration "\${CMAKE_INSTALL_CONFIG_NAME}")
endif()
if(PROJECT_IS_TOP_LEVEL)
  install(CODE "include(\"${ISOCHRON_INSTALL_CHECK}_${configuration}.cmake\")" ALL_COMPONENTS)
endif()

# isochron_installed(<target>...): targets that are installed as files.
function(isochron_installed)
  set_property(GLOBAL APPEND PROPERTY ISOCHRON_INSTALLED ${ARGN})
endfunction()

# isochron_precompiled_headers(<target>): what most sources include, parsed once for all libraries: a quarter of the compile
# time. Sources and headers include what they use all the same.
function(isochron_precompiled_headers target)
  if(target STREQUAL "isochron_core")
    target_precompile_headers(${target} PRIVATE
      <fmt/format.h> <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <filesystem> <functional> <map> <memory> <mutex>
      <optional> <span> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM isochron_core)
  endif()
endfunction()

# isochron_unity_sources(<variable> <source>...): a unity build of the sources of each folder, at most eight per file, so that a
# change of one recompiles few. They compile in half the time; names without linkage must be unique per folder, not per file.
# Kernels that are compiled for several instruction sets stay separate, as do sources with options of their own, as with CMake's
# UNITY_BUILD; set these options before. (That property has no way to give options to a folder's sources.)
function(isochron_unity_sources result)
  set(alone)
  set(folders)
  foreach(source IN LISTS ARGN)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    file(STRINGS ${source} vectors REGEX "#include .hwy/" LIMIT_COUNT 1)
    cmake_path(GET source PARENT_PATH folder)
    if(NOT ISOCHRON_UNITY OR definitions OR options OR vectors)
      list(APPEND alone ${source})
    else()
      list(APPEND folders ${folder})
      list(APPEND "in ${folder}" ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(unity)
  foreach(folder IN LISTS folders)
    set(sources ${in\ ${folder}})
    list(LENGTH sources count)
    math(EXPR files "(${count} + 7) / 8")
    foreach(file RANGE 1 ${files})
      math(EXPR begin "(${file} - 1) * ${count} / ${files}")
      math(EXPR length "${file} * ${count} / ${files} - ${begin}")
      list(SUBLIST sources ${begin} ${length} parts)
      if(length EQUAL 1)
        list(APPEND alone ${parts})
        continue()
      endif()
      list(GET parts 0 first)
      list(GET parts -1 last)
      cmake_path(GET first STEM first)
      cmake_path(GET last STEM last)
      list(TRANSFORM parts REPLACE "^${PROJECT_SOURCE_DIR}/(.+)$" "#include \"isochron/\\1\"\n")
      string(CONCAT content ${parts})
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
      set(path ${PROJECT_BINARY_DIR}/unity/${name}/${first}_to_${last}.cc)
      file(CONFIGURE OUTPUT ${path} CONTENT "${content}" @ONLY)
      list(APPEND unity ${path})
    endforeach()
  endforeach()
  set(${result} ${alone} ${unity} PARENT_SCOPE)
endfunction()

# isochron_optimize_less(<folder>): for sources below it, which no step runs; they compile in three quarters of the time.
function(isochron_optimize_less folder)
  string(REGEX REPLACE "/.*" "" target isochron_${folder})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^(${PROJECT_SOURCE_DIR}|${PROJECT_BINARY_DIR}/unity)/${folder}/")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()

# isochron_library(<folder> DEPENDS <public targets> PRIVATE <private targets> WITHOUT <sources>): every source below the folder,
# except for the WITHOUT sources.
function(isochron_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE;WITHOUT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  list(TRANSFORM ARG_WITHOUT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources "" ${ARG_WITHOUT})
  set(target isochron_${folder})
  set(scope PUBLIC)
  if(sources)
    isochron_unity_sources(sources ${sources})
    add_library(${target} STATIC ${sources})
    isochron_installed(${target})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:isochron_options> ${ARG_PRIVATE})
    isochron_precompiled_headers(${target})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${ARG_DEPENDS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder})
  install(TARGETS ${target} EXPORT isochronTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# isochron_public_headers(): installs isochron.h, which lists the public headers, and every header that these include. All other
# headers are private.
function(isochron_public_headers)
  set(found isochron.h)
  set(left isochron.h)
  while(left)
    list(POP_FRONT left header)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/${header} lines REGEX "^#include \"isochron/")
    list(TRANSFORM lines REPLACE "^#include \"isochron/([^\"]+)\".*" "\\1")
    list(REMOVE_ITEM lines "" ${found})
    list(APPEND found ${lines})
    list(APPEND left ${lines})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/isochron/${folder})
  endwhile()
endfunction()

# isochron_messages(<folder> <name>.proto...): the private protobuf messages of a folder's sources, which include them as
# <folder/name.pb.h>: generated headers belong to no folder of the tree.
function(isochron_messages folder)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  foreach(proto IN LISTS ARGN)
    cmake_path(REMOVE_EXTENSION proto OUTPUT_VARIABLE name)
    set(outputs ${generated}/${folder}/${name}.pb.cc ${generated}/${folder}/${name}.pb.h)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${generated} ${folder}/${proto}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${proto})
    target_sources(isochron_${folder} PRIVATE ${outputs})
    set_source_files_properties(${outputs} PROPERTIES COMPILE_OPTIONS -w)
  endforeach()
  target_include_directories(isochron_${folder} SYSTEM PRIVATE $<BUILD_INTERFACE:${generated}>)
  target_link_libraries(isochron_${folder} PRIVATE protobuf::libprotobuf-lite)
endfunction()

# isochron_texts(<folder> HEADER <header> <name> <file>...): defines the string views that the header declares in
# isochron::<folder>::texts, each with a file's content; parts of it that it includes (*-inl.h in a folder rules) are put
# in their place.
function(isochron_texts folder)
  cmake_parse_arguments(ARG "" "HEADER" "" ${ARGN})
  set(content "#include \"isochron/${ARG_HEADER}\"\n\nnamespace isochron::${folder}::texts {\n")
  while(ARG_UNPARSED_ARGUMENTS)
    list(POP_FRONT ARG_UNPARSED_ARGUMENTS name file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} text)
    string(REGEX MATCHALL "#include \"isochron/[a-z/_]+/rules/[a-z_]+-inl.h\"" parts "${text}")
    foreach(part IN LISTS parts)
      string(REGEX REPLACE "#include \"isochron/(.*)\"" "\\1" part_file "${part}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${part_file})
      file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${part_file} part_text)
      string(REPLACE "${part}" "${part_text}" text "${text}")
    endforeach()
    string(APPEND content "const std::string_view ${name} = R\"ISOCHRON(${text})ISOCHRON\";\n")
  endwhile()
  string(APPEND content "}  // namespace isochron::${folder}::texts\n")
  set(output ${PROJECT_BINARY_DIR}/generated/${folder}/texts.cc)
  file(CONFIGURE OUTPUT ${output} CONTENT "@content@" @ONLY)
  target_sources(isochron_${folder} PRIVATE ${output})
endfunction()
