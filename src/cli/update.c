/* cli/update.c - llm-router update: runs the install script that came with this release
 * (deploy/install/install.sh), which downloads the next release, checks its signature, puts it
 * in place and renews what runs.  On Windows install.ps1 is run again. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/subprocess.h"
#include "cli/commands.h"

static const char script[] = "share/llm-router/install.sh";
static const char releases[] = "/lib/llm-router-releases/"; /* as install.sh makes it */

enum { WORDS = 12 };

/* The prefix of an installation by install.sh, and its script. */
static lr_code find_script(char prefix[LR_PATH_MAX], char out[LR_PATH_MAX],
                           struct lr_error *err)
{
    char self[LR_PATH_MAX];
    lr_code code = lr_self_path(self, sizeof(self), err);
    if (code != LR_OK)
        return code;
    char *at = strstr(self, releases);
    if (at == NULL && strncmp(self, "/usr/bin/", 9) == 0)
        return lr_fail(err, LR_NOT_FOUND,
                       "%s came with a package: update it with the package manager (apt-get "
                       "install --only-upgrade llm-router)",
                       self);
    char *end = at != NULL ? strstr(at, "/bin/llm-router") : NULL;
    if (end == NULL)
        return lr_fail(
            err, LR_NOT_FOUND,
            "%s was not installed by install.sh, so it cannot update itself; install "
            "the next release as this one was installed",
            self);
    *end = '\0';
    (void)snprintf(out, LR_PATH_MAX, "%s/%s", self, script);
    if (!lr_file_exists(out))
        return lr_fail(err, LR_NOT_FOUND, "%s is missing; run install.sh of the next release",
                       out);
    *at = '\0';
    memcpy(prefix, self, strlen(self) + 1);
    return LR_OK;
}

static lr_code update_run(const struct lr_settings *s, struct lr_error *err)
{
    char prefix[LR_PATH_MAX], path[LR_PATH_MAX];
    const char *args[WORDS + 1] = {"sh", path, "--prefix", prefix, "--yes"};
    size_t count = 5;
    lr_code code = find_script(prefix, path, err);
    if (code != LR_OK)
        return code;
    if (lr_settings_bool(s, "check"))
        args[count++] = "--check";
    if (lr_settings_bool(s, "downgrade"))
        args[count++] = "--downgrade";
    static const char *const named[] = {"version", "base-url"};
    static const char *const words[] = {"--version", "--base-url"};
    for (size_t i = 0; i < 2; i++) {
        if (!lr_settings_has(s, named[i]))
            continue;
        args[count++] = words[i];
        args[count++] = lr_settings_str(s, named[i]);
    }
    struct lr_subprocess child;
    code = lr_subprocess_start(&(struct lr_spawn){.argv = args}, &child, err);
    if (code != LR_OK)
        return code;
    (void)lr_subprocess_wait(&child, -1);
    bool is_good = child.status == lr_exit_status(0, 0);
    lr_subprocess_close(&child);
    /* The script has said why. */
    return is_good ? LR_OK : lr_fail(err, LR_INTERNAL, "%s", "");
}

static const struct lr_setting flags[] = {
    {.name = "check",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "only say whether there is a newer version"},
    {.name = "version",
     .type = LR_SETTING_STRING,
     .value = "V",
     .help = "this version; default: the newest"},
    {.name = "downgrade",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "allow a version that is older than the installed version"},
    {.name = "base-url",
     .type = LR_SETTING_STRING,
     .value = "URL",
     .help = "where the releases are; default: where this one came from"},
};

const struct cli_command cli_command_update = {
    .name = "update",
    .summary = "Install the next release in place of this one",
    .details =
        "For an installation by install.sh. The archive and its signature are checked, then\n"
        "running routers hand over to the new version without a gap, and the service of up is\n"
        "restarted. If the new version does not start, the version before is put back.\n"
        "A package is updated by the package manager.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = update_run,
};
