/* tests/fake_metal/commands.c - buffers, command buffers and their encoders; see
 * fake.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/fake_metal/classes.h"

enum {
    ALIGNMENT = 4, /* of an offset, as Metal asks for `device` arguments */
    CHANGED_MAX = 64,
    COMMITTED_MAX = 64,
};

static void buffer_destroy(void *self)
{
    struct buffer *b = self;
    if (b->wrapped != NULL)
        fake_state.wrapped_bytes -= b->bytes;
    else
        fake_state.buffer_bytes -= b->bytes;
    vulkan_release(fake_state.vulkan, b->behind);
}

/* The host's memory is mapped for reading: a write to it ends the process. */
static const void *buffer_contents(struct buffer *self, void *sel)
{
    (void)sel;
    if (self->wrapped != NULL)
        return self->wrapped;
    return vulkan_mapped(self->behind);
}

const struct fake_class fake_buffer_class = {
    .name = "MTLBuffer",
    .size = sizeof(struct buffer),
    .destroy = buffer_destroy,
    .methods =
        (const struct fake_entry[]){METHOD("contents", buffer_contents), END_OF_METHODS}};

/* ---- command buffers ---- */

struct commands {
    struct fake_object object;
    struct gpu_command *list;
    void **kept; /* buffers and pipelines of the commands */
    uint32_t count, room, kept_count, kept_room;
    bool is_committed, has_ended, has_failed, has_encoder;
};

static struct commands *committed[COMMITTED_MAX]; /* in order; each retained */
static uint32_t committed_count;

static void commands_destroy(void *self)
{
    struct commands *c = self;
    for (uint32_t i = 0; i < c->kept_count; i++)
        fake_release(c->kept[i]);
    free(c->kept);
    free(c->list);
}

static void keep_for(struct commands *c, void *object)
{
    if (c->kept_count == c->kept_room) {
        c->kept_room = 2 * c->kept_room + 64;
        c->kept = realloc(c->kept, c->kept_room * sizeof(*c->kept));
    }
    c->kept[c->kept_count++] = fake_retain(object);
}

static void add_command(struct commands *c, const struct gpu_command *command)
{
    if (c->count == c->room) {
        c->room = 2 * c->room + 64;
        c->list = realloc(c->list, c->room * sizeof(*c->list));
    }
    c->list[c->count++] = *command;
}

static void run(struct commands *c)
{
    struct gpu_recording *recording;
    struct lr_error err = {0};
    uint64_t ticket;
    c->has_ended = true;
    c->has_failed = fake_state.is_lost;
    if (fake_state.is_lost || c->count == 0)
        return;
    fake_must(vulkan_record(fake_state.vulkan, c->list, c->count, &recording, &err), &err);
    fake_must(vulkan_submit(fake_state.vulkan, recording, &ticket, &err), &err);
    fake_must(vulkan_wait(fake_state.vulkan, ticket, &err), &err);
    vulkan_forget(fake_state.vulkan, recording);
}

static void commands_commit(struct commands *self, void *sel)
{
    (void)sel;
    if (self->is_committed || self->has_encoder || committed_count == COMMITTED_MAX)
        fake_abort("commit of a command buffer that is committed, or has an open encoder");
    self->is_committed = true;
    committed[committed_count++] = fake_retain(self);
}

static void commands_wait(struct commands *self, void *sel)
{
    (void)sel;
    if (!self->is_committed)
        fake_abort("waits for a command buffer that was not committed");
    while (!self->has_ended) {
        struct commands *first = committed[0];
        run(first);
        memmove(committed, committed + 1, --committed_count * sizeof(committed[0]));
        fake_release(first);
    }
}

static uint64_t commands_status(struct commands *self, void *sel)
{
    (void)sel;
    return self->has_failed ? METAL_STATUS_ERROR : self->has_ended ? 4 : 1;
}

static void *commands_error(struct commands *self, void *sel)
{
    (void)sel;
    return self->has_failed ? fake_error("the GPU is lost (stand-in)") : NULL;
}

/* ---- encoders ---- */

