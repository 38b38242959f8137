/* cli/man_page.c - `llm-router debug man-page`: manual pages, written from the tables.
 *
 * There is a page llm-router(1) with the list of commands, a page llm-router-COMMAND(1) for
 * each command and a page llm-router.conf(5) for the configuration file.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/version.h"

enum { MAN_LIMIT = 1 << 20, MAN_NAME_LEN = 100 };

static const char CONF_NAME[] = "llm-router.conf";

/* Characters that roff would interpret or replace are escaped. */
static void add_char(struct lr_buf *out, char c)
{
    switch (c) {
    case '\\':
        lr_buf_add_z(out, "\\e");
        break;
    case '-':
        lr_buf_add_z(out, "\\-");
        break;
    case '\'':
        lr_buf_add_z(out, "\\(aq");
        break;
    case '`':
        lr_buf_add_z(out, "\\(ga");
        break;
    case '^':
        lr_buf_add_z(out, "\\(ha");
        break;
    case '~':
        lr_buf_add_z(out, "\\(ti");
        break;
    default:
        lr_buf_add_char(out, c);
        break;
    }
}

static void man_page_add_text(struct lr_buf *out, struct lr_str text)
{
    /* A full stop at the beginning of a line is a command of roff. */
    if (text.len != 0 && text.ptr[0] == '.')
        lr_buf_add_z(out, "\\&");
    for (size_t i = 0; i < text.len; i++)
        add_char(out, text.ptr[i]);
}

static void add_line(struct lr_buf *out, const char *text)
{
    man_page_add_text(out, lr_str_z(text));
    lr_buf_add_char(out, '\n');
}

/* Lines that begin with a blank keep their form, other lines are filled. */
static void add_paragraphs(struct lr_buf *out, const char *text)
{
    struct lr_str rest = lr_str_z(text), line;
    bool is_kept = false;
    while (lr_str_split(&rest, '\n', &line)) {
        bool keep = line.len != 0 && line.ptr[0] == ' ';
        if (keep != is_kept)
            lr_buf_add_z(out, keep ? ".PP\n.nf\n" : ".fi\n.PP\n");
        is_kept = keep;
        if (line.len == 0) {
            lr_buf_add_z(out, ".PP\n");
            continue;
        }
        man_page_add_text(out, line);
        lr_buf_add_char(out, '\n');
    }
    if (is_kept)
        lr_buf_add_z(out, ".fi\n");
}

static void add_title(struct lr_buf *out, const char *name, int section, const char *date,
                      const char *summary)
{
    lr_buf_add_z(out, ".\\\" Written by llm-router debug man-page.\n.TH ");
    for (const char *c = name; *c != '\0'; c++)
        add_char(out, (char)toupper((unsigned char)*c));
    lr_buf_addf(out, " %d \"%s\" \"llm\\-router %s\" \"llm\\-router\"\n.SH NAME\n", section,
                date, cli_version());
    man_page_add_text(out, lr_str_z(name));
    lr_buf_add_z(out, " \\- ");
    add_line(out, summary);
}

static void man_page_add_flag(void *arg, const struct lr_setting *row)
{
    struct lr_buf *out = arg, text;
    lr_buf_init(&text, 4096);
    lr_buf_add_z(out, ".TP\n.B ");
    lr_setting_flag(row, &text);
    add_line(out, lr_buf_z(&text));
    lr_buf_clear(&text);
    lr_setting_sentence(row, &text);
    add_line(out, lr_buf_z(&text));
    lr_buf_free(&text);
}

static void add_list(struct lr_buf *out, const char *title, struct cli_table table)
{
    lr_buf_addf(out, ".SH %s\n", title);
    for (size_t i = 0; i < table.count; i++) {
        if (table.rows[i]->hidden)
            continue;
        lr_buf_add_z(out, ".TP\n.B ");
        add_line(out, table.rows[i]->name);
        add_line(out, table.rows[i]->summary);
    }
}

static void add_end(struct lr_buf *out, const char *see_also)
{
    lr_buf_addf(out,
                ".SH EXIT STATUS\n"
                "0 success, 1 failure, 2 wrong arguments.\n"
                ".SH SEE ALSO\n"
                "%s\n",
                see_also);
}

static void write_overview(struct lr_buf *out, const char *date)
{
    add_title(out, "llm-router", 1, date, "a self-hosted LLM server");
    lr_buf_add_z(out, ".SH SYNOPSIS\n"
                      ".B llm\\-router\n"
                      ".I COMMAND\n"
                      "[\\fIARGUMENT\\fR]...\n"
                      ".SH DESCRIPTION\n"
                      "llm\\-router runs models on GPU machines (nodes) and offers one "
                      "OpenAI\\-compatible endpoint for all of them (the router).\n"
                      "Each command has a page of its own, for example\n"
                      ".BR llm\\-router\\-up (1).\n");
    add_list(out, "COMMANDS", cli_commands());
    lr_buf_add_z(out, ".SH FILES\n"
                      ".TP\n"
                      ".I /etc/llm\\-router/\n"
                      "Configuration files of the systemd units.\n"
                      ".TP\n"
                      ".I /var/lib/llm\\-router/\n"
                      "Data folder of the systemd units: database, models.\n"
                      ".TP\n"
                      ".I \\(ti/.llm\\-router/\n"
                      "Data folder where no other is named.\n");
    add_end(out, ".BR llm\\-router\\-up (1),\n"
                 ".BR llm\\-router\\-router (1),\n"
                 ".BR llm\\-router\\-node (1),\n"
                 ".BR llm\\-router.conf (5)");
}

