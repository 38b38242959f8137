/* tests/walk/trace.c - which functions a process enters, and when: part of the program in a
 * build with LR_TRACE alone (tools/walk).
 *
 * A function that is entered often is noted once in FORGET_NS.  The notes lie in a file of
 * TMPDIR, opened before anything else runs: a worker gets this variable, and may not open files
 * later.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OBJECTS = 8, NOTES = 1 << 20, SEEN = 1 << 16, FORGET_NS = 50000000 };

#define PLAIN __attribute__((no_instrument_function))

struct notes {
    struct {
        uint64_t base;
        char path[248];
    } objects[OBJECTS];
    _Atomic uint64_t count;
    struct {
        uint64_t function, ns;
    } note[NOTES];
};

static struct notes *notes;
static struct {
    _Atomic uint64_t function, ns;
} seen[SEEN];

/* The program's build hides symbols, and engines look for these two in it. */
#define SHOWN __attribute__((visibility("default")))
void __cyg_profile_func_enter(void *function, void *site) PLAIN SHOWN;
void __cyg_profile_func_exit(void *function, void *site) PLAIN SHOWN;

PLAIN __attribute__((constructor)) static void trace_open(void)
{
    char path[512];
    const char *folder = getenv("TMPDIR");
    (void)snprintf(path, sizeof(path), "%s/walk-%d.trace", folder != NULL ? folder : "/tmp",
                   (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*notes)) != 0)
        return;
    void *at = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    notes = at != MAP_FAILED ? at : NULL;
    (void)close(fd);
}

/* The file with a function that was not seen before. */
PLAIN static void note_object(const void *function)
{
    Dl_info info;
    if (dladdr(function, &info) == 0)
        return;
    uint64_t base = (uint64_t)(uintptr_t)info.dli_fbase;
    for (size_t i = 0; i < OBJECTS; i++) {
        if (notes->objects[i].base == base)
            return;
        if (notes->objects[i].base == 0) {
            notes->objects[i].base = base;
            (void)snprintf(notes->objects[i].path, sizeof(notes->objects[i].path), "%s",
                           info.dli_fname);
            return;
        }
    }
}

void __cyg_profile_func_enter(void *function, void *site)
{
    struct timespec now;
    uint64_t at = (uint64_t)(uintptr_t)function;
    size_t slot = (size_t)((at >> 2) * 0x9E3779B97F4A7C15u >> 48) % SEEN;
    (void)site;
    if (notes == NULL)
        return;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (seen[slot].function == at && ns - seen[slot].ns < FORGET_NS)
        return;
    if (seen[slot].function != at)
        note_object(function);
    seen[slot].function = at;
    seen[slot].ns = ns;
    uint64_t i = atomic_fetch_add(&notes->count, 1);
    if (i < NOTES) {
        notes->note[i].function = at;
        notes->note[i].ns = ns;
    }
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}
