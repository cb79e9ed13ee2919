# Public headers include each other by their path in the tree, "core/base/tensor.h". Consumers
# include them as <tapegrad/core/tensor.h>. Staging copies the headers below tapegrad/ and rewrites
# their include lines, so that a consumer may have its own core/tensor.h.
#
# A former path of a public header (TAPEGRAD_FORMER_HEADERS) is staged as a header that includes the
# headers that have its declarations.
#
# When run as a script (cmake -P) with SOURCE, DESTINATION and HEADERS (relative to SOURCE,
# separated by spaces), stages the headers. When included, defines
# tapegrad_stage_headers(header...).

# Maps core/base/tensor.h to tapegrad/core/tensor.h.
function(tapegrad_staged_path header result)
  string(REGEX REPLACE "^([a-z]+/)([a-z_]+/)*" "tapegrad/\\1" staged ${header})
  if(NOT header MATCHES "/")
    set(staged tapegrad/${header})
  endif()
  set(${result} ${staged} PARENT_SCOPE)
endfunction()

# Former paths, each with the headers that have its declarations.
set(TAPEGRAD_FORMER_HEADERS ops/arrange.h ops/arrange_composed.h ops/elementwise.h ops/noise.h)
set(ops/arrange.h ops/diagonal.h ops/join.h ops/replace.h ops/reshape.h)
set(ops/arrange_composed.h ops/join.h ops/reshape.h)
set(ops/elementwise.h ops/arithmetic.h ops/bitwise.h ops/compare.h)
set(ops/noise.h ops/dropout.h ops/random.h)

# Writes a file unless it has this text.
function(tapegrad_write_staged file text)
  set(old "")
  if(EXISTS ${file})
    file(READ ${file} old)
  endif()
  if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${file} "${text}")
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  separate_arguments(HEADERS)
  foreach(header IN LISTS HEADERS)
    file(READ ${SOURCE}/${header} text)
    # Escapes semicolons, which are list separators.
    string(REPLACE ";" "\\;" text "${text}")
    string(REGEX REPLACE "#include \"(core|ops|nn|optim|data|io|dist|train)/([a-z_]+/)*"
           "#include \"tapegrad/\\1/" text "${text}")
    string(REPLACE "\\;" ";" text "${text}")
    tapegrad_staged_path(${header} staged)
    tapegrad_write_staged(${DESTINATION}/${staged} "${text}")
  endforeach()
  foreach(former IN LISTS TAPEGRAD_FORMER_HEADERS)
    set(text "// Former path of the headers below.\n#pragma once\n\n")
    foreach(header IN LISTS ${former})
      string(APPEND text "#include \"tapegrad/${header}\"\n")
    endforeach()
    tapegrad_write_staged(${DESTINATION}/tapegrad/${former} "${text}")
  endforeach()
  return()
endif()

set(TAPEGRAD_STAGE_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

# Makes the target tapegrad_headers, which stages the headers into TAPEGRAD_STAGED_INCLUDE.
set(TAPEGRAD_STAGED_INCLUDE ${PROJECT_BINARY_DIR}/include)
function(tapegrad_stage_headers)
  set(stamp ${PROJECT_BINARY_DIR}/headers.stamp)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  list(JOIN ARGN " " headers)
  set(staged "")
  foreach(header IN LISTS ARGN)
    tapegrad_staged_path(${header} path)
    if(${TAPEGRAD_STAGED_INCLUDE}/${path} IN_LIST staged)
      message(FATAL_ERROR "two public headers are staged as ${path}")
    endif()
    list(APPEND staged ${TAPEGRAD_STAGED_INCLUDE}/${path})
  endforeach()
  list(TRANSFORM TAPEGRAD_FORMER_HEADERS PREPEND ${TAPEGRAD_STAGED_INCLUDE}/tapegrad/
       OUTPUT_VARIABLE former)
  # The headers are byproducts, so that files that include them are recompiled in the same run.
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${staged} ${former}
    COMMAND ${CMAKE_COMMAND} "-DSOURCE=${PROJECT_SOURCE_DIR}"
            "-DDESTINATION=${TAPEGRAD_STAGED_INCLUDE}" "-DHEADERS=${headers}"
            -P ${TAPEGRAD_STAGE_SCRIPT}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${sources} ${TAPEGRAD_STAGE_SCRIPT}
    COMMENT "Staging public headers" VERBATIM)
  add_custom_target(tapegrad_headers DEPENDS ${stamp})
endfunction()
