#include "cli/checks.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/terminal.h"
#include "net/tls.h"
#include "plugin/manifest.h"

void cli_check(struct cli_checks *c, bool ok, const char *what, const char *advice)
{
    cli_tell(stdout, "%s  %s\n", ok ? "ok  " : "MISS", what);
    if (!ok && advice[0] != '\0')
        cli_tell(stdout, "      %s\n", advice);
    c->problems += !ok;
}

void cli_note(const char *what)
{
    cli_tell(stdout, "note  %s\n", what);
}

void cli_nearest_folder(const char *folder, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", folder);
    while (!lr_dir_exists(out)) {
        char *slash = strrchr(out, '/');
        if (slash == NULL)
            (void)snprintf(out, size, ".");
        else
            slash[slash == out] = '\0';
    }
}

void cli_check_folder(struct cli_checks *c, const char *title, const char *folder)
{
    char text[500], advice[LR_PATH_MAX + 100], there[LR_PATH_MAX];
    cli_nearest_folder(folder, there, sizeof(there));
    (void)snprintf(text, sizeof(text), "%s %.400s can be written", title, folder);
    (void)snprintf(advice, sizeof(advice), "this user may not write to %.1000s", there);
    cli_check(c, lr_can_write(there), text, advice);
}

void cli_check_tls(struct cli_checks *c, const char *cert, const char *key, const char *host,
                   long long warn_days)
{
    struct net_tls *tls = NULL;
    struct net_tls_validity validity = {0};
    struct lr_error err = {0};
    char text[700], advice[300];
    lr_code code = net_tls_server_create(cert, key, &tls, &err);
    (void)snprintf(text, sizeof(text), "the certificate %.300s belongs to the key %.300s", cert,
                   key);
    cli_check(c, code == LR_OK, text, err.text);
    if (code != LR_OK)
        return;
    if (net_tls_get_validity(tls, &validity)) {
        char until[LR_TIME_TEXT_LEN + 1];
        long long days = (long long)(validity.until_s - lr_clock_wall_ms(NULL) / 1000) / 86400;
        lr_time_format(validity.until_s * 1000, until);
        (void)snprintf(text, sizeof(text), "the certificate is good until %.10s, for %lld days",
                       until, days);
        cli_check(c, days >= warn_days, text,
                  "renew it: clients and nodes refuse a certificate that has expired");
    }
    if (host != NULL) {
        (void)snprintf(text, sizeof(text), "the certificate is good for %.200s", host);
        (void)snprintf(advice, sizeof(advice),
                       "its names (subjectAltName) lack %.200s: clients that connect to that "
                       "refuse it",
                       host);
        cli_check(c, net_tls_names(tls, host), text, advice);
    }
    net_tls_destroy(tls);
}

void cli_check_engines(struct cli_checks *c, const char *engines_dir)
{
    char dir[LR_PATH_MAX], folder[2 * LR_PATH_MAX], text[512];
    size_t count = 0;
    plugin_engines_dir(engines_dir, dir);
    struct lr_dir *list = lr_dir_open(dir);
    for (const char *name; list != NULL && (name = lr_dir_next(list)) != NULL;) {
        struct plugin_manifest manifest;
        struct lr_error err;
        if (name[0] == '.')
            continue;
        (void)snprintf(folder, sizeof(folder), "%s/%s", dir, name);
        lr_code code = plugin_manifest_read(&manifest, folder, &err);
        (void)snprintf(text, sizeof(text), "engine %.100s", name);
        cli_check(c, code == LR_OK, text, code == LR_OK ? "" : err.text);
        if (code == LR_OK)
            plugin_manifest_free(&manifest);
        count++;
    }
    lr_dir_close(list);
    (void)snprintf(text, sizeof(text), "engines in %.400s", dir);
    if (count == 0)
        cli_check(c, false, text,
                  "none: run make build, or name the folder with --engines-dir");
}

lr_code cli_checks_end(const struct cli_checks *c, struct lr_error *err)
{
    if (c->problems == 0)
        return LR_OK;
    return lr_fail(err, LR_UNAVAILABLE, "%u of these need%s attention", c->problems,
                   c->problems == 1 ? "s" : "");
}
