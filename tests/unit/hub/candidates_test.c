/* Which of a repository's models is taken, what may be searched for, and what a model takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "hub/look.h"

static struct hub_listing *listing_of(const char *const *names)
{
    struct lr_buf json;
    struct lr_error err;
    struct hub_listing *listing = hub_listing_create("acme/m");
    assert_non_null(listing);
    lr_buf_init(&json, 1 << 20);
    lr_buf_add_z(&json, "{\"sha\":\"0123456789012345678901234567890123456789\",\"siblings\":[");
    for (size_t i = 0; names[i] != NULL; i++)
        lr_buf_addf(&json, "%s{\"rfilename\":\"%s\",\"size\":%zu}", i != 0 ? "," : "", names[i],
                    100 + i);
    lr_buf_add_z(&json, "]}");
    assert_int_equal(hub_listing_add_json(listing, lr_buf_str(&json), &err), LR_OK);
    lr_buf_free(&json);
    return listing;
}

/* "fits,large,none" for the candidates in their order. */
static void judge(struct hub_candidates *all, const char *verdicts)
{
    struct lr_str rest = lr_str_z(verdicts), word;
    for (size_t i = 0; i < all->count; i++)
        all->list[i].verdict = !lr_str_split(&rest, ',', &word) ? HUB_NO_ENGINE
                               : lr_str_eq_z(word, "fits")      ? HUB_FITS
                               : lr_str_eq_z(word, "large")     ? HUB_TOO_LARGE
                                                                : HUB_NO_ENGINE;
}

static const char *const quantized[] = {
    "m-BF16.gguf",    "m-Q2_K.gguf",  "m-Q4_K_M.gguf",     "m-Q8_0.gguf", "mmproj-m-F16.gguf",
    "m.imatrix.gguf", "imatrix.gguf", "m-draft-Q8_0.gguf", "README.md",   NULL};

