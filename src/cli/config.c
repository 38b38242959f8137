/* cli/config.c - llm-router config check: looks at settings, files and the database as the
 * process that starts with them would, without starting it. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "net/listen.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/node.h"
#include "router/router.h"
#include "router/store/probe.h"

extern char **environ;

static const struct lr_setting flags[] = {
    {.name = "as",
     .type = LR_SETTING_CHOICE,
     .fallback = "router",
     .choices = "router|node|up",
     .help = "the command that the settings are for"},
};

/* The settings as `llm-router AS --config FILE FLAG...` has them. */
static lr_code load(const struct lr_settings *s, struct lr_settings **out, struct lr_error *err)
{
    const char *args[256];
    int count = 0;
    size_t given = lr_settings_positional_count(s);
    if (given > 250)
        return lr_fail(err, LR_INVALID_ARGUMENT, "more than 250 flags");
    for (size_t i = 0; i < given; i++) {
        const char *arg = lr_settings_positional(s, i);
        if (i == 0 && arg[0] != '-')
            args[count++] = "--config";
        args[count++] = arg;
    }
    lr_code code = lr_settings_create(&cli_settings, 1, lr_settings_str(s, "as"), out, err);
    if (code == LR_OK)
        code = lr_settings_load(*out, count, args, (const char *const *)environ, err);
    if (code == LR_OK && lr_settings_positional_count(*out) != 0)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%s does not take \"%.80s\"",
                       lr_settings_str(s, "as"), lr_settings_positional(*out, 0));
    return code;
}

/* The name by which others reach the process; false: it is not known. */
static bool advertised_host(const struct lr_settings *s, char host[254])
{
    struct net_url url;
    const char *advertise = lr_settings_str(s, "advertise");
    if (advertise == NULL || net_url_parse(advertise, &url, NULL) != LR_OK)
        return false;
    (void)snprintf(host, 254, "%s", url.host);
    return true;
}

static void check_tls(struct cli_checks *c, const struct lr_settings *s)
{
    const char *cert = lr_settings_str(s, "tls-cert"), *key = lr_settings_str(s, "tls-key");
    const char *ca = lr_settings_str(s, "tls-ca");
    struct net_tls *tls = NULL;
    struct lr_error err = {0};
    char host[254], text[400];
    if (cert != NULL && key != NULL)
        cli_check_tls(c, cert, key, advertised_host(s, host) ? host : NULL,
                      (long long)lr_settings_int(s, "tls-warn-days"));
    else if (cert != NULL || key != NULL)
        cli_check(c, false, "tls-cert and tls-key", "they go together: set both or none");
    if (ca == NULL)
        return;
    (void)snprintf(text, sizeof(text), "the CAs of %.300s", ca);
    bool ok = net_tls_client_create(ca, &tls, &err) == LR_OK;
    cli_check(c, ok, text, err.text);
    net_tls_destroy(tls);
}

static void check_router(struct cli_checks *c, const struct lr_settings *s)
{
    struct lr_error err = {0};
    const char *database = lr_settings_str(s, "database");
    lr_code code = router_check_settings(s, &err);
    cli_check(c, code == LR_OK, "the settings are allowed together", err.text);
    err.text[0] = '\0';
    code = router_check_database(s, &err);
    /* The URL may hold a password: only its kind is printed. */
    cli_check(c, code == LR_OK,
              database != NULL ? "the database answers"
                               : "the database is a SQLite file in the data folder",
              err.text);
}

static void check_secret(struct cli_checks *c, const struct lr_settings *s, const char *name)
{
    struct lr_error err = {0};
    char secret[512], text[80];
    lr_code code = lr_settings_secret(s, name, secret, sizeof(secret), &err);
    (void)snprintf(text, sizeof(text), "the secret %s", name);
    if (code != LR_OK || secret[0] != '\0')
        cli_check(c, code == LR_OK, text, err.text);
    memset(secret, 0, sizeof(secret));
}

static void check_node(struct cli_checks *c, const struct lr_settings *s, bool is_up)
{
    struct lr_error err = {0};
    char text[400];
    cli_check_engines(c, lr_settings_str(s, "engines-dir"));
    for (size_t i = 0; i < lr_settings_list_count(s, "model"); i++) {
        const char *path = lr_settings_list_item(s, "model", i);
        (void)snprintf(text, sizeof(text), "the model %.300s", path);
        cli_check(c, lr_dir_exists(path) || lr_file_exists(path), text,
                  "there is no such folder or file");
    }
    lr_code code = node_check_settings(s, &err);
    cli_check(c, code == LR_OK, "the node can use its settings", err.text);
    check_secret(c, s, "node-secret");
    if (is_up || lr_settings_str(s, "router") == NULL)
        return;
    check_secret(c, s, "token");
    code = net_settings_check_url(s, "the router", lr_settings_str(s, "router"), &err);
    cli_check(c, code == LR_OK, "the router's URL", err.text);
}

static void config_check_listen(struct cli_checks *c, const struct lr_settings *s)
{
    for (size_t i = 0; i < lr_settings_list_count(s, "listen"); i++) {
        struct net_listener listener;
        struct lr_error err = {0};
        char text[300];
        const char *address = lr_settings_list_item(s, "listen", i);
        lr_code code = net_listener_parse(address, &listener, &err);
        (void)snprintf(text, sizeof(text), "listens on %.200s", address);
        cli_check(c, code == LR_OK, text, err.text);
    }
}

static lr_code run_check(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_checks c = {0};
    struct lr_settings *checked = NULL;
    const char *as = lr_settings_str(s, "as");
    bool is_node = strcmp(as, "node") == 0, is_up = strcmp(as, "up") == 0;
    lr_code code = load(s, &checked, err);
    if (code == LR_OK) {
        cli_check(&c, true, "every setting is known and has an allowed value", "");
        cli_check_folder(&c, "the data folder", lr_settings_str(checked, "data-dir"));
        const char *log = lr_settings_str(checked, "log-file");
        if (log != NULL) {
            char folder[LR_PATH_MAX];
            (void)snprintf(folder, sizeof(folder), "%s", log);
            char *slash = strrchr(folder, '/');
            if (slash != NULL)
                slash[slash == folder] = '\0';
            cli_check_folder(&c, "the folder of the log file", slash != NULL ? folder : ".");
        }
        config_check_listen(&c, checked);
        check_tls(&c, checked);
        if (!is_node)
            check_router(&c, checked);
        if (is_node || is_up)
            check_node(&c, checked, is_up);
        code = cli_checks_end(&c, err);
    }
    lr_settings_destroy(checked);
    return code;
}

static const struct cli_command check = {
    .name = "check",
    .summary = "Check a configuration file, settings, TLS files and the database",
    .arguments = "[FILE] [-- --FLAG VALUE...]",
    .details =
        "Reads FILE, the environment and the flags behind -- as the command that --as names\n"
        "would, and prints what is wrong. Nothing is started, created or changed. Exits with "
        "0\n"
        "if all is well, with 2 for a setting that is not known or not allowed, else with 1.\n"
        "  llm-router config check /etc/llm-router/router.conf\n"
        "  llm-router config check node.conf --as node -- --device cpu",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 250,
    .run = run_check,
};

static struct cli_table tools(void)
{
    static const struct cli_command *const rows[] = {&check};
    return (struct cli_table){rows, sizeof(rows) / sizeof(rows[0])};
}

const struct cli_command cli_command_config = {
    .name = "config",
    .summary = "Check a configuration before a start",
    .tools = tools,
};
