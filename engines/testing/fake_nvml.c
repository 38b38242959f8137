/* engines/testing/fake_nvml.c - a fake NVML whose numbers come from a file.
 *
 * LR_FAKE_NVML names the file; each line is one GPU: total and used bytes, then pid:bytes for
 * processes, and figures of the GPU's health: util=, temp=, power=, limit=, clock=, throttle=,
 * ecc= (corrected) and dbe= (uncorrected) with a number.  A figure that the line does not have
 * is not supported.  xids= counts Xid errors and xid= is their number: each increase of the
 * count is an event.  mig=2 is a GPU that is split into two parts.  lost=1 is a GPU that has
 * fallen off the bus; with lost=health only the figures of its health say so.  closed=15 is a
 * GPU that is counted, but cannot be opened: NVML's error 15.  uuid= is its UUID.  The file is
 * read at every call, so that a test can change the numbers while a node runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm-router/engine.h"

enum {
    OK = 0,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    FAILED = 999,
    GPUS_MAX = 128,
    PARTS_MAX = 8,
    LINE_BYTES = 4096
};

struct memory {
    unsigned long long total, free, used;
};

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct utilization {
    unsigned gpu, memory;
};

struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

static char handles[GPUS_MAX];
static char parts[GPUS_MAX][PARTS_MAX]; /* handles of the parts of GPUs */

static int read_line(unsigned index, char line[LINE_BYTES])
{
    const char *path = getenv("LR_FAKE_NVML");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    if (file == NULL)
        return 0;
    int found = 0;
    for (unsigned i = 0; !found && fgets(line, LINE_BYTES, file) != NULL; i++)
        found = i == index;
    (void)fclose(file);
    return found;
}

static int is_part(const void *device)
{
    const char *at = device;
    return at >= parts[0] && at < parts[0] + sizeof(parts);
}

static unsigned part_of(const void *device)
{
    return (unsigned)((const char *)device - parts[0]);
}

static unsigned index_of(const void *device)
{
    return is_part(device) ? part_of(device) / PARTS_MAX
                           : (unsigned)((const char *)device - handles);
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
#ifndef LR_NVML_OLD
EXPORT const char *nvmlErrorString(int code);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out);
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out);
EXPORT int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter,
                                       unsigned long long *out);
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part);
EXPORT int nvmlEventSetCreate(void **set);
EXPORT int nvmlEventSetFree(void *set);
EXPORT int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
EXPORT int nvmlEventSetWait_v2(void *set, struct event *out, unsigned timeout_ms);
#endif

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
    char line[LINE_BYTES];
    const char *closed = read_line(index, line) ? strstr(line, "closed=") : NULL;
    if (closed != NULL)
        return atoi(closed + strlen("closed="));
    *device = &handles[index];
    return index < GPUS_MAX ? OK : FAILED;
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned len)
{
    if (is_part(device))
        (void)snprintf(out, len, "MIG-fake-%u-%u", index_of(device),
                       part_of(device) % PARTS_MAX);
    else {
        char line[LINE_BYTES];
        const char *at = read_line(index_of(device), line) ? strstr(line, "uuid=") : NULL;
        (void)snprintf(out, len, "GPU-fake-%u", index_of(device));
        if (at != NULL)
            (void)snprintf(out, len, "GPU-%.36s", at + strlen("uuid="));
    }
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
    int has_line = read_line(index_of(device), line);
    if (has_line && strstr(line, "lost=1") != NULL)
        return GPU_IS_LOST;
    if (!has_line || sscanf(line, "%llu %llu", &out->total, &out->used) != 2)
        return FAILED;
    if (is_part(device)) {
        out->total /= 2;
        out->used /= 2;
    }
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
    if (strstr(line, "lost=1") != NULL)
        return GPU_IS_LOST;
    for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        struct process p = {0};
        if (sscanf(word, "%u:%llu", &p.pid, &p.used) == 2 && *count < room)
            out[(*count)++] = p;
    }
    return OK;
}

/* ---- health ---- */
#ifndef LR_NVML_OLD

const char *nvmlErrorString(int code)
{
    return code == NO_PERMISSION ? "Insufficient Permissions"
           : code == GPU_IS_LOST ? "GPU is lost"
                                 : "Unknown Error";
}

static unsigned long long xids_told[GPUS_MAX];

/* The number after `key` in the GPU's line; NOT_SUPPORTED: the line does not have it. */
static int read_figure(unsigned index, const char *key, unsigned long long *out)
{
    char line[LINE_BYTES];
    if (!read_line(index, line))
        return FAILED;
    if (strstr(line, "lost=") != NULL)
        return GPU_IS_LOST;
    const char *at = strstr(line, key);
    if (at == NULL)
        return NOT_SUPPORTED;
    *out = strtoull(at + strlen(key), NULL, 10);
    return OK;
}

static int read_unsigned(unsigned index, const char *key, unsigned *out)
{
    unsigned long long value = 0;
    int code = read_figure(index, key, &value);
    *out = (unsigned)value;
    return code;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *out)
{
    int code = read_unsigned(index_of(device), "util=", &out->gpu);
    out->memory = out->gpu / 2;
    return code;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    return sensor == 0 ? read_unsigned(index_of(device), "temp=", out) : FAILED;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
    return read_unsigned(index_of(device), "power=", out);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out)
{
    return read_unsigned(index_of(device), "limit=", out);
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out)
{
    return type == 1 ? read_unsigned(index_of(device), "clock=", out) : NOT_SUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    return read_figure(index_of(device), "throttle=", out);
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *out)
{
    if (counter != 0)
        return FAILED;
    return read_figure(index_of(device), type == 0 ? "ecc=" : "dbe=", out);
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    unsigned count;
    *current = read_unsigned(index_of(device), "mig=", &count) == OK;
    *pending = *current;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count)
{
    return read_unsigned(index_of(device), "mig=", count);
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **part)
{
    if (index >= PARTS_MAX)
        return FAILED;
    *part = &parts[index_of(device)][index];
    return OK;
}

int nvmlEventSetCreate(void **set)
{
    *set = xids_told;
    return OK;
}

int nvmlEventSetFree(void *set)
{
    return set == xids_told ? OK : FAILED;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    return index_of(device) < GPUS_MAX && types == 8 && set == xids_told ? OK : FAILED;
}

int nvmlEventSetWait_v2(void *set, struct event *out, unsigned timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    unsigned gpus;
    (void)nvmlDeviceGetCount_v2(&gpus);
    for (unsigned i = 0; i < gpus; i++) {
        unsigned long long count = 0, xid = 0;
        if (read_figure(i, "xids=", &count) != OK || count <= xids_told[i])
            continue;
        (void)read_figure(i, "xid=", &xid);
        xids_told[i]++;
        *out = (struct event){.device = &handles[i], .type = 8, .data = xid};
        return OK;
    }
    return TIMEOUT;
}
#endif
