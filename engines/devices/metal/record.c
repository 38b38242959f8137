/* devices/metal/record.c - commands: kept, encoded for each submission, awaited.
 *
 * A command buffer of Metal runs once, so a recording keeps its commands and submit() encodes
 * them.  Launches share an encoder in which they run beside each other; a barrier is where a
 * command says `after`.  Copies have encoders of their own; Metal runs encoders that use the
 * same buffer one after the other. */
#include <stdlib.h>
#include <string.h>

#include "engines/devices/metal/metal.h"

lr_code metal_record(struct gpu_device *d, const struct gpu_command *commands, uint32_t count,
                     struct gpu_recording **out, struct lr_error *err)
{
    struct gpu_recording *r = calloc(1, sizeof(*r));
    struct gpu_command *copy = malloc(count * sizeof(*copy) + 1);

    *out = NULL;
    if (r == NULL || copy == NULL) {
        free(r);
        free(copy);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a recording");
    }
    void *pool = d->objc->push_pool();
    metal_archive_save(d); /* all pipelines are made by now */
    d->objc->pop_pool(pool);
    memcpy(copy, commands, count * sizeof(*copy));
    r->commands = copy;
    r->count = count;
    r->next = d->recordings;
    if (r->next != NULL)
        r->next->previous = r;
    d->recordings = r;
    *out = r;
    return LR_OK;
}

void metal_forget(struct gpu_device *d, struct gpu_recording *r)
{
    if (r == NULL)
        return;
    if (r->previous != NULL)
        r->previous->next = r->next;
    else
        d->recordings = r->next;
    if (r->next != NULL)
        r->next->previous = r->previous;
    free(r->commands);
    free(r);
}

/* ---- encoding ---- */

struct encoding {
    const struct metal_objc *objc;
    metal_id buffer;  /* the command buffer */
    metal_id encoder; /* that is open; NULL: none */
    bool is_compute;
};

static void end_encoder(struct encoding *e)
{
    if (e->encoder != NULL)
        METAL_GET(e->objc, void, e->encoder, end_encoding);
    e->encoder = NULL;
}

/* Opens an encoder of that kind.  True: an open one continues. */
static bool use_encoder(struct encoding *e, bool is_compute)
{
    if (e->encoder != NULL && e->is_compute == is_compute)
        return true;
    end_encoder(e);
    e->is_compute = is_compute;
    e->encoder = is_compute ? METAL_CALL(e->objc, metal_id, (metal_id, metal_sel, uint64_t),
                                         e->buffer, compute_encoder, METAL_DISPATCH_CONCURRENT)
                            : METAL_GET(e->objc, metal_id, e->buffer, blit_encoder);
    return false;
}

static void add_launch(struct encoding *e, const struct gpu_command *c)
{
    const struct metal_objc *objc = e->objc;
    const struct metal_size grid = {c->grid[0], c->grid[1], c->grid[2]};
    const struct metal_size group = {c->pipeline->threads, 1, 1};

    if (use_encoder(e, true) && c->after)
        METAL_CALL(objc, void, (metal_id, metal_sel, uint64_t), e->encoder, barrier,
                   METAL_BARRIER_BUFFERS);
    METAL_CALL(objc, void, (metal_id, metal_sel, metal_id), e->encoder, set_pipeline,
               c->pipeline->state);
    for (uint64_t i = 0; i < c->span_count; i++)
        METAL_CALL(objc, void, (metal_id, metal_sel, metal_id, uint64_t, uint64_t), e->encoder,
                   set_buffer, c->spans[i].buffer->handle, c->spans[i].at, i);
    METAL_CALL(objc, void, (metal_id, metal_sel, const void *, uint64_t, uint64_t), e->encoder,
               set_bytes, c->push, (uint64_t)c->push_bytes, METAL_PUSH_INDEX);
    METAL_CALL(objc, void, (metal_id, metal_sel, struct metal_size, struct metal_size),
               e->encoder, dispatch, grid, group);
}

static uint64_t span_bytes(const struct gpu_span *s)
{
    return s->bytes != 0 ? s->bytes : s->buffer->bytes - s->at;
}

static void add_blit(struct encoding *e, const struct gpu_command *c)
{
    const struct gpu_span *from = &c->spans[0], *to = &c->spans[1];

    if (e->encoder != NULL && !e->is_compute && c->after)
        end_encoder(e);
    (void)use_encoder(e, false);
    if (c->kind == GPU_ZERO)
        METAL_CALL(e->objc, void, (metal_id, metal_sel, metal_id, struct metal_range, uint8_t),
                   e->encoder, fill, from->buffer->handle,
                   ((struct metal_range){from->at, span_bytes(from)}), 0);
    else
        METAL_CALL(e->objc, void,
                   (metal_id, metal_sel, metal_id, uint64_t, metal_id, uint64_t, uint64_t),
                   e->encoder, copy, from->buffer->handle, from->at, to->buffer->handle, to->at,
                   span_bytes(from));
}

lr_code metal_submit(struct gpu_device *d, struct gpu_recording *r, uint64_t *ticket,
                     struct lr_error *err)
{
    lr_code code = LR_OK;

    if (d->submitted - d->ended == METAL_IN_FLIGHT)
        code = metal_wait(d, d->ended + 1, err);
    if (code != LR_OK)
        return code;
    void *pool = d->objc->push_pool();
    struct encoding e = {.objc = d->objc,
                         .buffer = METAL_GET(d->objc, metal_id, d->queue, command_buffer)};
    for (uint32_t i = 0; i < r->count; i++)
        if (r->commands[i].kind == GPU_LAUNCH)
            add_launch(&e, &r->commands[i]);
        else
            add_blit(&e, &r->commands[i]);
    end_encoder(&e);
    METAL_GET(d->objc, void, e.buffer, commit);
    d->in_flight[d->submitted % METAL_IN_FLIGHT] =
        METAL_GET(d->objc, metal_id, e.buffer, retain);
    *ticket = ++d->submitted;
    d->objc->pop_pool(pool);
    return LR_OK;
}

static lr_code metal_record_await(struct gpu_device *d, metal_id buffer, struct lr_error *err)
{
    void *pool = d->objc->push_pool();
    lr_code code = LR_OK;
    METAL_GET(d->objc, void, buffer, wait_until_completed);
    if (METAL_GET(d->objc, uint64_t, buffer, status) == METAL_STATUS_ERROR) {
        d->is_dead = true;
        code = lr_fail(err, LR_INTERNAL, "the GPU gave up a command buffer: %s",
                       metal_reason(d->objc, METAL_GET(d->objc, metal_id, buffer, error)));
    }
    metal_release(d->objc, buffer);
    d->objc->pop_pool(pool);
    return code;
}

lr_code metal_wait(struct gpu_device *d, uint64_t ticket, struct lr_error *err)
{
    if (d->is_dead)
        return lr_fail(err, LR_INTERNAL, "the GPU has failed before");
    while (d->ended < ticket) {
        metal_id *slot = &d->in_flight[d->ended++ % METAL_IN_FLIGHT];
        lr_code code = metal_record_await(d, *slot, err);
        *slot = NULL;
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}