static void files_beside_a_model_are_never_candidates_and_better_ones_come_first(void **state)
{
    static const char *const order[] = {"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q2_K.gguf",
                                        "m-BF16.gguf"};
    struct hub_listing *listing = listing_of(quantized);
    struct hub_candidates all;
    (void)state;
    hub_candidates_find(listing, &all);
    assert_int_equal(all.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(lr_str_eq_z(all.list[i].filename, order[i]));
    hub_listing_destroy(listing);
}

static void shards_are_one_model_and_a_set_that_lacks_a_part_is_none(void **state)
{
    static const char *const names[] = {
        "Q4_K_M/m-00001-of-00003.gguf", "Q4_K_M/m-00002-of-00003.gguf",
        "Q4_K_M/m-00003-of-00003.gguf", "m-Q8_0-00001-of-00002.gguf", NULL};
    struct hub_listing *listing = listing_of(names);
    struct hub_candidates all;
    (void)state;
    hub_candidates_find(listing, &all);
    assert_int_equal(all.count, 1);
    assert_true(lr_str_eq_z(all.list[0].filename, names[0]));
    assert_true(lr_str_eq_z(all.list[0].label, "Q4_K_M"));
    assert_int_equal(all.list[0].bytes, 100 + 101 + 102);
    hub_listing_destroy(listing);
}

static void the_best_that_fits_is_taken_else_q4_k_m(void **state)
{
    static const char *const both[] = {"config.json", "model.safetensors", "m-Q4_K_M.gguf",
                                       "m-Q8_0.gguf", NULL};
    static const struct {
        const char *const *files;
        const char *verdicts, *quant, *filename;
        const char *taken; /* NULL: none; "": the safetensors */
        lr_code code;
    } rows[] = {
        {quantized, "fits,fits,fits,fits", "", "", "m-Q8_0.gguf", LR_OK},
        {quantized, "large,large,fits,large", "", "", "m-Q2_K.gguf", LR_OK},
        {quantized, "large,large,large,large", "", "", "m-Q4_K_M.gguf", LR_OK},
        {quantized, "none,none,none,none", "", "", NULL, LR_UNSUPPORTED},
        {quantized, "fits,fits,fits,fits", "q2_k", "", "m-Q2_K.gguf", LR_OK},
        {quantized, "fits,fits,large,fits", "Q2_K", "", "m-Q2_K.gguf", LR_OK},
        {quantized, "fits,fits,fits,fits", "Q5_K_M", "", NULL, LR_NOT_FOUND},
        {quantized, "fits,fits,fits,fits", "", "m-BF16.gguf", "m-BF16.gguf", LR_OK},
        {quantized, "fits,fits,fits,fits", "", "other.gguf", NULL, LR_NOT_FOUND},
        {both, "fits,fits,fits", "", "", "", LR_OK},
        {both, "large,fits,fits", "", "", "m-Q8_0.gguf", LR_OK},
        {both, "none,large,fits", "", "", "m-Q4_K_M.gguf", LR_OK},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_listing *listing = listing_of(rows[i].files);
        struct hub_candidates all;
        struct hub_reference wanted = {.repo = "acme/m"};
        const struct hub_candidate *taken;
        char why[HUB_WHY_MAX];
        struct lr_error err = {0};
        LR_COPY(wanted.quant, lr_str_z(rows[i].quant));
        LR_COPY(wanted.filename, lr_str_z(rows[i].filename));
        hub_candidates_find(listing, &all);
        judge(&all, rows[i].verdicts);
        lr_code code = hub_candidates_choose(&all, HUB_FORMAT_NONE, &wanted, &taken, why, &err);
        if (code != rows[i].code || (taken == NULL) != (rows[i].taken == NULL) ||
            (taken != NULL && !lr_str_eq_z(taken->filename, rows[i].taken)))
            fail_msg("row %zu: code %d, %.*s, %s", i, code,
                     LR_STR_ARG(taken != NULL ? taken->filename : lr_str_z("none")), err.text);
        if (code == LR_NOT_FOUND)
            assert_non_null(strstr(err.text, "m-Q8_0.gguf")); /* what there is */
        hub_listing_destroy(listing);
    }
}

static void names_of_other_libraries_become_words_to_search_for(void **state)
{
    static const struct {
        const char *name, *words, *quant;
    } rows[] = {
        {"qwen3:8b", "qwen3 8b", ""},
        {"llama3.2", "llama 3.2", ""},
        {"llama3.2:3b-instruct-q4_K_M", "llama 3.2 3b instruct", "q4_K_M"},
        {"gemma3:27b", "gemma 3 27b", ""},
        {"deepseek-r1:7b", "deepseek-r1 7b", ""},
        {"coder 7b", "coder 7b", ""},
        {":", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char words[HUB_WORDS_MAX], quant[HUB_QUANT_MAX];
        hub_search_words(lr_str_z(rows[i].name), words, quant);
        assert_string_equal(words, rows[i].words);
        assert_string_equal(quant, rows[i].quant);
    }
}

static void an_answer_of_the_search_is_read_with_bounds(void **state)
{
    static const char answer[] =
        "[{\"id\":\"a/few\",\"downloads\":3,\"tags\":[\"gguf\"],\"gated\":false},"
        "{\"id\":\"../evil\",\"downloads\":9},{\"downloads\":9},7,"
        "{\"modelId\":\"a/many\",\"downloads\":70,\"gated\":\"manual\"},"
        "{\"id\":\"A/MANY\",\"downloads\":5}]";
    struct hub_found found = {0};
    struct lr_error err;
    (void)state;
    assert_int_equal(hub_found_read(LR_STR_LIT(answer), &found, &err), LR_OK);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.list[0].repo, "a/many");
    assert_true(found.list[0].is_gated && !found.list[0].has_gguf);
    assert_true(found.list[1].has_gguf && !found.list[1].is_gated);
    assert_int_equal(hub_found_read(LR_STR_LIT("{}"), &found, &err), LR_UPSTREAM);
    assert_int_equal(hub_found_read(LR_STR_LIT("[{"), &found, &err), LR_UPSTREAM);
}

/* Milliseconds of processor time for answers of so many bytes each, 8 MiB in all. */
static double time_of(size_t bytes)
{
    struct lr_buf json;
    struct hub_found found = {0};
    lr_buf_init(&json, 8 << 20);
    lr_buf_add_char(&json, '[');
    while (json.len < bytes)
        lr_buf_addf(&json, "{\"id\":\"a/m%zu\",\"tags\":[\"x\",\"y\"]},", json.len);
    lr_buf_add_z(&json, "{}]");
    clock_t begin = clock();
    for (size_t done = 0; done < 8u << 20; done += json.len) {
        found.count = 0;
        assert_int_equal(hub_found_read(lr_buf_str(&json), &found, NULL), LR_OK);
    }
    lr_buf_free(&json);
    return (double)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
}

static void a_long_answer_costs_no_more_by_the_byte(void **state)
{
    double small = time_of(16 << 10), large = time_of(2 << 20);
    (void)state;
    if (large > 3 * small + 100)
        fail_msg("%.1f ms in answers of 16 KiB, %.1f ms of 2 MiB", small, large);
}

static void what_a_model_takes_is_counted_from_its_config(void **state)
{
    static const char config[] =
        "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\","
        "\"hidden_size\":4096,\"intermediate_size\":12288,\"num_hidden_layers\":36,"
        "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":128,"
        "\"vocab_size\":151936,\"max_position_embeddings\":40960}";
    struct model_size size;
    struct lr_error err;
    (void)state;
    assert_int_equal(model_size_of_config(LR_STR_LIT(config), &size, &err), LR_OK);
    /* Of every token K and V, 8 heads of 128 values of 2 bytes, in 36 layers. */
    assert_int_equal(model_size_kv(&size, 32768), 2ull * 8 * 128 * 2 * 36 * 32768);
    assert_int_equal(model_size_tokens(&size, model_size_kv(&size, 1000)), 1000);
    assert_int_equal(size.context_tokens, 40960);
    assert_true(size.active_share >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_beside_a_model_are_never_candidates_and_better_ones_come_first),
        cmocka_unit_test(shards_are_one_model_and_a_set_that_lacks_a_part_is_none),
        cmocka_unit_test(the_best_that_fits_is_taken_else_q4_k_m),
        cmocka_unit_test(names_of_other_libraries_become_words_to_search_for),
        cmocka_unit_test(an_answer_of_the_search_is_read_with_bounds),
        cmocka_unit_test(a_long_answer_costs_no_more_by_the_byte),
        cmocka_unit_test(what_a_model_takes_is_counted_from_its_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
