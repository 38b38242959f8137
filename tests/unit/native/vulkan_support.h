/* Models on lavapipe, Mesa's Vulkan driver for processors, beside the same on the processor. */
#ifndef UNIT_NATIVE_VULKAN_SUPPORT_H
#define UNIT_NATIVE_VULKAN_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/file.h"

/* lavapipe does not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\n";
}

/* Only lavapipe, on every machine. */
static inline int use_lavapipe(void **state)
{
    static const char *const files[] = {"/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
                                        "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
                                        "/usr/share/vulkan/icd.d/lvp_icd.json"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (lr_file_exists(files[i]))
            return setenv("VK_ICD_FILENAMES", files[i], 1);
    fail_msg("lavapipe is not installed: run tools/setup test");
    return 1;
}

static inline bool is_long(void)
{
    return getenv("LR_LONG") != NULL;
}

/* How far `got` is from `wanted`. */
static inline double error_of(const float *got, const float *wanted, size_t n)
{
    double difference = 0, norm = 1e-30;

    for (size_t i = 0; i < n; i++) {
        difference +=
            ((double)got[i] - (double)wanted[i]) * ((double)got[i] - (double)wanted[i]);
        norm += (double)wanted[i] * (double)wanted[i];
    }
    return sqrt(difference / norm);
}

#endif
