/* Names of models: what an id may be, that case does not tell two apart, and aliases. */
#include "router/fleet/registry.h"

#include "tests/unit/router/support.h"

static void the_same_id_in_another_case_is_a_conflict(void **state)
{
    struct router_registry registry;
    struct router_model *model;
    struct lr_error err;
    struct router_new_model m = {.id = LR_STR_LIT("Org/Name"), .source = LR_STR_LIT("local")};
    (void)state;
    router_registry_init(&registry);
    assert_int_equal(router_registry_add(&registry, &m, &model, &err), LR_OK);
    m.id = LR_STR_LIT("org/name");
    assert_int_equal(router_registry_add(&registry, &m, &model, &err), LR_CONFLICT);
    router_registry_free(&registry);
}

static void ids_that_could_leave_a_folder_are_refused(void **state)
{
    static const char *const bad[] = {"",     "/a",  "a/", "..",   "a/../b", "a//b", "a/b/c",
                                      "a\\b", "a b", ".a", "a/.b", "a\n",    "../x", "a..b"};
    static const char *const good[] = {"a", "org/name", "gpt-oss-20b", "Org/Name.v1_2:q4"};
    struct lr_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(router_check_model_id(lr_str_z(bad[i]), &err), LR_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(router_check_model_id(lr_str_z(good[i]), &err), LR_OK);
}

static lr_code add(struct router_registry *registry, const char *id, const char *aliases,
                   struct router_model **out)
{
    struct lr_error err;
    struct router_new_model m = {
        .id = lr_str_z(id), .source = LR_STR_LIT("local"), .aliases = lr_str_z(aliases)};
    return router_registry_add(registry, &m, out, &err);
}

static struct router_model *by_name(const struct router_registry *registry, const char *name)
{
    return router_registry_resolve(registry, lr_str_z(name));
}

static void an_alias_names_one_model_until_it_is_taken_away(void **state)
{
    struct router_registry registry;
    struct router_model *a, *b, *none;
    (void)state;
    router_registry_init(&registry);
    assert_int_equal(add(&registry, "a", "Claude-1 claude-2", &a), LR_OK);
    assert_int_equal(add(&registry, "b", "", &b), LR_OK);
    assert_ptr_equal(by_name(&registry, "claude-1"), a);
    assert_ptr_equal(by_name(&registry, "CLAUDE-2"), a);
    assert_ptr_equal(by_name(&registry, "B"), b);
    assert_null(router_registry_find(&registry, LR_STR_LIT("claude-1")));

    assert_true(router_registry_set_aliases(&registry, a, LR_STR_LIT("claude-2")));
    assert_null(by_name(&registry, "claude-1"));
    assert_true(router_registry_set_aliases(&registry, b, LR_STR_LIT("claude-1")));
    assert_ptr_equal(by_name(&registry, "claude-1"), b);
    assert_ptr_equal(by_name(&registry, "claude-2"), a);

    router_registry_remove(&registry, a);
    assert_null(by_name(&registry, "claude-2"));
    assert_int_equal(add(&registry, "claude-2", "", &none), LR_OK);
    router_registry_free(&registry);
}

static void a_name_that_is_taken_is_a_conflict_as_id_and_as_alias(void **state)
{
    static const struct {
        const char *id, *aliases;
    } taken[] = {{"X", ""}, {"c", "a"}, {"c", "y x"}, {"c", "C"}, {"y", ""}};
    struct router_registry registry;
    struct router_model *model;
    struct lr_error err;
    (void)state;
    router_registry_init(&registry);
    assert_int_equal(add(&registry, "a", "x y", &model), LR_OK);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        assert_int_equal(add(&registry, taken[i].id, taken[i].aliases, &model), LR_CONFLICT);
    assert_int_equal(
        router_registry_check_aliases(&registry, LR_STR_LIT("a"), LR_STR_LIT("y z"), &err),
        LR_OK);
    assert_int_equal(
        router_registry_check_aliases(&registry, LR_STR_LIT("a"), LR_STR_LIT("A"), &err),
        LR_CONFLICT);
    router_registry_free(&registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_id_in_another_case_is_a_conflict),
        cmocka_unit_test(ids_that_could_leave_a_folder_are_refused),
        cmocka_unit_test(an_alias_names_one_model_until_it_is_taken_away),
        cmocka_unit_test(a_name_that_is_taken_is_a_conflict_as_id_and_as_alias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
