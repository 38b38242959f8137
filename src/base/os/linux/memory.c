/* base/os/linux/memory.c - figures of /proc and of cgroup v2; large pages; regions. */
#include "base/os/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"

/* "MemAvailable:   123 kB" in a file of such lines; false when it is not there. */
static bool read_kb(const char *path, const char *key, uint64_t *bytes)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        size_t len = strlen(key);
        if (strncmp(line, key, len) == 0 && line[len] == ':') {
            *bytes = strtoull(line + len + 1, NULL, 10) * 1024;
            found = true;
        }
    }
    (void)fclose(file);
    return found;
}

/* A file with one number; "max" and a missing file are no limit. */
static bool memory_read_number(const char *path, uint64_t *out)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    return lr_str_u64(lr_str_trim(lr_str(text, n)), out);
}

/* The innermost limit that applies to us: cgroup v2, the folder /proc/self/cgroup
 * names and its parents. */
static void apply_cgroup(const struct lr_memory_roots *roots, uint64_t *total, uint64_t *used)
{
    char path[512], file[640], line[512] = "";
    (void)snprintf(path, sizeof(path), "%s/self/cgroup", roots->proc);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof(line), f) != NULL && strncmp(line, "0::", 3) != 0)
        continue;
    (void)fclose(f);
    if (strncmp(line, "0::", 3) != 0)
        return;
    line[strcspn(line, "\n")] = '\0';
    for (char *end = line + strlen(line);; *end = '\0') {
        uint64_t limit, current;
        (void)snprintf(file, sizeof(file), "%s%.300s/memory.max", roots->cgroup, line + 3);
        bool has = memory_read_number(file, &limit);
        (void)snprintf(file, sizeof(file), "%s%.300s/memory.current", roots->cgroup, line + 3);
        if (has && memory_read_number(file, &current) && limit < *total) {
            *total = limit;
            *used = current;
        }
        end = strrchr(line + 3, '/');
        if (end == NULL)
            return;
    }
}

bool lr_memory_read(const struct lr_memory_roots *roots, uint64_t *total, uint64_t *used)
{
    char path[512];
    uint64_t available = 0;
    (void)snprintf(path, sizeof(path), "%s/meminfo", roots->proc);
    if (!read_kb(path, "MemTotal", total) || !read_kb(path, "MemAvailable", &available))
        return false;
    *used = *total > available ? *total - available : 0;
    apply_cgroup(roots, total, used);
    return true;
}

uint64_t lr_memory_of_process(const struct lr_memory_roots *roots, int pid)
{
    char path[320];
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof(path), "%s/%d/status", roots->proc, pid);
    return read_kb(path, "RssAnon", &bytes) ? bytes : 0;
}

void *lr_table_alloc(size_t bytes)
{
    enum { HUGE_PAGE = 2 << 20 };
    if (bytes < HUGE_PAGE / 2)
        return calloc(1, bytes);
    size_t rounded = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *table = aligned_alloc(HUGE_PAGE, rounded);
    if (table == NULL)
        return NULL;
    (void)madvise(table, rounded, MADV_HUGEPAGE);
    memset(table, 0, bytes);
    return table;
}

/* ---- regions ---- */

void lr_region_decommit(void *part, size_t bytes)
{
    (void)madvise(part, bytes, MADV_DONTNEED);
    (void)mprotect(part, bytes, PROT_NONE);
}
