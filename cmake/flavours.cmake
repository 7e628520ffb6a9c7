# One library per MPI ABI (libpenstock-mpich.so, -ompi.so, -abi.so), each compiled with that MPI's mpi.h, and the
# front that is preloaded.
#
# No flavour is linked with an MPI library: its MPI symbols are bound, when it is loaded, to the MPI library that the
# program brought. Linking would write one file name into it, and an MPI library that was renamed (as Python packages
# do) would be loaded a second time. tests/abi checks instead that every undefined symbol is one that the MPI library
# has.
set(PENSTOCK_MPICH_INCLUDE "" CACHE PATH "Directory of MPICH's mpi.h (default: asked of mpicc.mpich or mpicc)")
set(PENSTOCK_OMPI_INCLUDE "" CACHE PATH "Directory of Open MPI's mpi.h (default: asked of mpicc.openmpi or mpicc)")
set(PENSTOCK_ABI_INCLUDE "" CACHE PATH "Directory of mpi_abi.h, the standard ABI's header (the PyPI package mpich has one)")
set(PENSTOCK_LIBRARY_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(PENSTOCK_FLAVOURS STREQUAL "none")
  message(STATUS "Flavours: none, as asked; no preload library is built")
  if(PENSTOCK_TESTS)
    include(cmake/abi_tests.cmake)
  endif()
  return()
endif()

# --- Where each MPI's header is. ---------------------------------------------------------------------------------------

# Sets OUT to the directories after FLAG (-I or -L) in what `COMPILER QUESTION` prints, and after them the further
# arguments.
function(penstock_ask_compiler compiler question flag out)
  execute_process(COMMAND ${compiler} ${question} OUTPUT_VARIABLE line ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(FILTER words INCLUDE REGEX "^${flag}/")
  list(TRANSFORM words REPLACE "^${flag}" "")
  set(${out} ${words} ${ARGN} PARENT_SCOPE)
endfunction()

# Sets OUT to the first of the directories whose HEADER defines MARK, or to nothing.
function(penstock_directory_of header mark out)
  set(${out} "" PARENT_SCOPE)
  foreach(directory IN LISTS ARGN)
    if(EXISTS ${directory}/${header})
      file(STRINGS ${directory}/${header} lines REGEX "^#[ \t]*define[ \t]+${mark}[ \t(]" LIMIT_COUNT 1)
      if(lines)
        set(${out} ${directory} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Sets OUT_include and OUT_libraries for the MPI whose mpi.h defines MARK: in the directory GIVEN, else as told by the
# first compiler among NAMES that is of this family.
function(penstock_find_mpi mark given out)
  penstock_directory_of(mpi.h ${mark} include ${given})
  set(libraries ${given}/../lib)
  foreach(name IN LISTS ARGN)
    find_program(PENSTOCK_COMPILER_${name} NAMES ${name})
    mark_as_advanced(PENSTOCK_COMPILER_${name})
    if(PENSTOCK_COMPILER_${name} AND NOT include)
      penstock_ask_compiler(${PENSTOCK_COMPILER_${name}} -show -I directories /usr/include)
      penstock_directory_of(mpi.h ${mark} include ${directories})
      penstock_ask_compiler(${PENSTOCK_COMPILER_${name}} -show -L libraries)
    endif()
  endforeach()
  set(${out}_include ${include} PARENT_SCOPE)
  set(${out}_libraries ${libraries} PARENT_SCOPE)
endfunction()

penstock_find_mpi(MPICH_VERSION "${PENSTOCK_MPICH_INCLUDE}" mpich mpicc.mpich mpicc)
penstock_find_mpi(OMPI_MAJOR_VERSION "${PENSTOCK_OMPI_INCLUDE}" ompi mpicc.openmpi mpicc)
get_filename_component(python_prefix ${Python3_EXECUTABLE} DIRECTORY)
get_filename_component(python_prefix ${python_prefix} DIRECTORY)
set(abi_candidates ${PENSTOCK_ABI_INCLUDE} ${CMAKE_SOURCE_DIR}/.venv/include ${CMAKE_SOURCE_DIR}/.venv/mpi/mpich/include ${python_prefix}/include ${mpich_include} ${ompi_include})
penstock_directory_of(mpi_abi.h MPI_ABI_VERSION abi_include ${abi_candidates})
set(abi_libraries ${abi_include}/../lib)

# The standard ABI's header under the name that the sources include, away from the other mpi.h that may lie beside it.
if(abi_include)
  configure_file(${abi_include}/mpi_abi.h ${PENSTOCK_GENERATED}/abi_include/mpi.h COPYONLY)
  set(abi_include ${PENSTOCK_GENERATED}/abi_include)
endif()

# --- What is generated for them. -----------------------------------------------------------------------------------------

penstock_generate(mpi/calls.h mpi_file calls_h)
penstock_generate(abi/entries.cpp mpi_file entries_cpp)
penstock_generate(abi/exports.map mpi_file exports_map)
penstock_generate(abi/entry_table.json mpi_file entry_table_json)
penstock_generate(mpi/static_names.h mpi_file static_names_h)
penstock_generate(abi/static_link.options mpi_file static_link_options)
penstock_generate(preload/front_symbols.h mpi_file front_symbols_h)
penstock_generate(preload/exports.map mpi_file front_exports_map)
add_custom_target(penstock_generated_entries DEPENDS
  ${PENSTOCK_GENERATED}/mpi/calls.h ${PENSTOCK_GENERATED}/abi/entries.cpp ${PENSTOCK_GENERATED}/abi/exports.map
  ${PENSTOCK_GENERATED}/mpi/static_names.h ${PENSTOCK_GENERATED}/abi/static_link.options
  ${PENSTOCK_GENERATED}/abi/entry_table.json ${PENSTOCK_GENERATED}/preload/front_symbols.h
  ${PENSTOCK_GENERATED}/preload/exports.map)

# --- The libraries. ------------------------------------------------------------------------------------------------------

# Libraries that are preloaded lie side by side: the front looks for the flavours in its own directory.
function(penstock_preloaded target name map)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PENSTOCK_LIBRARY_DIRECTORY}
                                             LINK_DEPENDS ${map})
  add_dependencies(${target} penstock_generated_entries)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
endfunction()

# The front is plain C, optimized and bare in every build: a stub has to be a jump, so that the caller can be told
# from the return address, and a sanitizer's run-time library would come with it into every process.
add_library(penstock_front SHARED ${CMAKE_SOURCE_DIR}/src/preload/front.c)
set_target_properties(penstock_front PROPERTIES C_STANDARD 11 C_EXTENSIONS ON)
target_compile_options(penstock_front PRIVATE -O2 -fno-sanitize=all)
target_include_directories(penstock_front PRIVATE ${CMAKE_SOURCE_DIR}/src ${PENSTOCK_GENERATED})
target_link_libraries(penstock_front PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(penstock_front PRIVATE -fno-sanitize=all -Wl,-z,defs -Wl,-z,now -Wl,--as-needed)
penstock_preloaded(penstock_front penstock ${PENSTOCK_GENERATED}/preload/exports.map)

set(PENSTOCK_FLAVOUR_ROOMS penstock_file penstock_strategy penstock_plan penstock_model penstock_store_posix penstock_store_pinned penstock_store_memory
                           penstock_store_fault penstock_store_trace penstock_store_emulated penstock_store penstock_comm penstock_hints
                           penstock_access penstock_trace penstock_base)
file(GLOB PENSTOCK_FLAVOUR_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/mpi/*.cpp ${CMAKE_SOURCE_DIR}/src/comm/mpi/*.cpp)

# What differs between a library that is preloaded and an archive that is linked: who the native functions are.
set(PENSTOCK_BOUND_SOURCES ${CMAKE_SOURCE_DIR}/src/mpi/real.cpp ${PENSTOCK_GENERATED}/abi/entries.cpp)
list(REMOVE_ITEM PENSTOCK_FLAVOUR_SOURCES ${CMAKE_SOURCE_DIR}/src/mpi/real.cpp)

function(penstock_flavour_compiled target name include)
  string(TOUPPER ${name} upper)
  target_compile_definitions(${target} PRIVATE PENSTOCK_FLAVOUR_${upper} PENSTOCK_FLAVOUR="${name}" MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${PENSTOCK_GENERATED})
  target_include_directories(${target} SYSTEM PRIVATE ${include})
  add_dependencies(${target} penstock_generated penstock_generated_entries)
endfunction()

# penstock_flavour(NAME INCLUDE): libpenstock-NAME.so.  Carries its own C++ run-time library, so that a program's
# older one does not matter; bound lazily, because MPI libraries of one ABI differ in which functions they have.
function(penstock_flavour name include)
  add_library(penstock_${name}_objects OBJECT ${PENSTOCK_FLAVOUR_SOURCES})
  penstock_flavour_compiled(penstock_${name}_objects ${name} ${include})
  add_library(penstock_${name} SHARED ${PENSTOCK_BOUND_SOURCES} $<TARGET_OBJECTS:penstock_${name}_objects>)
  penstock_flavour_compiled(penstock_${name} ${name} ${include})
  target_link_libraries(penstock_${name} PRIVATE ${PENSTOCK_FLAVOUR_ROOMS} Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(penstock_${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,lazy -Wl,-z,nodelete)
  penstock_preloaded(penstock_${name} penstock-${name} ${PENSTOCK_GENERATED}/abi/exports.map)
endfunction()

# penstock_archive(NAME INCLUDE): libpenstock-NAME.a and, beside it, the options that link it: for programs whose MPI
# library is linked in statically, which nothing can be preloaded into.
function(penstock_archive name include)
  set(objects $<TARGET_OBJECTS:penstock_${name}_objects>)
  foreach(room IN LISTS PENSTOCK_FLAVOUR_ROOMS)
    get_target_property(type ${room} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${room}>)
    endif()
  endforeach()
  add_library(penstock_${name}_archive STATIC ${PENSTOCK_BOUND_SOURCES} ${objects})
  penstock_flavour_compiled(penstock_${name}_archive ${name} ${include})
  target_compile_definitions(penstock_${name}_archive PRIVATE PENSTOCK_STATIC)
  set_target_properties(penstock_${name}_archive PROPERTIES OUTPUT_NAME penstock-${name}
                                                            ARCHIVE_OUTPUT_DIRECTORY ${PENSTOCK_LIBRARY_DIRECTORY})
  add_custom_command(TARGET penstock_${name}_archive POST_BUILD
                     COMMAND ${CMAKE_COMMAND} -E copy_if_different ${PENSTOCK_GENERATED}/abi/static_link.options
                             ${PENSTOCK_LIBRARY_DIRECTORY}/penstock-${name}.options)
endfunction()

# Builds what was found; a flavour that was asked for by name has to be there.
set(PENSTOCK_BUILT_FLAVOURS "")
foreach(flavour mpich ompi abi)
  string(TOUPPER ${flavour} upper)
  if(NOT PENSTOCK_FLAVOURS STREQUAL "auto" AND NOT flavour IN_LIST PENSTOCK_FLAVOURS)
    message(STATUS "Flavour ${flavour}: not asked for")
  elseif(${flavour}_include)
    message(STATUS "Flavour ${flavour}: header in ${${flavour}_include}")
    penstock_flavour(${flavour} ${${flavour}_include})
    list(APPEND PENSTOCK_BUILT_FLAVOURS ${flavour})
    if(flavour STREQUAL "mpich")
      penstock_archive(${flavour} ${${flavour}_include})
    endif()
  elseif(PENSTOCK_FLAVOURS STREQUAL "auto")
    message(STATUS "Flavour ${flavour}: not built, its header was not found; set PENSTOCK_${upper}_INCLUDE")
  else()
    message(FATAL_ERROR "Flavour ${flavour} was asked for, but its header was not found; set PENSTOCK_${upper}_INCLUDE")
  endif()
endforeach()

if(PENSTOCK_TESTS)
  include(cmake/abi_tests.cmake)
endif()
