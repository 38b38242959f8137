/* cli/up.c - llm-router up: a router and one node on this machine, in one command.
 *
 * The router runs in this process.  The node is a child process that joins like any other node
 * (its own token, HTTP, heartbeats), so that everything behaves as in a fleet.  Stopping is
 * ordered: the router finishes its requests, then the node is told to leave.  The child is
 * started from the main thread and dies with it, however this process ends.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/subprocess.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/version.h"
#include "hub/reference.h"
#include "net/service.h"
#include "net/settings.h"
#include "node/models/devices.h"
#include "node/node.h"
#include "router/router.h"

enum {
    LOOK_MS = 50,
    FLAGS_MAX = 128,
    SECRETS_MAX = 8,
    FLAG_BYTES = 64 << 10,
    RESTART_MS = 1000,
    PRELOAD_BEGINS_MS = 3000,
    ADOPTIONS_MAX = 5,      /* tries before `up` reports that it has no model */
    NODE_LEAVES_MS = 15000, /* after the router has drained the node is idle */
};

struct up {
    const struct lr_settings *settings;
    struct net_loops *loops;
    struct router *router;
    struct net_signals signals;
    struct net_timer *timer, *watchdog;
    struct lr_subprocess node;
    struct lr_subprocess pull; /* of a repository that --model names */
    size_t pulled;             /* names of --model that were looked at */
    char token[64];
    char url[300];
    char data_dir[LR_PATH_MAX];
    char node_id[64]; /* written before has_joined is set */
    _Atomic bool has_adopted, has_joined;
    bool is_greeted, is_stopping, is_forced, has_drained;
    bool has_model;   /* the node has a registered model */
    bool has_tried;   /* loading was tried */
    bool serves_demo; /* no other model was named or found */
    bool has_terminal;
    uint64_t restart_at_ms, kill_at_ms, adopt_at_ms;
    uint64_t
        present_ms; /* since when the model is present and not loaded; 0: not in that state */
    unsigned adoptions; /* tries after the first */
    lr_code code;
    struct lr_error err;
};

/* ---- the node's command line ---- */

struct flags {
    const char *argv[FLAGS_MAX];
    size_t count;
    const char *env[SECRETS_MAX + 1]; /* for secrets: other users can read a command line */
    size_t env_count;
    struct lr_arena texts;
};

static void add_flag(struct flags *f, const char *name, const char *value)
{
    const char *text = lr_arena_printf(&f->texts, "--%s=%s", name, value);
    if (text != NULL && f->count + 1 < FLAGS_MAX)
        f->argv[f->count++] = text;
}

static void add_secret(struct flags *f, const char *name, const char *value)
{
    char variable[64];
    lr_setting_env_name(name, variable);
    const char *text = lr_arena_printf(&f->texts, "%s=%s", variable, value);
    if (text != NULL && f->env_count < SECRETS_MAX)
        f->env[f->env_count++] = text;
}

static bool lists_command(const char *commands, const char *name)
{
    struct lr_str rest = lr_str_z(commands), part;
    while (commands != NULL && lr_str_split(&rest, ' ', &part))
        if (lr_str_eq_z(part, name))
            return true;
    return false;
}

/* A model's files; any other name of --model is a repository. */
static bool is_here(const char *name)
{
    return lr_dir_exists(name) || lr_file_exists(name);
}

/* Passes settings of `up` that concern nodes to the node. */
static void pass_on(struct flags *f, const struct lr_settings *s)
{
    static const char *const own[] = {"data-dir", "tls-cert", "tls-key", "threads"};
    for (size_t i = 0; i < cli_settings.count; i++) {
        const struct lr_setting *row = &cli_settings.rows[i];
        bool shared =
            lists_command(row->commands, "up") && lists_command(row->commands, "node");
        bool is_log = strncmp(row->name, "log-", 4) == 0;
        for (size_t j = 0; j < sizeof(own) / sizeof(own[0]); j++)
            shared = shared && strcmp(row->name, own[j]) != 0;
        if ((!shared && !is_log) || lr_settings_source(s, row->name) == LR_FROM_DEFAULT)
            continue;
        if (row->secret) {
            add_secret(f, row->name, lr_settings_str(s, row->name));
            continue;
        }
        if (row->type != LR_SETTING_LIST) {
            add_flag(f, row->name, lr_settings_str(s, row->name));
            continue;
        }
        for (size_t k = 0; k < lr_settings_list_count(s, row->name); k++)
            if (strcmp(row->name, "model") != 0 ||
                is_here(lr_settings_list_item(s, "model", k)))
                add_flag(f, row->name, lr_settings_list_item(s, row->name, k));
    }
}

