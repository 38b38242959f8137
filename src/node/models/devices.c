#include "node/models/devices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/os/library.h"
#include "base/subprocess.h"

enum { LIST_MS = 10000, LIST_BYTES = 32 << 10 };

/* ---- asking Vulkan ---- */

static size_t devices_read_all(int fd, char *out, size_t size)
{
    size_t len = 0;
    for (ssize_t n; len < size && (n = read(fd, out + len, size - len)) > 0;)
        len += (size_t)n;
    return len;
}

/* A driver may have printed lines of its own. */
static struct lr_str last_line(struct lr_str text)
{
    struct lr_str line = {0}, last = {0};
    while (lr_str_split(&text, '\n', &line))
        last = line.len != 0 ? line : last;
    return last;
}

lr_code node_vulkan_list(struct wire_device out[WIRE_VULKAN_MAX], size_t *count,
                         struct lr_error *err)
{
    char self[LR_PATH_MAX], text[LIST_BYTES], how[LR_EXIT_TEXT_LEN];
    const char *const argv[] = {self, "worker", "--devices", NULL};
    const struct lr_spawn spawn = {.argv = argv,
                                   .in = LR_STDIO_NULL,
                                   .out = LR_STDIO_PIPE,
                                   .err = LR_STDIO_NULL,
                                   .dies_with_parent = true};
    struct lr_subprocess child = {0};
    *count = 0;
    lr_code code = lr_self_path(self, sizeof(self), err);
    if (code == LR_OK)
        code = lr_subprocess_start(&spawn, &child, err);
    if (code != LR_OK)
        return code;
    /* The list is shorter than what a pipe holds, so the child never waits for us. */
    if (!lr_subprocess_wait(&child, LIST_MS))
        code = lr_fail(err, LR_UNAVAILABLE,
                       "a Vulkan driver did not list its devices within %d s: look at "
                       "vulkaninfo, or choose its file with VK_ICD_FILENAMES",
                       LIST_MS / 1000);
    else if (wire_devices_parse(
                 last_line(lr_str(text, devices_read_all(child.out, text, sizeof(text)))), out,
                 count, err) != LR_OK)
        code = lr_fail(err, LR_UNAVAILABLE,
                       "the process that lists Vulkan's devices %s: look at vulkaninfo, or "
                       "choose a driver's file with VK_ICD_FILENAMES",
                       lr_exit_text(child.status, how));
    lr_subprocess_close(&child);
    return code;
}

/* ---- the choice ---- */

/* Where Vulkan lists nothing, its loader or a driver is missing. */
#define INSTALL                                                                                \
    "install the GPU's Vulkan driver: on Debian and Ubuntu libvulkan1 and "                    \
    "mesa-vulkan-drivers (AMD, Intel) or NVIDIA's driver, on Windows the GPU maker's driver; " \
    "on macOS use --device metal"

const char *node_devices_gpu(const char *wanted)
{
    return strncmp(wanted, "cuda:", 5) == 0 ? wanted + 5 : NULL;
}

static bool is_vulkan(const char *wanted)
{
    return strcmp(wanted, "vulkan") == 0 || strncmp(wanted, "vulkan:", 7) == 0;
}

static void set(struct node_devices *out, const char *kind)
{
    (void)snprintf(out->kind, sizeof(out->kind), "%s", kind);
    (void)snprintf(out->name, sizeof(out->name), "%s", kind);
}

static void devices_describe(const struct wire_device *listed, size_t count, char *out,
                             size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%svulkan:%u (%.60s, type %s%s%s)",
                               i != 0 ? ", " : "", listed[i].number, listed[i].title,
                               listed[i].type, listed[i].why[0] != '\0' ? "; " : "",
                               listed[i].why);
    if (count == 0)
        (void)snprintf(out, size, "no device");
}

static void use_processor(struct node_devices *out, const struct wire_device *device)
{
    set(out, "vulkan");
    out->is_cpu = true;
    (void)snprintf(out->name, sizeof(out->name), "vulkan:%u", device->number);
}

uint32_t node_device_rank(const struct wire_device *d)
{
    static const char *const types[] = {"discrete", "integrated", "virtual", "other", "cpu"};
    uint32_t n = 0;
    while (n < 4 && strcmp(d->type, types[n]) != 0)
        n++;
    return n;
}

/* All GPUs, discrete ones first; where Vulkan lists none, a device that computes on the
 * processor.  auto takes neither the processor nor a GPU that the gpt-oss engine cannot use. */
static bool pick_vulkan(const struct wire_device *listed, size_t count, bool is_auto,
                        struct node_devices *out)
{
    set(out, "vulkan");
    for (uint32_t r = 0; r < 4; r++)
        for (size_t i = 0; i < count; i++)
            if (node_device_rank(&listed[i]) == r && !(is_auto && listed[i].why[0] != '\0'))
                out->gpus[out->count++] = listed[i];
    if (out->count == 0 && count != 0 && !is_auto)
        use_processor(out, &listed[0]);
    return out->count != 0 || out->is_cpu;
}

