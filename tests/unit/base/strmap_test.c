/* The string map, compared with a plain array. */
#include "base/strmap.h"
#include "tests/unit/base/support.h"

static void *number(size_t n)
{
    return (void *)(uintptr_t)n;
}

static void an_empty_map_has_nothing_and_owns_nothing(void **state)
{
    (void)state;
    struct lr_strmap map;
    struct lr_str key;
    void *value;
    lr_strmap_init(&map);
    assert_null(lr_strmap_get(&map, lr_str_z("x")));
    assert_null(lr_strmap_remove(&map, lr_str_z("x")));
    assert_false(lr_strmap_at(&map, 0, &key, &value));
    lr_strmap_free(&map);
}

static void keys_are_bytes_and_are_copied(void **state)
{
    (void)state;
    struct lr_strmap map;
    char key[] = "a\0b";
    void *old = number(9);
    lr_strmap_init(&map);
    assert_true(lr_strmap_put(&map, lr_str(key, 3), number(1), &old));
    assert_null(old);
    key[0] = 'z';
    assert_ptr_equal(lr_strmap_get(&map, lr_str("a\0b", 3)), number(1));
    assert_null(lr_strmap_get(&map, lr_str("a", 1)));
    assert_true(lr_strmap_put(&map, lr_str("a\0b", 3), number(2), &old));
    assert_ptr_equal(old, number(1));
    assert_true(lr_strmap_put(&map, lr_str(NULL, 0), NULL, NULL));
    assert_true(lr_strmap_has(&map, lr_str("", 0)));
    assert_int_equal(map.count, 2);
    lr_strmap_free(&map);
}

static void iteration_is_in_insertion_order(void **state)
{
    (void)state;
    struct lr_strmap map;
    lr_strmap_init(&map);
    for (size_t i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "key%zu", i);
        assert_true(lr_strmap_put(&map, lr_str_z(key), number(i), NULL));
    }
    struct lr_str key;
    void *value;
    size_t i = 0;
    for (; lr_strmap_at(&map, i, &key, &value); i++) {
        char expected[16];
        (void)snprintf(expected, sizeof(expected), "key%zu", i);
        assert_string_equal(key.ptr, expected);
        assert_ptr_equal(value, number(i));
    }
    assert_int_equal(i, 100);
    lr_strmap_free(&map);
}

/* Random puts and removes over few keys, checked against an array after each step. */
static void the_map_agrees_with_an_array_under_random_changes(void **state)
{
    (void)state;
    enum { KEYS = 300, STEPS = 60000 };
    struct lr_strmap map;
    void *expected[KEYS] = {0};
    size_t count = 0;
    uint32_t seed = 12345;
    lr_strmap_init(&map);
    for (size_t step = 1; step <= STEPS; step++) {
        char key[16];
        seed = seed * 1664525u + 1013904223u;
        size_t k = (seed >> 8) % KEYS;
        (void)snprintf(key, sizeof(key), "%zu", k);
        if ((seed >> 24) % 2 == 0) {
            count += expected[k] == NULL;
            expected[k] = number(step);
            assert_true(lr_strmap_put(&map, lr_str_z(key), number(step), NULL));
        } else {
            assert_ptr_equal(lr_strmap_remove(&map, lr_str_z(key)), expected[k]);
            count -= expected[k] != NULL;
            expected[k] = NULL;
        }
        assert_int_equal(map.count, count);
        if (step % 100 == 0) {
            for (size_t i = 0; i < KEYS; i++) {
                (void)snprintf(key, sizeof(key), "%zu", i);
                assert_ptr_equal(lr_strmap_get(&map, lr_str_z(key)), expected[i]);
            }
        }
    }
    lr_strmap_free(&map);
}

static void a_key_can_be_removed_through_its_own_view(void **state)
{
    (void)state;
    struct lr_strmap map;
    struct lr_str key;
    void *value;
    lr_strmap_init(&map);
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_true(lr_strmap_put(&map, lr_str_z(name), number(1), NULL));
    }
    while (lr_strmap_at(&map, 0, &key, &value))
        assert_non_null(lr_strmap_remove(&map, key));
    assert_int_equal(map.count, 0);
    lr_strmap_free(&map);
}

static void hashes_depend_on_every_byte(void **state)
{
    (void)state;
    char text[40] = {0};
    for (size_t len = 1; len < sizeof(text); len++) {
        uint64_t plain = lr_hash(lr_str(text, len));
        assert_true(plain == lr_hash(lr_str(text, len)));
        assert_true(plain != lr_hash(lr_str(text, len - 1)));
        for (size_t i = 0; i < len; i++) {
            text[i] = 1;
            assert_true(plain != lr_hash(lr_str(text, len)));
            text[i] = 0;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing_and_owns_nothing),
        cmocka_unit_test(keys_are_bytes_and_are_copied),
        cmocka_unit_test(iteration_is_in_insertion_order),
        cmocka_unit_test(the_map_agrees_with_an_array_under_random_changes),
        cmocka_unit_test(a_key_can_be_removed_through_its_own_view),
        cmocka_unit_test(hashes_depend_on_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
