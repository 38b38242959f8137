/* What a config or a file of weights says that the engine does not understand is refused by
 * name; no mutated config ends in anything but a model or a named error. */
#include <unistd.h>

#include "engines/native/engine.h"
#include "engines/native/spec/open.h"
#include "plugin/manifest.h"
#include "tests/unit/native/support.h"

enum { ARENA = 16 << 20, MUTATIONS = 200 };

static struct lr_error err;

/* The list of operations of a family with this config; LR_OK or its error. */
static lr_code build(const char *family, struct lr_str text,
                     const struct model_weights *weights)
{
    const struct native_arch *arch;
    const struct lr_json *config;
    struct native_spec spec;
    struct lr_arena arena;

    memset(&err, 0, sizeof(err));
    lr_arena_init(&arena, ARENA);
    lr_code code = lr_json_parse(&arena, text, NULL, &config, &err);
    if (code == LR_OK)
        code = native_arch_find(config, &arch, &err);
    if (code == LR_OK)
        code = native_spec_build(config, family, weights, arch, &spec, &err);
    if (code == LR_OK)
        native_spec_free(&spec);
    lr_arena_free(&arena);
    return code;
}

static struct model_weights *weights_of(const char *family)
{
    struct model_weights *weights;
    char dir[512];

    snprintf(dir, sizeof(dir), FAMILIES "%s", family);
    assert_int_equal(model_weights_open(dir, &weights, &err), LR_OK);
    return weights;
}

/* The family's config with `from` replaced by `to`. */
static lr_code build_with(const char *family, const char *from, const char *to)
{
    struct model_weights *weights = weights_of(family);
    struct lr_arena arena;
    char text[8192];

    lr_arena_init(&arena, ARENA);
    struct lr_str config = family_file(&arena, family, "config.json");
    const char *at = strstr(config.ptr, from);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - config.ptr), config.ptr, to,
             at + strlen(from));
    lr_code code = build(family, lr_str_z(text), weights);
    lr_arena_free(&arena);
    model_weights_close(weights);
    return code;
}

static void refuses(const char *family, const char *from, const char *to, lr_code code,
                    const char *part)
{
    assert_int_equal(build_with(family, from, to), code);
    if (strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void a_value_that_is_not_understood_is_refused_by_name(void **state)
{
    (void)state;
    refuses("qwen3", "\"silu\"", "\"swish7\"", LR_UNSUPPORTED, "swish7");
    refuses("llama3", "\"llama3\"", "\"spiral\"", LR_UNSUPPORTED, "spiral");
    refuses("cohere2", "\"use_parallel_block\": true", "\"use_parallel_block\": false",
            LR_UNSUPPORTED, "use_parallel_block");
    refuses("deepseek-v3", "\"sigmoid\"", "\"softmin\"", LR_UNSUPPORTED, "softmin");
    refuses("nemotron-h", "MEM*E", "MEX*E", LR_UNSUPPORTED, "\"X\"");
    refuses("qwen3", "Qwen3ForCausalLM", "Qwen9ForCausalLM", LR_UNSUPPORTED,
            "Qwen9ForCausalLM");
}

static void a_size_that_differs_from_the_weights_names_tensor_and_shapes(void **state)
{
    (void)state;
    refuses("qwen3", "\"intermediate_size\": 48", "\"intermediate_size\": 47", LR_MODEL_CORRUPT,
            "[48, 48], expected [47, 48]");
    refuses("qwen3", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3",
            LR_MODEL_CORRUPT, "no multiple of \"num_key_value_heads\", 3");
    refuses("qwen3", "\"hidden_size\": 48", "\"hidden_size\": \"48\"", LR_MODEL_CORRUPT,
            "hidden_size");
    refuses("llama3", "\"factor\": 8.0,", "", LR_MODEL_CORRUPT, "\"factor\" is missing");
}

static void a_layer_that_shares_the_keys_of_none_is_refused(void **state)
{
    (void)state;
    refuses("gemma4", "\"num_kv_shared_layers\": 0", "\"num_kv_shared_layers\": 3",
            LR_UNSUPPORTED, "no layer before it has the keys");
}

static void a_tensor_that_no_operation_uses_is_refused_by_name(void **state)
{
    (void)state;
    /* Without its second layer, that layer's tensors are left. */
    refuses("qwen3", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", LR_UNSUPPORTED,
            "model.layers.1.");
}

/* Numbers, words and punctuation of the text change; xorshift, so that a failure comes again.
 */
static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static size_t mutate(const struct lr_str *config, uint32_t *seed, char *out, size_t room)
{
    static const char *const instead[] = {"0",   "-1",    "1e30", "4294967296", "null", "\"x\"",
                                          "[]",  "{}",    "true", "65536",      "1",    "3",
                                          "0.5", "[1,2]", "7",    "1e-30"};
    uint32_t skip = next(seed) % 40;
    const char *at = config->ptr, *end = config->ptr + config->len;

    for (; at < end; at++)
        if (*at == ':' && skip-- == 0)
            break;
    const char *stop = at < end ? at + 1 + strcspn(at + 1, ",}]\n") : end;
    int n = snprintf(out, room, "%.*s: %s%s", (int)(at - config->ptr), config->ptr,
                     instead[next(seed) % (sizeof(instead) / sizeof(instead[0]))], stop);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void a_mutated_config_ends_in_a_model_or_in_a_named_error(void **state)
{
    static char text[8192];
    uint32_t built = 0;

    (void)state;
    for (size_t f = 0; f < FAMILIES_COUNT; f++) {
        struct model_weights *weights = weights_of(families[f]);
        uint32_t seed = 1 + (uint32_t)f;
        struct lr_arena arena;
        lr_arena_init(&arena, ARENA);
        struct lr_str config = family_file(&arena, families[f], "config.json");
        for (int i = 0; i < MUTATIONS; i++) {
            size_t n = mutate(&config, &seed, text, sizeof(text));
            lr_code code = build(families[f], lr_str(text, n), weights);
            built += code == LR_OK;
            if (code != LR_OK && (err.code != code || err.text[0] == '\0'))
                fail_msg("%s: code %d without words for %s", families[f], code, text);
        }
        lr_arena_free(&arena);
        model_weights_close(weights);
    }
    assert_true(built > 0); /* some members mean nothing to the result */
}

/* The weights' header with a byte changed, or cut short; the data stays. */
static void a_mutated_header_of_weights_ends_in_a_model_or_in_a_named_error(void **state)
{
    uint32_t count = getenv("LR_LONG") != NULL ? MUTATIONS : MUTATIONS / 20, seed = 7,
             opened = 0;
    char dir[] = "/tmp/native-headers-XXXXXX", path[64];
    static char text[8192];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    for (size_t f = 0; f < FAMILIES_COUNT; f++) {
        struct lr_arena arena;
        lr_arena_init(&arena, 64 << 20);
        struct lr_str config = family_file(&arena, families[f], "config.json");
        struct lr_str file = family_file(&arena, families[f], "model.safetensors");
        snprintf(text, sizeof(text), "%.*s", (int)config.len, config.ptr);
        char *bytes = lr_arena_alloc(&arena, file.len);
        uint64_t header;
        memcpy(&header, file.ptr, sizeof(header));
        for (uint32_t i = 0; i < count; i++) {
            struct model_weights *weights;
            memcpy(bytes, file.ptr, file.len);
            size_t at = next(&seed) % (header + 8), length = file.len;
            bytes[at] = (char)(next(&seed) % 4 == 0 ? next(&seed) : '0' + next(&seed) % 10);
            if (next(&seed) % 8 == 0)
                length = next(&seed) % file.len;
            assert_int_equal(lr_file_write_atomic(path, lr_str(bytes, length), 0600, NULL),
                             LR_OK);
            memset(&err, 0, sizeof(err));
            lr_code code = model_weights_open(dir, &weights, &err);
            if (code == LR_OK) {
                code = build(families[f], lr_str_z(text), weights);
                model_weights_close(weights);
                opened++;
            }
            if (code != LR_OK && (err.code != code || err.text[0] == '\0'))
                fail_msg("%s: code %d without words for byte %zu", families[f], code, at);
        }
        lr_arena_free(&arena);
    }
    assert_true(opened > 0); /* some names and offsets still fit */
    assert_int_equal(lr_dir_remove(dir, &err), LR_OK);
}

static bool has(const char *const *list, const char *item)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, item) == 0)
            return true;
    return false;
}

