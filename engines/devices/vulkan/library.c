/* devices/vulkan/library.c - the loader, one instance, and what its errors mean. */
#include <string.h>

#include "base/os/library.h"
#include "engines/devices/vulkan/vulkan.h"

/* What to install where the loader or a driver is missing. */
#define INSTALL                                                                                \
    "install the GPU's Vulkan driver: on Debian and Ubuntu libvulkan1 and "                    \
    "mesa-vulkan-drivers "                                                                     \
    "(AMD, Intel) or NVIDIA's driver, on Windows the GPU maker's driver, on macOS MoltenVK"

static lr_code create_instance(PFN_vkGetInstanceProcAddr get, VkInstance *out,
                               struct lr_error *err)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "llm-router",
                                   .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app};
    VkResult result =
        create != NULL ? create(&info, NULL, out) : VK_ERROR_INITIALIZATION_FAILED;

    if (result == VK_SUCCESS)
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "no Vulkan driver works here (vkCreateInstance: %d): %s", result, INSTALL);
}

lr_code vulkan_library_get(const struct vulkan_library **out, struct lr_error *err)
{
    static struct vulkan_library vk;

    *out = &vk;
    if (vk.instance != NULL)
        return LR_OK;
    void *library = lr_library_open_known(LR_LIBRARY_VULKAN);
    if (library == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "Vulkan's loader %s cannot be opened: %s",
                       lr_library_name(LR_LIBRARY_VULKAN), INSTALL);
    void *symbol = lr_library_symbol(library, "vkGetInstanceProcAddr");
    PFN_vkGetInstanceProcAddr get;
    memcpy(&get, &symbol, sizeof(get));
    VkInstance instance = NULL;
    lr_code code = get != NULL ? create_instance(get, &instance, err)
                               : lr_fail(err, LR_UNSUPPORTED, "%s is no Vulkan loader: %s",
                                         lr_library_name(LR_LIBRARY_VULKAN), INSTALL);
    if (code != LR_OK)
        return code;
#define X(name)                                                                                \
    vk.name = (PFN_##name)get(instance, #name);                                                \
    if (vk.name == NULL)                                                                       \
        return lr_fail(err, LR_UNSUPPORTED, "this Vulkan has no %s: version 1.1 is needed",    \
                       #name);
    VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
    vk.get = get;
    vk.instance = instance;
    return LR_OK;
}

lr_code vulkan_fail(const struct gpu_device *d, VkResult result, const char *call,
                    struct lr_error *err)
{
    const char *end = strchr(call, '(');
    int length = end != NULL ? (int)(end - call) : (int)strlen(call);

    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY)
        return lr_fail(err, d->found.limits.is_cpu ? LR_OUT_OF_RAM : LR_OUT_OF_VRAM,
                       "%s has no memory left (%.*s)", d->found.limits.name, length, call);
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY)
        return lr_fail(err, LR_OUT_OF_RAM, "the driver of %s has no memory left (%.*s)",
                       d->found.limits.name, length, call);
    if (result == VK_ERROR_DEVICE_LOST)
        return lr_fail(err, LR_INTERNAL,
                       "%s was lost (%.*s): its driver reset it, or it was removed; the "
                       "system's log says why",
                       d->found.limits.name, length, call);
    return lr_fail(err, LR_INTERNAL, "%.*s failed on %s: VkResult %d", length, call,
                   d->found.limits.name, result);
}
