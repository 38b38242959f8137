/* Quantized weights have exactly the values of the reference, matrix by matrix; a config or a
 * tensor that does not fit is refused by name. */
#include "base/os/file.h"
#include "engines/native/formats/packed.h"
#include "engines/native/spec/open.h"
#include "tests/unit/native/support.h"

enum { ARENA = 64 << 20, MUTATIONS = 60 };

static struct lr_error err;

/* ---- values ---- */

/* CRC-32 of zlib, as the golden data has it. */
static uint32_t crc32_of(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static uint32_t crc_of_matrix(const struct native_matrix *m)
{
    float *row = malloc(m->columns * sizeof(*row));
    uint32_t crc = 0;

    for (uint32_t r = 0; r < m->rows; r++) {
        native_packed_row(m->packed, m->packed_first + r, 0, m->columns, row);
        crc = crc32_of(crc, row, m->columns * sizeof(*row));
    }
    free(row);
    return crc;
}

/* The module's name without the last part, which differs between formats: "...o_proj.". */
static size_t module_length(const char *name)
{
    return (size_t)(strrchr(name, '.') - name) + 1;
}

/* The matrix of the golden name; experts of a stack come in order. */
static const struct native_matrix *find_matrix(const struct native_spec *s, const char *name,
                                               uint32_t expert)
{
    for (uint32_t i = 0; i < s->matrix_count; i++)
        if (s->matrices[i].type == NATIVE_PACKED &&
            module_length(s->matrices[i].name) == module_length(name) &&
            memcmp(s->matrices[i].name, name, module_length(name)) == 0)
            return &s->matrices[i + expert];
    return NULL;
}

/* "mlp.experts.2.up_proj" of a stack is matrix 2 of "mlp.switch_mlp.up_proj". */
static const struct native_matrix *matrix_of(const struct native_spec *s, const char *name)
{
    const struct native_matrix *m = find_matrix(s, name, 0);
    const char *at = strstr(name, "experts.");
    char stack[256];

    if (m != NULL || at == NULL)
        return m;
    uint32_t expert = (uint32_t)strtoul(at + 8, NULL, 10);
    snprintf(stack, sizeof(stack), "%.*sswitch_mlp%s", (int)(at - name), name,
             strchr(at + 8, '.'));
    return find_matrix(s, stack, expert);
}

static void every_matrix_has_exactly_the_values_of_the_reference(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMATS_COUNT; f++) {
        struct native_model *model;
        struct lr_arena arena;
        char dir[512];
        snprintf(dir, sizeof(dir), FAMILIES "%s", formats[f]);
        lr_arena_init(&arena, ARENA);
        const struct lr_json *all =
            lr_json_get(family_json(&arena, formats[f], "golden.json"), "dequantized");
        if (native_model_open(dir, &model, &err) != LR_OK)
            fail_msg("%s", err.text);
        assert_true(lr_json_is(all, LR_JSON_OBJECT) && all->count > 0);
        for (uint32_t i = 0; i < all->count; i++) {
            const char *name = lr_arena_copy(&arena, all->members[i].key);
            const struct native_matrix *m = matrix_of(&model->spec, name);
            uint64_t crc = 0;
            assert_true(lr_json_u64(lr_json_get(&all->members[i].value, "crc32"), &crc));
            if (m == NULL || crc_of_matrix(m) != crc)
                fail_msg("%s: %s has other values", formats[f], name);
        }
        native_model_close(model);
        lr_arena_free(&arena);
    }
}

static void codes_stay_as_the_file_has_them(void **state)
{
    struct native_model *model;

    (void)state;
    assert_int_equal(native_model_open(FAMILIES "../formats/quark-mxfp4", &model, &err), LR_OK);
    const struct native_matrix *m =
        matrix_of(&model->spec, "model.layers.0.mlp.up_proj.weight");
    const struct model_tensor *t =
        model_weights_find(model->weights, "model.layers.0.mlp.up_proj.weight");
    assert_ptr_equal(m->packed->codes, t->data);
    assert_int_equal(native_matrix_bytes(m), t->bytes + (uint64_t)m->rows * m->columns / 32);
    native_model_close(model);
}

