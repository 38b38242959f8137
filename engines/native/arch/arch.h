/* native/arch/arch.h - what a family's file includes, and how it ends. */
#ifndef NATIVE_ARCH_ARCH_H
#define NATIVE_ARCH_ARCH_H

#include "engines/native/spec/blocks.h"
#include "engines/native/spec/builder.h"
#include "engines/native/spec/open.h"

#define NATIVE_NAMES(...)                                                                      \
    (const char *const[])                                                                      \
    {                                                                                          \
        __VA_ARGS__, NULL                                                                      \
    }
/* Defines native_arch_<name> from `fields` and `build` of the file; table.c lists it. */
#define NATIVE_ARCH(name, type, types, classes)                                                \
    extern const struct native_arch native_arch_##name;                                        \
    const struct native_arch native_arch_##name = {                                            \
        .family = #name,                                                                       \
        .model_types = types,                                                                  \
        .architectures = classes,                                                              \
        .fields = fields,                                                                      \
        .config_bytes = sizeof(type),                                                          \
        .build = build,                                                                        \
    }

#endif
