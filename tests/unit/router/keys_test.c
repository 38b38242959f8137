/* Keys: who is let in, for how long, and how often. */
#include "tests/unit/router/support.h"

#include "router/access/key_limits.h"
#include "router/store/keys.h"

enum { NOW = 1000000 };

static struct router_key *add(struct router_keys *keys, char text[ROUTER_KEY_TEXT],
                              struct router_key wanted)
{
    struct lr_error err;
    router_key_draw(&wanted, NOW, text);
    assert_int_equal(router_keys_add(keys, &wanted, &err), LR_OK);
    return router_keys_find(keys, lr_str_z(wanted.id));
}

static void a_key_has_256_bits_and_only_its_hash_is_kept(void **state)
{
    struct router_keys keys;
    char a[ROUTER_KEY_TEXT], b[ROUTER_KEY_TEXT];
    (void)state;
    router_keys_init(&keys);
    struct router_key *key = add(&keys, a, (struct router_key){.role = ROUTER_API});
    (void)add(&keys, b, (struct router_key){.role = ROUTER_API});
    assert_int_equal(strlen(a), 46);
    assert_string_not_equal(a, b);
    assert_null(memmem(key, sizeof(*key), a + 3, 20));
    router_keys_free(&keys);
}

static void unknown_expired_and_revoked_keys_are_told_apart(void **state)
{
    struct router_keys keys;
    struct router_key *found;
    struct lr_error err;
    char good[ROUTER_KEY_TEXT], old[ROUTER_KEY_TEXT], gone[ROUTER_KEY_TEXT];
    (void)state;
    router_keys_init(&keys);
    (void)add(&keys, good, (struct router_key){.role = ROUTER_API});
    (void)add(&keys, old, (struct router_key){.role = ROUTER_API, .expires_ms = NOW + 10});
    add(&keys, gone, (struct router_key){.role = ROUTER_API})->revoked_ms = NOW;
    assert_int_equal(router_keys_check(&keys, lr_str_z(good), NOW, &found, &err), LR_OK);
    assert_int_equal(router_keys_check(&keys, lr_str_z(old), NOW + 9, &found, &err), LR_OK);
    assert_int_equal(router_keys_check(&keys, lr_str_z(old), NOW + 10, &found, &err),
                     LR_UNAUTHENTICATED);
    assert_contains(err.text, "expired");
    assert_int_equal(router_keys_check(&keys, lr_str_z(gone), NOW, &found, &err),
                     LR_UNAUTHENTICATED);
    assert_contains(err.text, "revoked");
    assert_non_null(router_keys_issued(&keys, lr_str_z(old)));
    assert_non_null(router_keys_issued(&keys, lr_str_z(gone)));
    assert_null(router_keys_issued(&keys, LR_STR_LIT("lr-x")));
    assert_int_equal(router_keys_check(&keys, LR_STR_LIT("lr-x"), NOW, &found, &err),
                     LR_UNAUTHENTICATED);
    assert_null(found);
    router_keys_free(&keys);
}

static void requests_per_minute_are_a_bucket_that_refills(void **state)
{
    struct router_key key = {.id = "k", .requests_per_minute = 60};
    struct lr_error err;
    uint32_t retry;
    (void)state;
    for (int i = 0; i < 60; i++)
        assert_int_equal(router_key_take(&key, NOW, 1, &retry, &err), LR_OK);
    assert_int_equal(router_key_take(&key, NOW, 1, &retry, &err), LR_RATE_LIMITED);
    assert_int_equal(retry, 2); /* one a second, rounded up */
    assert_int_equal(router_key_take(&key, NOW + 500, 1, &retry, &err), LR_RATE_LIMITED);
    assert_int_equal(router_key_take(&key, NOW + 1001, 1, &retry, &err), LR_OK);
    assert_int_equal(router_key_take(&key, NOW + 1002, 1, &retry, &err), LR_RATE_LIMITED);
}

static void tokens_are_charged_afterwards_and_block_until_paid(void **state)
{
    struct router_key key = {.id = "k", .tokens_per_minute = 600};
    struct lr_error err;
    uint32_t retry;
    (void)state;
    assert_int_equal(router_key_take(&key, NOW, 1, &retry, &err), LR_OK);
    router_key_charge(&key, NOW, 700, 1);
    assert_int_equal(router_key_take(&key, NOW, 1, &retry, &err), LR_RATE_LIMITED);
    assert_in_range(retry, 10, 12);
    assert_int_equal(router_key_take(&key, NOW + 10100, 1, &retry, &err), LR_OK);
}

static void several_routers_share_a_limit(void **state)
{
    struct router_key key = {.id = "k", .requests_per_minute = 10};
    struct lr_error err;
    uint32_t retry;
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(router_key_take(&key, NOW, 2, &retry, &err), LR_OK);
    assert_int_equal(router_key_take(&key, NOW, 2, &retry, &err), LR_RATE_LIMITED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_256_bits_and_only_its_hash_is_kept),
        cmocka_unit_test(unknown_expired_and_revoked_keys_are_told_apart),
        cmocka_unit_test(requests_per_minute_are_a_bucket_that_refills),
        cmocka_unit_test(tokens_are_charged_afterwards_and_block_until_paid),
        cmocka_unit_test(several_routers_share_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
