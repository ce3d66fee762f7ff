# SPDX-License-Identifier: Apache-2.0
# Helpers that every folder uses, so that a target's CMakeLists.txt is a list of files and names.
#
# A precompiled header is of one set of compile options, so there is one for each kind of target: hpu_library_pch,
# hpu_tool_pch, hpu_test_pch, and hpu_mlir_pch, hpu_mlir_test_pch for files that include MLIR.

# hpu_library(NAME SOURCES ... DEPS ... [ONE_BY_ONE]): a static, position-independent part of a shipped library.
# Trees with sanitizers, which are built once and run, compile some of its files at a time, several times as fast; local
# names must differ then from file to file of a library. ONE_BY_ONE: they do not (files of one shape, such as algorithms).
function(hpu_library name)
  cmake_parse_arguments(ARG "NO_PCH;ONE_BY_ONE" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                            ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE ${HPU_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  if(NOT ARG_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM hpu_library_pch)
  endif()
  if(HPU_SANITIZE AND NOT HPU_BUILD_COMPILER AND NOT ARG_ONE_BY_ONE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  endif()
endfunction()

# MLIR tells traits and interfaces apart by the address of a static variable in an inline function, which must
# be the one of libMLIR.so. (With hidden visibility it falls back to type names, which GCC and the Clang
# that built libMLIR spell differently: hasTrait<IsTerminator>() is then false everywhere.)
function(hpu_shares_mlir_type_ids name)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
endfunction()

# The compile options of a file that includes MLIR: no exceptions, and MLIR's headers as system ones.
function(hpu_uses_mlir name)
  target_include_directories(${name} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  target_include_directories(${name} PUBLIC ${PROJECT_BINARY_DIR})
  target_compile_options(${name} PRIVATE -fno-exceptions)
  hpu_shares_mlir_type_ids(${name})
  target_compile_definitions(${name} PUBLIC ${LLVM_DEFINITIONS_LIST})
  # The shared libraries only: upstream's helpers would pull 138 MB of static ones into each tool.
  target_link_libraries(${name} PUBLIC MLIR LLVM)
endfunction()

# hpu_mlir_library(NAME SOURCES ... DEPS ... [TABLEGEN targets]): a part of the compiler.
function(hpu_mlir_library name)
  cmake_parse_arguments(ARG "NO_PCH" "" "SOURCES;DEPS;PRIVATE_DEPS;TABLEGEN" ${ARGN})
  hpu_library(${name} NO_PCH SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} PRIVATE_DEPS ${ARG_PRIVATE_DEPS})
  hpu_uses_mlir(${name})
  if(NOT ARG_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM hpu_mlir_pch)
  endif()
  if(TARGET hpu_dialects_gen)
    add_dependencies(${name} hpu_dialects_gen)
  endif()
  if(ARG_TABLEGEN)
    add_dependencies(${name} ${ARG_TABLEGEN})
  endif()
endfunction()

# hpu_shared_library(NAME PARTS ... [VERSION_SCRIPT file]): what is installed. Only the symbols of
# the version script are exported, whatever the static parts contain.
function(hpu_shared_library name)
  cmake_parse_arguments(ARG "" "VERSION_SCRIPT;EXPORT_NAME" "SOURCES;PARTS;DEPS" ${ARGN})
  add_library(${name} SHARED ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                           EXPORT_NAME ${ARG_EXPORT_NAME})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:include>
                                     PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${HPU_WARNINGS})
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${ARG_PARTS} -Wl,--no-whole-archive ${ARG_DEPS})
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,libxsmm.a:libxsmmnoblas.a:liblldELF.a:liblldCommon.a
                                      -Wl,--no-undefined -Wl,--gc-sections)
  # dlclose leaves it where it is: its threads run in it, and exit handlers are in it.
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  if(HPU_SANITIZE)
    # Sanitizer runtimes are resolved when the program is linked.
    get_target_property(_options ${name} LINK_OPTIONS)
    list(REMOVE_ITEM _options -Wl,--no-undefined)
    set_target_properties(${name} PROPERTIES LINK_OPTIONS "${_options}")
  endif()
  if(ARG_VERSION_SCRIPT)
    target_link_options(${name} PRIVATE -Wl,--version-script,${ARG_VERSION_SCRIPT})
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${ARG_VERSION_SCRIPT})
  endif()
endfunction()

