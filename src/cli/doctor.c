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
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/connectivity.h"
#include "cli/device_check.h"
#include "cli/remote.h"
#include "net/client.h"
#include "node/models/devices.h"
#include "node/models/nvml.h"

enum { DISK_LEAST_GB = 20, HUB_MS = 5000 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "as",
     .type = LR_SETTING_CHOICE,
     .fallback = "auto",
     .choices = "auto|up|router|node",
     .help = "what this machine is for; auto: router, if the data folder is that of a router "
             "alone"},
    {.name = "data-dir",
     .type = LR_SETTING_PATH,
     .fallback = "~/.llm-router",
     .help = "folder for state and models"},
    {.name = "engines-dir",
     .type = LR_SETTING_PATH,
     .help = "folder with the engine plugins; default: the folder installed with the program"},
    {.name = "device",
     .type = LR_SETTING_STRING,
     .value = "NAME",
     .help =
         "also compute the demo model on this device (cuda, vulkan:N, metal) and compare it "
         "with the processor"},
    {.name = "device-timeout",
     .type = LR_SETTING_DURATION,
     .fallback = "2m",
     .min = 1000,
     .max = 3600000,
     .help = "with --device: the longest time for one of its three computations"},
    {.name = "hub",
     .type = LR_SETTING_BOOL,
     .fallback = "true",
     .help = "also check whether the model hub can be reached"},
    {.name = "tls-cert",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "also check this certificate"},
    {.name = "tls-key", .type = LR_SETTING_PATH, .value = "FILE", .help = "its private key"},
    {.name = "tls-name",
     .type = LR_SETTING_STRING,
     .value = "HOST",
     .help = "the name by which clients reach the server with that certificate"},
    {.name = "tls-warn-days",
     .type = LR_SETTING_INT,
     .fallback = "14",
     .max = 3650,
     .help = "days that the certificate must be valid at least"},
};

/* Nodes need no device that computes on the processor: one that cannot be used is no problem.
 */
static void tell_vulkan(struct cli_checks *c, const struct wire_device *d)
{
    char text[600], size[32], budget[32];
    lr_format_size(d->memory, size);
    lr_format_size(d->budget, budget);
    int n = snprintf(text, sizeof(text), "vulkan:%u is %s (%s, Vulkan %s, %s of %s, UUID %s)",
                     d->number, d->title,
                     wire_device_is_cpu(d) ? "computes on the processor" : d->type, d->api,
                     budget, size, d->uuid);
    if (d->why[0] != '\0' && wire_device_is_cpu(d)) {
        (void)snprintf(text + n, sizeof(text) - (size_t)n, ", which cannot be used: %s",
                       d->why);
        cli_note(text);
        return;
    }
    cli_check(c, d->why[0] == '\0', text, d->why);
}

/* Prints what --device vulkan:N may name.  True: one of them is a GPU that can be used. */
static bool list_vulkan(struct cli_checks *c)
{
    struct wire_device devices[WIRE_VULKAN_MAX];
    struct lr_error err;
    size_t count;
    bool has_gpu = false;
    if (node_vulkan_list(devices, &count, &err) != LR_OK)
        cli_check(c, false, "Vulkan", err.text);
    for (const struct wire_device *d = devices; d < devices + count; d++) {
        tell_vulkan(c, d);
        has_gpu = has_gpu || (!wire_device_is_cpu(d) && d->why[0] == '\0');
    }
    return has_gpu;
}

static void miss_closed_gpu(void *ctx, unsigned number, const char *reason)
{
    char title[40];
    (void)snprintf(title, sizeof(title), "NVIDIA GPU %u", number);
    cli_check(ctx, false, title, reason);
}

/* A GPU that NVML counts but cannot open is left out by a node. */
static void check_nvml(struct cli_checks *c)
{
    static struct node_gpu all[NODE_GPUS_MAX];
    struct node_nvml *nvml = node_nvml_open(NULL);
    if (nvml != NULL)
        (void)node_nvml_list(nvml, all, miss_closed_gpu, c);
    node_nvml_close(nvml);
}

