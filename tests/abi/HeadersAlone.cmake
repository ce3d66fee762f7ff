# SPDX-License-Identifier: Apache-2.0
# Fails unless each public header compiles alone as C++17 without a warning. (All other code is C++20.)
file(GLOB _headers RELATIVE ${SOURCE}/include ${SOURCE}/include/hpu/*.h)
set(_file ${BINARY}/header_alone.cpp)
foreach(_header ${_headers})
  file(WRITE ${_file} "#include \"${_header}\"\nint main() { return 0; }\n")
  execute_process(COMMAND ${CXX} -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Wold-style-cast -Werror -fsyntax-only
                          -I${SOURCE}/include -I${BINARY}/include ${_file}
                  RESULT_VARIABLE _result ERROR_VARIABLE _text)
  if(NOT _result EQUAL 0)
    message(SEND_ERROR "${_header} as C++17:\n${_text}")
  endif()
endforeach()
file(REMOVE ${_file})
