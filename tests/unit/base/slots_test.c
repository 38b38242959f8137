/* The table of numbered slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/slots.h"

static void a_number_finds_its_item_and_never_the_next_in_its_slot(void **state)
{
    enum { COUNT = 1000 };
    static int items[COUNT];
    static uint64_t numbers[COUNT];
    struct lr_slots slots = {0};
    (void)state;
    for (size_t round = 0; round < 3; round++) {
        uint64_t before = numbers[0];
        for (size_t i = 0; i < COUNT; i++) {
            numbers[i] = lr_slots_take(&slots, &items[i]);
            assert_true(numbers[i] != 0);
        }
        assert_int_equal(slots.used, COUNT);
        assert_null(round != 0 ? lr_slots_find(&slots, before) : NULL);
        for (size_t i = 0; i < COUNT; i++)
            assert_ptr_equal(lr_slots_find(&slots, numbers[i]), &items[i]);
        for (size_t i = 0; i < COUNT; i++) {
            lr_slots_give(&slots, numbers[i]);
            lr_slots_give(&slots, numbers[i]); /* a second time is harmless */
            assert_null(lr_slots_find(&slots, numbers[i]));
        }
        assert_int_equal(slots.used, 0);
    }
    assert_true(slots.count < 2 * COUNT + 64);
    assert_null(lr_slots_find(&slots, 0));
    assert_null(lr_slots_find(&slots, UINT64_MAX));
    lr_slots_free(&slots);
    assert_null(lr_slots_find(&slots, numbers[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_finds_its_item_and_never_the_next_in_its_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
