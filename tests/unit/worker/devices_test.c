/* Which Vulkan devices the gpt-oss engine can use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "worker/devices.h"

#define API(major, minor) ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12)

static const struct {
    struct worker_gpu gpu; /* version, stages, operations, subgroup, threads, shared, queue */
    const char *why;
} rows[] = {
    {{API(1, 1), 32, 21, 32, 256, 28 << 10, true}, ""},
    {{API(1, 3), 0xff, 0xff, 8, 1024, 64 << 10, true}, ""},
    {{API(1, 3), 0xff, 0xff, 64, 1024, 64 << 10, true}, ""},
    {{API(1, 0), 0xff, 0xff, 32, 1024, 64 << 10, true}, "older than Vulkan 1.1"},
    {{API(1, 3), 0xff & ~32, 0xff, 32, 1024, 64 << 10, true}, "no subgroup arithmetic"},
    {{API(1, 3), 0xff, 0xff & ~1, 32, 1024, 64 << 10, true}, "no subgroup arithmetic"},
    {{API(1, 3), 0xff, 0xff & ~4, 32, 1024, 64 << 10, true}, "no subgroup arithmetic"},
    {{API(1, 3), 0xff, 0xff & ~16, 32, 1024, 64 << 10, true}, "no subgroup arithmetic"},
    {{API(1, 3), 0xff, 0xff, 32, 1024, 64 << 10, false}, "no queue that computes"},
    {{API(1, 3), 0xff, 0xff, 32, 255, 64 << 10, true}, "255 invocations and 65536 bytes"},
    {{API(1, 3), 0xff, 0xff, 32, 1024, 16 << 10, true}, "16384 bytes of shared memory: 256"},
    {{API(1, 3), 0xff, 0xff, 4, 1024, 64 << 10, true}, "subgroups of 4: 8, 16, 32 or 64"},
    {{API(1, 3), 0xff, 0xff, 128, 1024, 64 << 10, true}, "subgroups of 128"},
    {{API(1, 3), 0xff, 0xff, 24, 1024, 64 << 10, true}, "subgroups of 24"},
};

static void a_device_that_the_kernels_cannot_use_has_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[160];
        worker_gpu_lacks(&rows[i].gpu, why, sizeof(why));
        if (rows[i].why[0] == '\0')
            assert_string_equal(why, "");
        else
            assert_non_null(strstr(why, rows[i].why));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_the_kernels_cannot_use_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
