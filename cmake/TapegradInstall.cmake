# Rules for cmake --install, and the files that find_package(tapegrad CONFIG) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tapegrad_static tapegrad_shared EXPORT tapegradTargets)
if(TAPEGRAD_BUILD_TOOLS)
  install(TARGETS tapegrad_tool)
endif()
install(DIRECTORY ${TAPEGRAD_STAGED_INCLUDE}/tapegrad
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/tapegrad)
install(EXPORT tapegradTargets NAMESPACE tapegrad:: DESTINATION ${config})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tapegradConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
                              INSTALL_DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH TAPEGRAD_PC_TO_PREFIX
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
get_filename_component(TAPEGRAD_OPENBLAS_DIR ${TAPEGRAD_OPENBLAS} DIRECTORY)
# The CUDA runtime and its dependencies: a path, then names of libraries.
list(TRANSFORM TAPEGRAD_CUDA_LIBRARIES REPLACE "^([a-z]+)$" "-l\\1" OUTPUT_VARIABLE cuda)
list(JOIN cuda " " TAPEGRAD_PC_CUDA)
string(PREPEND TAPEGRAD_PC_CUDA " ")
configure_file(${CMAKE_CURRENT_LIST_DIR}/tapegrad.pc.in ${PROJECT_BINARY_DIR}/tapegrad.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tapegrad.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/tapegradConfig.cmake
              ${PROJECT_BINARY_DIR}/tapegradConfigVersion.cmake DESTINATION ${config})
