/* router/run.c - `llm-router router`: one router, one process, until a signal ends it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/service.h"
#include "base/subprocess.h"
#include "net/service.h"
#include "net/settings.h"
#include "router/router.h"

enum { ARGS_MAX = 512, LOOK_MS = 500 };

struct run {
    struct net_loops *loops;
    struct router *router;
    const char *const *args; /* of this process */
    struct net_signals signals;
    struct net_signal *upgrade;
    struct net_timer *watchdog, *look;
    struct lr_subprocess next; /* the router that shall take over; pid 0: none */
    uint32_t drain_ms;
};

static void on_stopped(void *arg)
{
    struct run *run = arg;
    net_signals_stop(&run->signals);
    net_signal_stop(run->upgrade);
    run->upgrade = NULL;
    net_loops_stop(run->loops);
}

static void run_on_signal(void *arg)
{
    struct run *run = arg;
    net_service_stopping();
    /* The second signal comes here, too, and ends the draining. */
    router_stop(run->router, run->drain_ms, on_stopped, run);
}

static void run_on_hup(void *arg)
{
    (void)arg;
    net_settings_reload();
}

/* ---- upgrade ---- */

static lr_code start_next(struct run *run, struct lr_error *err)
{
    const char *args[ARGS_MAX + 2], *env[3] = {NULL};
    char notify[LR_SERVICE_ENV_MAX], watchdog[LR_SERVICE_ENV_MAX];
    size_t count = 0, variables = 0;
    bool takes_over = false;
    for (; count < ARGS_MAX && run->args[count] != NULL; count++) {
        args[count] = run->args[count];
        takes_over = takes_over || strcmp(args[count], "--takeover") == 0;
    }
    if (!takes_over)
        args[count++] = "--takeover";
    args[count] = NULL;
    lr_service_env(notify, watchdog);
    if (notify[0] != '\0')
        env[variables++] = notify;
    if (watchdog[0] != '\0')
        env[variables++] = watchdog;
    struct lr_spawn spawn = {.argv = args, .env = env};
    return lr_subprocess_start(&spawn, &run->next, err);
}

/* A router that has taken over outlives this process. */
static void look_at_next(void *arg)
{
    struct run *run = arg;
    char how[LR_EXIT_TEXT_LEN];
    if (!lr_subprocess_poll(&run->next))
        return;
    (void)lr_exit_text(run->next.status, how);
    if (router_has_given_to(run->router, run->next.pid))
        lr_log_info(NULL, "router.successor_ended how=%s", how);
    else
        lr_log_warn(NULL, "router.upgrade_failed how=%s", how);
    run->next = (struct lr_subprocess){0};
    router_expect(run->router, 0);
    net_timer_stop(run->look);
    run->look = NULL;
}

static void on_upgrade(void *arg)
{
    struct run *run = arg;
    struct lr_error err;
    if (run->look != NULL)
        return; /* one is starting */
    if (start_next(run, &err) != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "router.upgrade_failed how=%s", err.text);
        return;
    }
    router_expect(run->router, (long)run->next.pid);
    lr_log_info(NULL, "router.upgrade pid=%ld", (long)run->next.pid);
    run->look =
        net_timer_start(net_loops_get(run->loops, 0), LOOK_MS, LOOK_MS, look_at_next, run);
}

/* ---- life ---- */

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
                   const char *const *args, struct lr_error *err)
{
    struct run run = {.args = args,
                      .drain_ms = (uint32_t)lr_settings_ms(settings, "drain-timeout")};
    char admin_key[64];
    lr_code code =
        net_loops_create((unsigned)lr_settings_int(settings, "threads"), &run.loops, err);
    if (code != LR_OK)
        return code;
    code = router_create(run.loops, settings, version, lr_settings_bool(settings, "takeover"),
                         &run.router, err);
    if (code == LR_OK)
        code = net_signals_start(net_loops_get(run.loops, 0), run_on_signal, run_on_hup, &run,
                                 &run.signals, err);
#ifdef SIGUSR2
    if (code == LR_OK)
        code = net_signal_start(net_loops_get(run.loops, 0), SIGUSR2, on_upgrade, &run,
                                &run.upgrade, err);
#else
    (void)on_upgrade; /* no signal asks for it */
#endif
    if (code == LR_OK)
        code = router_start(run.router, admin_key, err);
    if (code == LR_OK) {
        router_offer(run.router, on_stopped, &run);
        greet(&run, admin_key);
        net_service_ready(net_loops_get(run.loops, 0), &run.watchdog);
        code = net_loops_run(run.loops, err);
    }
    net_timer_stop(run.watchdog);
    net_timer_stop(run.look);
    router_destroy(run.router);
    net_loops_destroy(run.loops);
    return code;
}
