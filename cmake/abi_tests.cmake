# What the exported symbols, the front and the generator are held to.  Python's own unittest, so that nothing has to be installed.
string(REPLACE ";" ":" built "${PENSTOCK_BUILT_FLAVOURS}")
set(environment "PENSTOCK_LIBRARIES=${PENSTOCK_LIBRARY_DIRECTORY}" "PENSTOCK_GENERATED=${PENSTOCK_GENERATED}"
                "PENSTOCK_BUILT_FLAVOURS=${built}" "CC=${CMAKE_C_COMPILER}" "CXX=${CMAKE_CXX_COMPILER}")
foreach(flavour IN LISTS PENSTOCK_BUILT_FLAVOURS)
  string(REPLACE ";" ":" directories "${${flavour}_libraries}")
  list(APPEND environment "PENSTOCK_NATIVE_${flavour}=${directories}")
endforeach()

list(APPEND environment "PENSTOCK_INCLUDE_mpich=${mpich_include}")

set(tests gen/mpi_file)
# A sanitizer adds symbols and a run-time library of its own to what it is compiled into; what users get is looked at without.
if(TARGET penstock_front AND NOT PENSTOCK_SANITIZE)
  list(APPEND tests abi/symbols abi/front abi/entries abi/tools abi/memory)
  if(TARGET penstock_mpich_archive)
    list(APPEND tests abi/static)
  endif()
endif()
foreach(name IN LISTS tests)
  string(REPLACE "/" "/test_" file ${name})
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/${file}.py)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endforeach()
