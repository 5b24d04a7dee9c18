# syncline_layer(NAME [DEPS layer...] [LIBS target...] [PUBLIC_LIBS target...])
#
# One static library per folder of src/, made of every .cc below it, and one test program from every
# *_test.cc. Link targets repeat the layer order of the design; the `tidy` test holds the includes to it.
function(syncline_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;PUBLIC_LIBS;TEST_LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  set(target syncline_${name})
  add_library(${target} STATIC ${sources})
  target_compile_features(${target} PUBLIC cxx_std_17 PRIVATE cxx_std_20)
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE syncline_warnings)
  # Position-independent code of GCC inlines no function that another library might replace; nobody may. Clang's default.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
  # Instrumented code is slow to optimise; these layers wait more than they work.
  if(SYNCLINE_SANITIZE AND name MATCHES "^(event|transport|observe|ps|session|data)$")
    target_compile_options(${target} PRIVATE -O0)
  endif()
  foreach(dep IN LISTS ARG_DEPS)
    if(TARGET syncline_${dep})
      target_link_libraries(${target} PUBLIC syncline_${dep})
    endif()
  endforeach()
  # Private headers only: installed packages need no development files of these.
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} PUBLIC ${ARG_PUBLIC_LIBS})

  if(SYNCLINE_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    target_compile_features(${name}_test PRIVATE cxx_std_20)
    # Tests are compiled far more often than they run; instrumented code is slow to optimise.
    if(SYNCLINE_SANITIZE)
      target_compile_options(${name}_test PRIVATE -O0)
    else()
      target_compile_options(${name}_test PRIVATE -O1)
    endif()
    target_link_libraries(${name}_test PRIVATE ${target} ${ARG_LIBS} ${ARG_TEST_LIBS}
      syncline_warnings GTest::gtest_main GTest::gmock)
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES TIMEOUT 600 LABELS unit)
  endif()
endfunction()
