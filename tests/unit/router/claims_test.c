/* The claims of an ID token: which are refused, and which role the groups give. */
#include "tests/unit/router/support.h"

#include "router/oidc/flow.h"

enum { NOW = 1000000 }; /* seconds */

static const struct lr_setting rows[] = {
    {.name = "oidc-admin-group", .type = LR_SETTING_LIST},
    {.name = "oidc-viewer-group", .type = LR_SETTING_LIST},
    {.name = "oidc-api-group", .type = LR_SETTING_LIST},
};

struct fixture {
    struct lr_settings *settings;
    struct router_oidc_config config;
    struct lr_arena arena;
};

static void set_up(struct fixture *f, const char *groups_claim)
{
    static const char *const args[] = {"--oidc-admin-group", "a", "--oidc-viewer-group", "v",
                                       "--oidc-api-group",   "p"};
    const struct lr_setting_table table = {rows, 3};
    *f = (struct fixture){0};
    assert_int_equal(lr_settings_create(&table, 1, NULL, &f->settings, NULL), LR_OK);
    assert_int_equal(lr_settings_read_args(f->settings, 6, args, NULL), LR_OK);
    lr_arena_init(&f->arena, 1 << 20);
    f->config = (struct router_oidc_config){.settings = f->settings,
                                            .issuer = "https://id",
                                            .client_id = "router",
                                            .groups_claim = groups_claim,
                                            .skew_ms = 60000};
}

static void tear_down(struct fixture *f)
{
    lr_settings_destroy(f->settings);
    lr_arena_free(&f->arena);
}

static const struct lr_json *read_json(struct fixture *f, const char *text)
{
    const struct lr_json *json = NULL;
    assert_int_equal(lr_json_parse(&f->arena, lr_str_z(text), NULL, &json, NULL), LR_OK);
    return json;
}

static void a_token_for_another_client_time_issuer_or_sign_in_is_refused(void **state)
{
    static const struct {
        const char *claims, *wrong; /* NULL: it is right */
    } cases[] = {
        {"{\"iss\":\"https://"
         "id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000001,\"iat\":1000000,"
         "\"nonce\":\"n\"}",
         NULL},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":[\"b\",\"router\"],\"azp\":\"router\","
         "\"exp\":1000001,\"iat\":1000000,\"nonce\":\"n\"}",
         NULL},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":[\"b\",\"router\"],\"exp\":1000001,"
         "\"iat\":1000000,\"nonce\":\"n\"}",
         "azp"},
        {"{\"iss\":\"https://id/\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000001,"
         "\"iat\":1000000,\"nonce\":\"n\"}",
         "iss"},
        {"{\"iss\":\"https://"
         "id\",\"sub\":\"x\",\"aud\":\"other\",\"exp\":1000001,\"iat\":1000000,"
         "\"nonce\":\"n\"}",
         "oidc-client-id"},
        {"{\"iss\":\"https://"
         "id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":999941,\"iat\":999000,"
         "\"nonce\":\"n\"}",
         NULL}, /* 59 s ago: within the skew */
        {"{\"iss\":\"https://"
         "id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":999939,\"iat\":999000,"
         "\"nonce\":\"n\"}",
         "expired 61 s ago"},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000200,"
         "\"iat\":1000059,\"nonce\":\"n\"}",
         NULL},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000200,"
         "\"iat\":1000061,\"nonce\":\"n\"}",
         "oidc-clock-skew"},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000200,"
         "\"iat\":1000000,\"nbf\":1000100,\"nonce\":\"n\"}",
         "not valid yet"},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000001,"
         "\"nonce\":\"n\"}",
         "iat"},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000001,"
         "\"iat\":1000000,\"nonce\":\"m\"}",
         "nonce"},
        {"{\"iss\":\"https://id\",\"sub\":\"x\",\"aud\":\"router\",\"exp\":1000001,"
         "\"iat\":1000000}",
         "nonce"},
        {"{\"iss\":\"https://id\",\"sub\":\"\",\"aud\":\"router\",\"exp\":1000001,"
         "\"iat\":1000000,\"nonce\":\"n\"}",
         "sub"},
    };
    struct fixture f;
    (void)state;
    set_up(&f, "groups");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_error err = {0};
        lr_code code = router_oidc_claims_check(&f.config, read_json(&f, cases[i].claims), "n",
                                                NOW * 1000LL, &err);
        assert_int_equal(code, cases[i].wrong == NULL ? LR_OK : LR_UNAUTHENTICATED);
        if (cases[i].wrong != NULL)
            assert_contains(err.text, cases[i].wrong);
    }
    tear_down(&f);
}

static enum router_role role_of(struct fixture *f, const char *claims, const char *userinfo)
{
    struct router_oidc_person person;
    lr_code code = router_oidc_person_read(&f->config, read_json(f, claims),
                                           userinfo != NULL ? read_json(f, userinfo) : NULL,
                                           &person, NULL);
    return code == LR_OK ? person.role : ROUTER_PUBLIC;
}

