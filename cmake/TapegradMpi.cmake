# The MPI engine of dist/: a module that dist::init() opens in programs that mpirun started, so that
# neither the library nor its users depend on MPI.
set(TAPEGRAD_MPI AUTO CACHE STRING "MPI engine: AUTO (if MPI is found), ON or OFF")
set_property(CACHE TAPEGRAD_MPI PROPERTY STRINGS AUTO ON OFF)

include(GNUInstallDirs)
set_source_files_properties(dist/init.cpp PROPERTIES COMPILE_DEFINITIONS
  "TAPEGRAD_MPI_FOLDERS=\"${PROJECT_BINARY_DIR}:${CMAKE_INSTALL_FULL_LIBDIR}\"")
target_link_libraries(tapegrad_objects PRIVATE ${CMAKE_DL_LIBS})

# Sets TAPEGRAD_NO_MPI to the reason why the module is not built; empty if it is built.
set(TAPEGRAD_NO_MPI "")
if(NOT TAPEGRAD_MPI)
  set(TAPEGRAD_NO_MPI "TAPEGRAD_MPI is ${TAPEGRAD_MPI}")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    set(TAPEGRAD_NO_MPI "MPI was not found (Debian: libopenmpi-dev)")
  endif()
endif()
if(TAPEGRAD_NO_MPI)
  if(TAPEGRAD_MPI AND NOT TAPEGRAD_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "TAPEGRAD_MPI is ON, but ${TAPEGRAD_NO_MPI}")
  endif()
  message(STATUS "tapegrad: without MPI: ${TAPEGRAD_NO_MPI}")
  return()
endif()
message(STATUS "tapegrad: with MPI ${MPI_CXX_VERSION}")
add_library(tapegrad_mpi MODULE backends/mpi/engine.cpp)
target_include_directories(tapegrad_mpi PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(tapegrad_mpi PRIVATE -Wall -Wextra $<$<BOOL:${TAPEGRAD_WERROR}>:-Werror>)
# Excludes the C++ bindings, which MPI no longer has.
target_compile_definitions(tapegrad_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_libraries(tapegrad_mpi PRIVATE MPI::MPI_CXX)
set_target_properties(tapegrad_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS tapegrad_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
