/* cli/settings_table.c - every setting of llm-router.
 *
 * After a change run `make build && build/release/bin/llm-router debug
 * settings-reference > docs/settings.md`; lint fails while the page is stale.
 */
#include "cli/commands.h"

#define ALL_DAEMONS "up router node"

/* clang-format off */
static const struct lr_setting rows[] = {
    {.name = "config", .type = LR_SETTING_PATH, .flag_only = true, .value = "FILE",
     .help = "read settings from this file: name = value lines, comments after #"},
    {.name = "data-dir", .type = LR_SETTING_PATH, .fallback = "~/.llm-router", .commands = ALL_DAEMONS,
     .help = "where state, keys and downloaded models are kept; one process owns it"},
    {.name = "log-level", .type = LR_SETTING_CHOICE, .fallback = "info", .choices = "error|warn|info|debug",
     .help = "least important lines to write to standard error"},
    {.name = "log-format", .type = LR_SETTING_CHOICE, .fallback = "text", .choices = "text|json",
     .help = "form of a log line: words with key=value, or one JSON object"},

    {.name = "listen", .type = LR_SETTING_STRING, .fallback = "127.0.0.1:11680", .commands = "router up", .value = "ADDR:PORT",
     .help = "where clients connect; beyond loopback every request needs a key"},
    {.name = "listen", .type = LR_SETTING_STRING, .fallback = "127.0.0.1:11681", .commands = "node", .value = "ADDR:PORT",
     .help = "where routers connect"},
    {.name = "tls-cert", .type = LR_SETTING_PATH, .commands = ALL_DAEMONS, .value = "FILE",
     .help = "PEM file with the certificate chain; turns TLS on, with tls-key"},
    {.name = "tls-key", .type = LR_SETTING_PATH, .commands = ALL_DAEMONS, .value = "FILE",
     .help = "PEM file with the private key of tls-cert"},
    {.name = "threads", .type = LR_SETTING_INT, .fallback = "0", .max = 256, .commands = ALL_DAEMONS,
     .help = "event loops that share the port; 0 means one per core"},
    {.name = "max-body-bytes", .type = LR_SETTING_SIZE, .fallback = "32MiB", .min = 1024, .max = 1 << 30, .commands = ALL_DAEMONS,
     .help = "largest request body; a larger one gets 413 and is not read"},
    {.name = "header-timeout", .type = LR_SETTING_DURATION, .fallback = "10s", .min = 100, .max = 600000, .commands = ALL_DAEMONS,
     .help = "time for a client to send its request headers"},
    {.name = "body-timeout", .type = LR_SETTING_DURATION, .fallback = "60s", .min = 100, .max = 3600000, .commands = ALL_DAEMONS,
     .help = "time for a client to send its request body"},
    {.name = "idle-timeout", .type = LR_SETTING_DURATION, .fallback = "75s", .min = 100, .max = 86400000, .commands = ALL_DAEMONS,
     .help = "how long an unused connection stays open"},

    {.name = "device", .type = LR_SETTING_CHOICE, .fallback = "auto", .choices = "auto|cuda|metal|cpu", .commands = "up node",
     .help = "what models run on; auto is the GPU that is there and never the CPU"},
    {.name = "allow-cpu-nodes", .type = LR_SETTING_BOOL, .fallback = "false", .commands = "router up",
     .help = "let nodes without a GPU join (up --device cpu lets its own in)"},
    {.name = "engines-dir", .type = LR_SETTING_PATH, .commands = "up node",
     .help = "folder with one folder per engine plugin; default: the one installed beside the program"},
    {.name = "models-dir", .type = LR_SETTING_PATH, .commands = "up node",
     .help = "folder with models; default: models below data-dir"},
    {.name = "engine", .type = LR_SETTING_STRING, .commands = "up node", .value = "ID",
     .help = "use this engine for every model, whatever the model asks for"},
    {.name = "model", .type = LR_SETTING_PATH, .commands = "up", .value = "FOLDER",
     .help = "register the model in this folder and load it at start"},
};
/* clang-format on */

const struct lr_setting_table cli_settings = {rows, sizeof(rows) / sizeof(rows[0])};
