/* model/gptoss and model/metalbin: both encodings give the same weights, bit for bit, and a
 * file of another model is refused with both values. */
#include "model/gptoss.h"

#include <math.h>

#include "model/metalbin.h"
#include "model/metalbin_format.h"
#include "tests/unit/model/support.h"

#define DEMO LR_SOURCE_DIR "/models/demo"
#define ODD  LR_SOURCE_DIR "/tests/fixtures/golden/odd/model"

static struct lr_error err;

static void same(const void *a, const void *b, uint64_t bytes)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a, b, bytes);
}

static void same_experts(const struct model_experts *a, const struct model_experts *b,
                         uint32_t count, uint32_t excess)
{
    uint64_t groups = (uint64_t)a->rows * (a->columns / 32);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    for (uint32_t e = 0; e < count; e++) {
        same(a->blocks + e * a->blocks_stride, b->blocks + e * b->blocks_stride, groups * 16);
        same((const char *)a->bias + e * a->bias_stride,
             (const char *)b->bias + e * b->bias_stride, 2 * (uint64_t)a->rows);
        const uint8_t *x = a->scales + e * a->scales_stride;
        const uint8_t *y = b->scales + e * b->scales_stride;
        for (uint64_t i = 0; i < groups; i++)
            assert_int_equal(x[i], y[i] - excess);
    }
}

static void same_layer(const struct model_config *c, const struct model_gptoss_layer *a,
                       const struct model_gptoss_layer *b, uint32_t excess)
{
    uint64_t h = c->hidden, q = (uint64_t)c->heads * c->head_dim;
    uint64_t kv = (uint64_t)c->kv_heads * c->head_dim;
    same(a->attn_norm, b->attn_norm, 2 * h);
    same(a->q_weight, b->q_weight, 2 * q * h);
    same(a->q_bias, b->q_bias, 2 * q);
    same(a->k_weight, b->k_weight, 2 * kv * h);
    same(a->k_bias, b->k_bias, 2 * kv);
    same(a->v_weight, b->v_weight, 2 * kv * h);
    same(a->v_bias, b->v_bias, 2 * kv);
    same(a->o_weight, b->o_weight, 2 * h * q);
    same(a->o_bias, b->o_bias, 2 * h);
    same(a->sinks, b->sinks, 2 * (uint64_t)c->heads);
    same(a->mlp_norm, b->mlp_norm, 2 * h);
    same(a->router_weight, b->router_weight, 2 * c->experts * h);
    same(a->router_bias, b->router_bias, 2 * (uint64_t)c->experts);
    same_experts(&a->gate_up, &b->gate_up, c->experts, excess);
    same_experts(&a->down, &b->down, c->experts, excess);
}

static struct model_gptoss *open_model(const char *dir, const char *artifact)
{
    struct model_gptoss *m;
    memset(&err, 0, sizeof(err));
    if (model_gptoss_open(dir, artifact, &m, &err) != LR_OK)
        fail_msg("%s", err.text);
    return m;
}

static void round_trip(const char *dir, const struct model_metalbin_tokenizer *tokenizer,
                       uint32_t rows)
{
    const char *path = in_folder("model.bin");
    struct model_gptoss *a = open_model(dir, NULL);
    assert_int_equal(a->scale_excess, 0);
    assert_string_equal(a->source, "safetensors");
    assert_int_equal(model_metalbin_write(a, tokenizer, path, &err), LR_OK);
    struct model_gptoss *b = open_model(dir, path);
    assert_int_equal(b->scale_excess, 14);
    assert_string_equal(b->source, path);
    assert_int_equal(b->vocab_rows, rows);
    same(a->embed, b->embed, 2 * (uint64_t)a->config.hidden * rows);
    same(a->unembed, b->unembed, 2 * (uint64_t)a->config.hidden * rows);
    same(a->norm, b->norm, 2 * (uint64_t)a->config.hidden);
    for (uint32_t i = 0; i < a->config.layers; i++)
        same_layer(&a->config, &a->layers[i], &b->layers[i], b->scale_excess);
    model_gptoss_advise(b, MODEL_ADVICE_DONTNEED);
    uint64_t bytes = 0;
    assert_null(model_gptoss_file(a, &bytes));
    const char *file = model_gptoss_file(b, &bytes), *qkv = (const void *)b->layers->paired_qkv;
    assert_true(qkv > file && qkv < file + bytes);
    model_gptoss_drop_plain(a);
    model_gptoss_drop_plain(b);
    assert_non_null(a->layers->q_weight);
    assert_null(b->layers->q_weight);
    assert_non_null(b->layers->v_weight);
    model_gptoss_close(a);
    model_gptoss_close(b);
}

