/* A model as a person writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "hub/quant.h"
#include "hub/reference.h"

static struct hub_policy policy_of(const char *endpoint, const char *host)
{
    struct hub_policy policy;
    struct lr_error err;
    assert_int_equal(hub_policy_init(&policy, endpoint, &host, host != NULL, &err), LR_OK);
    return policy;
}

static void a_repository_is_read_from_every_form_people_paste(void **state)
{
    static const struct {
        const char *text, *repo, *revision, *filename;
    } rows[] = {
        {"openai/gpt-oss-20b", "openai/gpt-oss-20b", "", ""},
        {"  openai/gpt-oss-20b\n", "openai/gpt-oss-20b", "", ""},
        {"https://huggingface.co/openai/gpt-oss-20b", "openai/gpt-oss-20b", "", ""},
        {"https://huggingface.co/openai/gpt-oss-20b/", "openai/gpt-oss-20b", "", ""},
        {"http://www.huggingface.co/openai/gpt-oss-20b", "openai/gpt-oss-20b", "", ""},
        {"HTTPS://HuggingFace.co/OpenAI/GPT-oss", "OpenAI/GPT-oss", "", ""},
        {"huggingface.co/a/b", "a/b", "", ""},
        {"hf.co/a/b", "a/b", "", ""},
        {"https://huggingface.co/a/b/tree/main", "a/b", "main", ""},
        {"https://huggingface.co/a/b/tree/refs%2Fpr%2F7", "a/b", "refs/pr/7", ""},
        {"https://huggingface.co/a/b/tree/v1/sub/folder", "a/b", "v1", ""},
        {"https://huggingface.co/a/b/blob/main/x.gguf", "a/b", "main", "x.gguf"},
        {"https://huggingface.co/a/b/resolve/main/q/x%20y.gguf?download=true", "a/b", "main",
         "q/x y.gguf"},
        {"https://huggingface.co/a/b#readme", "a/b", "", ""},
        {"http://mirror.lan:8080/hf/a/b/raw/dev/c.json", "a/b", "dev", "c.json"},
        {"a/b/x-Q4_K_M.gguf", "a/b", "", "x-Q4_K_M.gguf"},
        {"hf.co/a/b/sub/x.gguf:latest", "a/b", "", "sub/x.gguf"},
        {"a/b@v1.0", "a/b", "v1.0", ""},
    };
    struct hub_policy policy = policy_of("http://mirror.lan:8080/hf/", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_reference ref;
        struct lr_error err = {0};
        if (hub_reference_parse(&policy, lr_str_z(rows[i].text), &ref, &err) != LR_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_string_equal(ref.repo, rows[i].repo);
        assert_string_equal(ref.revision, rows[i].revision);
        assert_string_equal(ref.filename, rows[i].filename);
    }
}

static void what_is_no_model_repository_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "gpt2",
        "a/b/c",
        "../etc",
        "a/..",
        "a/b..c",
        "/a/b",
        "a/ b",
        "a/b%2Fc",
        "datasets/a/b",
        "https://huggingface.co/datasets/a/b",
        "https://huggingface.co/",
        "https://evil.example/a/b",
        "https://huggingface.co.evil.example/a/b",
        "https://huggingface.co@evil.example/a/b",
        "ftp://evil.example/a/b",
        "https://huggingface.co/a/b/blob/main/../../x",
        "https://huggingface.co/a/b/blob/main/%2e%2e/x",
        "https://huggingface.co/a/b/blob/ma%0ain/x",
        "https://huggingface.co/a/b/blob/ma%zzin/x",
        "https://huggingface.co/a/b/settings/x",
    };
    struct hub_policy policy = policy_of(NULL, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hub_reference ref;
        struct lr_error err;
        if (hub_reference_parse(&policy, lr_str_z(bad[i]), &ref, &err) != LR_INVALID_ARGUMENT)
            fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(err.text, "org/name"));
    }
}

static void a_name_with_a_zero_byte_is_refused_and_not_cut(void **state)
{
    static const char text[] = "a/b\0c", owner[] = "a\0c/b";
    struct hub_policy policy = policy_of(NULL, NULL);
    struct hub_reference ref;
    struct lr_error err;
    (void)state;
    assert_int_equal(hub_reference_parse(&policy, lr_str(text, sizeof(text) - 1), &ref, &err),
                     LR_INVALID_ARGUMENT);
    assert_int_equal(hub_reference_parse(&policy, lr_str(owner, sizeof(owner) - 1), &ref, &err),
                     LR_INVALID_ARGUMENT);
}

static void a_tag_names_a_quantization_and_latest_names_nothing(void **state)
{
    static const struct {
        const char *text, *quant, *name;
    } rows[] = {
        {"a/b:Q4_K_M", "Q4_K_M", "a/b:Q4_K_M"},
        {"hf.co/a/b:q8_0", "q8_0", "a/b:q8_0"},
        {"https://huggingface.co/a/b:IQ4_XS", "IQ4_XS", "a/b:IQ4_XS"},
        {"a/b@q4_k_m", "q4_k_m", "a/b:q4_k_m"},
        {"https://huggingface.co/a/b/tree/main/UD-Q4_K_XL", "UD-Q4_K_XL", "a/b:UD-Q4_K_XL"},
        {"a/b/sub/x-Q5_K_M-00001-of-00002.gguf", "", "a/b:Q5_K_M"},
        {"a/b/odd%20name.v2.gguf", "", "a/b:odd-name.v2"},
        {"a/b:latest", "", "a/b"},
        {"hf.co/a/b:LATEST", "", "a/b"},
        {"a/b", "", "a/b"},
        {"https://huggingface.co/a/b/tree/main/sub/folder", "", "a/b"},
    };
    struct hub_policy policy = policy_of(NULL, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_reference ref;
        struct lr_error err = {0};
        char name[HUB_REFERENCE_NAME_MAX], id[HUB_REFERENCE_NAME_MAX];
        if (hub_reference_parse(&policy, lr_str_z(rows[i].text), &ref, &err) != LR_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        hub_reference_name(&ref, name);
        hub_reference_id(&ref, id);
        assert_string_equal(ref.quant, rows[i].quant);
        assert_string_equal(name, rows[i].name);
        assert_null(strchr(id, ':')); /* a folder is called so */
    }
}

