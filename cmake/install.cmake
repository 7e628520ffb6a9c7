# What `cmake --install` puts where, and the manual pages that are generated.

# Every shared library that is called libpenstock*, from whichever directory defines it.
get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" OR type STREQUAL "MODULE_LIBRARY")
    get_target_property(output ${target} OUTPUT_NAME)
    if(NOT output)
      set(output ${target})
    endif()
    if(output MATCHES "^(lib)?penstock(-|$)")
      install(TARGETS ${target} LIBRARY DESTINATION lib)
    endif()
  endif()
endforeach()

if(TARGET penstock_mpich_archive)
  install(TARGETS penstock_mpich_archive ARCHIVE DESTINATION lib)
  install(FILES ${PENSTOCK_LIBRARY_DIRECTORY}/penstock-mpich.options DESTINATION lib)
endif()

install(PROGRAMS bin/penstock bin/penstock-exec DESTINATION bin)
install(TARGETS penstock-model RUNTIME DESTINATION bin)
install(DIRECTORY python/penstock DESTINATION share/penstock/python
        PATTERN "table" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY table/ DESTINATION share/penstock/python/penstock/table FILES_MATCHING PATTERN "*.toml")
install(DIRECTORY calibrate/ DESTINATION share/penstock/calibrate FILES_MATCHING PATTERN "*.[ch]")
install(FILES kernels/common/program.c kernels/common/program.h DESTINATION share/penstock/kernels/common)
if(EXISTS ${CMAKE_SOURCE_DIR}/bench)
  install(DIRECTORY bench/ DESTINATION share/penstock/bench FILES_MATCHING PATTERN "*.py" PATTERN "planner.json")
endif()

set(hints_page ${CMAKE_BINARY_DIR}/man/penstock-hints.7)
add_custom_command(
  OUTPUT ${hints_page}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/gen/hints_man.py ${CMAKE_SOURCE_DIR}/table/hints.toml ${hints_page}
          ${PROJECT_VERSION}
  DEPENDS ${CMAKE_SOURCE_DIR}/table/hints.toml ${CMAKE_SOURCE_DIR}/tools/gen/hints_man.py
  VERBATIM)
add_custom_target(penstock_man ALL DEPENDS ${hints_page})
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
install(FILES ${pages} DESTINATION share/man/man1)
install(FILES ${hints_page} DESTINATION share/man/man7)
install(FILES LICENSE DESTINATION share/penstock)

configure_file(cmake/penstock.pc.in ${CMAKE_BINARY_DIR}/penstock.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/penstock.pc DESTINATION lib/pkgconfig)

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/penstock-config.cmake.in ${CMAKE_BINARY_DIR}/penstock-config.cmake
                              INSTALL_DESTINATION lib/cmake/penstock)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/penstock-config.cmake ${CMAKE_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION lib/cmake/penstock)