static int refuse_progress(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)phase;
    return done <= total;
}

/* All values of a matrix are those of the file, wherever they lie. */
static void same_values(const struct native_matrix *a, const struct native_matrix *b)
{
    float *x = malloc(a->columns * sizeof(*x)), *y = malloc(a->columns * sizeof(*y));

    for (uint32_t r = 0; r < a->rows; r++) {
        native_packed_row(a->packed, a->packed_first + r, 0, a->columns, x);
        native_packed_row(b->packed, b->packed_first + r, 0, a->columns, y);
        if (memcmp(x, y, a->columns * sizeof(*x)) != 0)
            fail_msg("%s: row %u differs", a->name, r);
    }
    free(x);
    free(y);
}

static void codes_stored_by_columns_are_copied_by_rows_and_keep_their_values(void **state)
{
    static const char *const stored[] = {"../formats/awq", "../formats/gptq-v2"};
    const struct serving_host host = {0}, cancelled = {.progress = refuse_progress};
    struct engine_pool *pool = engine_pool_create(2);
    struct native_weights *weights;
    struct native_model *model;

    (void)state;
    for (size_t f = 0; f < sizeof(stored) / sizeof(stored[0]); f++) {
        char dir[512];
        uint32_t copies = 0;
        snprintf(dir, sizeof(dir), FAMILIES "%s", stored[f]);
        assert_int_equal(native_model_open(dir, &model, &err), LR_OK);
        assert_int_equal(native_weights_open(&host, model, pool, &weights, &err), LR_OK);
        for (uint32_t i = 0; i < model->spec.matrix_count; i++) {
            const struct native_matrix *from = &model->spec.matrices[i],
                                       *m = &native_weights_matrices(weights)[i];
            if (from->type != NATIVE_PACKED)
                continue;
            copies += m->packed != from->packed && m->packed->order == NATIVE_ALONG_ROWS;
            same_values(from, m);
        }
        assert_true(copies > 0);
        native_weights_close(weights);
        assert_int_equal(native_weights_open(&cancelled, model, pool, &weights, &err),
                         LR_CANCELLED);
        assert_null(weights);
        native_model_close(model);
    }
    engine_pool_destroy(pool);
}

/* ---- what does not fit ---- */

static lr_code build(const char *name, struct lr_str text, const struct model_weights *weights)
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
        code = native_spec_build(config, name, weights, arch, &spec, &err);
    if (code == LR_OK)
        native_spec_free(&spec);
    lr_arena_free(&arena);
    return code;
}

static struct model_weights *weights_of(const char *name)
{
    struct model_weights *weights;
    char dir[512];

    snprintf(dir, sizeof(dir), FAMILIES "%s", name);
    assert_int_equal(model_weights_open(dir, &weights, &err), LR_OK);
    return weights;
}

static void refuses(const char *name, const char *from, const char *to, lr_code code,
                    const char *part)
{
    struct model_weights *weights = weights_of(name);
    struct lr_arena arena;
    char text[8192];

    lr_arena_init(&arena, ARENA);
    struct lr_str config = family_file(&arena, name, "config.json");
    const char *at = strstr(config.ptr, from);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - config.ptr), config.ptr, to,
             at + strlen(from));
    lr_code got = build(name, lr_str_z(text), weights);
    if (got != code || strstr(err.text, part) == NULL)
        fail_msg("%s: code %d, \"%s\" does not say \"%s\"", name, got, err.text, part);
    lr_arena_free(&arena);
    model_weights_close(weights);
}

