/* Which GPUs a node uses, by CUDA_VISIBLE_DEVICES and setting gpus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/models/gpus.h"

enum { COUNT = 5 };

/* Three GPUs, the last one in three parts. */
static void make(struct node_gpu gpus[COUNT])
{
    static const struct node_gpu all[COUNT] = {
        {.number = 0, .uuid = "GPU-aa11"},
        {.number = 1, .uuid = "GPU-bb22"},
        {.number = 2, .uuid = "MIG-1", .whole_uuid = "GPU-cc33"},
        {.number = 2, .uuid = "MIG-2", .whole_uuid = "GPU-cc33"},
        {.number = 2, .uuid = "MIG-3", .whole_uuid = "GPU-cc33"},
    };
    memcpy(gpus, all, sizeof(all));
}

static void check(const char *visible, const char *wanted, const char *copies)
{
    struct node_gpu gpus[COUNT];
    struct lr_error err;
    make(gpus);
    node_gpus_show(gpus, COUNT, visible);
    assert_int_equal(node_gpus_take(gpus, COUNT, wanted, &err), LR_OK);
    for (size_t i = 0; i < COUNT; i++)
        if (gpus[i].copies != (uint32_t)(copies[i] - '0'))
            fail_msg("visible=%s gpus=%s: GPU %zu has %u copies, not %c",
                     visible != NULL ? visible : "(none)", wanted != NULL ? wanted : "(none)",
                     i, gpus[i].copies, copies[i]);
}

static void
cuda_visible_devices_shows_numbers_and_uuids_up_to_the_first_wrong_word(void **state)
{
    (void)state;
    check(NULL, NULL, "11111");
    check("", NULL, "00000");
    check("-1", NULL, "00000");
    check("1", NULL, "01000");
    check("1,0", NULL, "11000");
    check("GPU-bb", NULL, "01000");
    check("GPU-", NULL, "00000");
    check("MIG-2, GPU-aa11", NULL, "10010");
    check("2", NULL, "00111");
    check("0,7,1", NULL, "10000");
    check("NoDevFiles", NULL, "00000");
}

static void a_gpu_that_is_named_twice_holds_two_replicas(void **state)
{
    (void)state;
    check(NULL, "0,0", "20000");
    check(NULL, "GPU-aa,1,0,GPU-aa11", "31000");
    check("0,1", "1", "01000");
    check("MIG-1,MIG-3", "MIG-3,MIG-3", "00002");
}

static void a_word_that_names_no_gpu_is_an_error_with_the_word(void **state)
{
    static const char *const wrong[] = {"5", "0,x", "GPU-dd", "0,,1", "1"};
    struct node_gpu gpus[COUNT];
    struct lr_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        make(gpus);
        node_gpus_show(gpus, COUNT, "0");
        assert_int_equal(node_gpus_take(gpus, COUNT, wrong[i], &err), LR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, "CUDA_VISIBLE_DEVICES"));
    }
    assert_non_null(strstr(err.text, "\"1\"")); /* it is hidden */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            cuda_visible_devices_shows_numbers_and_uuids_up_to_the_first_wrong_word),
        cmocka_unit_test(a_gpu_that_is_named_twice_holds_two_replicas),
        cmocka_unit_test(a_word_that_names_no_gpu_is_an_error_with_the_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
