# make install PREFIX=...: bin/llm-router, lib/llm-router/engines/<id>/, headers, and in
# share/llm-router the demo model, the SBOM and the licence texts.
include(GNUInstallDirs)
if(TARGET llm-router)
    install(TARGETS llm-router RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
get_property(engines GLOBAL PROPERTY LR_ENGINES)
foreach(id IN LISTS engines)
    install(TARGETS engine_${id} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/llm-router/engines/${id})
    install(FILES ${CMAKE_BINARY_DIR}/engines/${id}/manifest.json
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/llm-router/engines/${id})
endforeach()
install(DIRECTORY include/llm-router DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/models/demo)
    install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/llm-router/models
            PATTERN training EXCLUDE)
endif()

# What is inside, and under which licences: made when the programs are, installed with them.
get_property(components GLOBAL PROPERTY LR_COMPONENTS)
get_property(bundled GLOBAL PROPERTY LR_BUNDLED)
get_property(npm GLOBAL PROPERTY LR_NPM_FOLDER)
set(notices ${CMAKE_BINARY_DIR}/share)
list(TRANSFORM engines PREPEND engine_)
add_custom_target(engines DEPENDS ${engines})
add_custom_command(OUTPUT ${notices}/sbom.cdx.json
    COMMAND ${CMAKE_COMMAND} "-DCOMPONENTS=${components}" "-DBUNDLED=${bundled}" "-DNPM=${npm}" -DOUT=${notices}
            -DVERSION=${PROJECT_VERSION} -DSOURCE=${PROJECT_SOURCE_DIR} -DCROSS=${LR_CROSS_ROOT}
            -P ${PROJECT_SOURCE_DIR}/cmake/components.cmake
    DEPENDS llm-router ${engines} ${PROJECT_SOURCE_DIR}/cmake/components.cmake ${PROJECT_SOURCE_DIR}/LICENSE
    COMMENT "Listing what is linked in, with its licences" VERBATIM)
add_custom_target(notices ALL DEPENDS ${notices}/sbom.cdx.json)
install(FILES ${notices}/sbom.cdx.json DESTINATION ${CMAKE_INSTALL_DATADIR}/llm-router)
install(DIRECTORY ${notices}/licenses DESTINATION ${CMAKE_INSTALL_DATADIR}/llm-router)
