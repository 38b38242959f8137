#include "base/os/linux/filter.h"

#include <errno.h>
#include <linux/seccomp.h>

enum { X32_BIT = 0x40000000 };

static void filter_add(struct lr_filter *f, struct sock_filter instruction)
{
    if (f->count < LR_FILTER_MAX)
        f->code[f->count++] = instruction;
    else
        f->is_full = true;
}

static void load(struct lr_filter *f, size_t offset)
{
    filter_add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void filter_give(struct lr_filter *f, uint32_t what)
{
    filter_add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void jump_if(struct lr_filter *f, uint32_t value, unsigned then, unsigned otherwise)
{
    filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (uint8_t)then,
                                               (uint8_t)otherwise));
}

static uint32_t failure(int error)
{
    return SECCOMP_RET_ERRNO | (uint32_t)error;
}

void lr_filter_begin(struct lr_filter *f)
{
    f->count = 0;
    f->is_full = false;
    load(f, offsetof(struct seccomp_data, arch));
    jump_if(f, LR_FILTER_ARCH, 1, 0);
    filter_give(f, SECCOMP_RET_KILL_PROCESS);
    load(f, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    filter_give(f, failure(ENOSYS));
#endif
}

void lr_filter_end(struct lr_filter *f)
{
    filter_give(f, SECCOMP_RET_ALLOW);
}

void lr_filter_refuse(struct lr_filter *f, int call, int error)
{
    jump_if(f, (uint32_t)call, 0, 1);
    filter_give(f, failure(error));
}

static unsigned length_of(const struct lr_filter_values *a)
{
    unsigned mask = a->mask != 0 ? 1 : 0;
    return 1 + mask + a->count; /* load, mask, one comparison each */
}

/* Goes to the first of the two results, or to the second where an argument has another value:
 * the results are the two instructions after the rule. */
static void test_all(struct lr_filter *f, int call, const struct lr_filter_values *arguments,
                     unsigned count, uint32_t all, uint32_t other)
{
    unsigned rest = 0;
    for (unsigned i = 0; i < count; i++)
        rest += length_of(&arguments[i]);
    jump_if(f, (uint32_t)call, 0, rest + 2);
    for (unsigned i = 0; i < count; i++) {
        const struct lr_filter_values *a = &arguments[i];
        rest -= length_of(a);
        /* The low half comes first on both architectures. */
        load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)a->argument);
        if (a->mask != 0)
            filter_add(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, a->mask));
        for (unsigned v = 0; v < a->count; v++) {
            unsigned left = a->count - v - 1; /* comparisons of this argument */
            jump_if(f, a->value[v], left, left == 0 ? rest + 1 : 0);
        }
    }
    filter_give(f, all);
    filter_give(f, other);
}

void lr_filter_only(struct lr_filter *f, int call, const struct lr_filter_values *arguments,
                    unsigned count, int error)
{
    test_all(f, call, arguments, count, SECCOMP_RET_ALLOW, failure(error));
}

void lr_filter_not(struct lr_filter *f, int call, const struct lr_filter_values *arguments,
                   unsigned count, int error)
{
    test_all(f, call, arguments, count, failure(error), SECCOMP_RET_ALLOW);
}
