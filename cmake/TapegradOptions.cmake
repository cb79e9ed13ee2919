# Build options and the compiler flags that depend on them.

include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

option(BUILD_SHARED_LIBS "tapegrad::tapegrad means the shared library" OFF)
option(TAPEGRAD_BUILD_TOOLS "Build the `tapegrad` command" ${PROJECT_IS_TOP_LEVEL})
option(TAPEGRAD_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TAPEGRAD_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(TAPEGRAD_BUILD_BENCHMARKS "Build the benchmarks" OFF)
option(TAPEGRAD_NATIVE "Compile the CPU kernels for this machine (off: AVX2 and AVX-512, chosen at run time)" ON)
option(TAPEGRAD_WERROR "Warnings are errors" OFF)
option(TAPEGRAD_UNITY "Compile the sources of the library eight at a time" ON)
set(TAPEGRAD_SANITIZE "" CACHE STRING "address,undefined or thread; empty for none")

find_program(TAPEGRAD_CCACHE ccache)
if(TAPEGRAD_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TAPEGRAD_CCACHE})
endif()

if(TAPEGRAD_SANITIZE)
  add_compile_options(-fsanitize=${TAPEGRAD_SANITIZE} -fno-sanitize-recover=all -g1 -O1)
  add_link_options(-fsanitize=${TAPEGRAD_SANITIZE})
endif()

# Finds the library directly, since Debian's dnnl-config.cmake requires OpenCL, which the CPU engine
# does not need.
find_library(TAPEGRAD_DNNL NAMES dnnl REQUIRED)
find_path(TAPEGRAD_DNNL_INCLUDE NAMES dnnl.hpp REQUIRED)
find_path(TAPEGRAD_XSIMD_INCLUDE NAMES xsimd/xsimd.hpp REQUIRED)

# OpenBLAS computes float64 products. Its OpenMP build shares its threads with oneDNN; the pthread
# build would create a second thread pool.
find_library(TAPEGRAD_OPENBLAS NAMES openblas PATH_SUFFIXES openblas-openmp NO_CACHE REQUIRED)
find_path(TAPEGRAD_OPENBLAS_INCLUDE NAMES cblas.h PATH_SUFFIXES openblas-openmp
          HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} REQUIRED)

# Imported targets, so that the exported static library contains no paths of the build machine.
# tapegradConfig.cmake.in finds the libraries again.
add_library(tapegrad::dnnl UNKNOWN IMPORTED GLOBAL)
set_target_properties(tapegrad::dnnl PROPERTIES IMPORTED_LOCATION ${TAPEGRAD_DNNL})
add_library(tapegrad::openblas UNKNOWN IMPORTED GLOBAL)
set_target_properties(tapegrad::openblas PROPERTIES IMPORTED_LOCATION ${TAPEGRAD_OPENBLAS})

# Compile options of the library. The names of its sources begin with "tapegrad:", so that errors
# tell lines of the library from lines of the user (core/base/where.h). The last two flags are for
# the shared library, where calls through its own PLT and TLS would take half of a small op's time.
function(tapegrad_compile_options target)
  set(prefix tapegrad:)
  # ccache compiles absolute paths as relative ones.
  file(RELATIVE_PATH from_build ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  string(REGEX REPLACE "/$" "" from_build "${from_build}")
  set(flags -ffp-contract=off -Wall -Wextra -Wpedantic
            $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety>
            -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=${prefix}
            -fmacro-prefix-map=${from_build}/=${prefix} -DTAPEGRAD_SOURCE_PREFIX=\"${prefix}\"
            $<$<BOOL:${TAPEGRAD_WERROR}>:-Werror>
            -ftls-model=initial-exec $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>
            $<$<CONFIG:Release>:-O2>)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  target_link_libraries(${target} PRIVATE absl::core_headers ${TAPEGRAD_ABSEIL})
endfunction()

# tapegrad_join_sources(target sources...): compiles eight sources of a folder as one, so that their
# common headers are read once. Names in anonymous namespaces are therefore unique within a folder.
# Sources with compile options or definitions of their own are compiled alone.
function(tapegrad_join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TAPEGRAD_UNITY} UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${source})
    string(REGEX REPLACE "/.*" "" folder ${folder})
    math(EXPR number "${${folder}_sources} + 0")
    math(EXPR ${folder}_sources "${number} + 1")
    math(EXPR group "${number} / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  # g++ takes included sources for headers, in which a type must not have members of types that
  # exist in one source only.
  if(TAPEGRAD_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()

# tapegrad_library(static STATIC): adds one of the two libraries, which share their objects.
function(tapegrad_library kind type)
  add_library(tapegrad_${kind} ${type} $<TARGET_OBJECTS:tapegrad_objects>
                               $<TARGET_OBJECTS:tapegrad_small_objects>
                               ${TAPEGRAD_CPU_OBJECTS} $<TARGET_OBJECTS:tapegrad_cuda_objects>)
  add_library(tapegrad::${kind} ALIAS tapegrad_${kind})
  add_dependencies(tapegrad_${kind} tapegrad_headers ${TAPEGRAD_CPU_TARGET})
  set_target_properties(tapegrad_${kind} PROPERTIES
    OUTPUT_NAME tapegrad EXPORT_NAME ${kind} LINKER_LANGUAGE CXX INSTALL_RPATH_USE_LINK_PATH ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(tapegrad_${kind} PUBLIC cxx_std_20)
  target_include_directories(tapegrad_${kind} INTERFACE
    $<BUILD_INTERFACE:${TAPEGRAD_STAGED_INCLUDE}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(tapegrad_${kind} PUBLIC Threads::Threads
    PRIVATE OpenMP::OpenMP_CXX ZLIB::ZLIB ${TAPEGRAD_ABSEIL} tapegrad::dnnl tapegrad::openblas
            ${TAPEGRAD_CUDA_LIBRARIES})
  if(type STREQUAL SHARED)
    target_link_options(tapegrad_${kind} PRIVATE -Wl,-Bsymbolic-functions)
    # Relative relocations are most of a table of 0.6 MB. The packed table needs glibc 2.36.
    check_linker_flag(CXX -Wl,-z,pack-relative-relocs TAPEGRAD_PACKS_RELOCATIONS)
    if(TAPEGRAD_PACKS_RELOCATIONS)
      target_link_options(tapegrad_${kind} PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
  endif()
endfunction()
