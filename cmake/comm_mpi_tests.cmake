# The test of src/comm/mpi, once per MPI that is installed: it links the room directly, with no preloading.

# penstock_comm_mpi_tests(FLAVOUR COMPILER LAUNCHER ENVIRONMENT [LAUNCHER OPTIONS...])
# Does nothing where COMPILER or LAUNCHER is not there, or no flavour is wanted.  ENVIRONMENT: NAME=value;NAME=value.
function(penstock_comm_mpi_tests flavour compiler launcher environment)
  if(NOT PENSTOCK_FLAVOURS STREQUAL "auto" AND NOT flavour IN_LIST PENSTOCK_FLAVOURS)
    return()
  endif()
  find_program(PENSTOCK_${compiler} ${compiler})
  find_program(PENSTOCK_${launcher} ${launcher})
  if(NOT PENSTOCK_${compiler} OR NOT PENSTOCK_${launcher})
    message(STATUS "comm/mpi is not tested with ${flavour}: ${compiler} or ${launcher} is missing")
    return()
  endif()
  # The C wrapper, which leaves out the C++ bindings' library; its flags fit the C++ compiler.
  execute_process(COMMAND ${PENSTOCK_${compiler}} -show OUTPUT_VARIABLE shown OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(shown UNIX_COMMAND "${shown}")
  set(program mpi_comm_test_${flavour})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/comm/mpi/*.cpp)
  add_executable(${program} ${CMAKE_SOURCE_DIR}/tests/comm/mpi_comm_test.cpp ${sources})
  foreach(flag IN LISTS shown)
    if(flag MATCHES "^-I(.+)")
      target_include_directories(${program} SYSTEM PRIVATE ${CMAKE_MATCH_1})
    elseif(flag MATCHES "^-L")
      target_link_options(${program} PRIVATE ${flag})
    elseif(flag MATCHES "^-l")
      target_link_libraries(${program} PRIVATE ${flag})
    endif()
  endforeach()
  target_compile_definitions(${program} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(${program} PRIVATE penstock_comm penstock_base Threads::Threads ${CMAKE_DL_LIBS})
  # Ranks, ranks per pretended node (0: the real node), options.
  set(scopes "1 0" "2 0" "3 0" "4 0" "8 0" "4 2" "8 2" "3 2" "3 1" "2 0 --multiple" "4 2 --multiple")
  if(PENSTOCK_SANITIZE)  # which looks into one process at a time: more ranks only make it slow
    set(scopes "1 0" "2 0" "3 2" "2 0 --multiple" "4 2 --multiple")
  endif()
  set(no_windows)
  if(flavour STREQUAL "ompi")
    # Open MPI without one-sided communication, as where its transports have none.
    list(APPEND scopes "4 2 --no-windows" "3 1 --no-windows")
    set(no_windows "OMPI_MCA_osc=^sm,rdma,pt2pt,ucx,monitoring")
  endif()
  foreach(scope IN LISTS scopes)
    separate_arguments(words UNIX_COMMAND "${scope}")
    list(POP_FRONT words ranks per_node)
    set(pretend)
    if(per_node)
      set(pretend PENSTOCK_RANKS_PER_NODE=${per_node})
    endif()
    if(words MATCHES "no-windows")
      list(APPEND pretend ${no_windows})
    endif()
    string(REPLACE " " "_" name "${flavour}_${scope}")
    set(when)
    set(label mpi)
    if(ranks EQUAL 8 OR scope STREQUAL "4 0")  # where ranks outnumber cores far, up to half a minute
      set(when CONFIGURATIONS thorough)
      set(label thorough)
    endif()
    add_test(NAME mpi/comm_${name} ${when}
             COMMAND ${CMAKE_COMMAND} -E env ${environment} ${pretend} ${PENSTOCK_SANITIZER_ENVIRONMENT}
                     ${PENSTOCK_${launcher}} ${ARGN} -n ${ranks} $<TARGET_FILE:${program}> ${words})
    set_tests_properties(mpi/comm_${name} PROPERTIES TIMEOUT 300 PROCESSORS 2 LABELS ${label}
                         FAIL_REGULAR_EXPRESSION "Sanitizer: ")
  endforeach()
endfunction()

penstock_comm_mpi_tests(mpich mpicc.mpich mpiexec.mpich "MPIR_CVAR_DEVICE_COLLECTIVES=none")
penstock_comm_mpi_tests(ompi mpicc.openmpi mpiexec.openmpi
                        "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
                        --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
