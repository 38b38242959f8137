#include "worker/devices.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/library.h"
#include "wire/device.h"

/* ---- Vulkan, prototypes and numbers by hand ---- */

enum {
    VK_APPLICATION_INFO = 0,
    VK_INSTANCE_CREATE_INFO = 1,
    VK_DEVICE_PROPERTIES_2 = 1000059001,
    VK_DEVICE_ID_PROPERTIES = 1000071004,
    VK_DEVICE_MEMORY_PROPERTIES_2 = 1000059006,
    VK_DEVICE_MEMORY_BUDGET = 1000237000,
    VK_DEVICE_SUBGROUP = 1000094000,
    VK_DEVICE_SUBGROUP_SIZE = 1000225000,
    VK_DEVICE_SUBGROUP_SIZE_FEATURES = 1000225002,
    VK_DEVICE_FEATURES_2 = 1000059000,
    VK_HEAP_DEVICE_LOCAL = 1,
    VK_QUEUE_COMPUTE = 2,
    VK_STAGE_COMPUTE = 32,
    VK_SUBGROUP_BASIC = 1,
    VK_SUBGROUP_ARITHMETIC = 4,
    VK_SUBGROUP_SHUFFLE = 16,
    VK_EXTENSIONS_MAX = 512,
    VK_FAMILIES_MAX = 32,
};
static const uint32_t VK_API_1_1 = 1u << 22 | 1u << 12;

struct vk_application {
    uint32_t type;
    const void *next;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api;
};

struct vk_instance_info {
    uint32_t type;
    const void *next;
    uint32_t flags;
    const struct vk_application *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
};

struct vk_limits {
    uint32_t of_images[12];
    uint64_t of_memory[2];
    uint32_t of_descriptors_and_stages[38];
    uint32_t shared_bytes, group_count[3], threads, group_size[3];
};

/* 824 bytes in all. */
struct vk_properties {
    uint32_t api, driver, vendor, device, type;
    char name[256];
    unsigned char cache_uuid[16];
    struct vk_limits limits;
    uint64_t rest[128];
};
_Static_assert(offsetof(struct vk_properties, limits) == 296, "as in Vulkan's header");
_Static_assert(offsetof(struct vk_limits, shared_bytes) == 216, "as in Vulkan's header");

struct vk_subgroup {
    uint32_t type;
    void *next;
    uint32_t size, stages, operations, quads;
};

struct vk_subgroup_size {
    uint32_t type;
    void *next;
    uint32_t least, most, groups, stages;
};

struct vk_subgroup_size_features {
    uint32_t type;
    void *next;
    uint32_t has_control, has_full_subgroups;
};

struct vk_features_2 {
    uint32_t type;
    void *next;
    uint32_t features[56];
};

struct vk_family {
    uint32_t flags, count, bits, granularity[3];
};

struct vk_id_properties {
    uint32_t type;
    void *next;
    unsigned char device_uuid[16], driver_uuid[16], luid[8];
    uint32_t node_mask, has_luid;
};

struct vk_properties_2 {
    uint32_t type;
    void *next;
    struct vk_properties properties;
};

struct vk_memory {
    uint32_t type_count;
    uint32_t types[32][2];
    uint32_t heap_count;
    struct {
        uint64_t bytes;
        uint32_t flags;
    } heaps[16];
};

struct vk_memory_2 {
    uint32_t type;
    void *next;
    struct vk_memory memory;
};

struct vk_budget {
    uint32_t type;
    void *next;
    uint64_t budget[16], usage[16];
};

struct vk_extension {
    char name[256];
    uint32_t version;
};

struct vulkan {
    int (*create)(const struct vk_instance_info *, const void *, void **);
    int (*list)(void *, uint32_t *, void **);
    void (*properties)(void *, struct vk_properties_2 *);
    void (*memory)(void *, struct vk_memory_2 *);
    int (*extensions)(void *, const char *, uint32_t *, struct vk_extension *);
    void (*features)(void *, struct vk_features_2 *);
    void (*families)(void *, uint32_t *, struct vk_family *);
};

static bool devices_find(void *library, const char *name, void *out, size_t size)
{
    void *symbol = lr_library_symbol(library, name);
    memcpy(out, &symbol, size); /* ISO C has no cast from object to function */
    return symbol != NULL;
}

