/* devices/vulkan/record.c - commands to the device, and their end. */
#include <stdlib.h>

#include "base/clock.h"
#include "engines/devices/vulkan/vulkan.h"

/* A short wait is done by asking: waking a thread takes tens of microseconds of a step. */
#define ASK_NS 4000000ull

static lr_code make_sets(struct gpu_device *d, const struct gpu_command *commands,
                         uint32_t count, struct gpu_recording *r, struct lr_error *err)
{
    uint32_t sets = 0, buffers = 0;

    for (uint32_t i = 0; i < count; i++)
        if (commands[i].kind == GPU_LAUNCH) {
            sets++;
            buffers += commands[i].span_count;
        }
    if (sets == 0)
        return LR_OK;
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffers};
    const VkDescriptorPoolCreateInfo info = {.sType =
                                                 VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = sets,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
    VULKAN_TRY(d, vkCreateDescriptorPool(d->handle, &info, NULL, &r->sets), err);
    return LR_OK;
}

static lr_code bind_set(struct gpu_device *d, const struct gpu_command *c,
                        struct gpu_recording *r, struct lr_error *err)
{
    VkDescriptorBufferInfo infos[GPU_SPANS_MAX];
    VkWriteDescriptorSet writes[GPU_SPANS_MAX];
    VkDescriptorSet set;
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = r->sets,
        .descriptorSetCount = 1,
        .pSetLayouts = &d->set_layouts[c->span_count]};

    if (c->span_count != c->pipeline->bindings || c->push_bytes != c->pipeline->push_bytes)
        return lr_fail(err, LR_INTERNAL, "a launch has %u buffers and %u bytes; %u and %u fit",
                       c->span_count, c->push_bytes, c->pipeline->bindings,
                       c->pipeline->push_bytes);
    VULKAN_TRY(d, vkAllocateDescriptorSets(d->handle, &info, &set), err);
    for (uint32_t i = 0; i < c->span_count; i++) {
        const struct gpu_span *s = &c->spans[i];
        uint64_t bytes = s->bytes != 0 ? (s->bytes + 15) / 16 * 16 : s->buffer->bytes - s->at;
        infos[i] = (VkDescriptorBufferInfo){s->buffer->handle, s->at, bytes};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = set,
                                           .dstBinding = i,
                                           .descriptorCount = 1,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .pBufferInfo = &infos[i]};
    }
    d->vkUpdateDescriptorSets(d->handle, c->span_count, writes, 0, NULL);
    d->vkCmdBindDescriptorSets(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                               d->layouts[c->span_count], 0, 1, &set, 0, NULL);
    return LR_OK;
}

static lr_code vulkan_record_add(struct gpu_device *d, const struct gpu_command *c,
                                 struct gpu_recording *r, struct lr_error *err)
{
    if (c->kind == GPU_COPY) {
        const VkBufferCopy copy = {c->spans[0].at, c->spans[1].at, c->spans[0].bytes};
        d->vkCmdCopyBuffer(r->commands, c->spans[0].buffer->handle, c->spans[1].buffer->handle,
                           1, &copy);
        return LR_OK;
    }
    if (c->kind == GPU_ZERO) {
        d->vkCmdFillBuffer(r->commands, c->spans[0].buffer->handle, c->spans[0].at,
                           c->spans[0].bytes, 0);
        return LR_OK;
    }
    d->vkCmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline->handle);
    lr_code code = bind_set(d, c, r, err);
    if (code != LR_OK)
        return code;
    d->vkCmdPushConstants(r->commands, d->layouts[c->span_count], VK_SHADER_STAGE_COMPUTE_BIT,
                          0, c->push_bytes, c->push);
    d->vkCmdDispatch(r->commands, c->grid[0], c->grid[1], c->grid[2]);
    return LR_OK;
}

static VkPipelineStageFlags stage_of(const struct gpu_command *c)
{
    return c->kind == GPU_LAUNCH ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
                                 : VK_PIPELINE_STAGE_TRANSFER_BIT;
}

/* Of the first command and of those that run beside it. */
static VkPipelineStageFlags stages_beside(const struct gpu_command *commands, uint32_t count)
{
    VkPipelineStageFlags stages = stage_of(&commands[0]);

    for (uint32_t i = 1; i < count && !commands[i].after; i++)
        stages |= stage_of(&commands[i]);
    return stages;
}

