# Public targets syncline::core, syncline::data and syncline::torch: the same names in this tree, under
# add_subdirectory or FetchContent, and after find_package(syncline). Internal layers travel along.
include(CMakePackageConfigHelpers)
option(SYNCLINE_INSTALL "Install libraries, headers and the CMake package" ${PROJECT_IS_TOP_LEVEL})

set(plain_layers base kernels wire plan compress topo event transport cluster observe exec collective ps session
  data checkpoint)
list(TRANSFORM plain_layers PREPEND syncline_)
set(plain_targets syncline_warnings)
foreach(target IN LISTS plain_layers)
  if(TARGET ${target})
    list(APPEND plain_targets ${target})
  endif()
endforeach()

# syncline_public(NAME LAYER): syncline::NAME, an interface over one layer and all below it.
function(syncline_public name layer)
  add_library(syncline_public_${name} INTERFACE)
  target_link_libraries(syncline_public_${name} INTERFACE ${layer})
  set_target_properties(syncline_public_${name} PROPERTIES EXPORT_NAME ${name})
  add_library(syncline::${name} ALIAS syncline_public_${name})
endfunction()

syncline_public(core syncline_session)
syncline_public(data syncline_data)
list(APPEND plain_targets syncline_public_core syncline_public_data)
if(TARGET syncline_torch)
  syncline_public(torch syncline_torch)
  set_target_properties(syncline_torch PROPERTIES EXPORT_NAME torch_layer)
  # Where LibTorch lies is the consumer's to find: no path of this machine goes into the package.
  foreach(property INTERFACE_INCLUDE_DIRECTORIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES INTERFACE_LINK_LIBRARIES)
    get_target_property(value syncline_libtorch ${property})
    if(value)
      set_property(TARGET syncline_libtorch PROPERTY ${property} "$<BUILD_INTERFACE:${value}>")
    endif()
  endforeach()
endif()

if(NOT SYNCLINE_INSTALL)
  return()
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/syncline)
set(archive_folder ${CMAKE_INSTALL_LIBDIR}/syncline)
install(TARGETS ${plain_targets} EXPORT syncline_plain ARCHIVE DESTINATION ${archive_folder})
install(EXPORT syncline_plain FILE syncline-targets.cmake NAMESPACE syncline:: DESTINATION ${package_folder})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/syncline DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN *.h PATTERN torch EXCLUDE)
if(CMAKE_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
  set(syncline_cxx11_abi ${CMAKE_MATCH_1})
else()
  set(syncline_cxx11_abi 1)
endif()
if(TARGET syncline_torch)
  # Found in src/torch; its variables live there.
  file(STRINGS ${Torch_DIR}/TorchConfigVersion.cmake line REGEX "set\\(PACKAGE_VERSION ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+" syncline_torch_version "${line}")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/syncline-torch.cmake.in ${PROJECT_BINARY_DIR}/syncline-torch.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/syncline-torch.cmake DESTINATION ${package_folder})
  install(TARGETS syncline_torch syncline_libtorch syncline_public_torch EXPORT syncline_torch
    ARCHIVE DESTINATION ${archive_folder})
  install(EXPORT syncline_torch FILE syncline-torch-targets.cmake NAMESPACE syncline::
    DESTINATION ${package_folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/syncline/torch
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/syncline FILES_MATCHING PATTERN *.h)
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/syncline-config.cmake.in
  ${PROJECT_BINARY_DIR}/syncline-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/syncline-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/syncline-config.cmake ${PROJECT_BINARY_DIR}/syncline-config-version.cmake
  DESTINATION ${package_folder})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