static lr_code start_node(struct up *up, struct lr_error *err)
{
    struct flags f = {0};
    char self[LR_PATH_MAX], dir[LR_PATH_MAX + 8], demo[LR_PATH_MAX];
    lr_code code = lr_self_path(self, sizeof(self), err);
    if (code != LR_OK)
        return code;
    lr_arena_init(&f.texts, FLAG_BYTES);
    f.argv[f.count++] = self;
    f.argv[f.count++] = "node";
    (void)snprintf(dir, sizeof(dir), "%s/node", up->data_dir);
    add_flag(&f, "data-dir", dir);
    if (!lr_settings_has(up->settings, "models-dir")) {
        (void)snprintf(dir, sizeof(dir), "%.4000s/models", up->data_dir);
        add_flag(&f, "models-dir", dir);
    }
    if (up->serves_demo && cli_find_demo(self, demo))
        add_flag(&f, "model", demo);
    /* The router reaches the node at the address that it joins from. */
    bool is_v6 = strstr(up->url, "://[::1]") != NULL;
    add_flag(&f, "listen", is_v6 ? "[::1]:0" : "127.0.0.1:0");
    add_flag(&f, "router", up->url);
    pass_on(&f, up->settings);
    add_secret(&f, "token", up->token);
    add_secret(&f, "token-file", ""); /* clears a token file that the environment may name */
    struct lr_spawn spawn = {
        .argv = f.argv,
        .env = f.env,
        .in = LR_STDIO_NULL,
        .out = LR_STDIO_NULL,
        .err = LR_STDIO_INHERIT,
        .dies_with_parent = true,
    };
    code = lr_subprocess_start(&spawn, &up->node, err);
    lr_arena_free(&f.texts);
    return code == LR_OK ? LR_OK : lr_fail_prefix(err, "starting the node");
}

/* ---- the text at the start ---- */

/* A line to copy for each kind of client.  Most clients do not start without a key. */
static void greet_clients(const struct up *up, const char *model)
{
    bool needs_key = lr_settings_bool(up->settings, "require-key");
    const char *key = needs_key ? "lr-..." : "none";
    (void)printf("  Clients:\n"
                 "    openai: export OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s\n"
                 "    Claude Code: ANTHROPIC_BASE_URL=%s ANTHROPIC_AUTH_TOKEN=%s claude "
                 "--model '%s'\n"
                 "    Codex: codex -m '%s' -c model_provider=llm-router -c "
                 "'model_providers.llm-router={name=\"llm-router\", base_url=\"%s/v1\", "
                 "wire_api=\"responses\"%s}'\n",
                 up->url, key, up->url, key, model, model, up->url,
                 needs_key ? ", env_key=\"LLM_ROUTER_KEY\"" : "");
}

static void greet(struct up *up, const struct router_best_model *g)
{
    bool is_usual = strcmp(up->url, "http://127.0.0.1:11680") == 0;
    bool needs_key = lr_settings_bool(up->settings, "require-key");
    up->is_greeted = true;
    (void)printf(
        "\nllm-router is ready at %s (OpenAI-compatible, model \"%s\").\n\n"
        "  Try it:\n"
        "    curl %s/v1/chat/completions -H 'Content-Type: application/json'%s \\\n"
        "      -d '{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": "
        "\"Hello!\"}]}'\n"
        "    llm-router chat%s%s\n",
        up->url, g->model, up->url, needs_key ? " -H 'Authorization: Bearer lr-...'" : "",
        g->model, is_usual ? "" : " --url ", is_usual ? "" : up->url);
    greet_clients(up, g->model);
    (void)printf("  Dashboard: %s/\n\n"
                 "  The data folder is %s.  Ctrl-C stops everything.\n",
                 up->url, up->data_dir);
    (void)fflush(stdout);
}

