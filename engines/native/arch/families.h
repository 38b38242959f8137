/* native/arch/families.h - the list of all families: X(file). */
#ifndef NATIVE_ARCH_FAMILIES_H
#define NATIVE_ARCH_FAMILIES_H

/* clang-format off */
#define NATIVE_FAMILIES(X)                                                                     \
    X(qwen3)
/* clang-format on */

#endif
