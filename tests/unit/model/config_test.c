/* model/config: the published files are read exactly, in both notations, and every absurd value
 * is refused with its field, its value and the limits. */
#include "model/config.h"

#include <math.h>

#include "tests/unit/model/support.h"

/* config.json of openai/gpt-oss-20b, field for field. */
static const char published[] =
    "{\"architectures\":[\"GptOssForCausalLM\"],\"attention_bias\":true,"
    "\"attention_dropout\":0.0,\"eos_token_id\":200002,\"experts_per_token\":4,"
    "\"head_dim\":64,\"hidden_act\":\"silu\",\"hidden_size\":2880,"
    "\"initial_context_length\":4096,\"initializer_range\":0.02,\"intermediate_size\":2880,"
    "\"max_position_embeddings\":131072,\"model_type\":\"gpt_oss\","
    "\"num_attention_heads\":64,\"num_experts_per_tok\":4,\"num_hidden_layers\":24,"
    "\"num_key_value_heads\":8,\"num_local_experts\":32,\"output_router_logits\":false,"
    "\"pad_token_id\":199999,\"quantization_config\":{\"quant_method\":\"mxfp4\"},"
    "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"beta_fast\":32.0,\"beta_slow\":1.0,"
    "\"factor\":32.0,\"original_max_position_embeddings\":4096,\"rope_type\":\"yarn\","
    "\"truncate\":false},\"rope_theta\":150000,\"router_aux_loss_coef\":0.9,"
    "\"sliding_window\":128,\"swiglu_limit\":7.0,\"tie_word_embeddings\":false,"
    "\"use_cache\":true,\"vocab_size\":201088}";

static struct model_config config;
static struct lr_error err;

/* The published text with `from` replaced by `to`, parsed. */
static lr_code parse_with(const char *from, const char *to)
{
    char text[4096];
    const char *at = strstr(published, from);
    assert_non_null(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - published), published, to,
                   at + strlen(from));
    memset(&err, 0, sizeof(err));
    return model_config_parse(lr_str_z(text), &config, &err);
}

static void refuses(const char *from, const char *to, lr_code code, const char *part,
                    const char *also)
{
    assert_int_equal(parse_with(from, to), code);
    assert_int_equal(err.code, code);
    assert_says(&err, "config.json");
    assert_says(&err, part);
    assert_says(&err, also);
}

static void the_published_file_is_read_field_for_field(void **state)
{
    (void)state;
    assert_int_equal(parse_with("", ""), LR_OK);
    assert_string_equal(config.identity.runtime, "gptoss");
    assert_string_equal(config.identity.architecture, "GptOssForCausalLM");
    assert_int_equal(config.identity.context_tokens, 131072);
    /* 12 layers keep the whole context, 12 their window. */
    assert_int_equal(config.identity.kv_bytes, 4ull * 8 * 64 * 12 * (131072 + 128));
    assert_int_equal(config.layers, 24);
    assert_int_equal(config.hidden, 2880);
    assert_int_equal(config.intermediate, 2880);
    assert_int_equal(config.heads, 64);
    assert_int_equal(config.kv_heads, 8);
    assert_int_equal(config.head_dim, 64);
    assert_int_equal(config.experts, 32);
    assert_int_equal(config.experts_per_token, 4);
    assert_int_equal(config.vocab, 201088);
    assert_int_equal(config.window, 128);
    assert_int_equal(config.context, 131072);
    assert_true(config.rms_eps == 1e-5 && config.swiglu_limit == 7.0);
    assert_int_equal(config.rope.kind, MODEL_ROPE_YARN);
    assert_true(config.rope.theta == 150000 && config.rope.factor == 32);
    assert_true(fabs(config.rope.attention_factor - 1.3465736) < 1e-7);
    assert_int_equal(config.rope.original_context, 4096);
    assert_false(config.rope.truncate);
    assert_true(config.sliding[0] && !config.sliding[1] && config.sliding[22]);
    assert_int_equal(config.tokens.eos_count, 1);
    assert_int_equal(config.tokens.eos[0], 200002);
    assert_int_equal(config.tokens.pad, 199999);
    assert_int_equal(config.tokens.bos, -1);
}

