# Embeds dashboard/ into the router where its npm packages are installed (tools/setup does
# that) and Node is there to compress them; else the build goes on without the page.
function(lr_dashboard name)
    find_program(LR_NODE NAMES node nodejs)
    find_program(LR_NPM npm)
    # Globs, so that a build notices packages that arrive later.
    file(GLOB installed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/dashboard/node_modules/.package-lock.json)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/dashboard/*.js ${PROJECT_SOURCE_DIR}/dashboard/*.css)
    list(FILTER sources EXCLUDE REGEX "/node_modules/")
    if(NOT LR_WITH_DASHBOARD)
        set(why "LR_WITH_DASHBOARD is off")
    elseif(NOT LR_NODE OR (NOT installed AND NOT LR_NPM))
        set(why "npm not found")
    elseif(NOT installed)
        set(why "its npm packages are not installed (tools/setup fetches them)")
    endif()
    if(why)
        message(STATUS "dashboard left out: ${why}")
        target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/no_dashboard.c)
        return()
    endif()
    set(out ${CMAKE_BINARY_DIR}/generated/dashboard.c)
    add_custom_command(OUTPUT ${out}
        COMMAND ${LR_NODE} ${PROJECT_SOURCE_DIR}/dashboard/build.mjs ${out}
        DEPENDS ${sources} ${installed} ${PROJECT_SOURCE_DIR}/dashboard/build.mjs ${PROJECT_SOURCE_DIR}/dashboard/join.mjs
                ${PROJECT_SOURCE_DIR}/dashboard/index.html ${PROJECT_SOURCE_DIR}/dashboard/icon.svg
        COMMENT "Embedding the dashboard" VERBATIM)
    target_sources(${name} PRIVATE ${out})
    set_property(GLOBAL PROPERTY LR_NPM_FOLDER ${PROJECT_SOURCE_DIR}/dashboard)
endfunction()