static void barrier(struct gpu_device *d, struct gpu_recording *r, VkPipelineStageFlags from,
                    VkPipelineStageFlags to)
{
    VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER};

    if ((from & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) != 0)
        memory.srcAccessMask |= VK_ACCESS_SHADER_WRITE_BIT;
    if ((from & VK_PIPELINE_STAGE_TRANSFER_BIT) != 0)
        memory.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
    if ((to & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) != 0)
        memory.dstAccessMask |= VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    if ((to & VK_PIPELINE_STAGE_TRANSFER_BIT) != 0)
        memory.dstAccessMask |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    if ((to & VK_PIPELINE_STAGE_HOST_BIT) != 0)
        memory.dstAccessMask |= VK_ACCESS_HOST_READ_BIT;
    d->vkCmdPipelineBarrier(r->commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static lr_code vulkan_record_fill(struct gpu_device *d, const struct gpu_command *commands,
                                  uint32_t count, struct gpu_recording *r, struct lr_error *err)
{
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = d->pool,
        .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType =
                                                VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    lr_code code = make_sets(d, commands, count, r, err);

    if (code != LR_OK)
        return code;
    VULKAN_TRY(d, vkAllocateCommandBuffers(d->handle, &allocate, &r->commands), err);
    VULKAN_TRY(d, vkBeginCommandBuffer(r->commands, &begin), err);
    /* What earlier recordings wrote, and what runs beside the next command, counts too. */
    VkPipelineStageFlags both =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkPipelineStageFlags from = both;
    for (uint32_t i = 0; i < count && code == LR_OK; i++) {
        if (i == 0)
            barrier(d, r, both, both);
        else if (commands[i].after)
            barrier(d, r, from, stages_beside(commands + i, count - i));
        if (i == 0 || commands[i].after)
            from = 0;
        from |= stage_of(&commands[i]);
        code = vulkan_record_add(d, &commands[i], r, err);
    }
    barrier(d, r, both, VK_PIPELINE_STAGE_HOST_BIT);
    VULKAN_TRY(d, vkEndCommandBuffer(r->commands), err);
    return code;
}

lr_code vulkan_record(struct gpu_device *d, const struct gpu_command *commands, uint32_t count,
                      struct gpu_recording **out, struct lr_error *err)
{
    struct gpu_recording *r = calloc(1, sizeof(*r));

    *out = NULL;
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a recording");
    vulkan_cache_save(d); /* all pipelines are made by now */
    r->next = d->recordings;
    if (r->next != NULL)
        r->next->previous = r;
    d->recordings = r;
    lr_code code = vulkan_record_fill(d, commands, count, r, err);
    if (code != LR_OK)
        vulkan_forget(d, r);
    else
        *out = r;
    return code;
}

void vulkan_forget(struct gpu_device *d, struct gpu_recording *r)
{
    if (r == NULL)
        return;
    if (r->previous != NULL)
        r->previous->next = r->next;
    else
        d->recordings = r->next;
    if (r->next != NULL)
        r->next->previous = r->previous;
    if (r->commands != NULL)
        d->vkFreeCommandBuffers(d->handle, d->pool, 1, &r->commands);
    d->vkDestroyDescriptorPool(d->handle, r->sets, NULL);
    free(r);
}

lr_code vulkan_submit(struct gpu_device *d, struct gpu_recording *r, uint64_t *ticket,
                      struct lr_error *err)
{
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &r->commands};
    lr_code code = LR_OK;

    if (d->submitted - d->ended == VULKAN_IN_FLIGHT)
        code = vulkan_wait(d, d->ended + 1, err);
    if (code != LR_OK)
        return code;
    VkFence fence = d->fences[d->submitted % VULKAN_IN_FLIGHT];
    VULKAN_TRY(d, vkResetFences(d->handle, 1, &fence), err);
    VULKAN_TRY(d, vkQueueSubmit(d->queue, 1, &info, fence), err);
    *ticket = ++d->submitted;
    return LR_OK;
}

static lr_code wait_for(struct gpu_device *d, VkFence fence, struct lr_error *err)
{
    uint64_t start = lr_clock_ns(NULL);

    while (!d->found.limits.is_cpu && lr_clock_ns(NULL) - start < ASK_NS) {
        VkResult result = d->vkGetFenceStatus(d->handle, fence);
        if (result == VK_SUCCESS)
            return LR_OK;
        if (result != VK_NOT_READY)
            return vulkan_fail(d, result, "vkGetFenceStatus", err);
    }
    VULKAN_TRY(d, vkWaitForFences(d->handle, 1, &fence, VK_TRUE, UINT64_MAX), err);
    return LR_OK;
}

lr_code vulkan_wait(struct gpu_device *d, uint64_t ticket, struct lr_error *err)
{
    while (d->ended < ticket) {
        lr_code code = wait_for(d, d->fences[d->ended % VULKAN_IN_FLIGHT], err);
        if (code != LR_OK)
            return code;
        d->ended++;
    }
    return LR_OK;
}