static void compare(const char *const *a, const char *const *b, const char *what)
{
    for (; *a != NULL; a++)
        if (!has(b, *a))
            fail_msg("%s: \"%s\" is in one list only", what, *a);
}

static void the_manifest_lists_what_the_families_run(void **state)
{
    const struct lr_engine_facts *facts = native_engine_api()->describe();
    struct plugin_manifest manifest;
    char text[16384];
    struct lr_arena arena;
    struct lr_str template;

    (void)state;
    lr_arena_init(&arena, ARENA);
    assert_int_equal(lr_file_read(&arena,
                                  LR_SOURCE_DIR "/engines/native/native.manifest.json.in",
                                  sizeof(text), &template, &err),
                     LR_OK);
    /* Members that not every build has stand behind this name. */
    snprintf(text, sizeof(text), "%.*s", (int)template.len, template.ptr);
    char *trials = strstr(text, "@NATIVE_TRIALS@");
    if (trials != NULL)
        memset(trials, ' ', strlen("@NATIVE_TRIALS@"));
    assert_int_equal(plugin_manifest_parse(&manifest, lr_str_z(text), &err), LR_OK);
    compare(facts->runtimes, manifest.runtimes, "runtimes");
    compare(manifest.runtimes, facts->runtimes, "runtimes");
    compare(facts->architectures, manifest.architectures, "architectures");
    compare(manifest.architectures, facts->architectures, "architectures");
    plugin_manifest_free(&manifest);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_is_not_understood_is_refused_by_name),
        cmocka_unit_test(a_size_that_differs_from_the_weights_names_tensor_and_shapes),
        cmocka_unit_test(a_layer_that_shares_the_keys_of_none_is_refused),
        cmocka_unit_test(a_tensor_that_no_operation_uses_is_refused_by_name),
        cmocka_unit_test(a_mutated_config_ends_in_a_model_or_in_a_named_error),
        cmocka_unit_test(a_mutated_header_of_weights_ends_in_a_model_or_in_a_named_error),
        cmocka_unit_test(the_manifest_lists_what_the_families_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
