/* base/settings.c - the settings of one command: rows, values and access by name.
 *
 * One entry for each row that applies to the command.  Everything is copied into one arena that
 * lives as long as the settings.
 */
#include "base/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/settings_internal.h"

enum { MEMORY_LIMIT = 8 << 20 };

struct lr_settings_entry *lr_settings_find(const struct lr_settings *s, struct lr_str name)
{
    for (size_t i = 0; i < s->entry_count; i++)
        if (lr_str_eq_z(name, s->entries[i].row->name))
            return &s->entries[i];
    return NULL;
}

const struct lr_setting *lr_settings_find_foreign(const struct lr_settings *s,
                                                  struct lr_str name)
{
    for (size_t i = 0; i < s->foreign_count; i++)
        if (lr_str_eq_z(name, s->foreign[i]->name))
            return s->foreign[i];
    return NULL;
}

/* Separates the rows of this command from those of other commands. */
static void sort_rows(struct lr_settings *s, const struct lr_setting_table *tables,
                      size_t table_count)
{
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct lr_setting *row = &tables[t].rows[i];
            if (!lr_setting_applies(row, s->command))
                s->foreign[s->foreign_count++] = row;
            else if (lr_settings_find(s, lr_str_z(row->name)) == NULL)
                s->entries[s->entry_count++] = (struct lr_settings_entry){.row = row};
        }
    }
}

lr_code lr_settings_create(const struct lr_setting_table *tables, size_t table_count,
                           const char *command, struct lr_settings **out, struct lr_error *err)
{
    *out = NULL;
    size_t count = 0;
    for (size_t t = 0; t < table_count; t++)
        count += tables[t].count;
    struct lr_settings *s = count <= LR_SETTINGS_MOST ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu settings", count);
    lr_arena_init(&s->arena, MEMORY_LIMIT);
    s->command = command;
    s->entries = lr_arena_array(&s->arena, count + 1, sizeof(*s->entries));
    s->foreign = lr_arena_array(&s->arena, count + 1, sizeof(*s->foreign));
    if (s->entries == NULL || s->foreign == NULL) {
        lr_settings_destroy(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu settings", count);
    }
    sort_rows(s, tables, table_count);
    for (size_t i = 0; i < s->entry_count; i++) {
        struct lr_settings_entry *entry = &s->entries[i];
        if (entry->row->fallback == NULL)
            continue;
        lr_code code = lr_setting_parse(entry->row, &s->arena, lr_str_z(entry->row->fallback),
                                        entry->row->name, &entry->value, err);
        if (code != LR_OK) {
            lr_settings_destroy(s);
            return lr_fail_prefix(err, "default of a setting");
        }
    }
    *out = s;
    return LR_OK;
}

void lr_settings_destroy(struct lr_settings *s)
{
    if (s == NULL)
        return;
    lr_arena_free(&s->arena);
    free(s);
}

/* A repeated flag adds to a list; any other value replaces the value of a lower source. */
static lr_code append_items(struct lr_settings *s, struct lr_settings_entry *entry,
                            struct lr_setting_value *added, struct lr_error *err)
{
    size_t count = entry->value.item_count + added->item_count;
    const char **items = lr_arena_array(&s->arena, count + 1, sizeof(*items));
    char *text = lr_arena_printf(&s->arena, "%s,%s", entry->value.text, added->text);
    if (items == NULL || text == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the values of %s", entry->row->name);
    for (size_t i = 0; i < count; i++)
        items[i] = i < entry->value.item_count ? entry->value.items[i]
                                               : added->items[i - entry->value.item_count];
    *added = (struct lr_setting_value){.text = text, .items = items, .item_count = count};
    return LR_OK;
}

lr_code lr_settings_assign(struct lr_settings *s, struct lr_settings_entry *entry,
                           struct lr_str text, enum lr_setting_source source, const char *where,
                           struct lr_error *err)
{
    struct lr_setting_value value;
    lr_code code = lr_setting_parse(entry->row, &s->arena, text, where, &value, err);
    if (code != LR_OK || source < entry->source)
        return code;
    if (entry->row->type == LR_SETTING_LIST && source == LR_FROM_FLAG &&
        entry->source == LR_FROM_FLAG)
        code = append_items(s, entry, &value, err);
    if (code == LR_OK) {
        entry->value = value;
        entry->source = source;
    }
    return code;
}

size_t lr_settings_positional_count(const struct lr_settings *s)
{
    return s->positional_count;
}

const char *lr_settings_positional(const struct lr_settings *s, size_t index)
{
    return index < s->positional_count ? s->positional[index] : NULL;
}

bool lr_settings_is_help(const struct lr_settings *s)
{
    return s->is_help;
}

/* The table is fixed at build time, so an unknown name is a defect of the program. */
static const struct lr_settings_entry *demand(const struct lr_settings *s, const char *name)
{
    const struct lr_settings_entry *entry = lr_settings_find(s, lr_str_z(name));
    if (entry == NULL) {
        (void)fprintf(stderr, "defect: no setting \"%s\" for command \"%s\"\n", name,
                      s->command != NULL ? s->command : "(any)");
        abort();
    }
    return entry;
}

static const struct lr_settings_entry *demand_type(const struct lr_settings *s,
                                                   const char *name, enum lr_setting_type type)
{
    const struct lr_settings_entry *entry = demand(s, name);
    if (entry->row->type != type) {
        (void)fprintf(stderr, "defect: setting \"%s\" is asked for as another type\n", name);
        abort();
    }
    return entry;
}

bool lr_settings_knows(const struct lr_settings *s, struct lr_str name)
{
    return lr_settings_find(s, name) != NULL;
}

bool lr_settings_has(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->value.text != NULL;
}

const char *lr_settings_str(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->value.text;
}

int64_t lr_settings_int(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_INT)->value.integer;
}

double lr_settings_float(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_FLOAT)->value.real;
}

uint64_t lr_settings_size(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_SIZE)->value.amount;
}

uint64_t lr_settings_ms(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_DURATION)->value.amount;
}

bool lr_settings_bool(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_BOOL)->value.boolean;
}

size_t lr_settings_list_count(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_LIST)->value.item_count;
}

const char *lr_settings_list_item(const struct lr_settings *s, const char *name, size_t i)
{
    const struct lr_settings_entry *entry = demand_type(s, name, LR_SETTING_LIST);
    return i < entry->value.item_count ? entry->value.items[i] : NULL;
}

enum lr_setting_source lr_settings_source(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->source;
}
