/* tests/unit/llamacpp/header_test.c - hostile GGUF files are refused before libllama sees them.
 *
 * Each case is the fixture's model with one thing changed. */
#include "tests/unit/llamacpp/support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "engines/llamacpp/header.h"
#include "model/gguf.h"

struct bytes {
    char *data;
    size_t len;
};

static char folder[LR_PATH_MAX];
static char file[LR_PATH_MAX + 16];
static struct bytes good;

static struct bytes copy_good(void)
{
    struct bytes b = {malloc(good.len), good.len};

    assert_non_null(b.data);
    memcpy(b.data, good.data, good.len);
    return b;
}

/* The offset of a key's value, behind the key and its type. */
static size_t value_of(const struct bytes *b, const char *key)
{
    size_t len = strlen(key);
    char *found = memmem(b->data, b->len, key, len);

    assert_non_null(found);
    return (size_t)(found - b->data) + len + 4;
}

static void put(struct bytes *b, size_t at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        b->data[at + i] = (char)(unsigned char)(value >> (8 * i));
}

/* Writes the bytes to the folder and opens it as a model. */
static lr_code try_open(const struct bytes *b, struct lr_error *err, uint32_t *library_lines)
{
    struct recorder *r = recorder_create();
    struct lr_engine_options options = small_options();
    FILE *f = fopen(file, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
    lr_code code = api()->open(&r->host, folder, &options, &r->model, err);
    *library_lines = r->library_lines;
    api()->close(r->model);
    free(r);
    return code;
}

static void expect_refused(struct bytes b, const char *word)
{
    struct lr_error err = {0};
    uint32_t lines;
    lr_code code = try_open(&b, &err, &lines);

    free(b.data);
    if (code != LR_MODEL_CORRUPT && code != LR_UNSUPPORTED)
        fail_msg("%s: code %d: %s", word, code, err.text);
    assert_int_equal(lines, 0); /* libllama was not called */
    if (strstr(err.text, word) == NULL)
        fail_msg("no \"%s\" in: %s", word, err.text);
}

static void expect_number_refused(const char *key, uint64_t value)
{
    struct bytes b = copy_good();

    put(&b, value_of(&b, key), value, 4);
    expect_refused(b, key);
}

static void test_the_unchanged_model_opens(void **state)
{
    (void)state;
    struct lr_error err = {0};
    uint32_t lines;
    struct llamacpp_header h;

    assert_int_equal(try_open(&good, &err, &lines), LR_OK);
    assert_true(lines > 0);
    assert_int_equal(llamacpp_header_read(folder, NULL, &h, &err), LR_OK);
    assert_string_equal(h.architecture, "llama");
    assert_int_equal(h.layers, 2);
    assert_int_equal(h.width, 64);
    assert_int_equal(h.vocab, 512);
    assert_int_equal(h.kv_values, 2 * 1 * (32 + 32)); /* layers, KV heads, both lengths */
}

static void test_numbers_libllama_would_allot_by_are_refused(void **state)
{
    (void)state;
    expect_number_refused("llama.block_count", 0);
    expect_number_refused("llama.block_count", 4000000000u);
    expect_number_refused("llama.embedding_length", 0);
    expect_number_refused("llama.embedding_length", UINT32_MAX);
    expect_number_refused("llama.context_length", 0);
    expect_number_refused("llama.context_length", UINT32_MAX);
    expect_number_refused("llama.feed_forward_length", UINT32_MAX);
    expect_number_refused("attention.head_count", 1u << 30);
    expect_number_refused("attention.head_count_kv", UINT32_MAX);
    expect_number_refused("tokenizer.ggml.eos_token_id", 512);
}

static void test_lists_that_lie_about_their_length_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                                        "tokenizer.ggml.merges"};
    const uint64_t counts[] = {UINT64_MAX, 1ull << 62, 1ull << 32, 100000000};

    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            struct bytes b = copy_good();
            put(&b, value_of(&b, lists[i]) + 4, counts[k], 8);
            expect_refused(b, file);
        }
    /* A file with one token type too few: the last is removed, and padding is added before the
     * weights. */
    struct model_gguf *g;
    assert_int_equal(model_gguf_open(LLAMACPP_MODEL "/model.gguf", &g, NULL), LR_OK);
    struct bytes short_by_one = copy_good();
    size_t at = value_of(&short_by_one, lists[1]) + 12 + 511 * 4;
    put(&short_by_one, at - 511 * 4 - 8, 511, 8);
    memmove(short_by_one.data + at, short_by_one.data + at + 4, g->data_start - at - 4);
    memset(short_by_one.data + g->data_start - 4, 0, 4);
    model_gguf_close(g);
    expect_refused(short_by_one, "511 items for 512");
    struct bytes b = copy_good(); /* changes the type of one item */
    put(&b, value_of(&b, "tokenizer.ggml.token_type"), 6, 4);
    expect_refused(b, "token_type");
}

