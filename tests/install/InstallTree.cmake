# SPDX-License-Identifier: Apache-2.0
# cmake -DBINARY_DIR=.. -DEXAMPLE=.. -DWORK=.. -DGENERATOR=.. -DCC=.. -DLIBDIR=.. -DC_PROGRAM=.. -P InstallTree.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGV}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/build_a_graph)
run(${WORK}/prefix/bin/hpu-trace --version)
run(${WORK}/prefix/bin/hl-smi --query-aip=index,name --format=csv)
# A SynapseAI program, as a Makefile would build it.
run(${CC} -std=c11 -Wall -Wextra -pedantic -Werror -I${WORK}/prefix/include ${C_PROGRAM} -o ${WORK}/c_program
    -L${WORK}/prefix/${LIBDIR} -lSynapse -Wl,-rpath,${WORK}/prefix/${LIBDIR})
run(${WORK}/c_program)
