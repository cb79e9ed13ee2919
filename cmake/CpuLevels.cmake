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

# tapegrad_add_cpu_target(target sources flags...): the kernels' objects, compiled with further flags.
# Only they are compiled for the native processor or a level, so that their inline functions do not
# end up in other files.
function(tapegrad_add_cpu_target target sources)
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${target} PROPERTIES VISIBILITY_INLINES_HIDDEN ON)
  tapegrad_compile_options(${target})
  # reduce.cpp takes as long as a group, and register.cpp would inline the functions that it calls.
  set(joined ${sources})
  list(FILTER joined EXCLUDE REGEX "/cpu/(reduce|register)\\.cpp$")
  tapegrad_join_sources(${target} ${joined})
  set(vendor ${TAPEGRAD_OPENBLAS_INCLUDE} ${TAPEGRAD_DNNL_INCLUDE} ${TAPEGRAD_XSIMD_INCLUDE})
  list(REMOVE_DUPLICATES vendor)
  list(REMOVE_ITEM vendor ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  target_include_directories(${target} SYSTEM PRIVATE ${vendor})
  # The kernels read neither errno nor floating-point exception flags. These flags let the compiler
  # vectorise sqrt and conditionals; results do not change.
  set(flags ${ARGN} -fno-math-errno -fno-trapping-math $<$<CONFIG:Release>:-O3> -fopenmp)
  # g++ 12 warns about undefined registers in its own AVX-512 header.
  list(APPEND flags $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>
       $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  # xsimd's AVX-512 shifts do not compile without optimisation.
  list(APPEND flags $<$<CONFIG:Debug>:-O1>)
  if(TAPEGRAD_SANITIZE MATCHES address)
    # Stack checks of the sanitizers made these files compile seven times slower.
    list(APPEND flags $<IF:$<CXX_COMPILER_ID:GNU>,--param,-mllvm>
         $<IF:$<CXX_COMPILER_ID:GNU>,asan-stack=0,-asan-stack=0>)
  endif()
  target_compile_options(${target} PRIVATE ${flags})
endfunction()

# tapegrad_add_cpu_objects(sources): compiles the kernels. Sets TAPEGRAD_CPU_OBJECTS, the objects
# (for levels one each), and TAPEGRAD_CPU_TARGET, the target that makes them.
function(tapegrad_add_cpu_objects sources)
  if(NOT TAPEGRAD_CPU_LEVELS)
    tapegrad_add_cpu_target(tapegrad_cpu_objects "${sources}" ${TAPEGRAD_CPU_MARCH})
    set(TAPEGRAD_CPU_TARGET tapegrad_cpu_objects PARENT_SCOPE)
    set(TAPEGRAD_CPU_OBJECTS $<TARGET_OBJECTS:tapegrad_cpu_objects> PARENT_SCOPE)
    return()
  endif()
  set(isolate ${PROJECT_SOURCE_DIR}/cmake/isolate_cpu_level.sh)
  set(isolated "")
  foreach(level ${TAPEGRAD_CPU_LEVELS})
    set(objects tapegrad_cpu_${level})
    # A symbol that is unique in the process can neither be made local nor exist at both levels.
    tapegrad_add_cpu_target(${objects} "${sources}" -march=${tapegrad_march_${level}} -fno-lto
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
  set(TAPEGRAD_CPU_TARGET tapegrad_cpu_levels PARENT_SCOPE)
  set(TAPEGRAD_CPU_OBJECTS ${isolated} PARENT_SCOPE)
endfunction()
