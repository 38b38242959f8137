/* cli/doctor.c - llm-router doctor: checks what a node or router needs and says how to fix what
 * is missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/os/library.h"
#include "base/os/socket.h"
#include "base/sandbox.h"
#include "base/subprocess.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "net/client.h"
#include "plugin/manifest.h"

enum { DISK_LEAST_GB = 20, HUB_MS = 5000 };

static const struct lr_setting flags[] = {
    {.name = "data-dir",
     .type = LR_SETTING_PATH,
     .fallback = "~/.llm-router",
     .help = "folder for state and models"},
    {.name = "engines-dir",
     .type = LR_SETTING_PATH,
     .help = "folder with the engine plugins; default: the folder installed with the program"},
    {.name = "hub",
     .type = LR_SETTING_BOOL,
     .fallback = "true",
     .help = "also check whether the model hub can be reached"},
};

static int problems;

static void say(bool ok, const char *what, const char *advice)
{
    (void)printf("%s  %s\n", ok ? "ok  " : "MISS", what);
    if (!ok && advice[0] != '\0')
        (void)printf("      %s\n", advice);
    problems += !ok;
}

static void check_gpu(void)
{
    void *driver = lr_library_open_known(LR_LIBRARY_CUDA);
    void *nvml = lr_library_open_known(LR_LIBRARY_NVML);
    char name[2][100];
    bool device = lr_gpu_device_exists(driver != NULL);
    (void)snprintf(name[0], sizeof(name[0]), "the NVIDIA driver (%s)",
                   lr_library_name(LR_LIBRARY_CUDA));
    (void)snprintf(name[1], sizeof(name[1]), "the driver's management library (%s)",
                   lr_library_name(LR_LIBRARY_NVML));
    say(device, "an NVIDIA GPU",
        "none was found: nodes need one; for trying things out pass --device cpu");
    if (device) {
        say(driver != NULL, name[0], "install the driver package of your system");
        say(nvml != NULL, name[1],
            "it comes with the driver; without it memory cannot be watched");
    }
    if (driver != NULL)
        lr_library_close(driver);
    if (nvml != NULL)
        lr_library_close(nvml);
}

static void check_engines(const struct lr_settings *s)
{
    char dir[LR_PATH_MAX], folder[2 * LR_PATH_MAX], text[512];
    size_t count = 0;
    plugin_engines_dir(lr_settings_str(s, "engines-dir"), dir);
    struct lr_dir *list = lr_dir_open(dir);
    for (const char *name; list != NULL && (name = lr_dir_next(list)) != NULL;) {
        struct plugin_manifest manifest;
        struct lr_error err;
        if (name[0] == '.')
            continue;
        (void)snprintf(folder, sizeof(folder), "%s/%s", dir, name);
        lr_code code = plugin_manifest_read(&manifest, folder, &err);
        (void)snprintf(text, sizeof(text), "engine %.100s", name);
        say(code == LR_OK, text, code == LR_OK ? "" : err.text);
        if (code == LR_OK)
            plugin_manifest_free(&manifest);
        count++;
    }
    lr_dir_close(list);
    (void)snprintf(text, sizeof(text), "engines in %.400s", dir);
    if (count == 0)
        say(false, text, "none: run make build, or name the folder with --engines-dir");
}

static void check_disk(const struct lr_settings *s)
{
    const char *dir = lr_settings_str(s, "data-dir");
    char text[300], size[32];
    struct lr_error err;
    uint64_t bytes;
    char there[LR_PATH_MAX];
    (void)snprintf(there, sizeof(there), "%s", dir);
    /* For a folder that does not exist yet, check its nearest existing parent; nothing is
     * created. */
    while (!lr_dir_exists(there)) {
        char *slash = strrchr(there, '/');
        if (slash == NULL)
            (void)snprintf(there, sizeof(there), ".");
        else
            slash[slash == there] = '\0';
    }
    if (!lr_can_write(there) || lr_disk_free(there, &bytes, &err) != LR_OK) {
        (void)snprintf(text, sizeof(text), "the data folder %.200s", dir);
        say(false, text, "it cannot be written: choose another with --data-dir");
        return;
    }
    lr_format_size(bytes, size);
    (void)snprintf(text, sizeof(text), "%s free in %.200s", size, dir);
    say(bytes >= (uint64_t)DISK_LEAST_GB << 30, text,
        "a model of 20 billion parameters takes 14 GB: free some, or choose --data-dir");
}

