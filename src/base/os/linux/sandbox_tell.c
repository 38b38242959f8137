/* base/os/linux/sandbox_tell.c - what is kept from a confined process by which mechanism, and
 * texts about it for people. */
#include <stdio.h>
#include <string.h>

#include "base/sandbox.h"

struct barrier {
    const char *what;
    int landlock;      /* the version from which Landlock keeps it; 0: none does */
    const char *since; /* the first kernel with that version */
    bool by_seccomp;
};

enum { LANDLOCK_NEWEST = 6 }; /* the last version of which this program uses something */

static const struct barrier barriers[LR_BARRIERS] = {
    [LR_BARRIER_FILES] = {"all files of this user, and the memory of its other processes", 1,
                          "5.13", false},
    [LR_BARRIER_PROGRAMS] = {"other programs", 1, "5.13", true},
    [LR_BARRIER_TRUNCATE] = {"emptying files that they may read", 3, "6.2", true},
    [LR_BARRIER_TCP] = {"TCP connections", 4, "6.7", true},
    [LR_BARRIER_SIGNALS] = {"signals to other processes", 6, "6.12", true},
    [LR_BARRIER_SOCKETS] = {"sockets of UDP and of the kernel", .by_seccomp = true},
    [LR_BARRIER_LOCAL] = {"local sockets, those of the router and of other services included",
                          .by_seccomp = true},
    [LR_BARRIER_PROCESSES] = {"new processes", .by_seccomp = true},
    [LR_BARRIER_LIMITS] = {"limits and priorities of other processes", .by_seccomp = true},
    [LR_BARRIER_ATTRIBUTES] = {"modes, owners and times of files", .by_seccomp = true},
    [LR_BARRIER_KERNEL] = {"namespaces, keys, tracing and io_uring", .by_seccomp = true},
};

static bool has_landlock_for(const struct lr_sandbox_facts *facts, const struct barrier *b)
{
    return b->landlock != 0 && facts->landlock >= b->landlock;
}

bool lr_sandbox_keeps(const struct lr_sandbox_facts *facts, enum lr_barrier barrier)
{
    const struct barrier *b = &barriers[barrier];
    bool is_socket = barrier == LR_BARRIER_TCP || barrier == LR_BARRIER_SOCKETS ||
                     barrier == LR_BARRIER_LOCAL;
    bool by_seccomp = facts->has_seccomp && b->by_seccomp &&
                      (is_socket || !facts->is_relaxed) &&
                      !(barrier == LR_BARRIER_LOCAL && facts->has_mps);
    return has_landlock_for(facts, b) || by_seccomp;
}

static void sandbox_add(char out[LR_SANDBOX_TEXT], const char *text)
{
    size_t len = strlen(out);
    (void)snprintf(out + len, LR_SANDBOX_TEXT - len, "%s", text);
}

/* As an item of a list. */
static void add_item(char out[LR_SANDBOX_TEXT], size_t start, const char *text)
{
    if (strlen(out) > start)
        sandbox_add(out, ", ");
    sandbox_add(out, text);
}

/* What the operator opened is not among them (lr_sandbox_opened). */
static void add_open(char out[LR_SANDBOX_TEXT], const struct lr_sandbox_facts *facts)
{
    struct lr_sandbox_facts without = *facts;
    size_t start = strlen(out);
    without.has_mps = false;
    for (int i = 0; i < LR_BARRIERS; i++)
        if (!lr_sandbox_keeps(&without, (enum lr_barrier)i))
            add_item(out, start, barriers[i].what);
}

const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    out[0] = '\0';
    if (facts->is_relaxed) {
        sandbox_add(out,
                    "this is a build with sanitizers: workers have no network, and all other "
                    "rights");
    } else if (facts->landlock == 0 || !facts->has_seccomp) {
        sandbox_add(out, "there is no ");
        sandbox_add(out, facts->landlock != 0 ? "seccomp"
                         : facts->has_seccomp ? "Landlock"
                                              : "Landlock and no seccomp");
        sandbox_add(out, " here: open to workers are ");
        add_open(out, facts);
        sandbox_add(out,
                    "; use Linux 5.13 or newer, and a container runtime that lets its calls "
                    "through");
    }
    return out;
}

const char *lr_sandbox_opened(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    out[0] = '\0';
    if (facts->has_mps)
        sandbox_add(out,
                    "CUDA's multi-process service is configured (CUDA_MPS_PIPE_DIRECTORY, or "
                    "/tmp/nvidia-mps/control), so workers may open local sockets: code in a "
                    "worker reaches every service of this machine that lets this user connect, "
                    "such as a router on a unix socket, D-Bus or Docker; where models are not "
                    "trusted, stop the service and unset the variable");
    return out;
}

const char *lr_sandbox_thin(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    char item[128];
    size_t start;
    out[0] = '\0';
    if (facts->is_relaxed || facts->landlock == 0 || !facts->has_seccomp ||
        facts->landlock >= LANDLOCK_NEWEST)
        return out;
    sandbox_add(out, "on this kernel seccomp alone keeps workers from ");
    start = strlen(out);
    for (const struct barrier *b = barriers; b < barriers + LR_BARRIERS; b++) {
        if (b->landlock == 0 || has_landlock_for(facts, b))
            continue;
        (void)snprintf(item, sizeof(item), "%s (Landlock as well since Linux %s)", b->what,
                       b->since);
        add_item(out, start, item);
    }
    return out;
}

const char *lr_sandbox_older(char out[LR_SANDBOX_TEXT])
{
    const struct lr_sandbox_facts no_seccomp = {.landlock = LANDLOCK_NEWEST};
    char line[200];
    out[0] = '\0';
    sandbox_add(
        out, "what older kernels leave open to workers, and what they leave to seccomp alone:");
    for (const struct barrier *b = barriers; b < barriers + LR_BARRIERS; b++) {
        if (b->landlock == 0)
            continue;
        (void)snprintf(line, sizeof(line), "\n      before Linux %s %s: %s", b->since,
                       b->by_seccomp ? "to seccomp" : "open", b->what);
        sandbox_add(out, line);
    }
    sandbox_add(out, "\n      without seccomp open: ");
    add_open(out, &no_seccomp);
    return out;
}
