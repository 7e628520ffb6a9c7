# Tests at the level of MPI: tests/mpi/run.py builds and runs them; this file tells ctest what there is to run.
# What a program needs (ranks, variants, time limit) is in the program's first lines, read by run.py only.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(PENSTOCK_MPI_TESTS_RUNNER ${CMAKE_SOURCE_DIR}/tests/mpi/run.py)
set(PENSTOCK_MPI_TESTS_BUILD ${CMAKE_BINARY_DIR}/tests/mpi)

# penstock_mpi_tests(FRONT [TARGETS target...] [PYTHON interpreter] [MPIS mpich openmpi]): one ctest test for each program, MPI,
# variant and number of ranks, with FRONT (the path of libpenstock.so) preloaded; an empty FRONT runs them on the native libraries.
# TARGETS are what has to be built before they can run.  Tests that need something that is not there say so and count as skipped.
function(penstock_mpi_tests front)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "PYTHON" "TARGETS;MPIS")
  if(NOT given_MPIS)
    set(given_MPIS mpich openmpi abi)
  endif()
  # On the standard ABI, whose flavour differs from the others' in types and constants only: what shows that these are right.
  set(chosen_for_abi io_c views datareps nonblocking shared_pointers status_eof open_modes arguments error_handlers)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mpi/*.cpp ${CMAKE_SOURCE_DIR}/tests/mpi/*.c
       ${CMAKE_SOURCE_DIR}/tests/mpi/*.f90 ${CMAKE_SOURCE_DIR}/tests/mpi/io_*.py)
  file(GLOB shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mpi/*.h ${CMAKE_SOURCE_DIR}/tests/mpi/*.inc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources} ${PENSTOCK_MPI_TESTS_RUNNER})
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} --table OUTPUT_VARIABLE table
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," rows_of_lists "${table}")
  string(REGEX MATCHALL "[^\n]+" rows "${rows_of_lists}")

  set(options --no-build --build ${PENSTOCK_MPI_TESTS_BUILD})
  if(front)
    list(APPEND options --preload ${front})
  endif()
  if(given_PYTHON)
    list(APPEND options --python ${given_PYTHON})
  endif()

  foreach(mpi IN LISTS given_MPIS)
    if(mpi STREQUAL "abi")
      find_program(PENSTOCK_LAUNCHER_abi mpiexec PATHS ${CMAKE_SOURCE_DIR}/.venv/mpi/mpich/bin NO_DEFAULT_PATH)
      find_program(PENSTOCK_COMPILER_abi mpicxx_abi PATHS ${CMAKE_SOURCE_DIR}/.venv/mpi/mpich/bin NO_DEFAULT_PATH)
    endif()
    find_program(PENSTOCK_LAUNCHER_${mpi} mpiexec.${mpi})
    find_program(PENSTOCK_COMPILER_${mpi} mpicxx.${mpi})
    if(NOT PENSTOCK_LAUNCHER_${mpi} OR NOT PENSTOCK_COMPILER_${mpi})
      message(STATUS "tests/mpi: no mpiexec.${mpi} or mpicxx.${mpi}, so nothing is tested under ${mpi}")
      continue()
    endif()
    set(stamps "")
    foreach(source IN LISTS sources)
      get_filename_component(program ${source} NAME_WE)
      if(mpi STREQUAL "abi" AND NOT program IN_LIST chosen_for_abi)
        continue()
      endif()
      set(stamp ${PENSTOCK_MPI_TESTS_BUILD}/${mpi}/${program}.stamp)
      add_custom_command(
        OUTPUT ${stamp}
        COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} --build-only --build ${PENSTOCK_MPI_TESTS_BUILD} --mpi ${mpi}
                --skipped-is-fine ${program}
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
        DEPENDS ${source} ${shared} ${PENSTOCK_MPI_TESTS_RUNNER}
        VERBATIM)
      list(APPEND stamps ${stamp})
    endforeach()
    add_custom_target(mpi_tests_${mpi} ALL DEPENDS ${stamps})
    if(given_TARGETS)
      add_dependencies(mpi_tests_${mpi} ${given_TARGETS})
    endif()
    foreach(row IN LISTS rows)
      string(REPLACE "," ";" fields "${row}")
      list(GET fields 0 program)
      list(GET fields 2 variant)
      list(GET fields 3 ranks)
      list(GET fields 4 limit)
      list(GET fields 5 alone)
      list(GET fields 6 preloaded_only)
      if(preloaded_only AND NOT front)
        continue()
      endif()
      if(mpi STREQUAL "abi" AND NOT (program IN_LIST chosen_for_abi AND variant EQUAL 0 AND ranks MATCHES "^[13]$"))
        continue()
      endif()
      math(EXPR timeout "${limit} * 4 + 30")
      set(name mpi/${mpi}/${program}/${variant}/n${ranks})
      # The runner's own limit fires first, so that it can end the ranks and show what they said.
      add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} ${options} --mpi ${mpi} --slower 4
                                    --ranks ${ranks} --variant ${variant} ${program})
      set_tests_properties(${name} PROPERTIES PROCESSORS ${ranks} TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "mpi;${mpi}")
      if(alone)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
      endif()
    endforeach()
  endforeach()
endfunction()
