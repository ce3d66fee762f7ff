# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# Every function that LIST says is exported is called in a test: its name with an opening parenthesis is in a source
# below TESTS.
file(STRINGS ${LIST} _names REGEX "^[a-z]")
file(GLOB_RECURSE _sources ${TESTS}/*.cpp ${TESTS}/*.c)
foreach(_source IN LISTS _sources)
  file(READ ${_source} _text)
  string(APPEND _all "${_text}")
endforeach()
foreach(_name IN LISTS _names)
  if(NOT _all MATCHES "[^A-Za-z0-9_]${_name}\\(")
    message(SEND_ERROR "no test below ${TESTS} calls ${_name}")
  endif()
endforeach()