struct encoder {
    struct fake_object object;
    struct commands *commands;
    bool is_compute, is_first;
    struct pipeline *pipeline;
    struct buffer *buffers[FAKE_PUSH_INDEX];
    uint64_t offsets[FAKE_PUSH_INDEX];
    uint32_t push[GPU_PUSH_MAX / 4], push_bytes;
    bool after;
    const struct gpu_buffer *changed[CHANGED_MAX]; /* since the last barrier */
    uint32_t changed_count;
};

static void encoder_destroy(void *self)
{
    struct encoder *e = self;
    if (e->commands->has_encoder)
        fake_abort("an encoder is released before endEncoding");
    fake_release(e->commands);
}

static void encoder_end(struct encoder *self, void *sel)
{
    (void)sel;
    self->commands->has_encoder = false;
}

static void encoder_pipeline(struct encoder *self, void *sel, struct pipeline *pipeline)
{
    (void)sel;
    self->pipeline = pipeline;
}

static void encoder_buffer(struct encoder *self, void *sel, struct buffer *buffer,
                           uint64_t offset, uint64_t index)
{
    (void)sel;
    if (index >= FAKE_PUSH_INDEX || offset % ALIGNMENT != 0 || offset >= buffer->bytes)
        fake_abort("buffer %llu at offset %llu", (unsigned long long)index,
                   (unsigned long long)offset);
    self->buffers[index] = buffer;
    self->offsets[index] = offset;
}

static void encoder_bytes(struct encoder *self, void *sel, const void *bytes, uint64_t length,
                          uint64_t index)
{
    (void)sel;
    if (index != FAKE_PUSH_INDEX || length > sizeof(self->push) || length == 0)
        fake_abort("%llu bytes at index %llu", (unsigned long long)length,
                   (unsigned long long)index);
    memcpy(self->push, bytes, length);
    self->push_bytes = (uint32_t)length;
}

static void encoder_barrier(struct encoder *self, void *sel, uint64_t scope)
{
    (void)sel;
    if ((scope & METAL_BARRIER_BUFFERS) == 0)
        fake_abort("a barrier that is not for buffers");
    self->after = true;
    self->changed_count = 0;
}

/* A launch may not read what a launch beside it writes. */
static void check_hazards(struct encoder *e)
{
    const struct library *l = e->pipeline->library;
    for (uint32_t i = 0; i < FAKE_PUSH_INDEX; i++)
        for (uint32_t j = 0; l->is_bound[i] && !l->is_written[i] && j < e->changed_count; j++)
            if (e->changed[j] == e->buffers[i]->behind)
                fake_abort(
                    "kernel %u reads buffer %u, which a launch without a barrier between "
                    "them writes",
                    l->kernel, i);
    for (uint32_t i = 0; i < FAKE_PUSH_INDEX; i++)
        if (l->is_bound[i] && l->is_written[i] && e->changed_count < CHANGED_MAX)
            e->changed[e->changed_count++] = e->buffers[i]->behind;
}

static void encoder_dispatch(struct encoder *self, void *sel, struct metal_size grid,
                             struct metal_size group)
{
    const struct library *l = self->pipeline->library;
    uint64_t most = fake_state.vulkan->found.limits.binding_bytes;
    struct gpu_command c = {
        .kind = GPU_LAUNCH,
        .after = self->after || self->is_first,
        .pipeline = self->pipeline->behind,
        .grid = {(uint32_t)grid.width, (uint32_t)grid.height, (uint32_t)grid.depth},
        .push_bytes = self->push_bytes};
    (void)sel;
    if (group.width != self->pipeline->threads || group.height != 1 || group.depth != 1)
        fake_abort("kernel %u has groups of %llu threads and was compiled for %u", l->kernel,
                   (unsigned long long)group.width, self->pipeline->threads);
    if (self->push_bytes == 0)
        fake_abort("kernel %u has no push constants", l->kernel);
    for (uint32_t i = 0; i < FAKE_PUSH_INDEX && (l->is_bound[i] || self->buffers[i] != NULL);
         i++) {
        const struct buffer *b = self->buffers[i];
        if (b == NULL)
            fake_abort("kernel %u has no buffer %u", l->kernel, i);
        uint64_t rest = b->bytes - self->offsets[i];
        c.spans[c.span_count++] =
            (struct gpu_span){b->behind, self->offsets[i], rest < most ? rest : most};
        keep_for(self->commands, self->buffers[i]);
    }
    check_hazards(self);
    memcpy(c.push, self->push, self->push_bytes);
    keep_for(self->commands, self->pipeline);
    add_command(self->commands, &c);
    memset(self->buffers, 0, sizeof(self->buffers)); /* the host sets them for each launch */
    self->push_bytes = 0;
    self->after = self->is_first = false;
    fake_state.launches++;
}