static bool open_vulkan(struct vulkan *vk)
{
    void *library = lr_library_open_known(LR_LIBRARY_VULKAN);
    return library != NULL &&
           devices_find(library, "vkCreateInstance", &vk->create, sizeof(vk->create)) &&
           devices_find(library, "vkEnumeratePhysicalDevices", &vk->list, sizeof(vk->list)) &&
           devices_find(library, "vkGetPhysicalDeviceProperties2", &vk->properties,
                        sizeof(vk->properties)) &&
           devices_find(library, "vkGetPhysicalDeviceMemoryProperties2", &vk->memory,
                        sizeof(vk->memory)) &&
           devices_find(library, "vkEnumerateDeviceExtensionProperties", &vk->extensions,
                        sizeof(vk->extensions)) &&
           devices_find(library, "vkGetPhysicalDeviceFeatures2", &vk->features,
                        sizeof(vk->features)) &&
           devices_find(library, "vkGetPhysicalDeviceQueueFamilyProperties", &vk->families,
                        sizeof(vk->families));
}

/* ---- what the kernels need ---- */

/* As in engines/gptoss/backend/gpu/plan.c. */
enum { THREADS_LEAST = 256, SHARED_LEAST = 28 << 10, SUBGROUP_WANTED = 32 };

void worker_gpu_lacks(const struct worker_gpu *gpu, char *out, size_t size)
{
    const uint32_t operations =
        VK_SUBGROUP_BASIC | VK_SUBGROUP_ARITHMETIC | VK_SUBGROUP_SHUFFLE;
    out[0] = '\0';
    if (gpu->api < VK_API_1_1)
        (void)snprintf(out, size, "its driver is older than Vulkan 1.1: update the driver");
    else if ((gpu->subgroup_stages & VK_STAGE_COMPUTE) == 0 ||
             (gpu->subgroup_operations & operations) != operations)
        (void)snprintf(out, size,
                       "its driver has no subgroup arithmetic and shuffles in compute shaders: "
                       "update the driver");
    else if (!gpu->has_compute_queue)
        (void)snprintf(out, size, "it has no queue that computes");
    else if (gpu->threads < THREADS_LEAST || gpu->shared_bytes < SHARED_LEAST)
        (void)snprintf(out, size,
                       "its work groups have %u invocations and %u bytes of shared memory: %d "
                       "and %d are needed",
                       gpu->threads, gpu->shared_bytes, THREADS_LEAST, SHARED_LEAST);
    else if (gpu->subgroup < 8 || gpu->subgroup > 64 ||
             (gpu->subgroup & (gpu->subgroup - 1)) != 0)
        (void)snprintf(out, size, "it has subgroups of %u: 8, 16, 32 or 64 are needed",
                       gpu->subgroup);
}

/* ---- one device ---- */

static void copy_title(char *out, size_t size, const char *name)
{
    size_t n = 0;
    for (; n + 1 < size && n < 255 && name[n] != '\0'; n++)
        out[n] = isprint((unsigned char)name[n]) ? name[n] : '?';
    out[n] = '\0';
}

static bool has_extension(const struct vulkan *vk, void *device, const char *name)
{
    struct vk_extension *all = calloc(VK_EXTENSIONS_MAX, sizeof(*all));
    uint32_t count = VK_EXTENSIONS_MAX;
    bool found = false;
    if (all != NULL && vk->extensions(device, NULL, &count, all) >= 0)
        for (uint32_t i = 0; i < count; i++)
            found = found || strcmp(all[i].name, name) == 0;
    free(all);
    return found;
}

/* The largest heap, and what a process may use of it. */
static void read_memory(const struct vulkan *vk, void *device, struct wire_device *out)
{
    struct vk_budget budget = {.type = VK_DEVICE_MEMORY_BUDGET};
    struct vk_memory_2 all = {.type = VK_DEVICE_MEMORY_PROPERTIES_2};
    bool has_budget = has_extension(vk, device, "VK_EXT_memory_budget");
    if (has_budget)
        all.next = &budget;
    vk->memory(device, &all);
    for (uint32_t i = 0; i < all.memory.heap_count && i < 16; i++) {
        uint64_t bytes = all.memory.heaps[i].bytes;
        if ((all.memory.heaps[i].flags & VK_HEAP_DEVICE_LOCAL) == 0 || bytes <= out->memory)
            continue;
        out->memory = bytes;
        out->budget = has_budget && budget.budget[i] < bytes ? budget.budget[i] : bytes;
    }
}

