/* Sessions: how long they live, how many there are, who may guess; cookies. */
#include "tests/unit/router/support.h"

#include "router/http/session.h"

enum { IDLE = 1000, LIFE = 5000, NOW = 100000, WALL = 5000000 };

static struct router_sessions s; /* large */

static struct lr_str start(struct router_key *key, char value[ROUTER_SESSION_RANDOM + 1])
{
    router_sessions_init(&s, IDLE, LIFE);
    assert_non_null(router_session_make(&s, key, NOW, value));
    return lr_str_z(value);
}

static void only_the_hash_of_a_session_is_kept(void **state)
{
    struct router_key key = {.id = "k"};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    assert_int_equal(text.len, 43);
    assert_null(memmem(&s, sizeof(s), value, 20));
    assert_ptr_equal(router_session_find(&s, text, NOW, WALL)->key, &key);
    assert_string_not_equal(router_session_find(&s, text, NOW, WALL)->csrf, value);
    value[5] ^= 1;
    assert_null(router_session_find(&s, text, NOW, WALL));
    assert_null(router_session_find(&s, LR_STR_LIT(""), NOW, WALL));
}

static void use_keeps_a_session_but_not_past_its_life(void **state)
{
    struct router_key key = {.id = "k"};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    for (uint64_t t = NOW; t < NOW + LIFE; t += IDLE - 1)
        assert_non_null(router_session_find(&s, text, t, WALL));
    assert_null(router_session_find(&s, text, NOW + LIFE, WALL));
    text = start(&key, value);
    assert_null(router_session_find(&s, text, NOW + IDLE, WALL));
    assert_null(router_session_find(&s, text, NOW, WALL)); /* for good */
}

static void a_session_ends_with_its_key(void **state)
{
    struct router_key key = {.id = "k", .expires_ms = WALL + 10};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    uint64_t id = router_session_find(&s, text, NOW, WALL + 9)->id;
    assert_non_null(router_session_by_id(&s, id, NOW, WALL + 9));
    assert_null(router_session_by_id(&s, id, NOW, WALL + 10));
    key.expires_ms = 0;
    text = start(&key, value);
    key.revoked_ms = WALL;
    assert_null(router_session_find(&s, text, NOW, WALL));
}

static void with_too_many_sessions_the_least_recently_used_ends(void **state)
{
    struct router_key key = {.id = "k"};
    char first[ROUTER_SESSION_RANDOM + 1], second[ROUTER_SESSION_RANDOM + 1],
        value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    (void)start(&key, first);
    (void)router_session_make(&s, &key, NOW, second);
    assert_non_null(router_session_find(&s, lr_str_z(first), NOW + 1, WALL));
    for (int i = 0; i < ROUTER_SESSIONS_EACH - 1; i++)
        (void)router_session_make(&s, &key, NOW + 2, value);
    assert_null(router_session_find(&s, lr_str_z(second), NOW + 3, WALL));
    assert_non_null(router_session_find(&s, lr_str_z(first), NOW + 3, WALL));
}

static void ten_wrong_keys_a_minute_then_a_wait(void **state)
{
    struct lr_error err;
    uint32_t retry;
    (void)state;
    router_sessions_init(&s, IDLE, LIFE);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(router_guess_check(&s, "10.0.0.1", NOW, &retry, &err), LR_OK);
        router_guess_count(&s, "10.0.0.1", NOW);
    }
    assert_int_equal(router_guess_check(&s, "10.0.0.1", NOW, &retry, &err), LR_RATE_LIMITED);
    assert_in_range(retry, 1, 7);
    assert_contains(err.text, "10.0.0.1");
    assert_int_equal(router_guess_check(&s, "10.0.0.2", NOW, &retry, &err), LR_OK);
    assert_int_equal(router_guess_check(&s, "10.0.0.1", NOW + 6001, &retry, &err), LR_OK);
}

static void wrong_keys_from_one_ipv6_network_count_together(void **state)
{
    struct lr_error err;
    uint32_t retry;
    char address[48];
    (void)state;
    router_sessions_init(&s, IDLE, LIFE);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(address, sizeof(address), "2001:db8::%x", i + 1);
        router_guess_count(&s, address, NOW);
    }
    assert_int_equal(router_guess_check(&s, "2001:db8::ffff", NOW, &retry, &err),
                     LR_RATE_LIMITED);
    assert_int_equal(router_guess_check(&s, "2001:db8:0:1::1", NOW, &retry, &err), LR_OK);
    assert_int_equal(router_guess_check(&s, "::ffff:10.0.0.1", NOW, &retry, &err), LR_OK);
    for (int i = 0; i < 10; i++)
        router_guess_count(&s, "::ffff:10.0.0.1", NOW);
    assert_int_equal(router_guess_check(&s, "::ffff:10.0.0.2", NOW, &retry, &err), LR_OK);
}

static void a_cookie_is_found_among_others(void **state)
{
    struct lr_str out, name = LR_STR_LIT("llm-router-1");
    (void)state;
    assert_true(router_cookie_find(LR_STR_LIT("a=b; llm-router-1=xyz;c"), name, &out));
    assert_true(lr_str_eq_z(out, "xyz"));
    assert_true(router_cookie_find(LR_STR_LIT("llm-router-1="), name, &out));
    assert_int_equal(out.len, 0);
    assert_false(
        router_cookie_find(LR_STR_LIT("llm-router-11=x; xllm-router-1=y"), name, &out));
    assert_false(router_cookie_find(LR_STR_LIT(""), name, &out));
    assert_false(router_cookie_find(LR_STR_LIT(";;=;llm-router-1"), name, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_hash_of_a_session_is_kept),
        cmocka_unit_test(use_keeps_a_session_but_not_past_its_life),
        cmocka_unit_test(a_session_ends_with_its_key),
        cmocka_unit_test(with_too_many_sessions_the_least_recently_used_ends),
        cmocka_unit_test(ten_wrong_keys_a_minute_then_a_wait),
        cmocka_unit_test(wrong_keys_from_one_ipv6_network_count_together),
        cmocka_unit_test(a_cookie_is_found_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
