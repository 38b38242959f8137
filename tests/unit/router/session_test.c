/* Sessions: how long they live, how many a key has; cookies. */
#include "tests/unit/router/support.h"

#include "router/access/session.h"

enum { IDLE = 1000, LIFE = 5000, NOW = 100000 };

static struct router_sessions s; /* large */

static struct lr_str start(struct router_key *key, char value[ROUTER_SESSION_RANDOM + 1])
{
    struct router_session replaced;
    router_sessions_init(&s, IDLE, LIFE);
    assert_non_null(router_session_make(&s, key, "10.0.0.1", NOW, value, &replaced));
    assert_int_equal(replaced.state, ROUTER_SESSION_FREE);
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
    assert_ptr_equal(router_session_find(&s, text, NOW)->key, &key);
    char csrf[LR_SHA256_HEX_LEN + 1];
    router_session_csrf(text, csrf);
    assert_null(memmem(&s, sizeof(s), csrf, 20));
    value[5] ^= 1;
    assert_null(router_session_find(&s, text, NOW));
    assert_null(router_session_find(&s, LR_STR_LIT(""), NOW));
}

static void use_keeps_a_session_but_not_past_its_life(void **state)
{
    struct router_key key = {.id = "k"};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    for (int64_t t = NOW; t < NOW + LIFE; t += IDLE - 1)
        assert_non_null(router_session_find(&s, text, t));
    assert_null(router_session_find(&s, text, NOW + LIFE));
    text = start(&key, value);
    assert_null(router_session_find(&s, text, NOW + IDLE));
    assert_null(router_session_find(&s, text, NOW)); /* for good */
}

static void a_session_ends_with_its_key(void **state)
{
    struct router_key key = {.id = "k", .expires_ms = NOW + 10};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    uint64_t id = router_session_find(&s, text, NOW + 9)->id;
    assert_non_null(router_session_by_id(&s, id, NOW + 9));
    assert_null(router_session_by_id(&s, id, NOW + 10));
    key.expires_ms = 0;
    text = start(&key, value);
    key.revoked_ms = NOW;
    assert_null(router_session_find(&s, text, NOW));
}

static void a_key_with_too_many_sessions_ends_its_own_least_recently_used_one(void **state)
{
    struct router_key key = {.id = "k"}, other = {.id = "o"};
    char first[ROUTER_SESSION_RANDOM + 1], second[ROUTER_SESSION_RANDOM + 1],
        others[ROUTER_SESSION_RANDOM + 1], value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    (void)start(&key, first);
    struct router_session replaced;
    (void)router_session_make(&s, &other, "", NOW, others, &replaced);
    (void)router_session_make(&s, &key, "", NOW, second, &replaced);
    assert_non_null(router_session_find(&s, lr_str_z(first), NOW + 1));
    for (int i = 0; i < ROUTER_SESSIONS_OF_KEY - 1; i++)
        (void)router_session_make(&s, &key, "", NOW + 2, value, &replaced);
    assert_int_equal(replaced.state, ROUTER_SESSION_NEW);
    assert_null(router_session_find(&s, lr_str_z(second), NOW + 3));
    assert_non_null(router_session_find(&s, lr_str_z(first), NOW + 3));
    for (int i = 0; i < 3000; i++)
        (void)router_session_make(&s, &key, "", NOW + 2, value, &replaced);
    assert_non_null(router_session_find(&s, lr_str_z(others), NOW + 3));
}

static void in_a_full_table_the_key_with_the_most_sessions_gives_a_place(void **state)
{
    static struct router_key keys[ROUTER_SESSIONS_EACH / ROUTER_SESSIONS_OF_KEY];
    struct router_key lone = {.id = "lone"}, late = {.id = "late"};
    char first[ROUTER_SESSION_RANDOM + 1], value[ROUTER_SESSION_RANDOM + 1];
    struct router_session replaced;
    (void)state;
    (void)start(&lone, first);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        for (int j = 0; j < ROUTER_SESSIONS_OF_KEY; j++)
            (void)router_session_make(&s, &keys[i], "", NOW + 1, value, &replaced);
    (void)router_session_make(&s, &late, "", NOW + 2, value, &replaced);
    assert_int_equal(replaced.state, ROUTER_SESSION_NEW);
    assert_ptr_not_equal(replaced.key, &lone);
    assert_non_null(router_session_find(&s, lr_str_z(first), NOW + 3));
    assert_non_null(router_session_find(&s, lr_str_z(value), NOW + 3));
}

