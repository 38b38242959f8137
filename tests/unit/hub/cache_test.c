/* An existing Hugging Face cache: which models lie in it, and what is wrong with the others. */
#include "hub/cache.h"
#include "tests/unit/base/support.h"

struct found {
    char id[64], dir[LR_PATH_MAX], why[508];
};

struct list {
    struct found found[8];
    size_t count;
};

static void keep(void *arg, const char *id, const char *dir, struct lr_error *why)
{
    struct list *list = arg;
    assert_true(list->count < 8);
    struct found *f = &list->found[list->count++];
    (void)snprintf(f->id, sizeof(f->id), "%s", id);
    (void)snprintf(f->dir, sizeof(f->dir), "%s", dir);
    (void)snprintf(f->why, sizeof(f->why), "%s", why != NULL ? why->text : "");
}

static const struct found *find(const struct list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->found[i].id, id) == 0)
            return &list->found[i];
    fail_msg("the cache does not have %s", id);
    return NULL;
}

static void add_snapshot(const char *cache, const char *entry, const char *commit)
{
    char path[LR_PATH_MAX + 128];
    struct lr_error err;
    (void)snprintf(path, sizeof(path), "%s/%s/snapshots/%s", cache, entry, commit);
    assert_int_equal(lr_dir_create(path, &err), LR_OK);
}

static void set_ref(const char *cache, const char *entry, const char *text)
{
    char path[LR_PATH_MAX + 128];
    struct lr_error err;
    (void)snprintf(path, sizeof(path), "%s/%s/refs", cache, entry);
    assert_int_equal(lr_dir_create(path, &err), LR_OK);
    (void)snprintf(path, sizeof(path), "%s/%s/refs/main", cache, entry);
    assert_int_equal(lr_file_write_atomic(path, lr_str_z(text), 0600, &err), LR_OK);
}

static struct list look(void)
{
    struct list list = {.count = 0};
    hub_cache_each(keep, &list);
    return list;
}

static void a_model_is_the_snapshot_that_main_names_or_the_only_one(void **state)
{
    assert_int_equal(setenv("HF_HUB_CACHE", *state, 1), 0);
    add_snapshot(*state, "models--org--a--b", "old");
    add_snapshot(*state, "models--org--a--b", "new");
    set_ref(*state, "models--org--a--b", "new\n");
    add_snapshot(*state, "models--plain", "only");
    add_snapshot(*state, "datasets--org--d", "x");
    struct list list = look();
    assert_int_equal(list.count, 2); /* a dataset is no model */
    const struct found *f = find(&list, "org/a--b");
    assert_string_equal(f->why, "");
    assert_contains(f->dir, "/models--org--a--b/snapshots/new");
    assert_contains(find(&list, "plain")->dir, "/models--plain/snapshots/only");
}

static void an_entry_that_names_no_snapshot_is_listed_with_the_reason(void **state)
{
    assert_int_equal(setenv("HF_HUB_CACHE", *state, 1), 0);
    add_snapshot(*state, "models--two", "a");
    add_snapshot(*state, "models--two", "b");
    add_snapshot(*state, "models--lost", "a");
    set_ref(*state, "models--lost", "b");
    add_snapshot(*state, "models--sly", "a");
    set_ref(*state, "models--sly", "../../models--two/snapshots/a");
    struct list list = look();
    assert_int_equal(list.count, 3);
    assert_contains(find(&list, "two")->why, "2 snapshots and no refs/main");
    assert_contains(find(&list, "lost")->why, "no snapshot b, which refs/main names");
    assert_contains(find(&list, "sly")->why, "names no commit");
    for (size_t i = 0; i < list.count; i++)
        assert_null(strstr(list.found[i].dir, "/snapshots/"));
}

static void without_hf_hub_cache_the_cache_lies_in_hf_home_then_in_the_users_home(void **state)
{
    char path[LR_PATH_MAX];
    assert_int_equal(setenv("HF_HUB_CACHE", "", 1), 0);
    assert_int_equal(setenv("HF_HOME", *state, 1), 0);
    assert_int_equal(setenv("HOME", *state, 1), 0);
    path_in(path, *state, "hub");
    add_snapshot(path, "models--of-hf-home", "x");
    path_in(path, *state, ".cache/huggingface/hub");
    add_snapshot(path, "models--of-home", "x");
    struct list list = look();
    assert_int_equal(list.count, 1);
    (void)find(&list, "of-hf-home");
    assert_int_equal(unsetenv("HF_HOME"), 0);
    list = look();
    assert_int_equal(list.count, 1);
    (void)find(&list, "of-home");
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        WITH(a_model_is_the_snapshot_that_main_names_or_the_only_one),
        WITH(an_entry_that_names_no_snapshot_is_listed_with_the_reason),
        WITH(without_hf_hub_cache_the_cache_lies_in_hf_home_then_in_the_users_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