static void every_other_name_is_a_path_or_words(void **state)
{
    static const struct {
        const char *text;
        enum hub_reference_kind kind;
        const char *rest;
    } rows[] = {
        {"/srv/models/x", HUB_REFERENCE_PATH, "/srv/models/x"},
        {"./x", HUB_REFERENCE_PATH, "./x"},
        {"../x", HUB_REFERENCE_PATH, "../x"},
        {"~/x", HUB_REFERENCE_PATH, "~/x"},
        {"C:\\models\\x", HUB_REFERENCE_PATH, "C:\\models\\x"},
        {"D:/models/x", HUB_REFERENCE_PATH, "D:/models/x"},
        {"model.gguf", HUB_REFERENCE_PATH, "model.gguf"},
        {"models/model.gguf", HUB_REFERENCE_PATH, "models/model.gguf"},
        {"qwen3:8b", HUB_REFERENCE_WORDS, "qwen3:8b"},
        {"qwen3:latest", HUB_REFERENCE_WORDS, "qwen3"},
        {"  llama3.2 ", HUB_REFERENCE_WORDS, "llama3.2"},
        {"qwen coder 7b", HUB_REFERENCE_WORDS, "qwen coder 7b"},
        {"library/qwen3:8b", HUB_REFERENCE_WORDS, "qwen3:8b"},
        {"https://ollama.com/library/qwen3:8b", HUB_REFERENCE_WORDS, "qwen3:8b"},
        {"registry.ollama.ai/library/qwen3:latest", HUB_REFERENCE_WORDS, "qwen3"},
        {"a/b", HUB_REFERENCE_REPO, "a/b"},
    };
    struct hub_policy policy = policy_of(NULL, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hub_reference ref;
        struct lr_error err = {0};
        if (hub_reference_read(&policy, lr_str_z(rows[i].text), &ref, &err) != LR_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        if (ref.kind != rows[i].kind || !lr_str_eq_z(ref.text, rows[i].rest))
            fail_msg("%s: kind %d, \"%.*s\"", rows[i].text, ref.kind, LR_STR_ARG(ref.text));
    }
}

static void a_file_name_shows_its_quantization(void **state)
{
    static const struct {
        const char *name, *label;
    } rows[] = {
        {"Qwen3-8B-Q4_K_M.gguf", "Q4_K_M"},
        {"qwen3-8b-q4_k_m.gguf", "q4_k_m"},
        {"tinyllama-1.1b-chat.Q8_0.gguf", "Q8_0"},
        {"x-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
        {"UD-Q4_K_XL/x-00001-of-00003.gguf", "UD-Q4_K_XL"},
        {"BF16/x-BF16-00001-of-00002.gguf", "BF16"},
        {"gpt-oss-20b-mxfp4.gguf", "mxfp4"},
        {"x-Q4_0_4_4.gguf", "Q4_0_4_4"},
        {"Q4-and-more/model.gguf", ""},
        {"model.gguf", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lr_str label = hub_quant_of(lr_str_z(rows[i].name));
        if (!lr_str_eq_z(label, rows[i].label))
            fail_msg("%s: \"%.*s\"", rows[i].name, LR_STR_ARG(label));
    }
    assert_true(hub_quant_matches(LR_STR_LIT("UD-Q4_K_XL"), LR_STR_LIT("q4_k_xl")));
    assert_false(hub_quant_matches(LR_STR_LIT("Q4_K_M"), LR_STR_LIT("Q4_K")));
}

static void quantizations_have_an_order_and_unquantized_weights_come_last(void **state)
{
    static const char *const better_first[] = {
        "Q8_0", "Q6_K",   "Q5_K_M", "UD-Q4_K_XL", "Q4_K_M", "Q4_K_S", "IQ4_XS",
        "Q4_0", "Q3_K_M", "Q2_K",   "IQ1_S",      "BF16",   "F32",    "unknown"};
    (void)state;
    for (size_t i = 1; i < sizeof(better_first) / sizeof(better_first[0]); i++)
        assert_true(hub_quant_rank(lr_str_z(better_first[i - 1])) <
                    hub_quant_rank(lr_str_z(better_first[i])));
}

/* Milliseconds of processor time for many reads of a name of so many bytes. */
static double time_of(size_t bytes)
{
    struct hub_policy policy = policy_of(NULL, NULL);
    char *text = malloc(bytes);
    struct hub_reference ref;
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = "ab/-.:@Q4_"[i % 10];
    clock_t begin = clock();
    for (size_t i = 0; i < (1u << 22) / bytes; i++) {
        lr_code code = hub_reference_read(&policy, lr_str(text, bytes), &ref, NULL);
        assert_true(code == LR_OK || code == LR_INVALID_ARGUMENT);
        (void)hub_quant_of(lr_str(text, bytes));
    }
    free(text);
    return (double)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
}

static void a_long_name_costs_no_more_by_the_byte(void **state)
{
    double least = 1e9, most = 1e9;
    (void)state;
    for (int i = 0; i < 3; i++) {
        double small = time_of(1 << 10), large = time_of(1 << 18);
        least = small < least ? small : least;
        most = large < most ? large : most;
    }
    if (most > 3 * least + 20)
        fail_msg("%.1f ms in pieces of 1 KiB, %.1f ms in pieces of 256 KiB", least, most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repository_is_read_from_every_form_people_paste),
        cmocka_unit_test(what_is_no_model_repository_is_refused),
        cmocka_unit_test(a_name_with_a_zero_byte_is_refused_and_not_cut),
        cmocka_unit_test(a_tag_names_a_quantization_and_latest_names_nothing),
        cmocka_unit_test(every_other_name_is_a_path_or_words),
        cmocka_unit_test(a_file_name_shows_its_quantization),
        cmocka_unit_test(quantizations_have_an_order_and_unquantized_weights_come_last),
        cmocka_unit_test(a_long_name_costs_no_more_by_the_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
