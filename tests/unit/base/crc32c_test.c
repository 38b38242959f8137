/* base/crc32c: the sums that RFC 3720 gives, in one piece and in several. */
#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_examples_of_rfc_3720(void **state)
{
    unsigned char bytes[32];
    (void)state;
    assert_int_equal(lr_crc32c(0, "123456789", 9), 0xE3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(lr_crc32c(0, bytes, sizeof(bytes)), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    assert_int_equal(lr_crc32c(0, bytes, sizeof(bytes)), 0x62A8AB43);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(lr_crc32c(0, bytes, sizeof(bytes)), 0x46DD794E);
    assert_int_equal(lr_crc32c(0, "", 0), 0);
}

static void pieces_give_the_sum_of_the_whole(void **state)
{
    static const char text[] = "a sum that is continued is the sum of all bytes so far";
    uint32_t whole = lr_crc32c(0, text, sizeof(text));
    (void)state;
    for (size_t cut = 0; cut <= sizeof(text); cut++)
        assert_int_equal(lr_crc32c(lr_crc32c(0, text, cut), text + cut, sizeof(text) - cut),
                         whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_rfc_3720),
        cmocka_unit_test(pieces_give_the_sum_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
