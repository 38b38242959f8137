# Tests of the llama.cpp engine.  Their models are made by our own tool; nothing is downloaded.
pkg_check_modules(CMOCKA REQUIRED cmocka)
set(LLAMACPP_MODEL ${CMAKE_BINARY_DIR}/testing/llamacpp-model)
add_test(NAME llamacpp_model COMMAND llm-router debug write-gguf --output ${LLAMACPP_MODEL}/model.gguf --replace)
set_tests_properties(llamacpp_model PROPERTIES FIXTURES_SETUP llamacpp_model TIMEOUT 60 LABELS unit)
foreach(family bert reranker)
    add_test(NAME llamacpp_${family} COMMAND llm-router debug write-gguf --architecture ${family} --context 256
             --output ${LLAMACPP_MODEL}-${family}/model.gguf --replace)
    set_tests_properties(llamacpp_${family} PROPERTIES FIXTURES_SETUP llamacpp_model TIMEOUT 60 LABELS unit)
endforeach()

add_test(NAME llamacpp_gpt-oss COMMAND llm-router debug write-gguf --architecture gpt-oss
         --output ${LLAMACPP_MODEL}-gpt-oss/model.gguf --replace)
set_tests_properties(llamacpp_gpt-oss PROPERTIES FIXTURES_SETUP llamacpp_model TIMEOUT 60 LABELS unit)

file(GLOB llamacpp_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/llamacpp/*_test.c)
foreach(file IN LISTS llamacpp_tests)
    get_filename_component(name ${file} NAME_WE)
    lr_unit_test(unit_llamacpp_${name} ${file} llamacpp_core)
    llamacpp_program(unit_llamacpp_${name} ${LLAMACPP_DIR})
    target_compile_definitions(unit_llamacpp_${name} PRIVATE LLAMACPP_MODEL="${LLAMACPP_MODEL}")
    set_tests_properties(unit_llamacpp_${name} PROPERTIES FIXTURES_REQUIRED llamacpp_model)
endforeach()
