# SPDX-License-Identifier: Apache-2.0
# cmake -DBINARY_DIR=.. -DEXAMPLES=.. -DWORK=.. -DGENERATOR=.. -DCC=.. -DLIBDIR=.. -DC_PROGRAM=.. [-DPYTHON=.. -DMODEL=.. [-DTORCH=ON] [-DSOURCE_DIR=..]] -P InstallTree.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGV}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${WORK}/prefix)
foreach(example build-a-graph embedding)
  run(${CMAKE_COMMAND} -S ${EXAMPLES}/${example} -B ${WORK}/${example} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
endforeach()
run(${WORK}/build-a-graph/build_a_graph)
run(${WORK}/embedding/embedding)
run(${WORK}/prefix/bin/hpu-trace --version)
run(${WORK}/prefix/bin/hl-smi --query-aip=index,name --format=csv)
# A SynapseAI program, as a Makefile would build it.
run(${CC} -std=c11 -Wall -Wextra -pedantic -Werror -I${WORK}/prefix/include ${C_PROGRAM} -o ${WORK}/c_program
    -L${WORK}/prefix/${LIBDIR} -lSynapse -Wl,-rpath,${WORK}/prefix/${LIBDIR})
run(${WORK}/c_program)
# The Python package finds its libraries from where it lies: the prefix may be moved.
if(PYTHON)
  file(RENAME ${WORK}/prefix ${WORK}/moved)
  run(${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/moved/lib/python3/dist-packages ${PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/moved_package.py
      ${MODEL} ${WORK}/moved/)
  if(TORCH)
    run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/torch_program -B ${WORK}/torch_program -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/moved)
    run(${CMAKE_COMMAND} --build ${WORK}/torch_program)
    run(${WORK}/torch_program/torch_program)
    run(${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/moved/lib/python3/dist-packages ${PYTHON} -B -c
        "import torch, habana_frameworks.torch, hpu_torch; assert hpu_torch.__file__.startswith('${WORK}/moved/'); assert torch.ones(3, device='hpu').sum().item() == 3")
  endif()
  if(SOURCE_DIR)
    run(${PYTHON} -B ${SOURCE_DIR}/tests/docs/check_readme.py ${SOURCE_DIR} ${WORK}/moved --installed --hide ${BINARY_DIR})
  endif()
endif()
