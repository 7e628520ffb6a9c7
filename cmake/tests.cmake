# Tests that need neither MPI nor a network: unit/ mirrors src/, property/ compares with oracle/.
find_package(GTest REQUIRED)
include(GoogleTest)

set(PENSTOCK_TESTED penstock_model_program penstock_model penstock_file penstock_strategy penstock_plan penstock_store_posix penstock_store_pinned penstock_store_memory
                    penstock_store_fault penstock_store_trace penstock_store_emulated penstock_comm_local penstock_hints penstock_access
                    penstock_trace penstock_base)
# What every test includes is compiled once; all are executables with the same options, as that asks for.
set(precompiled "")
foreach(kind unit property fault)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${kind}/*_test.cpp)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${kind}_${name} ${source})
    target_include_directories(${kind}_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${kind}_${name} PRIVATE ${PENSTOCK_TESTED} GTest::gtest_main Threads::Threads)
    if(precompiled)
      target_precompile_headers(${kind}_${name} REUSE_FROM ${precompiled})
    else()
      set(precompiled ${kind}_${name})
      target_precompile_headers(${precompiled} PRIVATE <gtest/gtest.h> <algorithm> <functional> <map> <memory> <span> <string> <thread> <vector>)
    endif()
    add_test(NAME ${kind}/${name} COMMAND ${kind}_${name})
    if(kind STREQUAL "property")
      # In the configuration "thorough" (ctest -C thorough): as many random cases as a release is held to.
      add_test(NAME ${kind}/${name}/thorough CONFIGURATIONS thorough COMMAND ${kind}_${name})
      set_tests_properties(${kind}/${name}/thorough PROPERTIES ENVIRONMENT PENSTOCK_RANDOM_CASES=10000 TIMEOUT 3000 LABELS thorough)
    endif()
  endforeach()
endforeach()
