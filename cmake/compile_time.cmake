# What keeps the first build short. None of it changes what the library does, or how fast.

# The standard library's headers are most of what the compiler reads: precompiled, they are read once per kind of code.
# Every file still names what it uses: where ccache keeps results (scripts/configure.sh), or with
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON, all is built without.
# gcc takes them only for files of the very flags they were made with, and may crash over others: a file with options of
# its own has SKIP_PRECOMPILE_HEADERS.
set(TUTTI_PRECOMPILED
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstring> <deque> <fstream>
  <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <thread>
  <utility> <vector>)
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Inside precompiled headers gcc 12 no longer knows the standard library for what it is, and warns of what is not there.
  add_compile_options(-Wno-array-bounds -Wno-stringop-overflow)
endif()

# Files that are compiled several at a time, so that the compiler reads what they include once: names in their anonymous
# namespaces must differ, too. Off (TUTTI_BATCHES), as in the presets tidy and tsan, every file is compiled by itself,
# which shows what it does not include.
function(tutti_in_batches)
  if(TUTTI_BATCHES)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# Code that runs rarely or waits for others: -O3 would only take longer to compile. tutti_base makes the headers for all.
function(tutti_rarely_runs)
  tutti_in_batches(${ARGN})
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
    if(target STREQUAL "tutti_base")
      target_precompile_headers(${target} PRIVATE ${TUTTI_PRECOMPILED})
    else()
      target_precompile_headers(${target} REUSE_FROM tutti_base)
    endif()
  endforeach()
endfunction()

# Readers and writers of JSON: files of such a target.
function(tutti_reads_json)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1>" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
