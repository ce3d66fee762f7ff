# SPDX-License-Identifier: Apache-2.0
# The install tree: find_package(OpenHPU COMPONENTS Runtime Compiler) gives OpenHPU::Runtime, OpenHPU::Compiler.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_targets)
if(TARGET hpu_runtime)
  list(APPEND _targets hpu_runtime)
endif()
if(TARGET hpu_collectives)
  list(APPEND _targets hpu_collectives)
endif()
if(TARGET hpu_compiler)
  list(APPEND _targets hpu_compiler hpu_synapse_compiler)
endif()
if(TARGET Synapse)
  list(APPEND _targets Synapse)
endif()
if(TARGET hlml)
  list(APPEND _targets hlml)
endif()
get_property(_tools GLOBAL PROPERTY HPU_TOOLS)

if(_targets)
  set_target_properties(${_targets} PROPERTIES INSTALL_RPATH "$ORIGIN")
  if(TARGET hpu_compiler)
    # LLVM 22's libraries are not in the loader's default folders.
    set_target_properties(hpu_compiler hpu_synapse_compiler PROPERTIES INSTALL_RPATH "$ORIGIN;${LLVM_LIBRARY_DIR}")
  endif()
  install(TARGETS ${_targets} EXPORT OpenHPUTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT OpenHPUTargets NAMESPACE OpenHPU:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/OpenHPU)
endif()
if(_tools)
  set_target_properties(${_tools} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${LLVM_LIBRARY_DIR}")
  install(TARGETS ${_tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/hl-smi DESTINATION ${CMAKE_INSTALL_BINDIR})  # A link to hpu-smi.
endif()
install(DIRECTORY include/hpu DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY include/habanalabs DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_BINARY_DIR}/include/hpu/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hpu)
configure_package_config_file(cmake/OpenHPUConfig.cmake.in ${PROJECT_BINARY_DIR}/OpenHPUConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/OpenHPU)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpenHPUConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/OpenHPUConfig.cmake ${PROJECT_BINARY_DIR}/OpenHPUConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/OpenHPU)
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
