# SPDX-License-Identifier: Apache-2.0
# Language level, output folders, warnings and sanitizers that every target shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(HPU_CCACHE ccache)
if(HPU_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/ccache.sh;${HPU_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endif()

# Project warnings; third-party headers are included as SYSTEM.
set(HPU_WARNINGS -Wall -Wextra -Werror=return-type -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns falsely about "text" + std::string (GCC bug 105651), in precompiled headers about more of std::string;
  # of std::optional, of the undefined values that AVX-512 intrinsics begin with, and of what it inlines from arrays.
  list(APPEND HPU_WARNINGS -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
endif()

# Most of the time to build a test is the optimiser's, and little of the time to run it is spent in its own code.
set(HPU_TEST_OPTIONS "")
if(HPU_SANITIZE)
  set(HPU_TEST_OPTIONS -O0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(HPU_TEST_OPTIONS -O1)
endif()

if(HPU_SANITIZE)
  list(JOIN HPU_SANITIZE "," _sanitizers)
  add_compile_options(-fsanitize=${_sanitizers} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${_sanitizers})
  if(HPU_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    add_link_options(-fno-sanitize-recover=undefined)
  endif()
endif()

if(HPU_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR NOT HPU_SANITIZE)
    message(FATAL_ERROR "HPU_BUILD_FUZZERS needs clang with libFuzzer (Debian: clang-22, libclang-rt-22-dev) and sanitizers: "
                        "configure a tree of its own with the preset fuzz (cmake --preset fuzz)")
  endif()
  # Coverage of all that is ours guides a fuzzer. (Of some libraries only, they could not share the precompiled headers.)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(HPU_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Its runtime leaves names, which suppressions go by, to a program that it only looks for in PATH.
  get_filename_component(_compiler "${CMAKE_CXX_COMPILER}" REALPATH)
  get_filename_component(_bin "${_compiler}" DIRECTORY)
  find_program(HPU_SYMBOLIZER llvm-symbolizer HINTS "${_bin}")
  if(NOT HPU_SYMBOLIZER)
    message(WARNING "llvm-symbolizer was not found: reports have no names, and suppressions do not work. "
                    "Install the Debian package 'llvm' of the compiler's version.")
  endif()
  set(_symbolizer " external_symbolizer_path=${HPU_SYMBOLIZER}")
  # A C program that uses our libraries has operator new in it, too.
  add_link_options("$<$<LINK_LANGUAGE:C>:-fsanitize-link-c++-runtime>")
endif()

# Every test gets the sanitizers' options (hpu_test_nodes appends them).
set(HPU_SANITIZER_ENVIRONMENT "")
if(HPU_SANITIZE MATCHES "thread")
  set(HPU_SANITIZER_ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizers/tsan.supp halt_on_error=1 second_deadlock_stack=1${_symbolizer}")
elseif(HPU_SANITIZE MATCHES "address")
  set(_asan_options "detect_leaks=1 strict_string_checks=1${_symbolizer}")
  if(HPU_BUILD_COMPILER)
    # LLVM's allocators poison from our objects, which are instrumented, and use the same memory in its own, which are not.
    string(APPEND _asan_options " allow_user_poisoning=0")
  endif()
  set(HPU_SANITIZER_ENVIRONMENT
      "ASAN_OPTIONS=${_asan_options};LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizers/lsan.supp print_suppressions=0;UBSAN_OPTIONS=print_stacktrace=1${_symbolizer}")
endif()
