/* base/settings_help.c - --help and docs/settings.md, written from the table. */
#include <stdio.h>

#include "base/settings_internal.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 88 };

static const char *value_word(const struct lr_setting *row)
{
    static const char *const words[] = {
        [LR_SETTING_STRING] = "TEXT",   [LR_SETTING_INT] = "N",
        [LR_SETTING_FLOAT] = "X",       [LR_SETTING_SIZE] = "SIZE",
        [LR_SETTING_DURATION] = "TIME", [LR_SETTING_BOOL] = "",
        [LR_SETTING_CHOICE] = "WORD",   [LR_SETTING_PATH] = "PATH",
        [LR_SETTING_LIST] = "LIST",
    };
    return row->value != NULL ? row->value : words[row->type];
}

void lr_setting_flag(const struct lr_setting *row, struct lr_buf *out)
{
    if (row->type == LR_SETTING_BOOL)
        lr_buf_addf(out, "--[no-]%s", row->name);
    else
        lr_buf_addf(out, "--%s %s", row->name, value_word(row));
}

/* Breaks text into lines; `column` is where the cursor stands now. */
static void add_wrapped(struct lr_buf *out, size_t column, struct lr_str text)
{
    struct lr_str word;
    while (lr_str_split(&text, ' ', &word)) {
        if (column + word.len + 1 > HELP_WIDTH && column > HELP_COLUMN) {
            lr_buf_addf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        if (column != HELP_COLUMN) {
            lr_buf_add_char(out, ' ');
            column++;
        }
        lr_buf_add_str(out, word);
        column += word.len;
    }
    lr_buf_add_char(out, '\n');
}

static bool shadowed(const struct lr_setting_table *tables, size_t t, size_t i,
                     const char *command)
{
    const char *name = tables[t].rows[i].name;
    for (size_t u = 0; u <= t; u++)
        for (size_t j = 0; j < (u == t ? i : tables[u].count); j++)
            if (strcmp(tables[u].rows[j].name, name) == 0 &&
                lr_setting_applies(&tables[u].rows[j], command))
                return true;
    return false;
}

void lr_settings_each(const struct lr_setting_table *tables, size_t table_count,
                      const char *command, lr_setting_visit *visit, void *arg)
{
    for (size_t t = 0; t < table_count; t++)
        for (size_t i = 0; i < tables[t].count; i++)
            if (lr_setting_applies(&tables[t].rows[i], command) &&
                !shadowed(tables, t, i, command))
                visit(arg, &tables[t].rows[i]);
}

void lr_setting_sentence(const struct lr_setting *row, struct lr_buf *out)
{
    lr_buf_add_z(out, row->help);
    if (row->type == LR_SETTING_CHOICE) {
        lr_buf_add_z(out, ": ");
        lr_setting_allowed(row, out);
    }
    if (row->fallback != NULL && row->fallback[0] != '\0' && row->type != LR_SETTING_BOOL)
        lr_buf_addf(out, " [%s]", row->fallback);
    else if (row->type == LR_SETTING_BOOL && row->fallback != NULL &&
             strcmp(row->fallback, "true") == 0)
        lr_buf_add_z(out, " [on]");
}

static void add_help(void *arg, const struct lr_setting *row)
{
    struct lr_buf *out = arg;
    size_t before = out->len;
    lr_buf_add_z(out, "  ");
    lr_setting_flag(row, out);
    size_t column = out->len - before;
    if (column + 2 > HELP_COLUMN) {
        lr_buf_add_char(out, '\n');
        column = 0;
    }
    lr_buf_addf(out, "%*s", (int)(HELP_COLUMN - column), "");

    struct lr_buf text;
    lr_buf_init(&text, 4096);
    lr_setting_sentence(row, &text);
    add_wrapped(out, HELP_COLUMN, lr_buf_str(&text));
    lr_buf_free(&text);
}

void lr_settings_help(const struct lr_setting_table *tables, size_t table_count,
                      const char *command, struct lr_buf *out)
{
    lr_settings_each(tables, table_count, command, add_help, out);
}

/* A '|' would end the cell. */
static void add_cell(struct lr_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            lr_buf_add_char(out, '\\');
        lr_buf_add_char(out, *text);
    }
}

static void add_commands(struct lr_buf *out, const char *commands)
{
    if (commands == NULL) {
        lr_buf_add_z(out, "all");
        return;
    }
    for (; *commands != '\0'; commands++)
        lr_buf_add_z(out, *commands == ' ' ? ", " : (char[]){*commands, '\0'});
}

void lr_settings_reference(const struct lr_setting_table *table, struct lr_buf *out)
{
    lr_buf_add_z(out, "| Setting | Default | Takes | Commands | What it does |\n"
                      "|---|---|---|---|---|\n");
    for (size_t i = 0; i < table->count; i++) {
        const struct lr_setting *row = &table->rows[i];
        char env[64];
        struct lr_buf allowed;
        lr_setting_env_name(row->name, env);
        lr_buf_init(&allowed, 1024);
        lr_setting_allowed(row, &allowed);
        lr_buf_add_z(out, "| `");
        lr_setting_flag(row, out);
        lr_buf_add_char(out, '`');
        if (!row->flag_only)
            lr_buf_addf(out, "<br>`%s`", env);
        if (row->fallback != NULL && row->fallback[0] != '\0')
            lr_buf_addf(out, " | `%s` | ", row->fallback);
        else
            lr_buf_add_z(out, " | | ");
        add_cell(out, lr_buf_z(&allowed));
        lr_buf_add_z(out, " | ");
        add_commands(out, row->commands);
        lr_buf_add_z(out, " | ");
        add_cell(out, row->help);
        lr_buf_add_z(out, row->secret ? ". Never logged |\n" : " |\n");
        lr_buf_free(&allowed);
    }
}
