# SPDX-License-Identifier: Apache-2.0
# hpu_embed_fabrics(OUT FILE...): writes OUT with {name, text} of each example, to be included in an initializer list.
function(hpu_embed_fabrics out)
  set(_text "// Made from collectives/fabric/examples.\n")
  foreach(_file IN LISTS ARGN)
    get_filename_component(_name ${_file} NAME_WE)
    file(READ ${_file} _json)
    string(APPEND _text "{\"${_name}\", R\"json(${_json})json\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "${_text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()