static void check_gpu(struct cli_checks *c)
{
    void *driver = lr_library_open_known(LR_LIBRARY_CUDA);
    void *nvml = lr_library_open_known(LR_LIBRARY_NVML);
    char name[2][100];
    bool device = lr_gpu_device_exists(driver != NULL);
    (void)snprintf(name[0], sizeof(name[0]), "the NVIDIA driver (%s)",
                   lr_library_name(LR_LIBRARY_CUDA));
    (void)snprintf(name[1], sizeof(name[1]), "the driver's management library (%s)",
                   lr_library_name(LR_LIBRARY_NVML));
    bool has_other = list_vulkan(c);
    if (node_has_metal()) {
        cli_check(c, true, "metal is the GPU of this Mac", "");
        has_other = true;
    }
    cli_check(c, device || has_other, device || !has_other ? "an NVIDIA GPU" : "a GPU",
              "none was found, and no other GPU with Vulkan: nodes need one; for trying things "
              "out pass --device cpu");
    if (device) {
        cli_check(c, driver != NULL, name[0], "install the driver package of your system");
        cli_check(c, nvml != NULL, name[1],
                  "it comes with the driver; without it memory cannot be watched");
    }
    check_nvml(c);
    if (driver != NULL)
        lr_library_close(driver);
    if (nvml != NULL)
        lr_library_close(nvml);
}

static void check_disk(struct cli_checks *c, const struct lr_settings *s, bool has_models)
{
    const char *dir = lr_settings_str(s, "data-dir");
    char text[300], size[32];
    struct lr_error err;
    uint64_t bytes;
    char there[LR_PATH_MAX];
    cli_nearest_folder(dir, there, sizeof(there));
    if (!lr_can_write(there) || lr_disk_free(there, &bytes, &err) != LR_OK) {
        (void)snprintf(text, sizeof(text), "the data folder %.200s", dir);
        cli_check(c, false, text, "it cannot be written: choose another with --data-dir");
        return;
    }
    lr_format_size(bytes, size);
    (void)snprintf(text, sizeof(text), "%s free in %.200s", size, dir);
    if (has_models)
        cli_check(c, bytes >= (uint64_t)DISK_LEAST_GB << 30, text,
                  "a model of 20 billion parameters takes 14 GB: free some, or choose "
                  "--data-dir");
    else
        cli_check(c, bytes >= (uint64_t)1 << 30, text,
                  "keys, usage and logs need room: free some, or choose --data-dir");
}

struct reach {
    struct net_loop *loop;
    int status; /* 0: no answer */
    char body[600];
    char why[300];
};

static void doctor_on_answer(void *arg, const struct lr_error *err,
                             const struct net_reply *reply)
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
        code = net_fetch(client, &config, doctor_on_answer, r, NULL, &err);
    if (code == LR_OK)
        net_loop_run(r->loop);
    else
        (void)snprintf(r->why, sizeof(r->why), "%.290s", err.text);
    net_client_destroy(client);
    net_loop_destroy(r->loop);
}

/* True for a server of llm-router: it reports its uptime or asks for a secret. */
static bool doctor_is_ours(uint16_t port)
{
    char url[64];
    struct reach r;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/health", port);
    reach(&r, url);
    return r.status != 0 &&
           (strstr(r.body, "uptime_ms") != NULL || strstr(r.body, "node-secret") != NULL);
}

static void check_port(struct cli_checks *c, uint16_t port, const char *who)
{
    char text[100];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = lr_socket_listen((const struct sockaddr *)&address, sizeof(address), 1);
    bool is_free = fd >= 0;
    if (is_free)
        lr_socket_close(fd);
    bool is_running = !is_free && doctor_is_ours(port);
    (void)snprintf(text, sizeof(text), "port %u for the %s%s", port, who,
                   is_running ? " (it is running)" : "");
    cli_check(c, is_free || is_running, text,
              "another program uses it: choose another with --listen ADDR:PORT");
}

static void check_hub(struct cli_checks *c)
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
    cli_check(c, r.status != 0 && r.status < 500, text, advice);
}