static void greet_empty(struct up *up, const struct router_best_model *g)
{
    bool has_one = g->model[0] != '\0';
    up->is_greeted = true;
    (void)printf("\nllm-router is ready at %s and has no model yet.\n", up->url);
    if (has_one && (strcmp(g->state, "fetching") == 0 || strcmp(g->state, "verifying") == 0))
        (void)printf(
            "\n  %s is being downloaded; to see the progress: llm-router models --url %s\n",
            g->model, up->url);
    else if (has_one)
        (void)printf("\n  %s cannot run: %s\n", g->model, g->reason);
    (void)printf("\n  Add a model:\n"
                 "    llm-router register openai/gpt-oss-20b --url %s\n"
                 "    or restart with --model FOLDER\n"
                 "    or in a browser: %s/\n\n"
                 "  The data folder is %s.  Ctrl-C stops everything.\n",
                 up->url, up->url, up->data_dir);
    (void)fflush(stdout);
}

/* A model that the operator named, or put into the models folder, is listed also when it cannot
 * run; not so everything in the cache of Hugging Face.  A model is called as its folder. */
static bool wants(void *arg, const char *id)
{
    const struct up *up = arg;
    const char *root = lr_settings_str(up->settings, "models-dir");
    char path[LR_PATH_MAX], real[LR_PATH_MAX];
    if (up->serves_demo || lr_settings_has(up->settings, "engine"))
        return true;
    for (size_t i = 0; i < lr_settings_list_count(up->settings, "model"); i++)
        if (lr_realpath(lr_settings_list_item(up->settings, "model", i), real) != NULL &&
            strcmp(lr_path_base(real), id) == 0)
            return true;
    (void)snprintf(path, sizeof(path), "%.3800s%s/%.200s", root != NULL ? root : up->data_dir,
                   root != NULL ? "" : "/models", id);
    return lr_dir_exists(path);
}

/* The database did not accept the node's models, or they could not run yet; the log says why.
 * A model that an operator deletes later stays deleted. */
static void adopt_again(struct up *up)
{
    uint64_t now = lr_clock_ms(NULL);
    if (now < up->adopt_at_ms)
        return;
    up->adopt_at_ms = now + RESTART_MS;
    up->adoptions++;
    router_adopt_models(up->router, up->node_id, wants, up);
}

static void look_at_models(struct up *up)
{
    struct router_best_model g;
    bool named = lr_settings_list_count(up->settings, "model") != 0 ||
                 lr_settings_has(up->settings, "engine") || up->serves_demo;
    bool is_done = up->is_greeted && (up->has_model || !named);
    if (is_done || !atomic_load(&up->has_joined))
        return;
    up->has_model = router_best_model(up->router, &g) || up->has_model;
    if (!up->has_model && g.can_run)
        adopt_again(up);
    if (up->is_greeted || (!up->has_model && g.can_run && up->adoptions < ADOPTIONS_MAX))
        return;
    if (!up->has_model || !g.can_run || strcmp(g.state, "waiting") == 0) {
        greet_empty(up, &g);
        return;
    }
    bool loads = strcmp(g.state, "loading") == 0 || strcmp(g.state, "starting") == 0;
    up->has_tried = up->has_tried || loads;
    /* Present again after that: the model's worker died, and the next request loads it.  The
     * worker may have started and died between two heartbeats, so that `up` has not seen it. */
    bool is_present = strcmp(g.state, "present") == 0;
    uint64_t now = lr_clock_ms(NULL);
    if (!is_present)
        up->present_ms = 0;
    else if (up->present_ms == 0)
        up->present_ms = now;
    bool waits =
        lr_settings_bool(up->settings, "preload") &&
        (loads || (is_present && !up->has_tried && now - up->present_ms < PRELOAD_BEGINS_MS));
    if (g.is_loaded || !waits || !named)
        greet(up, &g);
}

/* Thread: any loop of the router. */
static void on_node(void *arg, const char *node_id)
{
    struct up *up = arg;
    /* Once, so that a model that an operator deletes stays deleted when the node joins
     * again. */
    if (!atomic_exchange(&up->has_adopted, true)) {
        (void)snprintf(up->node_id, sizeof(up->node_id), "%s", node_id);
        router_adopt_models(up->router, node_id, wants, up);
    }
    atomic_store(&up->has_joined, true);
}

/* ---- life ---- */

static void up_end(struct up *up)
{
    net_timer_stop(up->timer);
    up->timer = NULL;
    net_signals_stop(&up->signals);
    net_loops_stop(up->loops);
}

static void on_drained(void *arg)
{
    struct up *up = arg;
    up->has_drained = true;
    up->kill_at_ms = lr_clock_ms(NULL) + (up->is_forced ? 0 : NODE_LEAVES_MS);
    lr_subprocess_signal(&up->node, SIGTERM);
}