static void a_session_that_was_ended_stays_ended_until_its_row_is_deleted(void **state)
{
    struct router_keys keys = {0};
    struct router_key key = {.id = "k"};
    char value[ROUTER_SESSION_RANDOM + 1];
    (void)state;
    struct lr_str text = start(&key, value);
    struct router_session *session = router_session_find(&s, text, NOW);
    struct router_session_row row = router_session_describe(session);
    router_session_settle(&s, row.hash, ROUTER_SESSION_NEW);
    assert_int_equal(session->state, ROUTER_SESSION_SAVED);
    router_session_end(session);
    assert_null(router_session_find(&s, text, NOW));
    assert_false(router_session_adopt(&s, &keys, &row, NOW)); /* though the database has it */
    router_session_settle(&s, row.hash, ROUTER_SESSION_NEW);  /* a late answer of a write */
    assert_int_equal(session->state, ROUTER_SESSION_ENDED);
    router_session_settle(&s, row.hash, ROUTER_SESSION_ENDED);
    assert_int_equal(session->state, ROUTER_SESSION_FREE);
}

/* Rows of the database as the router reads them. */
static void merge(const struct router_session_row *rows, size_t count, int64_t now_ms)
{
    struct router_keys keys = {0};
    struct lr_strmap map;
    lr_strmap_init(&map);
    for (size_t i = 0; i < count; i++)
        assert_true(lr_strmap_put(&map, lr_str((const char *)rows[i].hash, LR_SHA256_LEN),
                                  (void *)(uintptr_t)&rows[i], NULL));
    router_sessions_merge(&s, &keys, &map, now_ms);
    lr_strmap_free(&map);
}

static void sessions_of_people_come_and_go_with_their_rows(void **state)
{
    struct router_session_row rows[2] = {
        {.hash = {1},
         .key_id = "user-1",
         .name = "ada",
         .role = ROUTER_ADMIN,
         .made_ms = NOW,
         .used_ms = NOW},
        {.hash = {2},
         .key_id = "user-1",
         .name = "ada",
         .role = ROUTER_VIEWER,
         .made_ms = NOW + 1,
         .used_ms = NOW},
    };
    (void)state;
    router_sessions_init(&s, IDLE, LIFE);
    merge(rows, 2, NOW);
    assert_int_equal(s.person_count, 1);
    assert_int_equal(s.people[0]->role, ROUTER_VIEWER); /* the newest sign-in decides */
    assert_string_equal(s.people[0]->person, "ada (user-1)");
    uint64_t second = 0;
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        if (s.all[i].state == ROUTER_SESSION_SAVED && s.all[i].hash[0] == 2)
            second = s.all[i].id;
    assert_non_null(router_session_by_id(&s, second, NOW));
    merge(rows, 1, NOW); /* another router has ended the second session */
    assert_null(router_session_by_id(&s, second, NOW));
    assert_int_equal(s.people[0]->role, ROUTER_ADMIN);
    merge(rows, 0, NOW);
    for (size_t i = 0; i < ROUTER_SESSIONS_MAX; i++)
        assert_int_equal(s.all[i].state, ROUTER_SESSION_FREE);
    router_sessions_free(&s);
}

static void a_key_signs_in_some_times_a_minute(void **state)
{
    struct router_key key = {.id = "k"};
    struct lr_error err;
    uint32_t retry;
    (void)state;
    for (int i = 0; i < ROUTER_SIGN_INS_PER_MINUTE; i++)
        assert_int_equal(router_session_take(&key, NOW, &retry, &err), LR_OK);
    assert_int_equal(router_session_take(&key, NOW, &retry, &err), LR_RATE_LIMITED);
    assert_in_range(retry, 1, 3);
    assert_int_equal(router_session_take(&key, NOW + 2001, &retry, &err), LR_OK);
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
        cmocka_unit_test(a_key_with_too_many_sessions_ends_its_own_least_recently_used_one),
        cmocka_unit_test(in_a_full_table_the_key_with_the_most_sessions_gives_a_place),
        cmocka_unit_test(a_session_that_was_ended_stays_ended_until_its_row_is_deleted),
        cmocka_unit_test(sessions_of_people_come_and_go_with_their_rows),
        cmocka_unit_test(a_key_signs_in_some_times_a_minute),
        cmocka_unit_test(a_cookie_is_found_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