/* The size of a subgroup of a kernel, as engines/devices/vulkan/device.c asks for it. */
static uint32_t subgroup_of(const struct vulkan *vk, void *device, uint32_t otherwise)
{
    struct vk_subgroup_size size = {.type = VK_DEVICE_SUBGROUP_SIZE};
    struct vk_properties_2 all = {.type = VK_DEVICE_PROPERTIES_2, .next = &size};
    struct vk_subgroup_size_features can = {.type = VK_DEVICE_SUBGROUP_SIZE_FEATURES};
    struct vk_features_2 features = {.type = VK_DEVICE_FEATURES_2, .next = &can};
    if (!has_extension(vk, device, "VK_EXT_subgroup_size_control"))
        return otherwise;
    vk->properties(device, &all);
    vk->features(device, &features);
    if ((size.stages & VK_STAGE_COMPUTE) == 0 || !can.has_control || !can.has_full_subgroups)
        return otherwise;
    uint32_t n = SUBGROUP_WANTED < size.least ? size.least : SUBGROUP_WANTED;
    return n > size.most ? size.most : n;
}

static void devices_judge(const struct vulkan *vk, void *device, const struct vk_properties *p,
                          const struct vk_subgroup *subgroup, struct wire_device *out)
{
    const struct vk_limits *l = &p->limits;
    struct vk_family families[VK_FAMILIES_MAX];
    uint32_t count = VK_FAMILIES_MAX;
    struct worker_gpu gpu = {
        .api = p->api,
        .subgroup_stages = subgroup->stages,
        .subgroup_operations = subgroup->operations,
        .subgroup = subgroup_of(vk, device, subgroup->size),
        .threads = l->threads < l->group_size[0] ? l->threads : l->group_size[0],
        .shared_bytes = l->shared_bytes,
    };
    vk->families(device, &count, families);
    for (uint32_t i = 0; i < count; i++)
        gpu.has_compute_queue =
            gpu.has_compute_queue || (families[i].flags & VK_QUEUE_COMPUTE) != 0;
    worker_gpu_lacks(&gpu, out->why, sizeof(out->why));
}

static struct wire_device devices_describe(const struct vulkan *vk, void *device,
                                           uint32_t number)
{
    static const char *const types[] = {"other", "integrated", "discrete", "virtual", "cpu"};
    struct vk_subgroup subgroup = {.type = VK_DEVICE_SUBGROUP};
    struct vk_id_properties id = {.type = VK_DEVICE_ID_PROPERTIES, .next = &subgroup};
    struct vk_properties_2 all = {.type = VK_DEVICE_PROPERTIES_2, .next = &id};
    struct wire_device out = {.number = number};
    size_t at = 0;
    read_memory(vk, device, &out);
    vk->properties(device, &all);
    const struct vk_properties *p = &all.properties;
    copy_title(out.title, sizeof(out.title), p->name);
    (void)snprintf(out.type, sizeof(out.type), "%s", types[p->type < 5 ? p->type : 0]);
    (void)snprintf(out.api, sizeof(out.api), "%u.%u.%u", p->api >> 22 & 0x7f,
                   p->api >> 12 & 0x3ff, p->api & 0xfff);
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(out.uuid + at, sizeof(out.uuid) - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               id.device_uuid[i]);
    devices_judge(vk, device, p, &subgroup, &out);
    return out;
}

/* The process ends after this: instance and library are left to the system, since drivers
 * crash most often where they are unloaded. */
static size_t list_devices(struct wire_device out[WIRE_VULKAN_MAX])
{
    struct vk_application application = {.type = VK_APPLICATION_INFO, .api = VK_API_1_1};
    struct vk_instance_info info = {.type = VK_INSTANCE_CREATE_INFO,
                                    .application = &application};
    void *instance = NULL, *devices[WIRE_VULKAN_MAX];
    uint32_t count = WIRE_VULKAN_MAX;
    struct vulkan vk;
    /* A positive code is a success: there are more devices than room. */
    if (!open_vulkan(&vk) || vk.create(&info, NULL, &instance) != 0 ||
        vk.list(instance, &count, devices) < 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        out[i] = devices_describe(&vk, devices[i], i);
    return count;
}

int worker_print_devices(void)
{
    struct wire_device devices[WIRE_VULKAN_MAX];
    struct lr_buf text;
    lr_buf_init(&text, 64 << 10);
    wire_devices_write(&text, devices, list_devices(devices));
    int written = printf("\n" LR_STR_FMT "\n", LR_STR_ARG(lr_buf_str(&text)));
    lr_buf_free(&text);
    return written > 0 && fflush(stdout) == 0 ? 0 : 1;
}
