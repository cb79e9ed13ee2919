# A portable build (TAPEGRAD_NATIVE off) contains backends/cpu twice, compiled for AVX2 and for
# AVX-512; backends/cpu_level.cpp chooses at run time. The kernels' sources are the same for both
# levels. Each level is linked into one object that exports only data and its entry points.
# Otherwise a header function that both levels and other files compile would have one name in all of
# them, and the linker would keep the first version for the whole program.
#
# Sets TAPEGRAD_CPU_LEVELS, which is empty for a single level, and TAPEGRAD_CPU_MARCH, the -march
# flag of a single level.
set(TAPEGRAD_CPU_LEVELS "")
set(TAPEGRAD_CPU_MARCH "")
if(TAPEGRAD_NATIVE)
  set(TAPEGRAD_CPU_MARCH -march=native)
elseif(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  message(STATUS "tapegrad: CPU kernels for any ${CMAKE_SYSTEM_PROCESSOR}")
else()
  execute_process(COMMAND ${CMAKE_LINKER} --help OUTPUT_VARIABLE linker_help ERROR_QUIET)
  if(TAPEGRAD_SANITIZE)
    set(one_level "the build is sanitized")
  elseif(NOT linker_help MATCHES "--force-group-allocation")
    set(one_level "the linker does not know --force-group-allocation")
  elseif(NOT CMAKE_OBJCOPY OR NOT CMAKE_READELF)
    set(one_level "objcopy or readelf is missing")
  else()
    set(TAPEGRAD_CPU_LEVELS avx2 avx512)
  endif()
  if(TAPEGRAD_CPU_LEVELS)
    message(STATUS "tapegrad: CPU kernels for AVX2 and for AVX-512, chosen at run time")
  else()
    set(TAPEGRAD_CPU_MARCH -march=x86-64-v3)
    message(STATUS "tapegrad: CPU kernels for AVX2 only: ${one_level}")
  endif()
endif()
set(tapegrad_march_avx2 x86-64-v3)
set(tapegrad_march_avx512 x86-64-v4)

# tapegrad_add_cpu_levels(sources): adds one object per level, listed in TAPEGRAD_CPU_LEVEL_OBJECTS
# and made by the target TAPEGRAD_CPU_LEVEL_TARGET.
function(tapegrad_add_cpu_levels sources)
  set(isolate ${PROJECT_SOURCE_DIR}/cmake/isolate_cpu_level.sh)
  set(isolated "")
  foreach(level ${TAPEGRAD_CPU_LEVELS})
    set(objects tapegrad_cpu_${level})
    add_library(${objects} OBJECT ${sources})
    target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR})
    tapegrad_compile_options(${objects})
    # A symbol that is unique in the process can neither be made local nor exist at both levels.
    target_compile_options(${objects} PRIVATE -march=${tapegrad_march_${level}} -fno-lto
                           $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
    set(isolated_object ${PROJECT_BINARY_DIR}/cpu_${level}.o)
    add_custom_command(OUTPUT ${isolated_object}
      COMMAND ${CMAKE_COMMAND} -E env LD=${CMAKE_LINKER} OBJCOPY=${CMAKE_OBJCOPY}
              READELF=${CMAKE_READELF} sh ${isolate} ${level} ${isolated_object}
              $<TARGET_OBJECTS:${objects}>
      DEPENDS ${isolate} ${objects} $<TARGET_OBJECTS:${objects}>
      COMMENT "Isolating the CPU kernels for ${level}" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND isolated ${isolated_object})
  endforeach()
  add_custom_target(tapegrad_cpu_levels DEPENDS ${isolated})
  set(TAPEGRAD_CPU_LEVEL_TARGET tapegrad_cpu_levels PARENT_SCOPE)
  set(TAPEGRAD_CPU_LEVEL_OBJECTS ${isolated} PARENT_SCOPE)
endfunction()