static void encoder_copy(struct encoder *self, void *sel, struct buffer *from, uint64_t from_at,
                         struct buffer *to, uint64_t to_at, uint64_t bytes)
{
    (void)sel;
    if (from_at + bytes > from->bytes || to_at + bytes > to->bytes || bytes == 0)
        fake_abort("a copy of %llu bytes over the end", (unsigned long long)bytes);
    struct gpu_command c = {
        .kind = GPU_COPY,
        .after = self->is_first,
        .span_count = 2,
        .spans = {{from->behind, from_at, bytes}, {to->behind, to_at, bytes}}};
    keep_for(self->commands, from);
    keep_for(self->commands, to);
    add_command(self->commands, &c);
    self->is_first = false;
}

static void encoder_fill(struct encoder *self, void *sel, struct buffer *what,
                         struct metal_range range, uint8_t value)
{
    (void)sel;
    if (range.at + range.length > what->bytes || value != 0)
        fake_abort("a fill over the end");
    struct gpu_command c = {.kind = GPU_ZERO,
                            .after = self->is_first,
                            .span_count = 1,
                            .spans = {{what->behind, range.at, range.length}}};
    keep_for(self->commands, what);
    add_command(self->commands, &c);
    self->is_first = false;
}

static const struct fake_class compute_class = {
    .name = "MTLComputeCommandEncoder",
    .size = sizeof(struct encoder),
    .destroy = encoder_destroy,
    .methods = (const struct fake_entry[]){
        METHOD("endEncoding", encoder_end),
        METHOD("setComputePipelineState:", encoder_pipeline),
        METHOD("setBuffer:offset:atIndex:", encoder_buffer),
        METHOD("setBytes:length:atIndex:", encoder_bytes),
        METHOD("memoryBarrierWithScope:", encoder_barrier),
        METHOD("dispatchThreadgroups:threadsPerThreadgroup:", encoder_dispatch),
        END_OF_METHODS}};

static const struct fake_class blit_class = {
    .name = "MTLBlitCommandEncoder",
    .size = sizeof(struct encoder),
    .destroy = encoder_destroy,
    .methods = (const struct fake_entry[]){
        METHOD("endEncoding", encoder_end),
        METHOD("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", encoder_copy),
        METHOD("fillBuffer:range:value:", encoder_fill), END_OF_METHODS}};

static void *open_encoder(struct commands *c, const struct fake_class *class)
{
    if (c->has_encoder || c->is_committed)
        fake_abort("an encoder beside another one, or after commit");
    struct encoder *e = fake_new(class);
    c->has_encoder = true;
    e->commands = fake_retain(c);
    e->is_first = true;
    return fake_autorelease(e);
}

static void *commands_compute(struct commands *self, void *sel, uint64_t type)
{
    (void)sel;
    if (type != METAL_DISPATCH_CONCURRENT)
        fake_abort("an encoder of type %llu", (unsigned long long)type);
    return open_encoder(self, &compute_class);
}

static void *commands_blit(struct commands *self, void *sel)
{
    (void)sel;
    return open_encoder(self, &blit_class);
}

const struct fake_class fake_commands_class = {
    .name = "MTLCommandBuffer",
    .size = sizeof(struct commands),
    .destroy = commands_destroy,
    .methods = (const struct fake_entry[]){
        METHOD("computeCommandEncoderWithDispatchType:", commands_compute),
        METHOD("blitCommandEncoder", commands_blit), METHOD("commit", commands_commit),
        METHOD("waitUntilCompleted", commands_wait), METHOD("status", commands_status),
        METHOD("error", commands_error), END_OF_METHODS}};