static void groups_become_roles(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, "x.groups");
    assert_int_equal(role_of(&f, "{\"sub\":\"s\",\"x\":{\"groups\":[\"p\",\"a\"]}}", NULL),
                     ROUTER_ADMIN);
    assert_int_equal(role_of(&f, "{\"sub\":\"s\",\"x.groups\":\"v\"}", NULL), ROUTER_VIEWER);
    assert_int_equal(
        role_of(&f, "{\"sub\":\"s\"}", "{\"sub\":\"s\",\"x\":{\"groups\":[7,\"p\"]}}"),
        ROUTER_API);
    assert_int_equal(
        role_of(&f, "{\"sub\":\"s\"}", "{\"sub\":\"t\",\"x\":{\"groups\":[\"a\"]}}"),
        ROUTER_PUBLIC); /* about another person */
    assert_int_equal(role_of(&f, "{\"sub\":\"s\",\"x\":{\"groups\":[\"A\",\"aa\"]}}", NULL),
                     ROUTER_PUBLIC);
    assert_int_equal(role_of(&f, "{\"sub\":\"s\",\"x\":[\"a\"]}", NULL), ROUTER_PUBLIC);
    f.config.default_role = ROUTER_VIEWER;
    assert_int_equal(role_of(&f, "{\"sub\":\"s\"}", NULL), ROUTER_VIEWER);
    tear_down(&f);
}

static void names_have_no_control_characters_and_no_unverified_address(void **state)
{
    struct router_oidc_person person;
    struct fixture f;
    (void)state;
    set_up(&f, "groups");
    f.config.default_role = ROUTER_API;
    const struct lr_json *claims =
        read_json(&f, "{\"sub\":\"s\",\"email\":\"a@b\",\"email_verified\":false,"
                      "\"name\":\"A\\nB\"}");
    assert_int_equal(router_oidc_person_read(&f.config, claims, NULL, &person, NULL), LR_OK);
    assert_string_equal(person.name, "A?B");
    assert_string_equal(person.subject, "https://id s");
    tear_down(&f);
}

static void state_nonce_and_verifier_tell_nothing_about_each_other(void **state)
{
    struct router_oidc_flow one, two;
    (void)state;
    router_oidc_flow_make(LR_STR_LIT("a"), &one);
    router_oidc_flow_make(LR_STR_LIT("b"), &two);
    assert_int_equal(strlen(one.verifier), 43);
    assert_string_not_equal(one.state, two.state);
    assert_string_not_equal(one.state, one.nonce);
    assert_string_not_equal(one.state, one.verifier);
    assert_string_not_equal(one.challenge, one.verifier);
}

static void only_a_cookie_of_the_last_minutes_signed_with_this_key_is_taken(void **state)
{
    struct lr_str key = LR_STR_LIT("key");
    char cookie[ROUTER_OIDC_COOKIE], changed[ROUTER_OIDC_COOKIE];
    (void)state;
    router_oidc_cookie_make(key, NOW, cookie);
    for (int64_t age = -60; age <= 660; age += 60)
        assert_int_equal(router_oidc_cookie_check(key, lr_str_z(cookie), NOW + age, 60, NULL),
                         LR_OK);
    static const int64_t wrong[] = {-61, 661, -10000000, 10000000};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(
            router_oidc_cookie_check(key, lr_str_z(cookie), NOW + wrong[i], 60, NULL),
            LR_UNAUTHENTICATED);
    assert_int_equal(
        router_oidc_cookie_check(LR_STR_LIT("other"), lr_str_z(cookie), NOW, 60, NULL),
        LR_UNAUTHENTICATED);
    for (size_t i = 0; cookie[i] != '\0'; i++) {
        memcpy(changed, cookie, sizeof(changed));
        changed[i] = changed[i] == '1' ? '2' : '1';
        assert_int_equal(router_oidc_cookie_check(key, lr_str_z(changed), NOW, 60, NULL),
                         LR_UNAUTHENTICATED);
        assert_int_equal(router_oidc_cookie_check(key, lr_str(cookie, i), NOW, 60, NULL),
                         LR_UNAUTHENTICATED);
    }
    assert_int_equal(router_oidc_cookie_check(key, lr_str(NULL, 0), NOW, 60, NULL),
                     LR_UNAUTHENTICATED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_for_another_client_time_issuer_or_sign_in_is_refused),
        cmocka_unit_test(groups_become_roles),
        cmocka_unit_test(names_have_no_control_characters_and_no_unverified_address),
        cmocka_unit_test(state_nonce_and_verifier_tell_nothing_about_each_other),
        cmocka_unit_test(only_a_cookie_of_the_last_minutes_signed_with_this_key_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
