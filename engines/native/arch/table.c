/* native/arch/table.c - all families. */
#include "engines/native/arch/families.h"
#include "engines/native/spec/open.h"

#define X(name) extern const struct native_arch native_arch_##name;
NATIVE_FAMILIES(X)
#undef X

const struct native_arch *const native_archs[] = {
#define X(name) &native_arch_##name,
    NATIVE_FAMILIES(X)
#undef X
        NULL,
};
