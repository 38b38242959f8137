/* router/drain.c - the end of a router: it stops, or gives way to another one and takes its
 * place back where that one is killed. */
#include "router/drain.h"

#include "base/log.h"
#include "base/service.h"
#include "router/http/state.h"

enum {
    DRAIN_LOOK_MS = 20,
    LAST_BYTES_MS = 2000, /* for answers that are made but not yet read */
};

static void on_left(void *arg)
{
    struct router_left *left = arg;
    left->has_left = true;
}

static bool have_left(const struct router *r)
{
    size_t i = 0;
    while (i < r->left_count && r->left[i].has_left)
        i++;
    return i == r->left_count;
}

/* Stops listening; what is not answered after grace_ms is cut. */
static void end_drain(struct router *r, uint32_t grace_ms)
{
    struct router_drain *drain = &r->drain;
    if (drain->is_cut)
        return;
    drain->is_cut = true;
    router_store_hurry(r->store);
    router_oidc_cancel(&r->oidc);
    for (size_t i = 0; i < r->left_count; i++)
        if (!r->left[i].has_left)
            net_server_leave(r->left[i].server, grace_ms, on_left, &r->left[i]);
    if (!drain->is_leaving)
        net_server_stop(r->server, grace_ms, drain->done, drain->arg);
}

static uint64_t count_unanswered(const struct router *r)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < r->loop_count; i++)
        count += atomic_load(&r->loop_states[i].relay.unanswered);
    return count;
}

/* Background requests have no connection, so that the last connection may close before them. */
static void look_at_drain(void *arg)
{
    struct router *r = arg;
    struct router_drain *drain = &r->drain;
    uint64_t unanswered = count_unanswered(r);
    if (unanswered == 0 && !drain->is_leaving)
        end_drain(r, LAST_BYTES_MS);
    else if (lr_clock_ms(NULL) >= drain->deadline_ms)
        end_drain(r, 0);
    if (!drain->is_leaving || !have_left(r) || drain->is_done ||
        (unanswered != 0 && !drain->is_cut))
        return;
    drain->is_done = true;
    router_store_hurry(r->store);
    drain->done(drain->arg);
}

static void begin_drain(struct router *r, uint32_t deadline_ms, net_loop_fn done, void *arg)
{
    bool is_limited = deadline_ms != NET_SERVER_NO_DEADLINE;
    net_bus_end_all(&r->events);
    r->drain = (struct router_drain){
        .timer = net_timer_start(r->loop_states[0].net, 0, DRAIN_LOOK_MS, look_at_drain, r),
        .deadline_ms = is_limited ? lr_clock_ms(NULL) + deadline_ms : UINT64_MAX,
        .done = done,
        .arg = arg,
    };
    lr_log_info(NULL, "router.drain calls=%llu deadline_ms=%u",
                (unsigned long long)count_unanswered(r), is_limited ? deadline_ms : 0);
}

static void drain_leave(struct router *r, uint32_t deadline_ms, net_loop_fn done, void *arg)
{
    struct router_left *left = &r->left[r->left_count++];
    begin_drain(r, deadline_ms, done, arg);
    r->drain.is_leaving = true;
    *left = (struct router_left){.server = r->server};
    net_server_leave(r->server, NET_SERVER_NO_DEADLINE, on_left, left);
}

/* ---- giving way ---- */

static void on_giving(void *arg)
{
    struct router *r = arg;
    router_takeover_bye(&r->takeover);
}

/* The sockets stay open until the next router has said that it needs this one no more:
 * connections wait in them where nobody accepts. */
static void on_given(void *arg)
{
    struct router *r = arg;
    struct lr_error err;
    if (net_listeners_copy(net_server_listeners(r->server), &r->kept, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "router.no_way_back reason=%s", err.text);
    drain_leave(r, NET_SERVER_NO_DEADLINE, r->on_left, r->on_left_arg);
}

void router_drop_kept(struct router *r)
{
    for (size_t i = 0; i < r->kept.count; i++)
        r->kept.all[i].is_shared = true; /* the file of a Unix socket is the next router's */
    net_listeners_close(&r->kept);
    r->kept.count = 0;
}

static void on_over(void *arg)
{
    struct router *r = arg;
    router_drop_kept(r);
    lr_file_unlock(&r->data_lock);
    lr_file_unlock(&r->database_lock);
}

/* The database may have changed meanwhile, and no heartbeat came here. */
static bool take_back(void *arg)
{
    struct router *r = arg;
    struct lr_error err;
    if (r->kept.count == 0 || r->left_count == ROUTER_LEFT_MAX)
        return false;
    r->listeners = r->kept;
    r->kept.count = 0;
    if (router_serve(r, &err) != LR_OK) {
        lr_log_error(LR_LOG_OF(&err), "router.no_way_back reason=%s", err.text);
        return false;
    }
    net_timer_stop(r->drain.timer);
    r->drain = (struct router_drain){.timer = NULL};
    r->handover.server = r->server;
    lr_file_lock_sign(&r->data_lock);
    if (r->database_lock.fd >= 0)
        lr_file_lock_sign(&r->database_lock);
    router_lock(r);
    router_nodes_expect(&r->nodes, lr_clock_ms(NULL));
    router_unlock(r);
    router_store_look(r->store);
    return true;
}

void router_offer(struct router *r, net_loop_fn done, void *arg)
{
    struct lr_error err;
    r->on_left = done;
    r->on_left_arg = arg;
    r->handover = (struct router_handover){
        .memory = router_known_nodes_of(r),
        .lock = &r->lock,
        .server = r->server,
        .folder = lr_settings_str(r->settings, "data-dir"),
        .version = r->version,
        .data_lock = r->data_lock.fd,
        .database_lock = r->database_lock.fd,
        .on_giving = on_giving,
        .on_given = on_given,
        .on_over = on_over,
        .take_back = take_back,
        .arg = r,
    };
    if (router_handover_start(&r->handover, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "router.no_handover reason=%s", err.text);
}

bool router_has_given_to(const struct router *r, int64_t pid)
{
    return r->handover.given == (pid_t)pid;
}

/* ---- stopping ---- */

void router_expect(struct router *r, long pid)
{
    r->handover.own = (pid_t)pid;
}

/* Another process has the sockets, too: a service manager. */
static bool has_shared_sockets(const struct router *r)
{
    const struct net_listeners *listeners = net_server_listeners(r->server);
    return listeners->count != 0 && listeners->all[0].is_shared;
}

void router_stop(struct router *r, uint32_t deadline_ms, net_loop_fn done, void *arg)
{
    struct router_drain *drain = &r->drain;
    router_takeover_bye(&r->takeover);
    router_handover_forget(&r->handover);
    if (drain->timer != NULL && drain->deadline_ms == UINT64_MAX) {
        drain->deadline_ms = lr_clock_ms(NULL) + deadline_ms;
    } else if (drain->timer != NULL) {
        end_drain(r, 0);
    } else if (has_shared_sockets(r)) {
        router_handover_leave(&r->handover);
        router_handover_stop(&r->handover);
        drain_leave(r, deadline_ms, done, arg);
    } else {
        router_handover_stop(&r->handover);
        atomic_store(&r->is_draining, true);
        begin_drain(r, deadline_ms, done, arg);
    }
}
