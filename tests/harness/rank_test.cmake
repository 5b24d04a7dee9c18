# syncline_rank_test(NAME FILES file...): a test program over the harness; registers no test.
function(syncline_rank_test name)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  add_executable(${name} ${ARG_FILES})
  target_link_libraries(${name} PRIVATE syncline_harness syncline_warnings)
  target_compile_options(${name} PRIVATE -O1)  # compiled more often than run
endfunction()