static void write_command(struct lr_buf *out, const struct cli_command *command,
                          const char *date)
{
    const struct lr_setting_table tables[] = {command->flags, cli_settings};
    bool has_flags = command->flags.count != 0 || command->shared;
    char name[MAN_NAME_LEN];
    (void)snprintf(name, sizeof(name), "llm-router-%s", command->name);
    add_title(out, name, 1, date, command->summary);
    lr_buf_add_z(out, ".SH SYNOPSIS\n.B llm\\-router ");
    add_line(out, command->name);
    if (has_flags)
        lr_buf_add_z(out, "[\\fB\\-\\-flag\\fR \\fIvalue\\fR]...\n");
    if (command->arguments != NULL)
        add_line(out, command->arguments);
    if (command->details != NULL) {
        lr_buf_add_z(out, ".SH DESCRIPTION\n");
        add_paragraphs(out, command->details);
    }
    if (command->tools != NULL)
        add_list(out, "TOOLS", command->tools());
    if (has_flags) {
        lr_buf_add_z(out, ".SH OPTIONS\n");
        lr_settings_each(tables, command->shared ? 2 : 1, command->name, man_page_add_flag,
                         out);
    }
    if (command->shared)
        lr_buf_add_z(out,
                     ".SH ENVIRONMENT\n"
                     "Every flag is also an environment variable, LLM_ROUTER_ and the name "
                     "in upper case with underscores, and a line of the file that\n"
                     ".B \\-\\-config\n"
                     "names.\n"
                     "A flag wins over the environment, which wins over the file.\n");
    add_end(out, command->shared ? ".BR llm\\-router (1),\n.BR llm\\-router.conf (5)"
                                 : ".BR llm\\-router (1)");
}

static void add_key(void *arg, const struct lr_setting *row)
{
    struct lr_buf *out = arg, text;
    if (row->flag_only)
        return;
    lr_buf_init(&text, 4096);
    lr_buf_add_z(out, ".TP\n.B ");
    add_line(out, row->name);
    lr_buf_addf(&text, "%s.", row->help);
    add_line(out, lr_buf_z(&text));
    lr_buf_clear(&text);
    lr_buf_add_z(&text, "Takes ");
    lr_setting_allowed(row, &text);
    if (row->fallback != NULL && row->fallback[0] != '\0')
        lr_buf_addf(&text, "; default %s", row->fallback);
    lr_buf_addf(&text, ". Commands: %s.", row->commands != NULL ? row->commands : "all");
    add_line(out, lr_buf_z(&text));
    lr_buf_free(&text);
}

static void write_conf(struct lr_buf *out, const char *date)
{
    add_title(out, CONF_NAME, 5, date, "configuration file of llm-router");
    lr_buf_add_z(out,
                 ".SH DESCRIPTION\n"
                 "The flag\n"
                 ".B \\-\\-config\n"
                 "of every command names a configuration file.\n"
                 "The systemd units read \\fI/etc/llm\\-router/llm\\-router.conf\\fR "
                 "(llm\\-router up), \\fI/etc/llm\\-router/router.conf\\fR and "
                 "\\fI/etc/llm\\-router/node.conf\\fR.\n"
                 "Each line is \\fIname\\fR = \\fIvalue\\fR; comments begin with #.\n"
                 "A value may be in double quotes, with \\e\" and \\e\\e inside.\n"
                 "An unknown name or a value that is not allowed is an error.\n"
                 "A file may serve several commands: names of other commands are checked and "
                 "ignored.\n"
                 "Sizes: bytes, or KiB MiB GiB TiB and KB MB GB TB; durations: ms s m h d.\n"
                 ".SH SETTINGS\n");
    for (size_t i = 0; i < cli_settings.count; i++)
        add_key(out, &cli_settings.rows[i]);
    lr_buf_add_z(out, ".SH SEE ALSO\n.BR llm\\-router (1)\n");
}

static lr_code run_man_page(const struct lr_settings *settings, struct lr_error *err)
{
    const char *date = lr_settings_str(settings, "date");
    bool is_overview = lr_settings_positional_count(settings) == 0;
    const char *name = is_overview ? NULL : lr_settings_positional(settings, 0);
    bool is_conf = !is_overview && strcmp(name, CONF_NAME) == 0;
    const struct cli_command *command =
        is_overview || is_conf ? NULL : cli_find(cli_commands(), name);
    if (!is_overview && !is_conf && command == NULL)
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "there is no command \"%.60s\": name a command, llm-router.conf or nothing", name);
    struct lr_buf page;
    lr_buf_init(&page, MAN_LIMIT);
    if (is_overview)
        write_overview(&page, date);
    else if (is_conf)
        write_conf(&page, date);
    else
        write_command(&page, command, date);
    lr_code code = cli_print(&page, err);
    lr_buf_free(&page);
    return code;
}

static const struct lr_setting flags[] = {
    {.name = "date",
     .type = LR_SETTING_STRING,
     .fallback = "",
     .value = "DATE",
     .help =
         "date of the page, YYYY-MM-DD; a build that must be reproducible passes the date of "
         "its commit"},
};

const struct cli_command cli_debug_man_page = {
    .name = "man-page",
    .summary = "Print a manual page: of a command, of llm-router.conf or the overview",
    .arguments = "[COMMAND|llm-router.conf]",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 1,
    .run = run_man_page,
};