static void a_model_bin_holds_the_same_weights_bit_for_bit(void **state)
{
    (void)state;
    round_trip(ODD, NULL, 517);
}

static void a_model_bin_with_a_tokenizer_cuts_the_tables_to_it(void **state)
{
    (void)state;
    static struct lr_str text[1900];
    for (size_t i = 0; i < 1900; i++)
        text[i] = lr_str("abcdefghij", i % 11);
    const struct lr_str names[] = {LR_STR_LIT("<|start|>"), LR_STR_LIT("<|unheard|>")};
    const struct model_metalbin_tokenizer t = {.text_count = 1900,
                                               .special_count = 2,
                                               .regex = "\\p{L}+",
                                               .text = text,
                                               .special_names = names};
    round_trip(DEMO, &t, 1902);
}

static void the_layout_equals_the_published_files(void **state)
{
    (void)state;
    static struct model_metalbin_layout at;
    struct model_config c = {.layers = 24,
                             .hidden = 2880,
                             .intermediate = 2880,
                             .heads = 64,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .experts = 32,
                             .vocab = 201088};
    model_metalbin_compute(&c, 200014, 1798345, &at);
    assert_int_equal(at.weights_start, 1802240);
    assert_int_equal(at.norm, 2432991488);
    assert_int_equal(at.unembed, 2432997248);
    assert_int_equal(at.blocks[0].experts, 3585081344);
    assert_int_equal(at.expert_stride, 13236480);
    assert_int_equal(at.mlp1_scales, 8294400);
    assert_int_equal(at.mlp1_bias, 8812800);
    assert_int_equal(at.mlp2_blocks, 8824320);
    assert_int_equal(at.mlp2_scales, 12971520);
    assert_int_equal(at.mlp2_bias, 13230720);
    assert_int_equal(at.blocks[1].attn_norm - at.blocks[0].attn_norm, 53296192);
    assert_int_equal(at.file_size, 13750886400);
    c.layers = 36;
    c.experts = 128;
    model_metalbin_compute(&c, 200014, 1798345, &at);
    assert_int_equal(at.blocks[1].attn_norm - at.blocks[0].attn_norm, 53849344);
    assert_int_equal(at.file_size, 65238253568);
}

static void the_yarn_numbers_equal_the_published_header(void **state)
{
    (void)state;
    const struct model_config c = {.head_dim = 64,
                                   .rope = {.kind = MODEL_ROPE_YARN,
                                            .theta = 150000,
                                            .factor = 32,
                                            .beta_fast = 32,
                                            .beta_slow = 1,
                                            .attention_factor = 1.3465736,
                                            .original_context = 4096}};
    struct model_metalbin_yarn yarn;
    model_metalbin_yarn(&c, &yarn);
    assert_true(fabs(yarn.offset + 0.8697008) < 1e-6);
    assert_true(fabs(yarn.scale - 0.10746627) < 1e-7);
    assert_true(yarn.interpolation == 1.0 / 32);
}

static void the_weight_bytes_equal_the_published_totals(void **state)
{
    (void)state;
    struct model_config c = {.layers = 24,
                             .hidden = 2880,
                             .intermediate = 2880,
                             .heads = 64,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .experts = 32,
                             .vocab = 201088};
    assert_int_equal(model_gptoss_weight_bytes(&c), 13761264768);
    c.layers = 36;
    c.experts = 128;
    assert_int_equal(model_gptoss_weight_bytes(&c), 65248815744);
    struct model_gptoss *m = open_model(DEMO, NULL);
    assert_int_equal(m->weight_bytes, 8139392);
    model_gptoss_close(m);
}

/* Writes the odd model's model.bin with `len` bytes at `offset` replaced; returns the
 * refusal. */
