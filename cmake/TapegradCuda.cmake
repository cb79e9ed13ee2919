# The CUDA backend: the target tapegrad_cuda_objects consists of backends/cuda/ if a toolkit is
# found, otherwise of backends/without_cuda.cpp.
set(TAPEGRAD_CUDA AUTO CACHE STRING "CUDA backend: AUTO (if there is a toolkit), ON or OFF")
set_property(CACHE TAPEGRAD_CUDA PROPERTY STRINGS AUTO ON OFF)

# Sets TAPEGRAD_NO_CUDA to the reason why the backend is not built; empty if it is built.
set(TAPEGRAD_NO_CUDA "")
if(NOT TAPEGRAD_CUDA)
  set(TAPEGRAD_NO_CUDA "TAPEGRAD_CUDA is ${TAPEGRAD_CUDA}")
elseif(TAPEGRAD_SANITIZE)
  set(TAPEGRAD_NO_CUDA "the build is sanitized")
else()
  find_package(CUDAToolkit 12.0 QUIET)
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(TAPEGRAD_NO_CUDA "no CUDA toolkit of version 12 or newer was found")
  elseif(NOT TARGET CUDA::cudart OR NOT EXISTS ${CUDAToolkit_INCLUDE_DIRS}/cublas_v2.h)
    set(TAPEGRAD_NO_CUDA "the CUDA toolkit lacks cudart or the header of cublas")
  endif()
endif()
if(TAPEGRAD_NO_CUDA)
  if(TAPEGRAD_CUDA AND NOT TAPEGRAD_CUDA STREQUAL "AUTO" AND NOT TAPEGRAD_SANITIZE)
    message(FATAL_ERROR "TAPEGRAD_CUDA is ON, but ${TAPEGRAD_NO_CUDA}")
  endif()
  message(STATUS "tapegrad: without the CUDA backend: ${TAPEGRAD_NO_CUDA}")
else()
  # Compiling one architecture takes a third of the time of all four. Releases set "75-real;80-real;86-real;90".
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90-real CACHE STRING "GPU architectures of the CUDA backend")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(TAPEGRAD_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${TAPEGRAD_CCACHE})
  endif()
  enable_language(CUDA)
  # CMake 3.25.1 lacks nvcc's flag for C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  # Links the CUDA runtime statically if possible, so that programs start without a toolkit. Other
  # libraries are loaded at their first use (backends/cuda/runtime/library.h).
  if(CUDA_cudart_static_LIBRARY)
    set(TAPEGRAD_CUDA_LIBRARIES ${CUDA_cudart_static_LIBRARY} dl rt)
  else()
    set(TAPEGRAD_CUDA_LIBRARIES ${CUDA_cudart_LIBRARY} dl)
  endif()
  message(STATUS "tapegrad: with the CUDA backend (CUDA ${CUDAToolkit_VERSION}, architectures "
                 "${CMAKE_CUDA_ARCHITECTURES})")
endif()

# tapegrad_cuda_sources(result): the source files of the backend. Files that need the header of
# cuDNN 9, cuSOLVER or cuFFT are included if it is found. Sets TAPEGRAD_CUDNN_INCLUDE_DIR.
function(tapegrad_cuda_sources result)
  find_path(TAPEGRAD_CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  mark_as_advanced(TAPEGRAD_CUDNN_INCLUDE_DIR)
  set(version "")
  if(EXISTS ${TAPEGRAD_CUDNN_INCLUDE_DIR}/cudnn_version.h)
    file(STRINGS ${TAPEGRAD_CUDNN_INCLUDE_DIR}/cudnn_version.h version REGEX "CUDNN_MAJOR +9")
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/backends/cuda)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.cu)
  if(version)
    list(REMOVE_ITEM sources ${folder}/without_cudnn.cpp)
  else()
    list(FILTER sources EXCLUDE REGEX "/cudnn/")
  endif()
  foreach(library cusolverDn cufft)
    string(REGEX REPLACE "Dn$" "" name ${library})
    if(EXISTS ${CUDAToolkit_INCLUDE_DIRS}/${library}.h)
      list(REMOVE_ITEM sources ${folder}/without_${name}.cpp)
    else()
      list(FILTER sources EXCLUDE REGEX "/${name}/.*\\.cpp$")
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

function(tapegrad_add_cuda_objects)
  if(TAPEGRAD_NO_CUDA)
    add_library(tapegrad_cuda_objects OBJECT backends/without_cuda.cpp)
    target_include_directories(tapegrad_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR})
    tapegrad_compile_options(tapegrad_cuda_objects)
    return()
  endif()
  tapegrad_cuda_sources(sources)
  if(sources MATCHES "/without_cudnn.cpp")
    message(STATUS "tapegrad: without cuDNN: its header, of version 9, was not found")
  else()
    message(STATUS "tapegrad: with cuDNN 9, if it is found at run time")
  endif()
  add_library(tapegrad_cuda_objects OBJECT ${sources})
  target_include_directories(tapegrad_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(tapegrad_cuda_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  set(with_cudnn ${sources})
  list(FILTER with_cudnn INCLUDE REGEX "/cudnn/")
  set_source_files_properties(${with_cudnn} PROPERTIES
    INCLUDE_DIRECTORIES "${TAPEGRAD_CUDNN_INCLUDE_DIR}")
  tapegrad_compile_options(tapegrad_cuda_objects)
  # The relaxed constexpr flag lets kernels call constexpr host functions (std::numeric_limits,
  # std::array). Diagnostic 1835 reports an unknown attribute in core/base/free_list.h, which
  # -ftls-model replaces; 186 reports comparisons of unsigned types with 0 in templates.
  set(host_flags -Wall,-Wextra,-ftls-model=initial-exec,-fno-semantic-interposition)
  target_compile_options(tapegrad_cuda_objects PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--diag-suppress=186,1835;-Xcompiler=${host_flags}>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TAPEGRAD_WERROR}>>:--Werror=all-warnings>")
  # GPU code of one architecture is stored uncompressed by default; compressed, reduce.cu's takes
  # 0.16 MB instead of 2.3. The drivers of CUDA 13 and newer can all decompress this format.
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(tapegrad_cuda_objects PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  # No contraction of a * b + c, so that results are bit-identical to the CPU's.
  set_source_files_properties(
    backends/cuda/random.cu backends/cuda/random_distributions.cu backends/cuda/update.cu
    PROPERTIES COMPILE_OPTIONS --fmad=false)
endfunction()