static void check_sandbox(struct cli_checks *c)
{
    struct lr_sandbox_facts facts = lr_sandbox_look();
    char text[100], said[LR_SANDBOX_TEXT];
    (void)snprintf(text, sizeof(text), "workers are confined (Landlock %d, seccomp %s)",
                   facts.landlock, facts.has_seccomp ? "yes" : "no");
    (void)lr_sandbox_lacks(&facts, said);
    if (facts.is_absent) {
        cli_note(said);
        return;
    }
    cli_check(c, said[0] == '\0', text, said);
    if (lr_sandbox_opened(&facts, said)[0] != '\0')
        cli_note(said);
    if (lr_sandbox_thin(&facts, said)[0] != '\0')
        cli_note(said);
    cli_note(lr_sandbox_older(said));
}

/* ---- what this machine is ---- */

enum part { PART_ROUTER = 1, PART_NODE = 2 };

/* A data folder with a router's database and nothing of a node is that of a router alone. */
static unsigned parts_of(const struct lr_settings *s)
{
    const char *as = lr_settings_str(s, "as"), *dir = lr_settings_str(s, "data-dir");
    char path[LR_PATH_MAX];
    if (strcmp(as, "router") == 0)
        return PART_ROUTER;
    if (strcmp(as, "node") == 0)
        return PART_NODE;
    if (strcmp(as, "up") == 0)
        return PART_ROUTER | PART_NODE;
    (void)snprintf(path, sizeof(path), "%.4000s/router.db", dir);
    bool has_router = lr_file_exists(path);
    (void)snprintf(path, sizeof(path), "%.4000s/node-identity.json", dir);
    bool has_node = lr_file_exists(path);
    (void)snprintf(path, sizeof(path), "%.4000s/node", dir);
    if (!has_router || has_node || lr_dir_exists(path))
        return PART_ROUTER | PART_NODE;
    (void)printf("The data folder is that of a router without a node: GPU and engines are not "
                 "checked (--as up checks them)\n");
    return PART_ROUTER;
}

static void check_files_of_tls(struct cli_checks *c, const struct lr_settings *s)
{
    const char *cert = lr_settings_str(s, "tls-cert"), *key = lr_settings_str(s, "tls-key");
    const char *name = lr_settings_str(s, "tls-name");
    if (cert != NULL && key != NULL)
        cli_check_tls(c, cert, key, name, lr_settings_int(s, "tls-warn-days"));
    else if (cert != NULL || key != NULL)
        cli_check(c, false, "tls-cert and tls-key", "they go together: give both or none");
}

static lr_code doctor_run(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_checks c = {0};
    unsigned parts = parts_of(s);
    if ((parts & PART_NODE) != 0) {
        check_gpu(&c);
        cli_check_engines(&c, lr_settings_str(s, "engines-dir"));
        check_sandbox(&c);
    }
    check_disk(&c, s, (parts & PART_NODE) != 0);
    if ((parts & PART_ROUTER) != 0)
        check_port(&c, 11680, "router");
    if ((parts & PART_NODE) != 0)
        check_port(&c, 11681, "node");
    if (lr_settings_str(s, "device") != NULL)
        cli_check_device(&c, lr_settings_str(s, "device"), lr_settings_str(s, "engines-dir"),
                         (int)lr_settings_ms(s, "device-timeout"));
    check_files_of_tls(&c, s);
    if (cli_names_router(s))
        cli_check_connectivity(&c, s);
    if (lr_settings_bool(s, "hub"))
        check_hub(&c);
    (void)fflush(stdout);
    return cli_checks_end(&c, err);
}

const struct cli_command cli_command_doctor = {
    .name = "doctor",
    .summary = "Check this machine and the way to the router, and suggest fixes",
    .details =
        "Looks at GPUs, driver, engines, disk, ports and the hub. --as says what the machine "
        "is\n"
        "for: a router needs no GPU and no engine. With --tls-cert and --tls-key it checks "
        "these\n"
        "files, and with --url (or LLM_ROUTER_URL) the way to that router: name, connection,\n"
        "TLS, key and version. With --device it computes the demo model on that device, in\n"
        "seconds, and says whether the result is right.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = doctor_run,
};
