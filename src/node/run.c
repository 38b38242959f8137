/* node/run.c - `llm-router node`: one node, one process, until a signal ends it. */
#include <signal.h>
#include <stdio.h>

#include "net/server.h"
#include "net/settings.h"
#include "node/fleet/router_link.h"
#include "node/node.h"
#include "node/state.h"

enum { STOP_MS = 2000 };

struct run {
    struct net_loops *loops;
    struct node *node;
    struct node_router_link *link;
    struct net_signal *signals[3];
};

static void on_stopped(void *arg)
{
    struct run *run = arg;
    for (size_t i = 0; i < 3; i++)
        net_signal_stop(run->signals[i]);
    net_loops_stop(run->loops);
}

static void on_drained(void *arg)
{
    struct run *run = arg;
    net_bus_end_all(&run->node->events); /* streams that would keep the server */
    net_server_stop(run->node->server, STOP_MS, on_stopped, run);
}

static void on_stop_signal(void *arg)
{
    struct run *run = arg;
    node_drain(run->node, on_drained, run);
}

static void on_hup(void *arg)
{
    struct run *run = arg;
    net_settings_reload();
    node_reload_all(run->node);
}

static lr_code watch_signals(struct run *run, struct net_loop *loop, struct lr_error *err)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    static const net_loop_fn handlers[] = {on_stop_signal, on_stop_signal, on_hup};
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < 3; i++)
        code = net_signal_start(loop, numbers[i], handlers[i], run, &run->signals[i], err);
    return code;
}

lr_code node_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct run run = {0};
    uint16_t port;
    (void)signal(SIGPIPE, SIG_IGN);
    lr_code code = net_loops_create(1, &run.loops, err);
    if (code != LR_OK)
        return code;
    struct net_loop *loop = net_loops_get(run.loops, 0);
    code = node_create(loop, settings, &run.node, err);
    if (code == LR_OK)
        code = net_loop_share_sends(loop, err);
    if (code == LR_OK)
        code = node_router_link_create(run.node, &run.link, err);
    if (code == LR_OK)
        code = node_start(run.node, run.loops, lr_settings_str(settings, "listen"), &port, err);
    if (code == LR_OK)
        code = watch_signals(&run, loop, err);
    if (code == LR_OK) {
        node_router_link_start(run.link, port);
        (void)printf("listening on port %u\n", port);
        (void)fflush(stdout);
        code = net_loops_run(run.loops, err);
    }
    node_router_link_destroy(run.link);
    node_destroy(run.node);
    net_loops_destroy(run.loops);
    return code;
}
