/* engines/testing/fake_nvml.c - a fake NVML whose numbers come from a file.
 *
 * LR_FAKE_NVML names the file; each line is one GPU: total and used bytes, then pid:bytes for
 * processes.  The file is read at every call, so that a test can change the numbers while a
 * node runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm-router/engine.h"

enum { OK = 0, FAILED = 999, GPUS_MAX = 8, LINE_BYTES = 4096 };

struct memory {
    unsigned long long total, free, used;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

static char handles[GPUS_MAX];

static int read_line(unsigned index, char line[LINE_BYTES])
{
    const char *path = getenv("LR_FAKE_NVML");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    if (file == NULL)
        return 0;
    int found = 0;
    for (unsigned i = 0; fgets(line, LINE_BYTES, file) != NULL && !found; i++)
        found = i == index;
    (void)fclose(file);
    return found;
}

static unsigned index_of(const void *device)
{
    return (unsigned)((const char *)device - handles);
}

#define EXPORT LR_ENGINE_EXPORT
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned len);
EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned len);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *out);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                                   struct process *out);

int nvmlInit_v2(void)
{
    return OK;
}

int nvmlShutdown(void)
{
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    char line[LINE_BYTES];
    for (*count = 0; *count < GPUS_MAX && read_line(*count, line);)
        ++*count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &handles[index];
    return index < GPUS_MAX ? OK : FAILED;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned len)
{
    (void)snprintf(out, len, "GPU-fake-%u", index_of(device));
    return OK;
}

int nvmlDeviceGetName(void *device, char *out, unsigned len)
{
    (void)snprintf(out, len, "Fake GPU %u", index_of(device));
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *out)
{
    char line[LINE_BYTES];
    if (!read_line(index_of(device), line) ||
        sscanf(line, "%llu %llu", &out->total, &out->used) != 2)
        return FAILED;
    out->free = out->total - out->used;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *out)
{
    char line[LINE_BYTES];
    unsigned room = *count;
    *count = 0;
    if (!read_line(index_of(device), line))
        return FAILED;
    for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        struct process p = {0};
        if (sscanf(word, "%u:%llu", &p.pid, &p.used) == 2 && *count < room)
            out[(*count)++] = p;
    }
    return OK;
}
