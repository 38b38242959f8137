/* Arenas, buffers and regions: limits hold, and a failure is kept. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/os/memory.h"
#include "tests/unit/base/support.h"

static void an_arena_gives_aligned_memory_up_to_its_limit(void **state)
{
    (void)state;
    struct lr_arena arena;
    lr_arena_init(&arena, 1000);
    char *a = lr_arena_alloc(&arena, 1), *b = lr_arena_alloc(&arena, 17);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 16, 0);
    assert_int_equal((uintptr_t)b % 16, 0);
    assert_int_equal(arena.used, 48);
    assert_null(lr_arena_alloc(&arena, 953));
    assert_non_null(lr_arena_alloc(&arena, 952 / 16 * 16));
    lr_arena_free(&arena);
    assert_int_equal(arena.used, 0);
    assert_non_null(lr_arena_alloc(&arena, 1000 / 16 * 16));
    lr_arena_free(&arena);
}

static void an_arena_refuses_sizes_that_overflow(void **state)
{
    (void)state;
    struct lr_arena arena;
    lr_arena_init(&arena, SIZE_MAX);
    assert_null(lr_arena_alloc(&arena, SIZE_MAX));
    assert_null(lr_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(lr_arena_alloc(&arena, SIZE_MAX - 16));
    assert_null(lr_arena_array(&arena, SIZE_MAX / 8, 16));
    assert_null(lr_arena_array(&arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(lr_arena_copy(&arena, lr_str("", SIZE_MAX)));
    lr_arena_free(&arena);
}

static void an_arena_holds_many_blocks(void **state)
{
    (void)state;
    struct lr_arena arena;
    lr_arena_init(&arena, 64 << 20);
    char *first = lr_arena_printf(&arena, "%s-%d", "first", 1);
    for (int i = 0; i < 5000; i++) {
        unsigned char *block = lr_arena_zalloc(&arena, (size_t)i);
        assert_non_null(block);
        for (int j = 0; j < i; j++)
            assert_int_equal(block[j], 0);
        memset(block, 0xAA, (size_t)i);
    }
    assert_string_equal(first, "first-1");
    lr_arena_free(&arena);
}

static void an_empty_arena_array_is_not_null(void **state)
{
    (void)state;
    struct lr_arena arena;
    lr_arena_init(&arena, 64);
    assert_non_null(lr_arena_array(&arena, 0, 24));
    assert_string_equal(lr_arena_copy(&arena, lr_str(NULL, 0)), "");
    lr_arena_free(&arena);
}

static void a_buffer_keeps_its_limit_and_stays_failed(void **state)
{
    (void)state;
    struct lr_buf buf;
    lr_buf_init(&buf, 5);
    lr_buf_add_z(&buf, "abc");
    assert_false(buf.failed);
    lr_buf_add_z(&buf, "def");
    assert_true(buf.failed);
    lr_buf_add_z(&buf, "d");
    assert_int_equal(buf.len, 3);
    assert_string_equal(lr_buf_z(&buf), "");
    lr_buf_clear(&buf);
    lr_buf_add_z(&buf, "vwxyz");
    assert_false(buf.failed);
    assert_string_equal(lr_buf_z(&buf), "vwxyz");
    lr_buf_free(&buf);
}

static void a_buffer_of_any_limit_takes_exactly_that_many_bytes(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 1030; limit++) {
        struct lr_buf buf;
        lr_buf_init(&buf, limit);
        for (size_t i = 0; i < limit; i++)
            lr_buf_add_char(&buf, (char)('a' + i % 26));
        assert_false(buf.failed);
        assert_int_equal(strlen(lr_buf_z(&buf)), limit);
        lr_buf_add_char(&buf, 'x');
        assert_true(buf.failed);
        lr_buf_free(&buf);
    }
}

static void printing_into_a_buffer_fits_to_the_byte(void **state)
{
    (void)state;
    struct lr_buf buf;
    lr_buf_init(&buf, 6);
    lr_buf_addf(&buf, "%d-%s", 42, "abc");
    assert_false(buf.failed);
    assert_string_equal(lr_buf_z(&buf), "42-abc");
    lr_buf_addf(&buf, "%s", "");
    assert_false(buf.failed);
    lr_buf_addf(&buf, "%d", 7);
    assert_true(buf.failed);
    lr_buf_free(&buf);
}

static void consuming_drops_from_the_front(void **state)
{
    (void)state;
    struct lr_buf buf;
    lr_buf_init(&buf, 100);
    lr_buf_add_z(&buf, "hello world");
    lr_buf_consume(&buf, 6);
    assert_string_equal(lr_buf_z(&buf), "world");
    lr_buf_consume(&buf, 99);
    assert_int_equal(buf.len, 0);
    char *room = lr_buf_reserve(&buf, 2);
    memcpy(room, "ok", 2);
    lr_buf_commit(&buf, 2);
    assert_string_equal(lr_buf_z(&buf), "ok");
    lr_buf_free(&buf);
}

static void memory_of_a_region_is_zero_again_after_it_was_given_back(void **state)
{
    (void)state;
    size_t page = lr_page_bytes(), whole = (size_t)64 << 30; /* more than there is */
    char *region = lr_region_reserve(whole);
    assert_non_null(region);
    assert_true(lr_region_commit(region, 4 * page));
    memset(region, 0x5a, 4 * page);
    lr_region_decommit(region + page, 3 * page);
    assert_int_equal(region[page - 1], 0x5a);
    assert_true(lr_region_commit(region + page, 8 * page));
    for (size_t i = page; i < 9 * page; i++)
        assert_int_equal(region[i], 0);
    lr_region_free(region, whole);
    lr_region_free(NULL, whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_gives_aligned_memory_up_to_its_limit),
        cmocka_unit_test(an_arena_refuses_sizes_that_overflow),
        cmocka_unit_test(an_arena_holds_many_blocks),
        cmocka_unit_test(an_empty_arena_array_is_not_null),
        cmocka_unit_test(a_buffer_keeps_its_limit_and_stays_failed),
        cmocka_unit_test(a_buffer_of_any_limit_takes_exactly_that_many_bytes),
        cmocka_unit_test(printing_into_a_buffer_fits_to_the_byte),
        cmocka_unit_test(consuming_drops_from_the_front),
        cmocka_unit_test(memory_of_a_region_is_zero_again_after_it_was_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
