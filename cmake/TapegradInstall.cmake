# cmake --install, and the files that find_package(tapegrad CONFIG) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The OpenMP build of OpenBLAS lies in a folder of its own.
set_target_properties(tapegrad PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS tapegrad EXPORT tapegradTargets)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/tapegrad
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/tapegrad)
install(EXPORT tapegradTargets NAMESPACE tapegrad:: DESTINATION ${config})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tapegradConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
                              INSTALL_DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
              ${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake DESTINATION ${config})