static void stop(struct up *up)
{
    up->is_stopping = true;
    net_service_stopping();
    router_stop(up->router, (uint32_t)lr_settings_ms(up->settings, "drain-timeout"), on_drained,
                up);
}

static void up_on_signal(void *arg)
{
    struct up *up = arg;
    if (up->is_stopping) {
        up->is_forced = true;
        up->kill_at_ms = 0;
        (void)printf("Stopping at once.\n");
    } else {
        (void)printf(
            "\nStopping after the running requests (press Ctrl-C again to stop at once).\n");
    }
    (void)fflush(stdout);
    stop(up);
}

/* Sent to reload, or because the terminal window of `up` was closed. */
static void up_on_hup(void *arg)
{
    struct up *up = arg;
    if (up->has_terminal && !isatty(STDIN_FILENO)) {
        up_on_signal(arg);
        return;
    }
    net_settings_reload();
    lr_subprocess_signal(&up->node, SIGHUP);
}

static void on_node_ended(struct up *up, uint64_t now)
{
    char how[LR_EXIT_TEXT_LEN];
    (void)lr_exit_text(up->node.status, how);
    if (!atomic_load(&up->has_joined)) {
        /* The node has written the reason to standard error. */
        up->code = lr_fail(&up->err, LR_UNAVAILABLE, "the node could not start (it %s)", how);
        stop(up);
        return;
    }
    lr_log_warn(NULL, "up.node_ended how=%s", how);
    up->restart_at_ms = now + RESTART_MS;
}

static void pull_models(struct up *up);

static void up_on_timer(void *arg)
{
    struct up *up = arg;
    uint64_t now = lr_clock_ms(NULL);
    bool was_alive = up->node.pid != 0 && !up->node.exited;
    bool has_ended = lr_subprocess_poll(&up->node);
    if (up->has_drained) {
        if (!has_ended && now >= up->kill_at_ms)
            lr_subprocess_close(&up->node);
        if (has_ended || up->node.pid == 0)
            up_end(up);
        return;
    }
    if (was_alive && has_ended && !up->is_stopping)
        on_node_ended(up, now);
    if (up->restart_at_ms != 0 && now >= up->restart_at_ms && !up->is_stopping) {
        struct lr_error err;
        up->restart_at_ms = 0;
        lr_subprocess_close(&up->node);
        if (start_node(up, &err) != LR_OK) {
            lr_log_error(LR_LOG_OF(&err), "up.restart_failed reason=%s", err.text);
            up->restart_at_ms = now + RESTART_MS;
        }
    }
    look_at_models(up);
    if (!up->is_stopping)
        pull_models(up);
}

/* `up` with the name of a device without a GPU: the operator wants the node to join. */
static bool names_cpu(const char *device)
{
    struct node_devices devices;
    struct lr_error ignored; /* the node gives the reason */
    if (strncmp(device, "vulkan", 6) != 0)
        return strcmp(device, "cpu") == 0;
    return node_devices_choose(device, false, "", &devices, &ignored) == LR_OK &&
           devices.is_cpu;
}

static lr_code up_start(struct up *up, struct lr_error *err)
{
    char admin_key[64];
    struct net_loop *loop = net_loops_get(up->loops, 0);
    lr_code code =
        router_create(up->loops, up->settings, cli_version(), false, &up->router, err);
    if (code == LR_OK)
        code = router_make_token(up->router, "the node of up", up->token, err);
    if (code != LR_OK)
        return code;
    if (names_cpu(lr_settings_str(up->settings, "device")))
        router_allow_cpu_nodes(up->router);
    router_on_node(up->router, on_node, up);
    code = net_signals_start(loop, up_on_signal, up_on_hup, up, &up->signals, err);
    if (code == LR_OK)
        code = router_start(up->router, admin_key, err);
    if (code != LR_OK)
        return code;
    if (admin_key[0] != '\0')
        (void)printf("Admin key, shown this once: %s\n", admin_key);
    router_url(up->router, up->url);
    code = start_node(up, err);
    if (code != LR_OK)
        return code;
    up->timer = net_timer_start(loop, LOOK_MS, LOOK_MS, up_on_timer, up);
    net_service_ready(loop, &up->watchdog);
    return LR_OK;
}