static void a_config_that_the_weights_do_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    refuses("../formats/awq", "\"awq\"", "\"hqq\"", LR_UNSUPPORTED, "\"hqq\"");
    refuses("../formats/awq", "\"gemm\"", "\"gemv\"", LR_UNSUPPORTED, "gemv");
    refuses("../formats/awq", "\"awq\"", "\"gptq\"", LR_MODEL_CORRUPT, "qweight");
    refuses("../formats/awq", "\"quantization_config\"", "\"other\"", LR_UNSUPPORTED,
            "no quantization_config");
    refuses("../formats/gptq-v2", "gptq_v2", "marlin", LR_UNSUPPORTED, "marlin");
    refuses("../formats/ct-fp8-block", "\"float-quantized\"", "\"marlin-24\"", LR_UNSUPPORTED,
            "marlin-24");
    refuses("../formats/quark-mxfp4", "\"weight\": {\n    \"block_size\": null,",
            "\"weight\": {\"dtype\": \"int4\"}, \"old\": {", LR_UNSUPPORTED, "int4");
    refuses("../formats/mlx-4bit", "\"bits\": 4", "\"bits\": 3", LR_MODEL_CORRUPT, "3 bits");
    refuses("../formats/mlx-4bit", "\"group_size\": 64", "\"group_size\": 32", LR_MODEL_CORRUPT,
            "groups of 32");
    refuses("../formats/mlx-4bit", "\"model_type\": \"qwen3\"",
            "\"model_type\": \"qwen3_next\"", LR_UNSUPPORTED, "MLX's form of \"qwen3_next\"");
}

static void codes_of_a_module_that_the_config_lists_as_not_quantized_are_refused(void **state)
{
    const char *const text = "says that \"model.layers.0.mlp.up_proj\" is not quantized";

    (void)state;
    refuses("../formats/ct-w4a16-asym", "\"lm_head\"", "\"model.layers.0.mlp.up_proj\"",
            LR_MODEL_CORRUPT, text);
    refuses("../formats/quark-mxfp4", "\"lm_head\"", "\"lm_head\", \"a*b\", \"*.0.*.up*\"",
            LR_MODEL_CORRUPT, text);
    refuses("../formats/awq", "\"modules_to_not_convert\": null",
            "\"modules_to_not_convert\": [\"x\", \"model.layers.0.mlp.up_proj\", \"b\"]",
            LR_MODEL_CORRUPT, text);
    refuses("../formats/mlx-4bit", "\"bits\": 4",
            "\"model.layers.0.mlp.up_proj\": false, \"bits\": 4", LR_MODEL_CORRUPT, text);
}

/* A copy of the model's file in a folder of its own, with a change. */
static void with_change(const char *name, const char *tensor, const char *from, const char *to,
                        const void *bytes, size_t count, const char *part)
{
    char dir[] = "/tmp/formats-XXXXXX", path[600];
    struct model_weights *weights = weights_of(name);
    const struct model_tensor *t = model_weights_find(weights, tensor);
    struct lr_arena arena;

    assert_non_null(mkdtemp(dir));
    lr_arena_init(&arena, ARENA);
    struct lr_str config = family_file(&arena, name, "config.json");
    struct lr_str whole = family_file(&arena, name, "model.safetensors");
    char *copy = lr_arena_alloc(&arena, whole.len);
    memcpy(copy, whole.ptr, whole.len);
    assert_non_null(t);
    if (bytes != NULL)
        memcpy(copy + t->offset, bytes, count);
    for (size_t i = 0; from != NULL && i + strlen(from) < whole.len; i++)
        if (memcmp(copy + i, from, strlen(from)) == 0)
            memcpy(copy + i, to, strlen(to));
    model_weights_close(weights);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(copy, 1, whole.len, f), whole.len);
    fclose(f);
    assert_int_equal(model_weights_open(dir, &weights, &err), LR_OK);
    lr_code code = build(name, config, weights);
    if (code == LR_OK || strstr(err.text, part) == NULL)
        fail_msg("%s: code %d, \"%s\" does not say \"%s\"", name, code, err.text, part);
    model_weights_close(weights);
    remove(path);
    rmdir(dir);
    lr_arena_free(&arena);
}

