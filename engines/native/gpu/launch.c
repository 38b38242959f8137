/* native/gpu/launch.c - which kernels compute an operation. */
#include <stdlib.h>
#include <string.h>

#include "engines/native/gpu/gpu.h"

enum { THREADS = 64, TILE_THREADS = 256, TILE_ROWS = 64, ROLES = 3 };

#define SPANS(...)                                                                             \
    (const struct gpu_span[]){__VA_ARGS__},                                                    \
        sizeof((const struct gpu_span[]){__VA_ARGS__}) / sizeof(struct gpu_span)
#define PUSH(p) &(p), sizeof(p)

static uint32_t over(uint64_t n, uint32_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* ---- lists of commands ---- */

static struct gpu_command *next_command(struct native_gpu_list *l)
{
    static struct gpu_command none; /* written if there is no memory, never read */

    if (l->count == l->room) {
        uint32_t room = l->room == 0 ? 256 : l->room * 2;
        struct gpu_command *more = realloc(l->commands, room * sizeof(*more));
        if (more == NULL) {
            l->code = lr_fail(&l->err, LR_OUT_OF_RAM, "no memory for a step's commands");
            return &none;
        }
        l->commands = more;
        l->room = room;
    }
    struct gpu_command *c = &l->commands[l->count++];
    *c = (struct gpu_command){.after = true};
    return c;
}

void native_gpu_list_free(struct native_gpu_list *l)
{
    free(l->commands);
    *l = (struct native_gpu_list){0};
}

void native_gpu_copy(struct native_gpu_list *l, struct gpu_span from, struct gpu_span to)
{
    struct gpu_command *c = next_command(l);

    c->kind = GPU_COPY;
    c->span_count = 2;
    c->spans[0] = from;
    c->spans[1] = to;
}

void native_gpu_zero(struct native_gpu_list *l, struct gpu_span what)
{
    struct gpu_command *c = next_command(l);

    c->kind = GPU_ZERO;
    c->span_count = 1;
    c->spans[0] = what;
}

lr_code native_gpu_flush(struct serving_backend *b, struct native_gpu_list *l,
                         struct lr_error *err)
{
    struct gpu_recording *recording = NULL;
    uint64_t ticket = 0;
    lr_code code = l->code;

    if (code != LR_OK)
        return lr_fail(err, code, "%s", l->err.text);
    if (l->count == 0)
        return LR_OK;
    code = b->host->record(b->device, l->commands, l->count, &recording, err);
    if (code == LR_OK)
        code = b->host->submit(b->device, recording, &ticket, err);
    if (code == LR_OK)
        code = b->host->wait(b->device, ticket, err);
    if (code == LR_OK)
        b->host->forget(b->device, recording);
    l->count = 0;
    return code;
}

/* Makes the pipeline where it is needed first. */
static const struct gpu_pipeline *pipeline_of(struct serving_backend *b,
                                              struct native_gpu_list *l,
                                              enum native_gpu_kernel kernel, uint32_t mode)
{
    uint32_t threads =
        kernel == NATIVE_GPU_many || kernel == NATIVE_GPU_sort ? TILE_THREADS : THREADS;

    for (uint32_t i = 0; i < b->made_count; i++)
        if (b->made[i].kernel == kernel && b->made[i].mode == mode)
            return b->made[i].pipeline;
    if (l->code != LR_OK)
        return NULL;
    if (b->made_count == NATIVE_GPU_PIPELINES) {
        l->code = lr_fail(&l->err, LR_INTERNAL, "more than %d kernels", NATIVE_GPU_PIPELINES);
        return NULL;
    }
    struct native_gpu_made *made = &b->made[b->made_count];
    *made = (struct native_gpu_made){kernel, mode, NULL};
    l->code = b->host->pipeline(b->device, kernel, threads, mode, &made->pipeline, &l->err);
    b->made_count += l->code == LR_OK ? 1 : 0;
    return made->pipeline;
}

struct grid {
    uint32_t x, y, z;
};

static void launch(const struct native_gpu_run *run, enum native_gpu_kernel kernel,
                   uint32_t mode, struct grid grid, const void *push, size_t push_bytes,
                   const struct gpu_span *spans, size_t span_count, uint64_t work)
{
    struct gpu_command *c = next_command(run->list);

    c->kind = GPU_LAUNCH;
    c->pipeline = pipeline_of(run->b, run->list, kernel, mode);
    c->grid[0] = grid.x;
    c->grid[1] = grid.y;
    c->grid[2] = grid.z;
    c->push_bytes = (uint32_t)push_bytes;
    c->span_count = (uint32_t)span_count;
    c->work = work;
    memcpy(c->push, push, push_bytes);
    memcpy(c->spans, spans, span_count * sizeof(*spans));
}

/* The last command writes other places than the one before it. */
static void beside_previous(const struct native_gpu_run *run, bool beside)
{
    if (beside && run->list->count > 0)
        run->list->commands[run->list->count - 1].after = false;
}

/* ---- registers ---- */

static uint32_t width_of(const struct native_gpu_run *run, reg r)
{
    return run->b->spec->registers[r].width;
}

static struct gpu_span buffer_of(const struct native_gpu_run *run, reg r)
{
    const struct serving_backend *b = run->b;

    return native_gpu_whole(r == NATIVE_NO_REG ? b->nothing
                                               : b->buffers[b->spec->registers[r].buffer]);
}

static struct gpu_span vector_of(const struct native_gpu_run *run, uint32_t vector)
{
    const struct serving_backend *b = run->b;

    return vector == NATIVE_NONE ? native_gpu_whole(b->nothing) : b->weights.vectors[vector];
}

static struct gpu_span inputs_of(const struct native_gpu_run *run)
{
    return native_gpu_whole(run->b->inputs);
}

/* Rows of a register, or of a buffer of experts. */
struct rows {
    struct gpu_span buffer;
    uint32_t at, stride;
};

static struct rows rows_of(const struct native_gpu_run *run, reg r)
{
    if (r == NATIVE_NO_REG)
        return (struct rows){.buffer = buffer_of(run, r)};
    return (struct rows){buffer_of(run, r), native_gpu_at(run, r), width_of(run, r)};
}

/* ---- matrices ---- */

struct product {
    const struct native_gpu_weight *w;
    struct rows x, y;
    uint32_t tokens; /* rows of x; of experts: pairs */
    uint32_t bias;   /* vector */
    uint32_t bias_matrix, bias_at;
    uint32_t x_head, y_head;
    /* Experts: */
    uint32_t chosen; /* 0: none */
    struct rows choice;
    bool pairs; /* x has a row for each pair */
    bool many;
};

static struct push_matrix matrix_push(const struct native_gpu_weight *w, uint32_t part)
{
    uint32_t first = part * w->part_unit, all = w->count > 1 ? w->count : w->rows;
    uint32_t n = all - first < w->part_unit ? all - first : w->part_unit;

    return (struct push_matrix){
        .rows = w->count > 1 ? w->rows : n,
        .first_row = w->count > 1 ? 0 : first,
        .columns = w->columns,
        .units = w->units,
        .matrix = w->count > 1 ? first : 0,
        .matrices = w->count > 1 ? n : 1,
        .columns_each = w->columns_each,
        .rows_each = w->rows_each,
        .row_shift = w->row_shift,
        .row_scales = w->groups,
        .matrix_scales = w->scale_rows * w->groups,
        .shifts_at = w->shifts_at,
        .groups_at = w->groups_at,
        .table_at = w->table_at,
        .factors_at = w->factors_at,
        .zero = w->zero,
        .factor = 1,
    };
}

static struct gpu_span side_of(const struct native_gpu_run *run,
                               const struct native_gpu_weight *w)
{
    return w->side_bytes > 0 ? w->side : native_gpu_whole(run->b->nothing);
}

static void add_part(const struct native_gpu_run *run, const struct product *d, uint32_t part)
{
    const struct native_gpu_weight *w = d->w;
    struct push_matrix push = matrix_push(w, part);
    bool heads = w->heads != NULL, few = !d->many;
    uint32_t tokens = d->chosen > 0 ? 1 : d->tokens > 1 ? 4 : 1;
    uint32_t mode = w->mode | (heads ? NATIVE_MODE_HEADS : 0) |
                    (d->chosen > 0 ? NATIVE_MODE_EXPERTS : 0) |
                    (d->pairs ? NATIVE_MODE_PAIRS : 0);
    struct gpu_span bias = vector_of(run, d->bias);
    struct grid grid = {over(push.rows, few ? NATIVE_GPU_ROWS : TILE_ROWS),
                        over(d->tokens, few ? tokens : NATIVE_GPU_TILE), heads ? w->count : 1};

    push.tokens = d->tokens;
    push.x_at = d->x.at;
    push.x_stride = d->x.stride;
    push.x_head = d->x_head;
    push.y_at = d->y.at;
    push.y_stride = d->y.stride;
    push.y_head = d->y_head;
    push.bias_at = d->bias != NATIVE_NONE ? d->bias_at : NATIVE_GPU_ABSENT;
    push.bias_matrix = d->bias_matrix;
    push.choice_at = d->choice.at;
    push.choice_stride = d->choice.stride;
    push.chosen = d->chosen;
    if (d->chosen > 0 && d->many) { /* behind the pairs are the tiles */
        push.choice_at = d->tokens;
        grid.y = over(d->tokens, NATIVE_GPU_TILE) + w->count;
    }
    launch(run,
           d->many       ? NATIVE_GPU_many
           : tokens == 1 ? NATIVE_GPU_few_1
                         : NATIVE_GPU_few_4,
           mode, grid, PUSH(push),
           SPANS(w->parts[part], side_of(run, w), d->x.buffer, d->y.buffer, bias,
                 d->chosen > 0 ? d->choice.buffer : native_gpu_whole(run->b->nothing)),
           (uint64_t)push.rows * w->columns * d->tokens * (heads ? w->count : 1));
    beside_previous(run, part > 0);
}

static void add_product(const struct native_gpu_run *run, struct product d)
{
    if (d.chosen == 0)
        d.many = d.tokens > NATIVE_GPU_FEW;
    for (uint32_t i = 0; i < d.w->part_count; i++)
        add_part(run, &d, i);
}

static const struct native_gpu_weight *weight_of(const struct native_gpu_run *run,
                                                 uint32_t role)
{
    const struct native_gpu_weights *w = &run->b->weights;

    return &w->all[w->of_op[run->op_index * ROLES + role]];
}

static void add_linear(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op, *previous = op - 1;
    bool beside = run->op_index > 0 && run->op_index != run->b->spec->head_ops &&
                  run->op_index != run->b->spec->stateful_ops &&
                  previous->kind == NATIVE_OP_LINEAR && previous->in[0] == op->in[0] &&
                  previous->out != op->in[0];
    uint32_t first = run->list->count;

    add_product(run, (struct product){.w = weight_of(run, 0),
                                      .x = rows_of(run, op->in[0]),
                                      .y = rows_of(run, op->out),
                                      .tokens = run->tokens,
                                      .bias = op->vector[0]});
    if (beside && first > 0 && first < run->list->count)
        run->list->commands[first].after = false;
}

static void add_heads(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;

    add_product(run, (struct product){.w = weight_of(run, 0),
                                      .x = rows_of(run, op->in[0]),
                                      .y = rows_of(run, op->out),
                                      .tokens = run->tokens,
                                      .bias = NATIVE_NONE,
                                      .x_head = op->heads.in_stride,
                                      .y_head = op->heads.out_stride});
}

static void add_embed(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    const struct native_gpu_weight *w = weight_of(run, 0);
    struct rows y = rows_of(run, op->out);

    for (uint32_t i = 0; i < w->part_count; i++) {
        struct push_matrix push = matrix_push(w, i);
        push.matrices = w->rows;
        push.x_at = run->token_at;
        push.y_at = y.at;
        push.y_stride = y.stride;
        push.factor = op->embed.scale;
        push.add = op->embed.add;
        push.by = op->embed.row;
        push.from = op->embed.first;
        launch(run, NATIVE_GPU_embed, w->mode,
               (struct grid){over(w->units, THREADS), run->tokens, 1}, PUSH(push),
               SPANS(w->parts[i], side_of(run, w), inputs_of(run), y.buffer), 0);
        beside_previous(run, i > 0);
    }
}

/* ---- rows ---- */

static void add_norm(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    const struct native_norm *how = &op->norm;
    struct rows x = rows_of(run, op->in[0]), gate = rows_of(run, op->in[1]),
                y = rows_of(run, op->out);
    const struct push_norm push = {
        .group = how->group,
        .groups = width_of(run, op->out) / how->group,
        .tokens = run->tokens,
        .x_at = x.at,
        .x_stride = x.stride,
        .gate_at = gate.at,
        .gate_stride = gate.stride,
        .y_at = y.at,
        .y_stride = y.stride,
        .flags = (how->layer ? NATIVE_NORM_LAYER : 0) |
                 (how->plus_one ? NATIVE_NORM_PLUS_ONE : 0) |
                 (how->wide ? NATIVE_NORM_WIDE : 0) |
                 (how->gate_first ? NATIVE_NORM_GATE_FIRST : 0) |
                 (op->in[1] != NATIVE_NO_REG ? NATIVE_NORM_GATE : 0) |
                 (op->vector[0] != NATIVE_NONE ? NATIVE_NORM_WEIGHT : 0) |
                 (op->vector[1] != NATIVE_NONE ? NATIVE_NORM_SHIFT : 0),
        .eps = how->eps,
    };

    launch(run, NATIVE_GPU_norm, 0, (struct grid){push.groups, run->tokens, 1}, PUSH(push),
           SPANS(x.buffer, gate.buffer, vector_of(run, op->vector[0]),
                 vector_of(run, op->vector[1]), y.buffer),
           0);
}

/* The kernel `rows`; push has kind, n and f. */
static void add_rows(const struct native_gpu_run *run, struct push_rows push, uint32_t tokens,
                     struct rows a, struct rows b, struct gpu_span vector, struct rows y)
{
    push.tokens = tokens;
    push.a_at = a.at;
    push.a_stride = a.stride;
    push.b_at = b.at;
    push.b_stride = b.stride;
    push.y_at = y.at;
    push.y_stride = y.stride;
    launch(run, NATIVE_GPU_rows, 0, (struct grid){over(push.count, THREADS), tokens, 1},
           PUSH(push), SPANS(a.buffer, b.buffer, vector, inputs_of(run), y.buffer), 0);
}

static struct push_rows rows_push(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    struct push_rows p = {.count = width_of(run, op->out), .f = op->scale};

    switch ((enum native_op_kind)op->kind) {
    case NATIVE_OP_SLICE:
        p.kind = NATIVE_ROWS_SLICE;
        p.count = op->slice.groups * op->slice.length;
        p.n0 = op->slice.length;
        p.n1 = op->slice.group_in;
        p.n2 = op->slice.offset;
        p.n3 = op->slice.out_stride;
        p.n4 = op->slice.out_offset;
        break;
    case NATIVE_OP_GATE:
        p.kind = NATIVE_ROWS_GATE;
        p.n0 = op->gate.act;
        p.n1 = op->gate.group;
        break;
    case NATIVE_OP_ACT:
        p.kind = NATIVE_ROWS_ACT;
        p.n0 = op->gate.act;
        break;
    case NATIVE_OP_ADD:
        p.kind = NATIVE_ROWS_ADD;
        break;
    case NATIVE_OP_SCALE:
        p.kind = NATIVE_ROWS_SCALE;
        if (op->vector[0] != NATIVE_NONE)
            p.n0 = run->b->spec->vectors[op->vector[0]].count;
        break;
    case NATIVE_OP_SOFTCAP:
        p.kind = NATIVE_ROWS_SOFTCAP;
        break;
    default: /* ROPE */
        p.kind = NATIVE_ROWS_ROPE;
        p.n0 = run->b->spec->ropes[op->rope.table].dims / 2;
        p.n1 = op->rope.head_size;
        p.n2 = op->rope.offset;
        p.n3 = op->rope.interleaved;
        p.n4 = run->ropes[op->rope.table];
        p.count = op->rope.heads * p.n0;
        break;
    }
    return p;
}

/* ---- attention ---- */

static void add_keys(const struct native_gpu_run *run, struct push_attend push, uint32_t mode,
                     struct gpu_span pages)
{
    uint32_t pairs = push.kv_heads * (push.key_size + push.cache_values) / 2;

    launch(run, NATIVE_GPU_keys, mode, (struct grid){over(pairs, THREADS), run->tokens, 1},
           PUSH(push),
           SPANS(buffer_of(run, run->op->in[1]), buffer_of(run, run->op->in[2]), inputs_of(run),
                 pages),
           0);
}

/* Rows are divided where one launch would take too long. */
static void add_looks(const struct native_gpu_run *run, struct push_attend push, uint32_t mode,
                      struct gpu_span pages)
{
    const struct native_op *op = run->op;
    uint64_t keys = push.window != 0 && push.window < run->longest ? push.window : run->longest;
    uint64_t each = (uint64_t)push.heads * (push.key_size + push.value_size) * keys + 1;
    uint64_t most = run->limit / each;

    most = most < 1 ? 1 : most > run->tokens ? run->tokens : most;
    for (push.first = 0; push.first < run->tokens; push.first += (uint32_t)most) {
        uint32_t n =
            run->tokens - push.first < most ? run->tokens - push.first : (uint32_t)most;
        launch(run, NATIVE_GPU_attend, mode, (struct grid){push.heads, n, 1}, PUSH(push),
               SPANS(buffer_of(run, op->in[0]), pages, inputs_of(run),
                     vector_of(run, op->vector[0]), buffer_of(run, op->out)),
               each * n);
        beside_previous(run, push.first > 0);
    }
}

static void add_attend(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    const struct native_attention *a = &op->attend;
    const struct native_cache *c = &run->b->spec->caches[op->cache];
    struct rows q = rows_of(run, op->in[0]), k = rows_of(run, op->in[1]),
                v = rows_of(run, op->in[2]), y = rows_of(run, op->out);
    const struct push_attend push = {
        .tokens = run->tokens,
        .heads = a->heads,
        .kv_heads = a->kv_heads,
        .key_size = a->head_size,
        .value_size = a->value_size,
        .cache_values = c->value_size,
        .kind = c->kind,
        .q_at = q.at,
        .q_stride = q.stride,
        .k_at = k.at,
        .k_stride = k.stride,
        .v_at = v.at,
        .v_stride = v.stride,
        .y_at = y.at,
        .y_stride = y.stride,
        .token_at = run->token_at,
        .window = a->window,
        .flags = (a->both_ways ? NATIVE_ATTEND_BOTH_WAYS : 0) |
                 (op->vector[0] != NATIVE_NONE ? NATIVE_ATTEND_SINKS : 0),
        .query_floor = a->query_floor > 0 ? a->query_floor : 1,
        .scale = (float)a->scale,
        .softcap = (float)a->softcap,
        .query_beta = (float)a->query_beta,
    };
    struct gpu_span pages = native_gpu_whole(run->b->caches[op->cache]);
    uint32_t mode = native_gpu_is_wide(c, run->b->wide) ? 1 : 0;

    if (op->writes)
        add_keys(run, push, mode, pages);
    add_looks(run, push, mode, pages);
}

/* ---- experts ---- */

static void add_route(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    const struct native_route *how = &op->route;
    struct rows x = rows_of(run, op->in[0]), y = rows_of(run, op->out);
    const struct push_route push = {
        .experts = how->experts,
        .chosen = how->chosen,
        .score = how->score,
        .flags = (how->normalize ? NATIVE_ROUTE_NORMALIZE : 0) |
                 (op->vector[0] != NATIVE_NONE ? NATIVE_ROUTE_BIAS : 0) |
                 (op->vector[1] != NATIVE_NONE ? NATIVE_ROUTE_SCALES : 0) |
                 (how->by_best ? NATIVE_ROUTE_BY_BEST : 0),
        .groups = how->groups,
        .group_count = how->group_count,
        .x_at = x.at,
        .x_stride = x.stride,
        .y_at = y.at,
        .y_stride = y.stride,
        .epsilon = how->epsilon,
        .scale = how->scale,
        .jitter = how->jitter,
    };

    launch(
        run, NATIVE_GPU_route, 0, (struct grid){run->tokens, 1, 1}, PUSH(push),
        SPANS(x.buffer, vector_of(run, op->vector[0]), vector_of(run, op->vector[1]), y.buffer),
        0);
}

static void add_sort(const struct native_gpu_run *run, struct rows choice)
{
    const struct native_experts *e = &run->op->experts;
    const struct push_sort push = {
        .tokens = run->tokens,
        .experts = e->experts,
        .chosen = e->chosen,
        .choice_at = choice.at,
        .choice_stride = choice.stride,
        .tiles = over(run->tokens * e->chosen, NATIVE_GPU_TILE) + e->experts,
    };

    launch(run, NATIVE_GPU_sort, 0, (struct grid){1, 1, 1}, PUSH(push),
           SPANS(choice.buffer, native_gpu_whole(run->b->sorted)), 0);
}

/* The inner values of each pair: one matrix, or two beside each other. */
static void add_up(const struct native_gpu_run *run, struct product d, struct rows inner)
{
    const struct native_op *op = run->op;
    const struct native_experts *e = &op->experts;
    bool fused = op->matrix[1] == NATIVE_NONE;

    d.x = rows_of(run, op->in[0]);
    d.y = inner;
    d.bias = op->vector[0];
    d.bias_matrix = 2 * e->inner;
    if (e->gated) {
        d.w = weight_of(run, 0);
        add_product(run, d);
    }
    if (e->gated && fused)
        return;
    d.w = weight_of(run, 1);
    d.y.at += e->gated ? e->inner : 0;
    d.bias_at = e->inner;
    add_product(run, d);
    beside_previous(run, e->gated && d.w->part_count == 1);
}

static void add_experts(const struct native_gpu_run *run)
{
    const struct serving_backend *b = run->b;
    const struct native_op *op = run->op;
    const struct native_experts *e = &op->experts;
    uint32_t width = width_of(run, op->out), pairs = run->tokens * e->chosen;
    uint32_t inner_width = e->gated ? 2 * e->inner : e->inner;
    struct rows inner = {native_gpu_whole(b->inner), 0, inner_width},
                hidden = {native_gpu_whole(b->hidden), 0, e->inner},
                down = {native_gpu_whole(b->down), 0, width}, choice = rows_of(run, op->in[1]),
                nothing = {native_gpu_whole(b->nothing), 0, 0};
    struct product d = {.tokens = pairs,
                        .chosen = e->chosen,
                        .choice = choice,
                        .many = run->tokens > NATIVE_GPU_FEW};

    if (d.many) {
        add_sort(run, choice);
        d.choice.buffer = native_gpu_whole(b->sorted);
    }
    add_up(run, d, inner);
    add_rows(run,
             (struct push_rows){.kind = e->gated ? NATIVE_ROWS_GLU : NATIVE_ROWS_ACT,
                                .count = e->inner,
                                .n0 = e->act,
                                .n1 = e->gated && e->interleaved,
                                .f = e->limit},
             pairs, inner, nothing, nothing.buffer, hidden);
    d.w = weight_of(run, 2);
    d.x = hidden;
    d.y = down;
    d.bias = op->vector[1];
    d.bias_matrix = width;
    d.pairs = true;
    add_product(run, d);
    add_rows(run,
             (struct push_rows){.kind = NATIVE_ROWS_COMBINE, .count = width, .n0 = e->chosen},
             run->tokens, down, choice, nothing.buffer, rows_of(run, op->out));
}

/* ---- state ---- */

static void add_state(const struct native_gpu_run *run, enum native_gpu_kernel kernel,
                      uint32_t groups, uint32_t state_at, struct push_state push)
{
    const struct native_op *op = run->op;
    struct rows x = rows_of(run, op->in[0]), a = rows_of(run, op->in[1]),
                b = rows_of(run, op->in[2]), y = rows_of(run, op->out);
    struct gpu_span state = native_gpu_whole(run->b->state),
                    first = vector_of(run, op->vector[0]),
                    second = vector_of(run, op->vector[1]),
                    third = vector_of(run, op->vector[2]);
    struct grid grid = {groups, run->steps, 1};

    push.step_at = run->at.steps;
    push.state_at = state_at;
    push.state_stride = run->b->spec->state_floats;
    push.x_at = x.at;
    push.x_stride = x.stride;
    push.a_at = a.at;
    push.a_stride = a.stride;
    push.b_at = b.at;
    push.b_stride = b.stride;
    push.y_at = y.at;
    push.y_stride = y.stride;
    if (kernel == NATIVE_GPU_conv)
        launch(run, kernel, 0, grid, PUSH(push),
               SPANS(x.buffer, first, second, state, inputs_of(run), y.buffer), 0);
    else if (kernel == NATIVE_GPU_delta)
        launch(
            run, kernel, 0, grid, PUSH(push),
            SPANS(x.buffer, a.buffer, b.buffer, first, second, state, inputs_of(run), y.buffer),
            4ull * run->tokens * groups * push.n2 * push.n3);
    else
        launch(run, kernel, 0, grid, PUSH(push),
               SPANS(x.buffer, a.buffer, first, second, third, state, inputs_of(run), y.buffer),
               2ull * run->tokens * groups * push.n1 * push.n3);
}

static void add_pool(const struct native_gpu_run *run)
{
    const struct native_op *op = run->op;
    struct rows x = rows_of(run, op->in[0]), y = rows_of(run, op->out);
    /* The rows of all texts count, not only those of this block. */
    const struct push_pool push = {
        .width = width_of(run, op->out),
        .text_at = run->text_at,
        .x_at = 0,
        .x_stride = x.stride,
        .y_at = y.at,
        .y_stride = y.stride,
    };

    launch(run, NATIVE_GPU_pool, 0, (struct grid){over(push.width, THREADS), run->tokens, 1},
           PUSH(push), SPANS(x.buffer, inputs_of(run), y.buffer), 0);
}

void native_gpu_add(struct native_gpu_run *run)
{
    const struct native_op *op = run->op;

    switch ((enum native_op_kind)op->kind) {
    case NATIVE_OP_EMBED:
        add_embed(run);
        break;
    case NATIVE_OP_NORM:
        add_norm(run);
        break;
    case NATIVE_OP_LINEAR:
        add_linear(run);
        break;
    case NATIVE_OP_HEADS:
        add_heads(run);
        break;
    case NATIVE_OP_ATTEND:
        add_attend(run);
        break;
    case NATIVE_OP_ROUTE:
        add_route(run);
        break;
    case NATIVE_OP_EXPERTS:
        add_experts(run);
        break;
    case NATIVE_OP_CONV:
        add_state(run, NATIVE_GPU_conv, over(op->conv.channels, THREADS), op->conv.state,
                  (struct push_state){.n0 = op->conv.channels,
                                      .n1 = op->conv.kernel,
                                      .n2 = op->conv.act,
                                      .n3 = op->vector[1] != NATIVE_NONE});
        break;
    case NATIVE_OP_DELTA:
        add_state(run, NATIVE_GPU_delta, op->delta.value_heads, op->delta.state,
                  (struct push_state){.n0 = op->delta.key_heads,
                                      .n1 = op->delta.value_heads,
                                      .n2 = op->delta.key_size,
                                      .n3 = op->delta.value_size});
        break;
    case NATIVE_OP_SSM:
        add_state(run, NATIVE_GPU_ssm, op->ssm.heads, op->ssm.state,
                  (struct push_state){.n0 = op->ssm.heads,
                                      .n1 = op->ssm.head_size,
                                      .n2 = op->ssm.groups,
                                      .n3 = op->ssm.state_size,
                                      .f0 = op->ssm.dt_min,
                                      .f1 = op->ssm.dt_max});
        break;
    case NATIVE_OP_POOL:
        add_pool(run);
        break;
    default: /* SLICE, GATE, ACT, ADD, SCALE, SOFTCAP, ROPE */
        add_rows(run, rows_push(run), run->tokens, rows_of(run, op->in[0]),
                 rows_of(run, op->in[1]), vector_of(run, op->vector[0]), rows_of(run, op->out));
        break;
    }
}
