/* Ids of models: what they may be, and that case does not tell two apart. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_id_in_another_case_is_a_conflict),
        cmocka_unit_test(ids_that_could_leave_a_folder_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