static void newer_rope_parameters_mean_the_same(void **state)
{
    (void)state;
    assert_int_equal(
        parse_with("\"rope_scaling\":{", "\"rope_parameters\":{\"rope_theta\":150000.0,"),
        LR_OK);
    assert_true(config.rope.theta == 150000 && config.rope.factor == 32);
    assert_false(config.rope.truncate);
    assert_int_equal(parse_with("\"original_max_position_embeddings\":4096,", ""), LR_OK);
    assert_int_equal(config.rope.original_context, 4096); /* initial_context_length */
    assert_int_equal(parse_with(",\"truncate\":false", ""), LR_OK);
    assert_true(config.rope.truncate); /* as Hugging Face assumes */
    assert_int_equal(parse_with("\"rope_type\":\"yarn\"", "\"type\":\"yarn\""), LR_OK);
}

static void either_spelling_of_experts_per_token_is_enough(void **state)
{
    (void)state;
    assert_int_equal(parse_with("\"experts_per_token\":4,", ""), LR_OK);
    assert_int_equal(config.experts_per_token, 4);
    assert_int_equal(parse_with("\"num_experts_per_tok\":4,", ""), LR_OK);
    assert_int_equal(config.experts_per_token, 4);
    refuses("\"experts_per_token\":4", "\"experts_per_token\":3", LR_MODEL_CORRUPT,
            "num_experts_per_tok", "is 3");
}

static void layer_types_are_taken_as_written(void **state)
{
    (void)state;
    assert_int_equal(
        parse_with("\"num_hidden_layers\":24",
                   "\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"sliding_"
                   "attention\"]"),
        LR_OK);
    assert_true(!config.sliding[0] && config.sliding[1]);
    refuses("\"num_hidden_layers\":24",
            "\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]", LR_MODEL_CORRUPT,
            "layer_types", "lists 1 layers");
    refuses("\"num_hidden_layers\":24", "\"num_hidden_layers\":1,\"layer_types\":[\"linear\"]",
            LR_MODEL_CORRUPT, "layer_types", "[0]");
}

static void eos_may_be_a_list(void **state)
{
    (void)state;
    assert_int_equal(
        parse_with("\"eos_token_id\":200002", "\"eos_token_id\":[200002,199999,200012]"),
        LR_OK);
    assert_int_equal(config.tokens.eos_count, 3);
    assert_int_equal(config.tokens.eos[2], 200012);
    refuses("\"eos_token_id\":200002", "\"eos_token_id\":201088", LR_MODEL_CORRUPT,
            "eos_token_id", "201088");
    refuses("\"eos_token_id\":200002", "\"eos_token_id\":[-1]", LR_MODEL_CORRUPT,
            "eos_token_id", "-1");
    refuses("\"eos_token_id\":200002",
            "\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", LR_MODEL_CORRUPT,
            "17 tokens", "16");
}

