# `cmake --install`: headers, the library, the command, and what find_package(Tutti) and pkg-config read. All paths are
# relative to the place of those files, so that the whole can be moved.
include(CMakePackageConfigHelpers)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(TARGETS tutti_library EXPORT TuttiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION ${package_directory})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/TuttiConfig.cmake
  INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TuttiConfig.cmake ${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake
  DESTINATION ${package_directory})

# What a program must link besides libtutti: nothing where that is shared.
set(pc_requires)
set(pc_libraries)
if(NOT BUILD_SHARED_LIBS)
  set(pc_requires libhwy libcrypto)
  foreach(library stdc++ m pthread ${CMAKE_DL_LIBS})
    list(APPEND pc_libraries -l${library})
  endforeach()
endif()
list(JOIN pc_requires " " pc_requires)
list(JOIN pc_libraries " " pc_libraries)
file(RELATIVE_PATH pc_include ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The command has its own copy of the library, and needs no path to it.
if(TARGET tutti_tool)
  install(TARGETS tutti_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

foreach(document LICENSE README.md CHANGELOG.md docs)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${document})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${document}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/${document})
  elseif(EXISTS ${PROJECT_SOURCE_DIR}/${document})
    install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endif()
endforeach()
