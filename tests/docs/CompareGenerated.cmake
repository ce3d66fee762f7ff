# SPDX-License-Identifier: Apache-2.0
# cmake -DCOMMAND=... -DMADE=file -DCOMMITTED=file -DBUILD_DIR=... -P: runs COMMAND -o MADE and compares.
execute_process(COMMAND ${COMMAND} -o ${MADE} RESULT_VARIABLE _failed)
if(_failed)
  message(FATAL_ERROR "${COMMAND} failed")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${MADE} ${COMMITTED} RESULT_VARIABLE _differs)
if(_differs)
  execute_process(COMMAND diff -u ${COMMITTED} ${MADE} COMMAND head -40)
  message(FATAL_ERROR "${COMMITTED} is not what its source gives; run: ninja -C ${BUILD_DIR} hpu_docs")
endif()
