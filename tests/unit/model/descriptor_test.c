/* model/descriptor: a complete snapshot is described from the registered format and Hugging
 * Face metadata; for an incomplete one the error names what is missing. */
#include "model/descriptor.h"

#include "tests/unit/model/gguf_bytes.h"
#include "tests/unit/model/support.h"

#define DEMO  LR_SOURCE_DIR "/models/demo"
#define INDEX "model.safetensors.index.json"
#define A     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static struct model_descriptor *d;
static struct lr_error err;

static lr_code describe(enum model_format format, const char *filename)
{
    memset(&err, 0, sizeof(err));
    return model_descriptor_open(folder, format, filename, &d, &err);
}

static void refuses(lr_code code, enum model_format format, const char *part, const char *also)
{
    assert_int_equal(describe(format, NULL), code);
    assert_null(d);
    assert_says(&err, part);
    assert_says(&err, also);
}

/* A complete snapshot of an unsupported architecture, with one small weights file. */
static void write_small_snapshot(void)
{
    write_text("config.json", "{\"architectures\":[\"NemotronForCausalLM\"],"
                              "\"model_type\":\"nemotron\",\"max_position_embeddings\":4096}");
    write_text("tokenizer.json", "{}");
    write_safetensors("model.safetensors", A, 4);
}

static void write_small_gguf(const char *name)
{
    static struct gguf_bytes g;
    gguf_begin(&g, 3, 1, 5);
    gguf_put_string(&g, "general.architecture", "llama");
    gguf_put_u32(&g, "llama.context_length", 8192);
    gguf_put_string(&g, "tokenizer.chat_template", "{{ messages }}");
    gguf_string(&g, "tokenizer.ggml.tokens"), gguf_number(&g, 9, 4), gguf_number(&g, 8, 4);
    gguf_number(&g, 3, 8);
    gguf_string(&g, "<unk>"), gguf_string(&g, "<s>"), gguf_string(&g, "</s>");
    gguf_put_u32(&g, "tokenizer.ggml.eos_token_id", 2);
    gguf_tensor(&g, "w", 8, 0);
    gguf_pad(&g, 32, 32);
    write_bytes(name, g.data, g.len);
}

static void the_demo_model_is_described(void **state)
{
    (void)state;
    assert_int_equal(model_descriptor_open(DEMO, MODEL_FORMAT_SAFETENSORS, NULL, &d, &err),
                     LR_OK);
    assert_string_equal(d->runtime, "gptoss");
    assert_string_equal(d->architecture, "GptOssForCausalLM");
    assert_string_equal(d->model_dir, DEMO);
    assert_string_equal(d->primary, DEMO "/" INDEX);
    assert_int_equal(d->context_tokens, 131072);
    assert_int_equal(d->weight_bytes, 4074272 + 4073600);
    assert_int_equal(d->file_count, 6);
    assert_null(d->chat_template);
    assert_int_equal(d->artifact_count, 0);
    model_descriptor_close(d);
}

static void a_model_without_an_engine_keeps_its_name_as_runtime(void **state)
{
    (void)state;
    write_small_snapshot();
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_string_equal(d->runtime, "nemotron");
    assert_int_equal(d->context_tokens, 4096);
    assert_string_equal(d->primary, in_folder("model.safetensors"));
    model_descriptor_close(d);
}

static void everything_missing_is_named_in_one_message(void **state)
{
    (void)state;
    write_text(INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}");
    write_safetensors("s1.safetensors", A, 4);
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "config.json", "tokenizer.json");
    assert_says(&err, "s2.safetensors");
    assert_null(strstr(err.text, "s1.safetensors"));
}

static void each_missing_file_is_named_alone(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        write_small_snapshot();
        assert_int_equal(unlink(in_folder(files[i])), 0);
        refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "missing:", files[i]);
        assert_null(strstr(err.text, files[(i + 1) % 3]));
    }
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_GGUF, "missing:", ".gguf");
}

static void an_unknown_architecture_is_said_so(void **state)
{
    (void)state;
    write_small_snapshot();
    write_text("config.json", "{\"hidden_size\":1}");
    refuses(LR_UNSUPPORTED, MODEL_FORMAT_SAFETENSORS, "config.json", "architecture");
    /* A metadata.json is ignored. */
    write_text("metadata.json", "{\"architectures\":[\"GptOssForCausalLM\"]}");
    refuses(LR_UNSUPPORTED, MODEL_FORMAT_SAFETENSORS, "config.json", "architecture");
}

static void a_half_copied_shard_is_found(void **state)
{
    (void)state;
    write_small_snapshot();
    write_safetensors("model.safetensors", A, 3);
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "model.safetensors", "truncated");
}

