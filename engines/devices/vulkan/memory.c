/* devices/vulkan/memory.c - a buffer with memory of its own. */
#include <stdlib.h>

#include "engines/devices/vulkan/vulkan.h"

/* The first type that has all of `flags` and, if there is one, all of `also`. */
static bool find_type(const struct gpu_device *d, uint32_t bits, VkMemoryPropertyFlags flags,
                      VkMemoryPropertyFlags also, uint32_t *out)
{
    for (int round = 0; round < 2; round++) {
        VkMemoryPropertyFlags wanted = round == 0 ? flags | also : flags;
        for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++)
            if ((bits >> i & 1) != 0 &&
                (d->memory.memoryTypes[i].propertyFlags & wanted) == wanted) {
                *out = i;
                return true;
            }
    }
    return false;
}

static bool choose_type(const struct gpu_device *d, uint32_t bits, enum gpu_place place,
                        uint32_t *out)
{
    VkMemoryPropertyFlags mapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

    if (place == GPU_ON_DEVICE)
        return find_type(d, bits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                         d->found.limits.unified ? mapped : 0, out);
    return find_type(d, bits, mapped,
                     place == GPU_TO_HOST ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : 0, out);
}

static lr_code give_memory(struct gpu_device *d, struct gpu_buffer *b, enum gpu_place place,
                           struct lr_error *err)
{
    VkMemoryRequirements needs;
    uint32_t type;

    d->vkGetBufferMemoryRequirements(d->handle, b->handle, &needs);
    if (!choose_type(d, needs.memoryTypeBits, place, &type))
        return lr_fail(err, LR_UNSUPPORTED, "%s has no memory of the kind that is needed",
                       d->found.limits.name);
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = type};
    VULKAN_TRY(d, vkAllocateMemory(d->handle, &info, NULL, &b->memory), err);
    VULKAN_TRY(d, vkBindBufferMemory(d->handle, b->handle, b->memory, 0), err);
    bool visible =
        (d->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0;
    if (place != GPU_ON_DEVICE || (d->found.limits.unified && visible))
        VULKAN_TRY(d, vkMapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &b->mapped), err);
    return LR_OK;
}

lr_code vulkan_allocate(struct gpu_device *d, uint64_t bytes, enum gpu_place place,
                        struct gpu_buffer **out, struct lr_error *err)
{
    struct gpu_buffer *b = calloc(1, sizeof(*b));
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = (bytes + 15) / 16 * 16,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT};

    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a buffer");
    b->bytes = info.size;
    b->next = d->buffers;
    if (b->next != NULL)
        b->next->previous = b;
    d->buffers = b;
    VkResult result = d->vkCreateBuffer(d->handle, &info, NULL, &b->handle);
    lr_code code = result == VK_SUCCESS ? give_memory(d, b, place, err)
                                        : vulkan_fail(d, result, "vkCreateBuffer", err);
    if (code != LR_OK)
        vulkan_release(d, b);
    else
        *out = b;
    return code;
}

void *vulkan_mapped(const struct gpu_buffer *buffer)
{
    return buffer->mapped;
}

void vulkan_release(struct gpu_device *d, struct gpu_buffer *b)
{
    if (b == NULL)
        return;
    if (b->previous != NULL)
        b->previous->next = b->next;
    else
        d->buffers = b->next;
    if (b->next != NULL)
        b->next->previous = b->previous;
    d->vkDestroyBuffer(d->handle, b->handle, NULL);
    d->vkFreeMemory(d->handle, b->memory, NULL); /* unmaps it */
    free(b);
}