struct reach {
    struct net_loop *loop;
    int status; /* 0: no answer */
    char body[600];
    char why[300];
};

static void on_answer(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct reach *r = arg;
    r->status = err == NULL ? reply->status : 0;
    if (err != NULL)
        (void)snprintf(r->why, sizeof(r->why), "%.290s", err->text);
    else
        (void)snprintf(r->body, sizeof(r->body), LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(reply->body, 0, sizeof(r->body) - 1)));
    net_loop_stop(r->loop);
}

/* One GET; r->status is the result. */
static void reach(struct reach *r, const char *url)
{
    struct net_client *client = NULL;
    struct lr_error err = {0};
    struct net_call_config config = {
        .url = url, .connect_timeout_ms = HUB_MS, .response_timeout_ms = HUB_MS};
    *r = (struct reach){0};
    lr_code code = net_loop_create(&r->loop, &err);
    if (code == LR_OK)
        code = net_client_create(r->loop, &(struct net_client_config){0}, &client, &err);
    if (code == LR_OK)
        code = net_fetch(client, &config, on_answer, r, NULL, &err);
    if (code == LR_OK)
        net_loop_run(r->loop);
    else
        (void)snprintf(r->why, sizeof(r->why), "%.290s", err.text);
    net_client_destroy(client);
    net_loop_destroy(r->loop);
}

/* True for a server of llm-router: it reports its uptime or asks for a secret. */
static bool is_ours(uint16_t port)
{
    char url[64];
    struct reach r;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/health", port);
    reach(&r, url);
    return r.status != 0 &&
           (strstr(r.body, "uptime_ms") != NULL || strstr(r.body, "node-secret") != NULL);
}

static void check_port(uint16_t port, const char *who)
{
    char text[100];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = lr_socket_listen((const struct sockaddr *)&address, sizeof(address), 1);
    bool is_free = fd >= 0;
    if (is_free)
        lr_socket_close(fd);
    bool is_running = !is_free && is_ours(port);
    (void)snprintf(text, sizeof(text), "port %u for the %s%s", port, who,
                   is_running ? " (it is running)" : "");
    say(is_free || is_running, text,
        "another program uses it: choose another with --listen ADDR:PORT");
}

static void check_hub(void)
{
    struct reach r;
    const char *endpoint = getenv("HF_ENDPOINT");
    char url[600], text[700], advice[500];
    (void)snprintf(url, sizeof(url), "%.500s/api/models?limit=1",
                   endpoint != NULL && endpoint[0] != '\0' ? endpoint
                                                           : "https://huggingface.co");
    reach(&r, url);
    (void)snprintf(text, sizeof(text), "the model hub (%s)", url);
    (void)snprintf(advice, sizeof(advice), "%.300s; HF_ENDPOINT names another one",
                   r.status == 0 ? r.why : "it is out of order");
    say(r.status != 0 && r.status < 500, text, advice);
}

static void check_sandbox(void)
{
    struct lr_sandbox_facts facts = lr_sandbox_look();
    char text[100], lacks[LR_SANDBOX_TEXT];
    (void)snprintf(text, sizeof(text), "workers are confined (Landlock %d, seccomp %s)",
                   facts.landlock, facts.has_seccomp ? "yes" : "no");
    (void)lr_sandbox_lacks(&facts, lacks);
    say(lacks[0] == '\0', text, lacks);
}

static lr_code run(const struct lr_settings *s, struct lr_error *err)
{
    problems = 0;
    check_gpu();
    check_engines(s);
    check_sandbox();
    check_disk(s);
    check_port(11680, "router");
    check_port(11681, "node");
    if (lr_settings_bool(s, "hub"))
        check_hub();
    (void)fflush(stdout);
    if (problems != 0)
        return lr_fail(err, LR_UNAVAILABLE, "%d of these need%s attention", problems,
                       problems == 1 ? "s" : "");
    return LR_OK;
}

const struct cli_command cli_command_doctor = {
    .name = "doctor",
    .summary = "Check GPU, driver, engines, disk, ports and the hub, and suggest fixes",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
};