static void a_broken_gptoss_config_is_found(void **state)
{
    (void)state;
    write_small_snapshot();
    write_text("config.json", "{\"model_type\":\"gpt_oss\","
                              "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, folder, "num_hidden_layers");
}

static void of_two_formats_the_registered_one_is_described(void **state)
{
    (void)state;
    write_small_snapshot();
    write_small_gguf("m.gguf");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_string_equal(d->runtime, "nemotron");
    model_descriptor_close(d);
    assert_int_equal(describe(MODEL_FORMAT_GGUF, NULL), LR_OK);
    assert_string_equal(d->runtime, "llama_cpp");
    assert_string_equal(d->primary, in_folder("m.gguf"));
    model_descriptor_close(d);
    /* The other format is never used instead. */
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "missing:", "model.safetensors");
}

static void a_gguf_is_described_from_its_metadata(void **state)
{
    (void)state;
    write_small_gguf("m.gguf");
    assert_int_equal(describe(MODEL_FORMAT_GGUF, "m.gguf"), LR_OK);
    assert_string_equal(d->architecture, "llama");
    assert_int_equal(d->context_tokens, 8192);
    assert_string_equal(d->chat_template, "{{ messages }}");
    assert_string_equal(d->eos_token, "</s>");
    assert_null(d->bos_token);
    assert_int_equal(d->file_count, 1);
    model_descriptor_close(d);
}

static void several_ggufs_need_a_filename(void **state)
{
    (void)state;
    write_small_gguf("a.gguf");
    write_small_gguf("b.gguf");
    refuses(LR_INVALID_ARGUMENT, MODEL_FORMAT_GGUF, "several", "a.gguf, b.gguf");
    assert_int_equal(describe(MODEL_FORMAT_GGUF, "b.gguf"), LR_OK);
    model_descriptor_close(d);
    assert_int_equal(describe(MODEL_FORMAT_GGUF, "c.gguf"), LR_MODEL_CORRUPT);
    assert_says(&err, "c.gguf");
    assert_int_equal(describe(MODEL_FORMAT_GGUF, "../b.gguf"), LR_INVALID_ARGUMENT);
    assert_says(&err, "../b.gguf");
}

static void parts_of_one_gguf_are_one_model(void **state)
{
    (void)state;
    write_small_gguf("m-00001-of-00003.gguf");
    write_small_gguf("m-00002-of-00003.gguf");
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_GGUF, "missing:", "m-00003-of-00003.gguf");
    assert_null(strstr(err.text, "m-00002"));
    write_small_gguf("m-00003-of-00003.gguf");
    assert_int_equal(describe(MODEL_FORMAT_GGUF, NULL), LR_OK);
    assert_string_equal(d->primary, in_folder("m-00001-of-00003.gguf"));
    assert_int_equal(d->file_count, 3);
    model_descriptor_close(d);
    assert_int_equal(describe(MODEL_FORMAT_GGUF, "m-00002-of-00003.gguf"), LR_OK);
    assert_string_equal(d->primary, in_folder("m-00001-of-00003.gguf"));
    model_descriptor_close(d);
}

static void chat_templates_are_found_in_the_order_of_the_hub_tools(void **state)
{
    (void)state;
    write_small_snapshot();
    write_text("chat_template.json", "{\"chat_template\":\"from json\"}");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_string_equal(d->chat_template, "from json");
    model_descriptor_close(d);
    write_text(
        "tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"t\"},"
        "{\"name\":\"default\",\"template\":\"from config\"}],"
        "\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\",\"pad_token\":null}");
    write_text("special_tokens_map.json", "{\"pad_token\":\"<pad>\",\"eos_token\":\"other\"}");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_string_equal(d->chat_template,
                        "{% if tools %}\nt{% else %}\nfrom config{% endif %}");
    assert_string_equal(d->chat_template_source, "tokenizer_config.json");
    assert_string_equal(d->bos_token, "<s>");
    assert_string_equal(d->eos_token, "</s>");
    assert_string_equal(d->pad_token, "<pad>");
    model_descriptor_close(d);
    write_text("chat_template.jinja", "from jinja");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_string_equal(d->chat_template, "from jinja");
    model_descriptor_close(d);
    write_text("tokenizer_config.json", "{");
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "tokenizer_config.json", "JSON");
}

