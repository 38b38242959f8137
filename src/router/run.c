/* router/run.c - `llm-router router`: one router, one process, until a signal ends it. */
#include <stdio.h>

#include "net/service.h"
#include "net/settings.h"
#include "router/router.h"

struct run {
    struct net_loops *loops;
    struct router *router;
    struct net_signals signals;
    struct net_timer *watchdog;
    uint32_t drain_ms;
};

static void on_stopped(void *arg)
{
    struct run *run = arg;
    net_signals_stop(&run->signals);
    net_loops_stop(run->loops);
}

static void on_signal(void *arg)
{
    struct run *run = arg;
    net_service_stopping();
    /* The second signal comes here, too, and ends the draining. */
    router_stop(run->router, run->drain_ms, on_stopped, run);
}

static void on_hup(void *arg)
{
    (void)arg;
    net_settings_reload();
}

static void greet(const struct run *run, const char *admin_key)
{
    char url[300];
    router_url(run->router, url);
    if (admin_key[0] != '\0')
        (void)printf("\nAdmin key, shown this once: %s\n", admin_key);
    (void)printf("listening on %s\n", url);
    (void)fflush(stdout);
}

lr_code router_run(const struct lr_settings *settings, const char *version,
                   struct lr_error *err)
{
    struct run run = {.drain_ms = (uint32_t)lr_settings_ms(settings, "drain-timeout")};
    char admin_key[64];
    lr_code code =
        net_loops_create((unsigned)lr_settings_int(settings, "threads"), &run.loops, err);
    if (code != LR_OK)
        return code;
    code = router_create(run.loops, settings, version, lr_settings_bool(settings, "takeover"),
                         &run.router, err);
    if (code == LR_OK)
        code = net_signals_start(net_loops_get(run.loops, 0), on_signal, on_hup, &run,
                                 &run.signals, err);
    if (code == LR_OK)
        code = router_start(run.router, admin_key, err);
    if (code == LR_OK) {
        router_offer(run.router, on_stopped, &run);
        greet(&run, admin_key);
        net_service_ready(net_loops_get(run.loops, 0), &run.watchdog);
        code = net_loops_run(run.loops, err);
    }
    net_timer_stop(run.watchdog);
    router_destroy(run.router);
    net_loops_destroy(run.loops);
    return code;
}
