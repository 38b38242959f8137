/* tests/unit/node/support.h - models without processes: two models, a worker that the test
 * plays, and time that moves when the test says so.  The functions of node/workers/proc.h are
 * this file's.
 */
#ifndef TESTS_UNIT_NODE_SUPPORT_H
#define TESTS_UNIT_NODE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include <cmocka.h>

#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/event.h"

/* ---- the injected worker ---- */

struct node_proc {
    struct node_proc_callbacks callbacks;
    bool is_probe, is_killed, has_ended;
    enum wire_type last, before; /* frames that it was sent: the last, and the one before */
    struct wire_submit submit;   /* the last SUBMIT; its texts are not valid */
};

static struct node_proc procs[64];
static size_t proc_count;

lr_code node_proc_start(struct net_loop *loop, const struct node_proc_config *config,
                        struct node_proc **out, struct lr_error *err)
{
    (void)loop;
    (void)err;
    assert_true(proc_count < sizeof(procs) / sizeof(procs[0]));
    procs[proc_count] =
        (struct node_proc){.callbacks = config->callbacks, .is_probe = config->is_probe};
    *out = &procs[proc_count++];
    return LR_OK;
}

pid_t node_proc_pid(const struct node_proc *proc)
{
    return (pid_t)(2000000000 + (proc - procs)); /* no system counts so far: it has no memory */
}

int node_proc_source(const struct node_proc *proc)
{
    (void)proc;
    return -1;
}

bool node_proc_send(struct node_proc *proc, struct lr_str bytes)
{
    struct wire_frame frame;
    bool has = false;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_true(has);
    proc->before = proc->last;
    proc->last = frame.type;
    if (frame.type == WIRE_SUBMIT)
        assert_int_equal(wire_submit_head_decode(frame.body, &proc->submit, NULL), LR_OK);
    return true;
}

void node_proc_kill(struct node_proc *proc)
{
    proc->is_killed = true;
}

static inline struct node_proc *newest(void)
{
    return &procs[proc_count - 1];
}

static inline void say(struct node_proc *proc, struct lr_buf *buf)
{
    struct wire_reader frames;
    struct lr_error err;
    wire_reader_init(&frames, WIRE_BODY_MAX);
    wire_reader_give(&frames, lr_buf_str(buf));
    assert_int_equal(proc->callbacks.on_frames(proc->callbacks.arg, &frames, &err), LR_OK);
    wire_reader_free(&frames);
    lr_buf_free(buf);
}

static inline void ends(struct node_proc *proc, const char *how)
{
    assert_false(proc->has_ended);
    proc->has_ended = true;
    proc->callbacks.on_exit(proc->callbacks.arg, how);
}

static inline void says_need(struct node_proc *proc, enum wire_type type, uint64_t total)
{
    struct lr_engine_need need = {.size = sizeof(need), .total = total, .max_sequences = 4};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_need_encode(&buf, type, &need);
    say(proc, &buf);
}

static inline void says_failed(struct node_proc *proc, lr_code code)
{
    struct wire_error m = {.error = {.code = code, .text = "it does not work"}};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_error_encode(&buf, WIRE_FAILED, &m);
    say(proc, &buf);
}

/* ---- two models on a machine that gives models 1000 kB ---- */

enum { ROOM = 1000 * 1024, NEED = 600 * 1024 };
enum { STEP_MS = 1000, LOAD_MS = 5000, CLOSE_MS = 500, KILLS = 3 };

static struct lr_fake_clock time_;
static struct node_models all;
static struct net_bus events;
static struct node_storage storage = {.models = &all};
static struct node_engines engines;
static const struct node_launcher launcher;
static struct node_library library, other_library;
static struct node_engine engine;
static struct model_descriptor descriptors[2];
static struct node_model models[2];
static struct node_model *const model = &models[0];
static struct node_replica *const replica = &models[0].replicas[0];

static inline int set_up(void **state)
{
    static char ids[2][8] = {"one", "two"};
    static char dir[] = "/nonexistent/model";
    (void)state;
    lr_fake_clock_init(&time_, 1000000, 0);
    all = (struct node_models){
        .clock = &time_.clock,
        .events = &events,
        .storage = &storage,
        .engines = &engines,
        .launcher = &launcher,
        .limits = {.step_ms = STEP_MS,
                   .load_ms = LOAD_MS,
                   .close_ms = CLOSE_MS,
                   .queue = 10,
                   .kills = KILLS},
        .uses_artifacts = true,
        .devices = {.kind = "cpu", .name = "cpu", .is_cpu = true},
    };
    net_bus_init(&events);
    lr_buf_init(&all.scratch, 1 << 20);
    node_pools_init(&all.pools, "/nonexistent/nvml", ROOM, 100, "/proc");
    library = other_library = (struct node_library){.refs = 100, .path = "/nonexistent/x.so"};
    engine = (struct node_engine){.name = "fake", .library = &library};
    for (size_t i = 0; i < 2; i++) {
        descriptors[i] = (struct model_descriptor){.model_dir = dir};
        models[i] = (struct node_model){.models = &all,
                                        .id = ids[i],
                                        .state = NODE_MODEL_PRESENT,
                                        .descriptor = &descriptors[i],
                                        .engine = &engine};
        for (size_t j = 0; j < NODE_REPLICAS; j++)
            models[i].replicas[j].model = &models[i];
    }
    models[0].next = &models[1];
    all.first = &models[0];
    proc_count = 0;
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < proc_count; i++)
        if (!procs[i].has_ended) {
            all.is_draining = true; /* nothing is loaded again */
            ends(&procs[i], "killed by SIGKILL");
        }
    net_bus_free(&events);
    lr_buf_free(&all.scratch);
    node_pools_free(&all.pools);
    lr_slots_free(&all.generations);
    prefix_index_free(&all.prefixes);
    return 0;
}

/* Through the probe to a worker that loads. */
static inline struct node_worker *load(struct node_model *m)
{
    node_model_load(m);
    if (newest()->is_probe) {
        assert_int_equal(m->state, NODE_MODEL_STARTING);
        says_need(newest(), WIRE_PROBED, NEED);
        ends(newest(), "exited with 0");
    }
    assert_int_equal(m->state, NODE_MODEL_LOADING);
    assert_int_equal(m->replicas[0].state, NODE_REPLICA_LOADING);
    assert_int_equal(newest()->last, WIRE_OPEN);
    return m->replicas[0].worker;
}

static inline struct node_worker *serve(struct node_model *m)
{
    struct node_worker *w = load(m);
    assert_int_equal(w->state, NODE_WORKER_LOADING);
    says_need(w->proc, WIRE_OPENED, NEED);
    assert_int_equal(w->state, NODE_WORKER_READY);
    assert_int_equal(m->replicas[0].state, NODE_REPLICA_READY);
    assert_int_equal(m->state, NODE_MODEL_READY);
    return w;
}

/* ---- moves ---- */

struct move {
    unsigned from, to;
};

static inline bool is_listed(const struct move *moves, size_t count, unsigned from, unsigned to)
{
    for (size_t i = 0; i < count; i++)
        if (moves[i].from == from && moves[i].to == to)
            return true;
    return false;
}

#define LISTED(moves, from, to) is_listed(moves, sizeof(moves) / sizeof(moves[0]), from, to)

#endif
