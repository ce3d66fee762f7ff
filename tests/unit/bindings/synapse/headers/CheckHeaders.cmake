# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)
# Each header compiles alone, in C11 and C++11, without a warning.
file(GLOB headers RELATIVE ${INCLUDE_DIR} ${INCLUDE_DIR}/habanalabs/synapse_*.h ${INCLUDE_DIR}/habanalabs/hccl*.h
     ${INCLUDE_DIR}/habanalabs/hpu_synapse_ext.h)
list(REMOVE_ITEM headers habanalabs/synapse_c_params.h)  # Included by synapse_common_types.h in C.
list(LENGTH headers count)
if(count LESS 5)
  message(FATAL_ERROR "only ${count} headers in ${INCLUDE_DIR}/habanalabs")
endif()
foreach(header ${headers})
  file(WRITE ${WORK}/one.c "#include \"${header}\"\n#include \"${header}\"\nint main(void) { return 0; }\n")
  file(COPY_FILE ${WORK}/one.c ${WORK}/one.cpp)
  foreach(command "${CC};-std=c11;${WORK}/one.c" "${CXX};-std=c++11;${WORK}/one.cpp")
    execute_process(COMMAND ${command} -Wall -Wextra -pedantic -Werror -fsyntax-only -I${INCLUDE_DIR}
                    RESULT_VARIABLE result ERROR_VARIABLE errors)
    if(NOT result EQUAL 0)
      message(SEND_ERROR "${header}: ${command}\n${errors}")
    endif()
  endforeach()
endforeach()
