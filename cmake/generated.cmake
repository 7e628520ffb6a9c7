# Everything that is generated from table/, at build time.
set(PENSTOCK_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(PENSTOCK_GENERATOR ${CMAKE_SOURCE_DIR}/tools/gen/generate.py)
file(GLOB PENSTOCK_TEMPLATES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/gen/*.py)

# penstock_generate(OUTPUT TABLE NAME): writes generated/OUTPUT from table/TABLE.toml with the generator's output NAME.
function(penstock_generate output table name)
  add_custom_command(
    OUTPUT ${PENSTOCK_GENERATED}/${output}
    COMMAND ${Python3_EXECUTABLE} ${PENSTOCK_GENERATOR} ${name} ${CMAKE_SOURCE_DIR}/table/${table}.toml
            ${PENSTOCK_GENERATED}/${output}
    DEPENDS ${CMAKE_SOURCE_DIR}/table/${table}.toml ${PENSTOCK_TEMPLATES}
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY PENSTOCK_GENERATED_FILES ${PENSTOCK_GENERATED}/${output})
endfunction()

penstock_generate(base/error_codes.h errors error_codes_h)
penstock_generate(base/error_codes.cpp errors error_codes_cpp)
penstock_generate(mpi/error_classes.h errors error_classes_h)
penstock_generate(trace/counters.h counters counters_h)
penstock_generate(hints/hint_table.h hints hint_table_h)
penstock_generate(store/emulated/device_table.h devices device_table_h)
penstock_generate(model/figures.h profile figures_h)

get_property(files GLOBAL PROPERTY PENSTOCK_GENERATED_FILES)
add_custom_target(penstock_generated DEPENDS ${files})
