/* base/os/linux/filter.h - writes a seccomp filter: rules for single system calls.
 *
 * Each rule is about one call and returns on every path, so rules for different calls can come
 * in any order.  The kernel reads arguments of type int from the low half of a word, and so do
 * these rules: what lies in the high half changes nothing.
 */
#ifndef BASE_OS_LINUX_FILTER_H
#define BASE_OS_LINUX_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The table that the numbers of system calls belong to; 0: filters do not know this processor.
 */
#if defined(__x86_64__)
#define LR_FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define LR_FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#define LR_FILTER_ARCH 0
#endif

enum { LR_FILTER_MAX = 640, LR_FILTER_VALUES = 8 };

struct lr_filter {
    struct sock_filter code[LR_FILTER_MAX];
    unsigned short count;
    bool is_full; /* a rule did not fit: the filter must not be used */
};

/* Kills processes that call by another architecture's table; ENOSYS for x32's. */
void lr_filter_begin(struct lr_filter *f);
/* Everything else is allowed. */
void lr_filter_end(struct lr_filter *f);

/* The call fails with this errno. */
void lr_filter_refuse(struct lr_filter *f, int call, int error);

/* The values of an argument, after `mask`, that a rule is about. */
struct lr_filter_values {
    unsigned argument;
    uint32_t mask; /* 0: all bits */
    uint32_t value[LR_FILTER_VALUES];
    unsigned count;
};
/* The call fails unless every argument that is named has one of its values. */
void lr_filter_only(struct lr_filter *f, int call, const struct lr_filter_values *arguments,
                    unsigned count, int error);
/* The call fails if every argument that is named has one of its values. */
void lr_filter_not(struct lr_filter *f, int call, const struct lr_filter_values *arguments,
                   unsigned count, int error);

#endif