# hpu_tool(NAME SOURCES ... DEPS ...): a program in build/bin that is installed.
function(hpu_tool name)
  cmake_parse_arguments(ARG "MLIR" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE ${HPU_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(ARG_MLIR)
    target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    target_include_directories(${name} PRIVATE ${PROJECT_BINARY_DIR})
    target_compile_options(${name} PRIVATE -fno-exceptions)
    hpu_shares_mlir_type_ids(${name})
    target_link_libraries(${name} PRIVATE MLIR LLVM)
    if(TARGET hpu_dialects_gen)
      add_dependencies(${name} hpu_dialects_gen)
    endif()
  else()
    target_precompile_headers(${name} REUSE_FROM hpu_tool_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY HPU_TOOLS ${name})
endfunction()

# hpu_needs_python(VARIABLE modules...): VARIABLE is true when Debian's Python has these modules. When it has not, the tests
# that need them cannot be added; then the test needs_python_* stands for them and fails by the name of what is missing,
# so that a run without them is never taken for one that passed. (Another python3 may come first in PATH.)
set(HPU_PYTHON /usr/bin/python3 CACHE FILEPATH "Python with numpy, onnx, torch and torchvision (Debian's packages python3-*)")
function(hpu_needs_python variable)
  list(JOIN ARGN ", " _modules)
  list(JOIN ARGN "_" _name)
  execute_process(COMMAND ${HPU_PYTHON} -c "import ${_modules}" RESULT_VARIABLE _failed OUTPUT_QUIET ERROR_QUIET)
  set(${variable} ON PARENT_SCOPE)
  if(_failed)
    set(${variable} OFF PARENT_SCOPE)
    get_property(_named GLOBAL PROPERTY HPU_NEEDS_PYTHON_${_name})
    if(NOT _named)
      message(WARNING "${HPU_PYTHON} lacks one of ${_modules}: the tests that need them are left out, and the test "
                      "needs_python_${_name} fails for them (tools/install_deps.sh installs the packages)")
      add_test(NAME needs_python_${_name} COMMAND ${HPU_PYTHON} -c "import ${_modules}")
      set_tests_properties(needs_python_${_name} PROPERTIES LABELS quick)
      set_property(GLOBAL PROPERTY HPU_NEEDS_PYTHON_${_name} ON)
    endif()
  endif()
endfunction()

# hpu_test_nodes(): gives every test of the calling folder a simulated node of its own, so that tests that run at a time never
# want the same device; a test that starts several programs waits for a free one. A wait that hangs says what it waits
# for before the test is ended from outside. hpu_test calls it; a folder that only has add_test calls it once.
function(hpu_test_nodes)
  get_property(_called DIRECTORY PROPERTY HPU_TEST_NODES)
  if(NOT _called)
    set_property(DIRECTORY PROPERTY HPU_TEST_NODES ON)
    cmake_language(DEFER CALL hpu_set_test_nodes)
  endif()
endfunction()
function(hpu_set_test_nodes)
  get_property(_tests DIRECTORY PROPERTY TESTS)
  # Other build trees may run the same tests at the same time.
  string(MD5 _tree "${PROJECT_BINARY_DIR}")
  string(SUBSTRING ${_tree} 0 6 _tree)
  foreach(_test IN LISTS _tests)
    set_property(TEST ${_test} APPEND PROPERTY ENVIRONMENT "HPU_NODE=${_test}-${_tree}" HPU_ACQUIRE_TIMEOUT_MS=60000 HPU_WAIT_TIMEOUT_MS=100000
                 ${HPU_SANITIZER_ENVIRONMENT})
  endforeach()
endfunction()

# hpu_test_program(NAME SOURCES ... DEPS ... [MLIR] [COMPUTES]): a program in build/tests, with its own main: tests start it.
function(hpu_test_program name)
  cmake_parse_arguments(ARG "MLIR;COMPUTES" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE ${HPU_WARNINGS})
  if(NOT ARG_COMPUTES)
    target_compile_options(${name} PRIVATE ${HPU_TEST_OPTIONS})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_MLIR)
    target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
    target_include_directories(${name} PRIVATE ${PROJECT_BINARY_DIR})
    target_compile_options(${name} PRIVATE -fno-exceptions)
    hpu_shares_mlir_type_ids(${name})
    target_link_libraries(${name} PRIVATE MLIR LLVM)
    add_dependencies(${name} hpu_dialects_gen)
  endif()
endfunction()

# hpu_test(NAME SOURCES ... DEPS ... [LABELS ...] [MLIR] [COMPUTES] [ONE_THREAD]): a GoogleTest program, one ctest entry.
# COMPUTES: its own code, such as a reference of all elements, is what takes the time, so it is optimised like the rest.
# ONE_THREAD: neither it nor what it tests has a second thread, so ThreadSanitizer's build is without it.
function(hpu_test name)
  cmake_parse_arguments(ARG "MLIR;COMPUTES;ONE_THREAD" "TIMEOUT" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  set(_deps ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set(_kind)
  foreach(_one MLIR COMPUTES)
    if(ARG_${_one})
      list(APPEND _kind ${_one})
    endif()
  endforeach()
  hpu_test_program(${name} ${_kind} SOURCES ${ARG_SOURCES} DEPS ${_deps})
  if(ARG_MLIR AND NOT ARG_COMPUTES)
    target_precompile_headers(${name} REUSE_FROM hpu_mlir_test_pch)
  elseif(NOT ARG_COMPUTES)
    target_precompile_headers(${name} REUSE_FROM hpu_test_pch)
  endif()
  if(ARG_ONE_THREAD AND HPU_SANITIZE MATCHES "thread")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(HPU_SANITIZE AND ARG_TIMEOUT LESS 300)
    set(ARG_TIMEOUT 300)  # On a slow machine; a wait that hangs says so before.
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                       ENVIRONMENT "HPU_SOURCE_DIR=${PROJECT_SOURCE_DIR};HPU_BINARY_DIR=${PROJECT_BINARY_DIR};${HPU_SANITIZER_ENVIRONMENT};${ARG_ENVIRONMENT}")
  hpu_test_nodes()
endfunction()
