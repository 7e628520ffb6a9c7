# Kernels natively and under Penstock, compared byte for byte by tests/kernels/compare.py: this file says which, with which options, on how
# many ranks.  Sizes are for seconds; what the kernels do at such sizes is what they do at all.
set(PENSTOCK_KERNEL_COMPARE ${CMAKE_SOURCE_DIR}/tests/kernels/compare.py)

# penstock_kernel_test(NAME RANKS number... [THOROUGH number...] COMMAND kernel option...): one test for each of Debian's MPIs and number of ranks;
# those of THOROUGH in the configuration of that name.
function(penstock_kernel_test name)
  cmake_parse_arguments(given "" "" "RANKS;THOROUGH;COMMAND" ${ARGN})
  foreach(mpi mpich openmpi)
    if(PENSTOCK_WRAPPER_${mpi})
      foreach(ranks IN LISTS given_RANKS given_THOROUGH)
        set(when)
        set(label kernels)
        if(ranks IN_LIST given_THOROUGH)
          set(when CONFIGURATIONS thorough)
          set(label thorough)
        endif()
        add_test(NAME kernels/${name}/${mpi}/${ranks} ${when}
                 COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_KERNEL_COMPARE} --build ${CMAKE_BINARY_DIR} --mpi ${mpi} --ranks ${ranks}
                         --preload ${PENSTOCK_LIBRARY_DIRECTORY}/libpenstock.so ${given_COMMAND})
        set_tests_properties(kernels/${name}/${mpi}/${ranks} PROPERTIES PROCESSORS ${ranks} TIMEOUT 240 SKIP_RETURN_CODE 77 LABELS ${label})
      endforeach()
    endif()
  endforeach()
endfunction()

penstock_kernel_test(interleave-strided RANKS 3 THOROUGH 1 4 COMMAND interleave -b 64 -s 500)
penstock_kernel_test(interleave-segmented THOROUGH 3 COMMAND interleave -b 96k -t 1k -s 2 --per-call 50)
penstock_kernel_test(interleave-odd RANKS 4 COMMAND interleave -b 21 -t 7 -s 333 --independent)
penstock_kernel_test(interleave-random RANKS 4 THOROUGH 1 COMMAND interleave -b 48 -t 24 -s 200 -z 5 --per-call 150)
penstock_kernel_test(interleave-reordered THOROUGH 3 COMMAND interleave -b 512 -s 40 -C)
penstock_kernel_test(interleave-two-phase THOROUGH 3 COMMAND interleave -b 64 -s 5000 --hint penstock_strategy=two_phase --hint cb_buffer_size=65536)
penstock_kernel_test(btio THOROUGH 1 4 9 COMMAND btio --points 13 --variables 5)
penstock_kernel_test(btio-ghost THOROUGH 4 COMMAND btio --points 12 --variables 3 --ghost 2 --view-each)
penstock_kernel_test(btio-two-layer RANKS 4 THOROUGH 9 COMMAND btio --points 13 --variables 3 --hint penstock_strategy=two_layer --hint cb_buffer_size=16384)
penstock_kernel_test(s3d THOROUGH 1 3 4 COMMAND s3d --points 17,12,10)
penstock_kernel_test(s3d-two THOROUGH 4 COMMAND s3d --points 11 --blocks 1,2,2 --checkpoints 2 --hint cb_nodes=2)
penstock_kernel_test(s3d-two-layer RANKS 4 COMMAND s3d --points 17,12,10 --hint penstock_strategy=two_layer --hint cb_buffer_size=16384)
penstock_kernel_test(e3sm RANKS 3 THOROUGH 1 4 COMMAND e3sm --ne 2 --levels 3 --variables 5)
penstock_kernel_test(e3sm-group THOROUGH 4 COMMAND e3sm --ne 2 --levels 3 --variables 5 --group 0 --no-sync)
penstock_kernel_test(e3sm-two-layer RANKS 4 COMMAND e3sm --ne 2 --levels 3 --variables 5 --hint penstock_strategy=two_layer --hint cb_buffer_size=16384)