static void test_counts_strings_and_offsets_beyond_the_file_are_refused(void **state)
{
    (void)state;
    struct bytes b = copy_good();
    put(&b, 8, UINT64_MAX, 8); /* tensors */
    expect_refused(b, file);
    b = copy_good();
    put(&b, 16, 1ull << 40, 8); /* pairs */
    expect_refused(b, file);
    b = copy_good();
    put(&b, 24, UINT64_MAX - 7, 8); /* the length of the first key */
    expect_refused(b, file);
    b = copy_good();
    put(&b, value_of(&b, "general.name"), 1ull << 50, 8);
    expect_refused(b, file);
    b = copy_good(); /* rank, two lengths, type, then the offset */
    put(&b, value_of(&b, "output.weight") + 16 + 4, 1ull << 45, 8);
    expect_refused(b, "output.weight");
    b = copy_good();
    put(&b, value_of(&b, "output.weight") + 8, UINT64_MAX / 2, 8); /* a length */
    expect_refused(b, "output.weight");
    b = copy_good();
    put(&b, 4, 99, 4);
    expect_refused(b, "99");
}

static void test_a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 60; i++) {
        struct bytes b = copy_good();
        b.len = i < 30 ? i * 613 : good.len * (i - 29) / 32;
        expect_refused(b, file);
    }
}

static void test_an_architecture_libllama_does_not_know_is_refused_by_probe(void **state)
{
    (void)state;
    struct bytes b = copy_good();
    struct lr_engine_options options = small_options();
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};
    uint32_t lines;

    for (char *p = b.data; (p = memmem(p, 4096 - (size_t)(p - b.data), "llama", 5)) != NULL;)
        *p = 'z';
    assert_int_equal(try_open(&b, &err, &lines), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "zlama"));
    err.text[0] = '\0';
    assert_int_equal(api()->probe(folder, &options, &need, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "zlama"));
    free(b.data);
}

static void test_any_flipped_bit_of_the_header_is_survived(void **state)
{
    (void)state;
    struct llamacpp_header h;
    struct lr_error err;
    uint64_t at = 1;

    for (int i = 0; i < 400; i++) {
        struct bytes b = copy_good();
        at = at * 6364136223846793005u + 1442695040888963407u;
        b.data[(at >> 33) % 24000] ^= (char)(1 << (at >> 61));
        FILE *f = fopen(file, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
        assert_int_equal(fclose(f), 0);
        lr_code code = llamacpp_header_read(folder, NULL, &h, &err);
        assert_true(code == LR_OK || err.text[0] != '\0');
        free(b.data);
    }
}

static int prepare(void **state)
{
    struct lr_file_map map;

    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/lr-header-XXXXXX");
    if (mkdtemp(folder) == NULL ||
        lr_file_map(LLAMACPP_MODEL "/model.gguf", &map, NULL) != LR_OK)
        return -1;
    (void)snprintf(file, sizeof(file), "%s/model.gguf", folder);
    good = (struct bytes){malloc(map.len), map.len};
    memcpy(good.data, map.data, map.len);
    lr_file_unmap(&map);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    free(good.data);
    (void)unlink(file);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_unchanged_model_opens),
        cmocka_unit_test(test_numbers_libllama_would_allot_by_are_refused),
        cmocka_unit_test(test_lists_that_lie_about_their_length_are_refused),
        cmocka_unit_test(test_counts_strings_and_offsets_beyond_the_file_are_refused),
        cmocka_unit_test(test_a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_an_architecture_libllama_does_not_know_is_refused_by_probe),
        cmocka_unit_test(test_any_flipped_bit_of_the_header_is_survived),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
