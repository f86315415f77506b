# The installed package: find_package(isochron) gives isochron::isochron. Libraries and headers are installed by
# isochron_library; here are the export set, the package files, the data sets and the command.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/isochron)

install(EXPORT isochronTargets NAMESPACE isochron:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/isochronConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/isochronConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/isochronConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/isochronConfig.cmake ${CMAKE_BINARY_DIR}/isochronConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake ${CMAKE_CURRENT_LIST_DIR}/FindIsal.cmake
        DESTINATION ${package_folder})

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY datasets DESTINATION ${CMAKE_INSTALL_DATADIR}/isochron)
if(TARGET isochron_command)
  install(TARGETS isochron_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