static lr_code up_check_listen(const struct lr_settings *s, struct lr_error *err)
{
    struct net_listeners listeners;
    lr_code code = net_settings_listeners(s, &listeners, err);
    if (code != LR_OK)
        return code;
    if (!net_listeners_are_local(&listeners))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "up listens on this machine only, not on %s: start llm-router router "
                       "and llm-router node to serve others",
                       lr_settings_str(s, "listen"));
    return net_listener_is_unix(net_listeners_main(&listeners))
               ? lr_fail(err, LR_INVALID_ARGUMENT,
                         "the node of up joins over TCP: add an address to --listen %s, such "
                         "as --listen 11680",
                         lr_settings_str(s, "listen"))
               : LR_OK;
}

/* A node ignores a missing models folder; here a missing folder was probably mistyped. */
static lr_code check_models(const struct lr_settings *s, struct lr_error *err)
{
    struct hub_policy policy;
    struct hub_reference ref;
    lr_code code = hub_policy_init(&policy, getenv("HF_ENDPOINT"), NULL, 0, err);
    for (size_t i = 0; code == LR_OK && i < lr_settings_list_count(s, "model"); i++) {
        const char *name = lr_settings_list_item(s, "model", i);
        if (is_here(name))
            continue;
        if (hub_reference_read(&policy, lr_str_z(name), &ref, err) != LR_OK ||
            ref.kind != HUB_REFERENCE_REPO)
            code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "model: there is no folder %s; a repository is written org/name "
                           "(llm-router search finds one)",
                           name);
    }
    return code;
}

/* Repositories are pulled one after the other, by the command that people type. */
static void pull_models(struct up *up)
{
    char self[LR_PATH_MAX];
    struct lr_error err;
    const struct lr_settings *s = up->settings;
    if (up->pull.pid != 0 && !lr_subprocess_poll(&up->pull))
        return;
    lr_subprocess_close(&up->pull);
    while (up->pulled < lr_settings_list_count(s, "model") &&
           is_here(lr_settings_list_item(s, "model", up->pulled)))
        up->pulled++;
    if (up->pulled == lr_settings_list_count(s, "model") || !up->is_greeted ||
        lr_self_path(self, sizeof(self), &err) != LR_OK)
        return;
    const char *argv[] = {self,    "pull",  lr_settings_list_item(s, "model", up->pulled++),
                          "--url", up->url, NULL};
    struct lr_spawn spawn = {.argv = argv,
                             .in = LR_STDIO_NULL,
                             .out = LR_STDIO_INHERIT,
                             .err = LR_STDIO_INHERIT,
                             .dies_with_parent = true};
    if (lr_subprocess_start(&spawn, &up->pull, &err) != LR_OK)
        lr_log_error(NULL, "up.pull_failed model=%s reason=%s", argv[2], err.text);
}

static lr_code up_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct up up = {.settings = settings, .code = LR_OK};
    (void)snprintf(up.data_dir, sizeof(up.data_dir), "%s",
                   lr_settings_str(settings, "data-dir"));
    up.serves_demo = !cli_has_models(settings, up.data_dir);
    up.has_terminal = isatty(STDIN_FILENO);
    lr_code code = lr_log_open(lr_settings_str(settings, "log-file"), err);
    if (code == LR_OK)
        code = up_check_listen(settings, err);
    if (code == LR_OK)
        code = check_models(settings, err);
    if (code == LR_OK)
        code = node_check_settings(settings, err);
    if (code == LR_OK)
        code = net_loops_create((unsigned)lr_settings_int(settings, "threads"), &up.loops, err);
    if (code != LR_OK)
        return code;
    code = up_start(&up, err);
    if (code == LR_OK)
        code = net_loops_run(up.loops, err);
    lr_subprocess_close(&up.node);
    lr_subprocess_close(&up.pull);
    net_timer_stop(up.timer);
    net_timer_stop(up.watchdog);
    router_destroy(up.router);
    net_loops_destroy(up.loops);
    if (code == LR_OK && up.code != LR_OK) {
        *err = up.err;
        code = up.code;
    }
    return code;
}

const struct cli_command cli_command_up = {
    .name = "up",
    .summary = "Start a router and a node on this machine",
    .details =
        "Serves on http://127.0.0.1:11680 the models named with --model (a folder, a GGUF "
        "file,\n"
        "or a repository such as org/name:Q4_K_M), the models below data-dir/models and the\n"
        "models of the Hugging Face cache. If there are none, it serves\n"
        "a small demo model. Needs a GPU, or --device cpu for a first try.",
    .shared = true,
    .run = up_run,
};