/* Letters and digits alone count, so a UUID may be written with or without its dashes. */
static bool same_uuid(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '-')
            a++;
        while (*b == '-')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return true;
    }
}

/* One device: its number, its UUID, or a part of its name.  Of several with that part the
 * discrete one, then the first. */
static bool pick_one(const char *wanted, const struct wire_device *listed, size_t count,
                     struct node_devices *out)
{
    const struct wire_device *best = NULL;
    uint64_t number = 0;
    bool is_number = lr_str_u64(lr_str_z(wanted), &number);
    if (wanted[0] == '\0')
        return false;
    for (const struct wire_device *d = listed; d < listed + count; d++) {
        bool is_meant = is_number
                            ? d->number == number
                            : same_uuid(d->uuid, wanted) || strstr(d->title, wanted) != NULL;
        if (is_meant && (best == NULL || node_device_rank(d) < node_device_rank(best)))
            best = d;
    }
    return best != NULL && pick_vulkan(best, 1, false, out);
}

static lr_code no_gpu(bool is_auto, const char *closed, const char *vulkan,
                      struct lr_error *err)
{
    const char *nvml = lr_library_name(LR_LIBRARY_NVML);
    char why[256] = "NVIDIA has no driver for this system";
    if (closed[0] != '\0')
        (void)snprintf(why, sizeof(why), "%s", closed);
    else if (nvml[0] != '\0')
        (void)snprintf(why, sizeof(why), "%.80s is missing or lists none", nvml);
    return lr_fail(err, LR_UNSUPPORTED,
                   "no NVIDIA GPU was found (%s)%s%s: start on a machine with a GPU, or pass "
                   "--device cpu for development",
                   why, is_auto ? ", and no GPU with Vulkan, which lists " : "",
                   is_auto ? vulkan : "");
}

lr_code node_devices_pick(const char *wanted, const struct node_machine *machine,
                          struct node_devices *out, struct lr_error *err)
{
    const struct wire_device *listed = machine->vulkan;
    size_t count = machine->vulkan_count;
    char all[400];
    bool is_cuda = strncmp(wanted, "cuda", 4) == 0;
    bool is_auto = strcmp(wanted, "auto") == 0;
    *out = (struct node_devices){.is_named = !is_auto};
    devices_describe(listed, count, all, sizeof(all));
    if (is_vulkan(wanted)) {
        const char *one = strchr(wanted, ':');
        bool is_found = one != NULL ? pick_one(one + 1, listed, count, out)
                                    : pick_vulkan(listed, count, false, out);
        return is_found
                   ? LR_OK
                   : lr_fail(err, LR_UNSUPPORTED, "there is no device %s; Vulkan lists %s: %s",
                             wanted, all, count == 0 ? INSTALL : "name one of them");
    }
    if (strcmp(wanted, "metal") == 0 && !machine->has_metal)
        return lr_fail(err, LR_UNSUPPORTED,
                       "there is no device metal: Metal is part of macOS; on this system use "
                       "--device vulkan, cuda or cpu");
    if ((is_cuda || is_auto) && machine->has_nvidia)
        set(out, "cuda");
    else if (is_auto && machine->has_metal)
        set(out, "metal");
    else if (is_cuda || (is_auto && !pick_vulkan(listed, count, true, out)))
        return no_gpu(is_auto, machine->nvidia_closed, all, err);
    else if (!is_auto)
        set(out, wanted);
    out->is_cpu = strcmp(wanted, "cpu") == 0;
    return LR_OK;
}

bool node_has_metal(void)
{
    return lr_library_name(LR_LIBRARY_METAL)[0] != '\0' || getenv("LR_METAL_LIBRARY") != NULL;
}

lr_code node_devices_choose(const char *wanted, bool has_nvidia, const char *nvidia_closed,
                            struct node_devices *out, struct lr_error *err)
{
    struct wire_device listed[WIRE_VULKAN_MAX];
    struct node_machine machine = {.has_nvidia = has_nvidia,
                                   .nvidia_closed = nvidia_closed,
                                   .has_metal = node_has_metal(),
                                   .vulkan = listed};
    bool asks =
        is_vulkan(wanted) || (strcmp(wanted, "auto") == 0 && !has_nvidia && !machine.has_metal);
    if (asks) {
        lr_code code = node_vulkan_list(listed, &machine.vulkan_count, err);
        if (code != LR_OK && is_vulkan(wanted))
            return code;
    }
    return node_devices_pick(wanted, &machine, out, err);
}