static lr_code patched(uint64_t offset, const void *bytes, size_t len)
{
    const char *path = in_folder("patched.bin");
    struct model_gptoss *m;
    if (!lr_file_exists(path)) {
        struct model_gptoss *a = open_model(ODD, NULL);
        assert_int_equal(model_metalbin_write(a, NULL, path, &err), LR_OK);
        model_gptoss_close(a);
    }
    unsigned char saved[64];
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(saved, 1, len, file), len);
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fflush(file), 0);
    memset(&err, 0, sizeof(err));
    lr_code code = model_gptoss_open(ODD, path, &m, &err);
    assert_null(m);
    assert_says(&err, "patched.bin");
    assert_int_equal(fseek(file, (long)offset, SEEK_SET), 0);
    assert_int_equal(fwrite(saved, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return code;
}

static void a_model_bin_of_another_model_is_refused_with_both_values(void **state)
{
    (void)state;
    assert_int_equal(patched(0, "GGUF", 4), LR_MODEL_CORRUPT);
    assert_says(&err, "GPT-OSS v1.0");
    assert_int_equal(patched(16, "\0\0\0\0", 4), LR_UNSUPPORTED);
    assert_int_equal(patched(100, "\0\0\0\0", 4), LR_UNSUPPORTED);
    assert_says(&err, "weight layout");
    assert_int_equal(patched(36, "\7\0\0\0", 4), LR_MODEL_CORRUPT);
    assert_says(&err, "num_blocks is 7, config.json says 3");
    assert_int_equal(patched(84, "\0\0\xc0\x7f", 4), LR_MODEL_CORRUPT); /* a NaN */
    assert_says(&err, "yarn_offset");
    assert_int_equal(patched(136, "\xff\xff\xff\xff", 4), LR_MODEL_CORRUPT);
    assert_says(&err, "vocabulary of 517");
    assert_int_equal(patched(144, "\xff\xff\xff\xff", 4), LR_MODEL_CORRUPT);
    assert_says(&err, "its header asks for");
    assert_int_equal(patched(136, "\x04\x02\0\0", 4), LR_MODEL_CORRUPT); /* 516 rows */
}

static void a_truncated_model_bin_is_refused(void **state)
{
    (void)state;
    struct model_gptoss *a = open_model(ODD, NULL), *m;
    const char *path = in_folder("short.bin");
    struct stat info;
    assert_int_equal(model_metalbin_write(a, NULL, path, &err), LR_OK);
    assert_int_equal(model_metalbin_write(a, NULL, path, &err), LR_INVALID_ARGUMENT);
    model_gptoss_close(a);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    assert_int_equal(model_gptoss_open(ODD, path, &m, &err), LR_MODEL_CORRUPT);
    assert_says(&err, "truncated");
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(model_gptoss_open(ODD, path, &m, &err), LR_MODEL_CORRUPT);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(model_gptoss_open(ODD, path, &m, &err), LR_MODEL_CORRUPT);
    assert_int_equal(model_gptoss_open(ODD, in_folder("none.bin"), &m, &err), LR_MODEL_CORRUPT);
    assert_says(&err, "none.bin");
}

static void weights_that_do_not_fit_the_config_are_named(void **state)
{
    (void)state;
    struct model_gptoss *m;
    copy_file(ODD "/model.safetensors", "model.safetensors");
    copy_file(DEMO "/config.json", "config.json");
    assert_int_equal(model_gptoss_open(folder, NULL, &m, &err), LR_MODEL_CORRUPT);
    assert_null(m);
    assert_says(&err, "model.embed_tokens.weight");
    assert_says(&err, "[517, 192]");
    assert_says(&err, "[2048, 256]");
}

static void an_encoding_that_cannot_hold_the_model_is_not_written(void **state)
{
    (void)state;
    struct model_gptoss *m = open_model(ODD, NULL);
    m->config.head_dim = 32;
    assert_int_equal(model_metalbin_write(m, NULL, in_folder("x.bin"), &err), LR_UNSUPPORTED);
    assert_says(&err, "head_dim is 32");
    m->config.head_dim = 64;
    m->config.sliding[1] = true;
    assert_int_equal(model_metalbin_write(m, NULL, in_folder("x.bin"), &err), LR_UNSUPPORTED);
    assert_says(&err, "layer 1");
    assert_false(lr_file_exists(in_folder("x.bin")));
    model_gptoss_close(m);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_model_bin_holds_the_same_weights_bit_for_bit),
        IN_FOLDER(a_model_bin_with_a_tokenizer_cuts_the_tables_to_it),
        cmocka_unit_test(the_layout_equals_the_published_files),
        cmocka_unit_test(the_yarn_numbers_equal_the_published_header),
        cmocka_unit_test(the_weight_bytes_equal_the_published_totals),
        IN_FOLDER(a_model_bin_of_another_model_is_refused_with_both_values),
        IN_FOLDER(a_truncated_model_bin_is_refused),
        IN_FOLDER(weights_that_do_not_fit_the_config_are_named),
        IN_FOLDER(an_encoding_that_cannot_hold_the_model_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