static void control_tokens_are_read_wherever_they_are(void **state)
{
    (void)state;
    write_small_snapshot();
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_false(d->has_vocabulary);
    model_descriptor_close(d);
    write_text("tokenizer.json", "{\"version\":\"1\",\"added_tokens\" : [{\"id\":7,\"content\":"
                                 "\"<|a|>\"},{\"id\":8,\"content\":\"<|a|>]}\\\"\"}],"
                                 "\"model\":{\"vocab\":{}}}");
    write_text("tokenizer_config.json", "{\"eos_token\":\"<|a|>\",\"added_tokens_decoder\":"
                                        "{\"9\":{\"content\":\"<|end|>\"}}}");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_true(d->has_vocabulary);
    assert_int_equal(model_control_find(d, LR_STR_LIT("<|a|>"))->id, 7);
    assert_int_equal(model_control_at(d, LR_STR_LIT("<|a|>]}\"\n"))->id, 8);
    assert_int_equal(model_control_find(d, LR_STR_LIT("<|end|>"))->id, 9);
    assert_null(model_control_find(d, LR_STR_LIT("<|en")));
    assert_int_equal(d->stop_count, 1);
    assert_string_equal(d->stops[0], "<|a|>");
    model_descriptor_close(d);
    write_text("generation_config.json", "{\"eos_token_id\":[9,7,55]}");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_int_equal(d->stop_count, 3);
    assert_string_equal(d->stops[0], "<|end|>");
    assert_string_equal(d->stops[2], "#55");
    model_descriptor_close(d);
    /* What is no list is none. */
    write_text("tokenizer_config.json", "{}");
    write_text("tokenizer.json", "{\"added_tokens\":[{\"id\":7,");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_int_equal(d->control_count, 0);
    model_descriptor_close(d);
}

static void artifacts_are_found_beside_the_safetensors(void **state)
{
    (void)state;
    write_small_snapshot();
    assert_int_equal(mkdir(in_folder("metal"), 0700), 0);
    write_text("metal/model.bin", "12345");
    write_text("model.directml.bin", "1");
    write_text("model.dml.bin", "12");
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_int_equal(d->artifact_count, 3);
    assert_int_equal(d->artifacts[0].kind, MODEL_ARTIFACT_METAL);
    assert_string_equal(d->artifacts[0].path, in_folder("metal/model.bin"));
    assert_int_equal(d->artifacts[0].size, 5);
    assert_string_equal(d->artifacts[1].backend, "directml");
    assert_int_equal(d->artifacts[2].kind, MODEL_ARTIFACT_DIRECTML);
    assert_int_equal(d->weight_bytes, 4 + 8 + strlen(A));
    model_descriptor_close(d);
}

static void a_cache_of_links_is_used_in_place(void **state)
{
    (void)state;
    /* The Hugging Face cache keeps blobs and links to them. */
    assert_int_equal(mkdir(in_folder("blobs"), 0700), 0);
    write_safetensors("blobs/0123", A, 4);
    write_small_snapshot();
    assert_int_equal(unlink(in_folder("model.safetensors")), 0);
    assert_int_equal(symlink("blobs/0123", in_folder("model.safetensors")), 0);
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, NULL), LR_OK);
    assert_int_equal(d->weight_bytes, 4 + 8 + strlen(A));
    model_descriptor_close(d);
    assert_int_equal(unlink(in_folder("blobs/0123")),
                     0); /* a dangling link counts as missing */
    refuses(LR_MODEL_CORRUPT, MODEL_FORMAT_SAFETENSORS, "missing:", "model.safetensors");
}

static void no_folder_is_the_callers_mistake(void **state)
{
    (void)state;
    assert_int_equal(
        model_descriptor_open("/nonexistent-model", MODEL_FORMAT_SAFETENSORS, NULL, &d, &err),
        LR_INVALID_ARGUMENT);
    assert_says(&err, "/nonexistent-model");
    write_small_snapshot();
    assert_int_equal(describe(MODEL_FORMAT_SAFETENSORS, "other.safetensors"),
                     LR_INVALID_ARGUMENT);
    assert_says(&err, "other.safetensors");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_demo_model_is_described),
        IN_FOLDER(a_model_without_an_engine_keeps_its_name_as_runtime),
        IN_FOLDER(everything_missing_is_named_in_one_message),
        IN_FOLDER(each_missing_file_is_named_alone),
        IN_FOLDER(an_unknown_architecture_is_said_so),
        IN_FOLDER(a_half_copied_shard_is_found),
        IN_FOLDER(a_broken_gptoss_config_is_found),
        IN_FOLDER(of_two_formats_the_registered_one_is_described),
        IN_FOLDER(a_gguf_is_described_from_its_metadata),
        IN_FOLDER(several_ggufs_need_a_filename),
        IN_FOLDER(parts_of_one_gguf_are_one_model),
        IN_FOLDER(chat_templates_are_found_in_the_order_of_the_hub_tools),
        IN_FOLDER(control_tokens_are_read_wherever_they_are),
        IN_FOLDER(artifacts_are_found_beside_the_safetensors),
        IN_FOLDER(a_cache_of_links_is_used_in_place),
        IN_FOLDER(no_folder_is_the_callers_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
