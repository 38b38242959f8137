/* Usage by key and model: summed, named, and bounded. */
#include "tests/unit/router/support.h"

#include "router/observe/key_usage.h"

static struct router_key_usages usages;

static void add(const struct router_key *key, const char *model)
{
    struct router_usage row = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 4};
    (void)snprintf(row.model, sizeof(row.model), "%s", model);
    router_key_usages_add(&usages, key, &row);
}

static const char *written(struct lr_buf *out)
{
    size_t count;
    struct router_key_usage_row *rows = router_key_usages_copy(&usages, &count);
    assert_non_null(rows);
    lr_buf_clear(out);
    router_key_usages_write(out, rows, count);
    free(rows);
    return lr_buf_z(out);
}

static void usage_is_summed_by_key_and_model_and_shows_the_names_of_today(void **state)
{
    struct router_key key = {.id = "key-1", .name = "a \"team\""};
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 20);
    router_key_usages_init(&usages);
    add(&key, "m");
    add(&key, "m");
    add(&key, "n");
    add(NULL, "m");
    (void)snprintf(key.name, sizeof(key.name), "a \"crew\"");
    const char *text = written(&out);
    assert_contains(text, "llm_router_key_requests_total{key=\"key-1\",name=\"a \\\"crew\\\"\","
                          "model=\"m\"} 2\n");
    assert_contains(text, "_prompt_tokens_total{key=\"key-1\",name=\"a \\\"crew\\\"\","
                          "model=\"m\"} 20\n");
    assert_contains(text, "_cached_tokens_total{key=\"none\",name=\"\",model=\"m\"} 4\n");
    assert_null(strstr(text, "other"));
    router_key_usages_free(&usages);
    lr_buf_free(&out);
}

static void pairs_beyond_the_limit_count_together_as_other(void **state)
{
    struct router_key key = {.id = "key-1"};
    struct lr_buf out;
    char model[32];
    (void)state;
    lr_buf_init(&out, 4 << 20);
    router_key_usages_init(&usages);
    for (int i = 0; i < ROUTER_KEY_USAGES_MAX + 5; i++) {
        (void)snprintf(model, sizeof(model), "model-%d", i);
        add(&key, model);
    }
    add(&key, "model-0");
    assert_int_equal(usages.by_pair.count, ROUTER_KEY_USAGES_MAX);
    const char *text = written(&out);
    assert_contains(text, "_requests_total{key=\"other\",name=\"\",model=\"other\"} 5\n");
    assert_contains(text, "model=\"model-0\"} 2\n");
    router_key_usages_free(&usages);
    lr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_is_summed_by_key_and_model_and_shows_the_names_of_today),
        cmocka_unit_test(pairs_beyond_the_limit_count_together_as_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