static void absurd_values_are_refused_with_field_value_and_limits(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *part, *also;
    } cases[] = {
        {"\"hidden_size\":2880", "\"hidden_size\":0", "hidden_size", "from 32 to 65536"},
        {"\"hidden_size\":2880", "\"hidden_size\":-2880", "hidden_size", "-2880"},
        {"\"hidden_size\":2880", "\"hidden_size\":2881", "hidden_size", "2881"},
        {"\"hidden_size\":2880", "\"hidden_size\":2880.5", "hidden_size", "2880.5"},
        {"\"hidden_size\":2880", "\"hidden_size\":\"2880\"", "hidden_size", "whole number"},
        {"\"hidden_size\":2880", "\"hidden_size\":1e300", "hidden_size", "1e300"},
        {"\"hidden_size\":2880", "\"hidden_size\":99999999999999999999999", "hidden_size",
         "99999999999999999999999"},
        {"\"hidden_size\":2880,", "", "hidden_size", "missing"},
        {"\"hidden_size\":2880", "\"hidden_size\":null", "hidden_size", "missing"},
        {"\"hidden_size\":2880", "\"hidden_size\":NaN", "JSON", "line 1"},
        {"\"intermediate_size\":2880", "\"intermediate_size\":2890", "intermediate_size",
         "2890"},
        {"\"num_hidden_layers\":24", "\"num_hidden_layers\":1000000", "num_hidden_layers",
         "to 512"},
        {"\"num_key_value_heads\":8", "\"num_key_value_heads\":7", "num_attention_heads",
         "(7)"},
        {"\"head_dim\":64", "\"head_dim\":63", "head_dim", "63"},
        {"\"num_experts_per_tok\":4", "\"num_experts_per_tok\":33", "num_experts_per_tok",
         "to 32"},
        {"\"num_local_experts\":32", "\"num_local_experts\":0", "num_local_experts", "is 0"},
        {"\"vocab_size\":201088", "\"vocab_size\":4294967296", "vocab_size", "4294967296"},
        {"\"sliding_window\":128", "\"sliding_window\":null", "sliding_window", "missing"},
        {"\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":0", "rms_norm_eps", "is 0"},
        {"\"rms_norm_eps\":1e-05", "\"rms_norm_eps\":1e999", "rms_norm_eps", "1e999"},
        {"\"rope_theta\":150000", "\"rope_theta\":-1", "rope_theta", "-1"},
        {"\"rope_theta\":150000,", "", "rope_theta", "missing"},
        {"\"factor\":32.0", "\"factor\":0.0", "rope_scaling", "factor"},
        {"\"beta_fast\":32.0", "\"beta_fast\":1.0", "beta_fast", "beta_slow"},
        {"\"swiglu_limit\":7.0", "\"swiglu_limit\":-7.0", "swiglu_limit", "-7.0"},
        {"\"truncate\":false", "\"truncate\":0", "truncate", "true or false"},
        {"\"rope_scaling\":{", "\"rope_scaling\":7,\"x\":{", "rope_scaling", "object"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuses(cases[i].from, cases[i].to, LR_MODEL_CORRUPT, cases[i].part, cases[i].also);
}

static void what_the_engine_has_no_code_for_is_unsupported(void **state)
{
    (void)state;
    refuses("\"attention_bias\":true", "\"attention_bias\":false", LR_UNSUPPORTED,
            "attention_bias", "false");
    refuses("\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true", LR_UNSUPPORTED,
            "tie_word_embeddings", "true");
    refuses("\"quant_method\":\"mxfp4\"", "\"quant_method\":\"gptq\"", LR_UNSUPPORTED,
            "quantization_config", "mxfp4");
    refuses("\"rope_type\":\"yarn\"", "\"rope_type\":\"llama3\"", LR_UNSUPPORTED, "rope_type",
            "yarn");
    refuses("GptOssForCausalLM", "LlamaForCausalLM", LR_UNSUPPORTED, "LlamaForCausalLM",
            "gpt-oss");
}

static void deep_and_oversized_json_is_refused(void **state)
{
    (void)state;
    char deep[2001];
    memset(deep, '[', 2000);
    deep[2000] = '\0';
    assert_int_equal(model_config_parse(lr_str_z(deep), &config, &err), LR_MODEL_CORRUPT);
    assert_says(&err, "config.json");
    char *large = malloc(MODEL_CONFIG_BYTES_MAX + 1);
    assert_non_null(large);
    memset(large, ' ', MODEL_CONFIG_BYTES_MAX + 1);
    assert_int_equal(
        model_config_parse(lr_str(large, MODEL_CONFIG_BYTES_MAX + 1), &config, &err),
        LR_MODEL_CORRUPT);
    assert_says(&err, "67108864");
    free(large);
    assert_int_equal(model_config_parse(lr_str_z("[]"), &config, &err), LR_MODEL_CORRUPT);
    assert_int_equal(model_config_parse(lr_str_z(""), &config, &err), LR_MODEL_CORRUPT);
}

static void the_runtime_comes_from_architectures_else_model_type(void **state)
{
    (void)state;
    static const struct {
        const char *text, *runtime;
    } cases[] = {
        {"{\"architectures\":[\"GptOssForCausalLM\"]}", "gptoss"},
        {"{\"model_type\":\"gpt_oss\"}", "gptoss"},
        {"{\"architectures\":[],\"model_type\":\"gpt_oss\"}", "gptoss"},
        {"{\"architectures\":[\"NemotronForCausalLM\"],\"model_type\":\"nemotron\"}",
         "nemotron"},
        {"{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"gpt_oss\"}", "gpt_oss"},
        {"{\"architectures\":[\"Wondrous\"]}", "Wondrous"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model_identity id;
        assert_int_equal(model_identity_parse(lr_str_z(cases[i].text), &id, &err), LR_OK);
        assert_string_equal(id.runtime, cases[i].runtime);
    }
    struct model_identity id;
    assert_int_equal(model_identity_parse(lr_str_z("{}"), &id, &err), LR_UNSUPPORTED);
    assert_says(&err, "architecture");
    assert_int_equal(model_identity_parse(lr_str_z("{\"model_type\":\"../../x\"}"), &id, &err),
                     LR_UNSUPPORTED);
    assert_int_equal(model_identity_parse(lr_str_z("{\"architectures\":\"x\"}"), &id, &err),
                     LR_MODEL_CORRUPT);
}

static void the_text_part_of_a_model_with_images_says_context_and_kv_memory(void **state)
{
    (void)state;
    struct model_identity id;
    assert_int_equal(
        model_identity_parse(
            lr_str_z("{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],"
                     "\"model_type\":\"qwen3_5\",\"vision_config\":{\"num_hidden_layers\":2},"
                     "\"text_config\":{\"num_hidden_layers\":4,\"num_attention_heads\":8,"
                     "\"num_key_value_heads\":2,\"head_dim\":16,\"hidden_size\":128,"
                     "\"max_position_embeddings\":4096,\"layer_types\":[\"linear_attention\","
                     "\"linear_attention\",\"linear_attention\",\"full_attention\"]}}"),
            &id, &err),
        LR_OK);
    assert_int_equal(id.context_tokens, 4096);
    /* K and V of one layer, at 2 bytes; the other layers keep no keys. */
    assert_int_equal(id.kv_bytes, 2ull * 2 * 2 * 16 * 4096);
}

static void generation_config_gives_stop_ids_and_defaults(void **state)
{
    (void)state;
    struct model_generation g;
    assert_int_equal(
        model_generation_parse(lr_str_z("{\"bos_token_id\":199998,\"do_sample\":true,"
                                        "\"eos_token_id\":[200002,199999,200012],"
                                        "\"pad_token_id\":199999,\"top_k\":50}"),
                               &g, &err),
        LR_OK);
    assert_int_equal(g.tokens.eos_count, 3);
    assert_int_equal(g.tokens.bos, 199998);
    assert_int_equal(g.sampling.given, LR_GIVEN_TOP_K);
    assert_int_equal(g.sampling.top_k, 50);
    assert_int_equal(
        model_generation_parse(lr_str_z("{\"temperature\":0.6,\"top_p\":0.95,\"min_p\":null}"),
                               &g, &err),
        LR_OK);
    assert_int_equal(g.sampling.given, LR_GIVEN_TEMPERATURE | LR_GIVEN_TOP_P);
    assert_float_equal(g.sampling.temperature, 0.6f, 0);
    assert_int_equal(
        model_generation_parse(lr_str_z("{\"do_sample\":false,\"temperature\":0.6}"), &g, &err),
        LR_OK);
    assert_float_equal(g.sampling.temperature, 0, 0); /* greedy, whatever else is there */
    assert_int_equal(model_generation_parse(lr_str_z("{\"temperature\":-1}"), &g, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "generation_config.json");
    assert_says(&err, "temperature");
}

static void a_snapshot_may_lack_generation_config_but_not_config(void **state)
{
    (void)state;
    struct model_generation g;
    assert_int_equal(model_generation_read("/nonexistent-model", &g, &err), LR_OK);
    assert_int_equal(g.tokens.eos_count, 0);
    assert_int_equal(g.tokens.bos, -1);
    assert_int_equal(model_config_read("/nonexistent-model", &config, &err), LR_MODEL_CORRUPT);
    assert_says(&err, "/nonexistent-model/config.json");
    assert_int_equal(model_config_read(LR_SOURCE_DIR "/models/demo", &config, &err), LR_OK);
    assert_int_equal(config.window, 64);
    assert_int_equal(model_generation_read(LR_SOURCE_DIR "/models/demo", &g, &err), LR_OK);
    assert_int_equal(g.tokens.eos_count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_file_is_read_field_for_field),
        cmocka_unit_test(newer_rope_parameters_mean_the_same),
        cmocka_unit_test(either_spelling_of_experts_per_token_is_enough),
        cmocka_unit_test(layer_types_are_taken_as_written),
        cmocka_unit_test(eos_may_be_a_list),
        cmocka_unit_test(absurd_values_are_refused_with_field_value_and_limits),
        cmocka_unit_test(what_the_engine_has_no_code_for_is_unsupported),
        cmocka_unit_test(deep_and_oversized_json_is_refused),
        cmocka_unit_test(the_runtime_comes_from_architectures_else_model_type),
        cmocka_unit_test(the_text_part_of_a_model_with_images_says_context_and_kv_memory),
        cmocka_unit_test(generation_config_gives_stop_ids_and_defaults),
        cmocka_unit_test(a_snapshot_may_lack_generation_config_but_not_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
