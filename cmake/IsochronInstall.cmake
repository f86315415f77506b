# The installed package: find_package(isochron) gives isochron::isochron. Libraries are installed by
# isochron_library, headers by isochron_public_headers; here are the export set, the package files, the data sets and the command, and what checks that all
# targets are built before anything is installed.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/isochron)

install(EXPORT isochronTargets NAMESPACE isochron:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/isochronConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/isochronConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/isochronConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/isochronConfig.cmake ${PROJECT_BINARY_DIR}/isochronConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake ${CMAKE_CURRENT_LIST_DIR}/FindIsal.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindLibzip.cmake ${CMAKE_CURRENT_LIST_DIR}/FindLibdw.cmake
              ${CMAKE_CURRENT_LIST_DIR}/IsochronFind.cmake
        DESTINATION ${package_folder})

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY datasets DESTINATION ${CMAKE_INSTALL_DATADIR}/isochron)
if(TARGET isochron_command)
  install(TARGETS isochron_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  isochron_installed(isochron_command)
endif()

get_property(installed GLOBAL PROPERTY ISOCHRON_INSTALLED)
list(TRANSFORM installed REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE installed_files)
file(GENERATE OUTPUT ${ISOCHRON_INSTALL_CHECK}_$<CONFIG>.cmake CONTENT "# Included before anything is installed.
set(files \"${installed_files}\")
set(missing)
foreach(file IN LISTS files)
  if(NOT EXISTS \"\${file}\")
    list(APPEND missing \"\${file}\")
  endif()
endforeach()
if(missing)
  list(JOIN missing \"\\n  \" names)
  message(FATAL_ERROR \"Nothing was installed, because not everything is built. Run this first:\\n\"
                      \"  cmake --build \\\"${CMAKE_BINARY_DIR}\\\"\\nMissing:\\n  \${names}\")
endif()
")