static void a_part_that_is_missing_or_no_number_is_refused_by_name(void **state)
{
    static const uint8_t nan_bf16[2] = {0xC0, 0x7F}, nan_byte[1] = {0xFF};
    static const int32_t group[1] = {77};
    const char *const up = "model.layers.0.mlp.up_proj.";
    char tensor[128];

    (void)state;
    snprintf(tensor, sizeof(tensor), "%sscales", up);
    with_change("../formats/awq", tensor, "0.mlp.up_proj.qzeros", "0.mlp.up_proj.qzerox", NULL,
                0, "mlp.up_proj.qzeros");
    with_change("../formats/awq", tensor, "0.mlp.up_proj.scales", "0.mlp.up_proj.scalex", NULL,
                0, "mlp.up_proj.scales");
    snprintf(tensor, sizeof(tensor), "%sg_idx", up);
    with_change("../formats/gptq-v2", tensor, NULL, NULL, group, sizeof(group),
                "column 0 has 77");
    snprintf(tensor, sizeof(tensor), "%sweight_scale", up);
    with_change("../formats/ct-int8", tensor, NULL, NULL, nan_bf16, 2, "not finite");
    with_change("../formats/ct-nvfp4", tensor, NULL, NULL, nan_byte, 1, "not finite");
    with_change("../formats/quark-mxfp4", tensor, NULL, NULL, nan_byte, 1, "not finite");
}

/* xorshift, so that a failure comes again. */
static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void a_mutated_quantization_config_ends_in_a_model_or_in_a_named_error(void **state)
{
    static const char *const instead[] = {"0",     "-1", "1e30", "3",    "null",
                                          "\"x\"", "[]", "{}",   "true", "[0, 128]"};
    static char text[8192];

    (void)state;
    for (size_t f = 0; f < FORMATS_COUNT; f++) {
        struct model_weights *weights = weights_of(formats[f]);
        uint32_t seed = 1 + (uint32_t)f;
        struct lr_arena arena;
        lr_arena_init(&arena, ARENA);
        struct lr_str config = family_file(&arena, formats[f], "config.json");
        const char *from = strstr(config.ptr, "\"quantization");
        for (int i = 0; from != NULL && i < MUTATIONS; i++) {
            const char *at = from, *end = config.ptr + config.len;
            for (uint32_t skip = next(&seed) % 30; at < end && (*at != ':' || skip-- > 0); at++)
                ;
            const char *stop = at < end ? at + 1 + strcspn(at + 1, ",}]\n") : end;
            snprintf(text, sizeof(text), "%.*s: %s%s", (int)(at - config.ptr), config.ptr,
                     instead[next(&seed) % (sizeof(instead) / sizeof(instead[0]))], stop);
            lr_code code = build(formats[f], lr_str_z(text), weights);
            if (code != LR_OK && (err.code != code || err.text[0] == '\0'))
                fail_msg("%s: code %d without words for %s", formats[f], code, text);
        }
        lr_arena_free(&arena);
        model_weights_close(weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_matrix_has_exactly_the_values_of_the_reference),
        cmocka_unit_test(codes_stay_as_the_file_has_them),
        cmocka_unit_test(codes_stored_by_columns_are_copied_by_rows_and_keep_their_values),
        cmocka_unit_test(a_config_that_the_weights_do_not_fit_is_refused_by_name),
        cmocka_unit_test(codes_of_a_module_that_the_config_lists_as_not_quantized_are_refused),
        cmocka_unit_test(a_part_that_is_missing_or_no_number_is_refused_by_name),
        cmocka_unit_test(a_mutated_quantization_config_ends_in_a_model_or_in_a_named_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
