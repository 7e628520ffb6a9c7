# Tests at the level of MPI: tests/mpi/run.py builds and runs them; this file tells ctest what there is to run.
# What a program needs (ranks, variants, time limit) is in the program's first lines, read by run.py only.
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
set(PENSTOCK_MPI_TESTS_RUNNER ${CMAKE_SOURCE_DIR}/tests/mpi/run.py)
set(PENSTOCK_MPI_TESTS_BUILD ${CMAKE_BINARY_DIR}/tests/mpi)
add_custom_target(thorough_programs)

# penstock_mpi_tests(FRONT [TARGETS target...] [MPIS name...] [USUALLY program...] [RANKS number...] [SANITIZE kind]): one ctest test for each
# program, MPI, variant and number of ranks, with FRONT (the path of libpenstock.so) preloaded; an empty FRONT runs them on the native libraries.
# TARGETS   what has to be built before they can run
# MPIS      as run.py calls them; those that are not there are left out
# USUALLY   programs to run always; the others, and all long runs, only in the configuration "thorough" (ctest -C thorough).  Default: all.
# RANKS     numbers of ranks to choose from what the programs ask for
# SANITIZE  compiles the programs with this sanitizer and runs only what is in USUALLY
function(penstock_mpi_tests front)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "SANITIZE" "TARGETS;MPIS;USUALLY;RANKS")
  if(NOT given_MPIS)
    set(given_MPIS mpich openmpi)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mpi/*.cpp ${CMAKE_SOURCE_DIR}/tests/mpi/*.c
       ${CMAKE_SOURCE_DIR}/tests/mpi/*.f90 ${CMAKE_SOURCE_DIR}/tests/mpi/io_*.py)
  file(GLOB shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/mpi/*.h ${CMAKE_SOURCE_DIR}/tests/mpi/*.inc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources} ${PENSTOCK_MPI_TESTS_RUNNER})

  set(build_options --build ${PENSTOCK_MPI_TESTS_BUILD})
  if(given_SANITIZE)
    list(APPEND build_options --sanitize ${given_SANITIZE})
  endif()
  set(options --no-build --slower 4)
  if(front)
    list(APPEND options --preload ${front})
  endif()
  foreach(setting IN LISTS PENSTOCK_SANITIZER_ENVIRONMENT)
    list(APPEND options --set ${setting})
  endforeach()

  foreach(mpi IN LISTS given_MPIS)
    execute_process(COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} --table --mpi ${mpi} OUTPUT_VARIABLE table
                    RESULT_VARIABLE answer)
    if(answer EQUAL 77)
      message(STATUS "tests/mpi: there is no ${mpi}, so nothing is tested under it")
      continue()
    elseif(NOT answer EQUAL 0)
      message(FATAL_ERROR "tests/mpi: ${PENSTOCK_MPI_TESTS_RUNNER} --table --mpi ${mpi} ended with ${answer}")
    endif()
    string(REPLACE ";" "," rows_of_lists "${table}")
    string(REGEX MATCHALL "[^\n]+" rows "${rows_of_lists}")
    set(programs "")
    set(usual_programs "")
    foreach(row IN LISTS rows)
      string(REPLACE "," ";" fields "${row}")
      list(GET fields 0 program)
      list(GET fields 1 kind)
      list(GET fields 2 variant)
      list(GET fields 3 ranks)
      list(GET fields 4 limit)
      list(GET fields 5 alone)
      list(GET fields 6 preloaded_only)
      list(GET fields 7 long)
      list(GET fields 8 reported_by)
      string(REPLACE "," ";" sanitizers "${given_SANITIZE}")
      set(usual TRUE)
      if(long OR (given_USUALLY AND NOT program IN_LIST given_USUALLY))
        set(usual FALSE)
      endif()
      if((preloaded_only AND NOT front) OR (given_RANKS AND NOT ranks IN_LIST given_RANKS) OR (given_SANITIZE AND NOT usual)
         OR NOT (reported_by STREQUAL "nothing" OR reported_by IN_LIST sanitizers))
        continue()
      endif()
      list(APPEND programs ${program}${kind})
      if(usual)
        list(APPEND usual_programs ${program}${kind})
      endif()
      set(name mpi/${mpi}/${program}/${variant}/n${ranks})
      set(configuration)
      set(labels mpi ${mpi})
      if(NOT usual)
        set(configuration CONFIGURATIONS thorough)
        list(APPEND labels thorough)
      endif()
      # The runner's own limit fires first, so that it can end the ranks and show what they said.
      math(EXPR timeout "${limit} * 4 + 30")
      add_test(NAME ${name} ${configuration}
               COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} ${build_options} ${options} --mpi ${mpi} --ranks ${ranks}
                       --variant ${variant} ${program})
      set_tests_properties(${name} PROPERTIES PROCESSORS ${ranks} TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "${labels}")
      if(alone)
        set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
      endif()
    endforeach()

    # What usual tests do not run is built only for the long ones, by the target thorough_programs.
    set(stamps "")
    set(thorough_stamps "")
    list(REMOVE_DUPLICATES programs)
    list(FILTER programs EXCLUDE REGEX "[.]py$")
    foreach(source IN LISTS programs)
      get_filename_component(program ${source} NAME_WE)
      set(stamp ${PENSTOCK_MPI_TESTS_BUILD}/${mpi}/${program}.stamp)
      add_custom_command(
        OUTPUT ${stamp}
        COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_MPI_TESTS_RUNNER} --build-only ${build_options} --mpi ${mpi} --skipped-is-fine ${program}
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
        DEPENDS ${CMAKE_SOURCE_DIR}/tests/mpi/${source} ${shared} ${PENSTOCK_MPI_TESTS_RUNNER}
        VERBATIM)
      if(source IN_LIST usual_programs)
        list(APPEND stamps ${stamp})
      else()
        list(APPEND thorough_stamps ${stamp})
      endif()
    endforeach()
    add_custom_target(mpi_tests_${mpi} ALL DEPENDS ${stamps})
    add_custom_target(mpi_tests_${mpi}_thorough DEPENDS ${thorough_stamps})
    add_dependencies(thorough_programs mpi_tests_${mpi}_thorough)
    if(given_TARGETS)
      add_dependencies(mpi_tests_${mpi} ${given_TARGETS})
    endif()
  endforeach()
endfunction()
