#include "cli/names.h"

#include <stdio.h>

#include "cli/remote.h"

enum { LISTED_MAX = 8, NAMES_MAX = 4096 };

/* Where the things of one kind are listed. */
struct kind {
    const char *word;    /* "node" */
    const char *path;    /* the route that lists them */
    const char *member;  /* the answer's array */
    const char *name;    /* member with the name; NULL: none */
    const char *aliases; /* member with further names; NULL: none */
    bool has_short_name; /* "name" is enough for "org/name" */
    const char *advice;
};

static const struct kind models = {
    .word = "model",
    .path = "/v0/models?brief=true",
    .member = "models",
    .aliases = "aliases",
    .has_short_name = true,
    .advice = "llm-router models lists them",
};
/* An alias has an entry of its own there. */
static const struct kind usable_models = {
    .word = "model",
    .path = "/v1/models?all=true",
    .member = "data",
    .has_short_name = true,
    .advice = "llm-router list shows the models",
};
static const struct kind nodes = {
    .word = "node",
    .path = "/v0/nodes?brief=true",
    .member = "nodes",
    .name = "name",
    .advice = "see llm-router nodes",
};
static const struct kind keys = {
    .word = "key",
    .path = "/v0/keys",
    .member = "keys",
    .name = "name",
    .advice = "see llm-router keys",
};

struct search {
    const struct kind *kind;
    struct lr_str wanted;
    struct lr_arena *arena;
    const struct lr_json *by_name[LISTED_MAX]; /* the first that have the name */
    size_t by_name_count;                      /* of all that have it */
    const char **names;                        /* ids and names, for a suggestion */
    size_t name_count;
    bool has_near; /* out: a similar name was suggested */
};

static bool note_name(struct search *f, struct lr_str name)
{
    if (name.len == 0)
        return false;
    if (f->name_count < NAMES_MAX) {
        const char *copy = lr_arena_copy(f->arena, name);
        if (copy != NULL)
            f->names[f->name_count++] = copy;
    }
    return lr_str_eq_nocase(name, f->wanted);
}

/* Notes the names of an entry; true: one of them is the wanted name. */
static bool note_names(struct search *f, const struct lr_json *entry, struct lr_str id)
{
    const struct kind *kind = f->kind;
    struct lr_str text;
    bool found = kind->name != NULL && lr_json_str(lr_json_get(entry, kind->name), &text) &&
                 note_name(f, text);
    const struct lr_json *list =
        kind->aliases != NULL ? lr_json_get(entry, kind->aliases) : NULL;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (lr_json_str(&list->items[i], &text))
            found = note_name(f, text) || found;
    if (kind->has_short_name) {
        size_t slash = id.len;
        while (slash > 0 && id.ptr[slash - 1] != '/')
            slash--;
        if (slash > 0)
            found = note_name(f, lr_str_sub(id, slash, id.len)) || found;
    }
    return found;
}

/* The entry with the wanted id; NULL: f has what was found by name. */
static const struct lr_json *names_look(struct search *f, const struct lr_json *list)
{
    struct lr_str id;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++) {
        const struct lr_json *entry = &list->items[i];
        if (!lr_json_str(lr_json_get(entry, "id"), &id) ||
            (f->kind == &keys && cli_int(entry, "revoked") != 0))
            continue;
        if (note_name(f, id))
            return entry;
        if (note_names(f, entry, id) && f->by_name_count++ < LISTED_MAX)
            f->by_name[f->by_name_count - 1] = entry;
    }
    return NULL;
}

static lr_code fail_ambiguous(const struct search *f, struct lr_error *err)
{
    struct lr_buf ids;
    lr_buf_init(&ids, 4096);
    for (size_t i = 0; i < f->by_name_count && i < LISTED_MAX; i++)
        lr_buf_addf(&ids, "%s%s", i != 0 ? ", " : "", cli_text(f->arena, f->by_name[i], "id"));
    if (f->by_name_count > LISTED_MAX)
        lr_buf_addf(&ids, " and %zu more", f->by_name_count - LISTED_MAX);
    lr_code code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "%zu %ss are called \"" LR_STR_FMT "\": say which by its id: %s",
                           f->by_name_count, f->kind->word,
                           LR_STR_ARG(lr_str_sub(f->wanted, 0, 100)), lr_buf_z(&ids));
    lr_buf_free(&ids);
    return code;
}

static lr_code fail_absent(struct search *f, struct lr_error *err)
{
    char word[CLI_ID_MAX];
    LR_COPY(word, f->wanted);
    const char *near = lr_closest(word, f->names, f->name_count);
    f->has_near = near != NULL;
    if (near != NULL)
        return lr_fail(err, LR_NOT_FOUND, "there is no %s \"%s\"; did you mean \"%s\"? (%s)",
                       f->kind->word, word, near, f->kind->advice);
    return lr_fail(err, LR_NOT_FOUND, "there is no %s \"%s\": %s", f->kind->word, word,
                   f->kind->advice);
}

static lr_code names_choose(struct search *f, const struct lr_json *list, char id[CLI_ID_MAX],
                            struct lr_error *err)
{
    const struct lr_json *entry = names_look(f, list);
    struct lr_str text = {0};
    if (entry == NULL && f->by_name_count > 1)
        return fail_ambiguous(f, err);
    if (entry == NULL && f->by_name_count == 1)
        entry = f->by_name[0];
    if (entry == NULL)
        return fail_absent(f, err);
    (void)lr_json_str(lr_json_get(entry, "id"), &text);
    lr_str_copy(id, CLI_ID_MAX, text);
    return LR_OK;
}

static lr_code names_find(const struct lr_settings *s, const struct kind *kind,
                          const char *name, char id[CLI_ID_MAX], bool *has_near,
                          struct lr_error *err)
{
    struct cli_answer a;
    struct search f = {.kind = kind, .wanted = lr_str_z(name)};
    id[0] = '\0';
    lr_code code = cli_ask(s, "GET", kind->path, NULL, &a, err);
    if (code == LR_OK) {
        f.arena = &a.arena;
        f.names = lr_arena_array(&a.arena, NAMES_MAX, sizeof(*f.names));
        code = f.names != NULL ? names_choose(&f, lr_json_get(a.json, kind->member), id, err)
                               : lr_fail(err, LR_OUT_OF_RAM, "no memory for the names");
    }
    cli_answer_free(&a);
    if (has_near != NULL)
        *has_near = f.has_near;
    return code;
}

lr_code cli_find_model(const struct lr_settings *s, const char *name, bool usable,
                       char id[CLI_ID_MAX], bool *has_near, struct lr_error *err)
{
    return names_find(s, usable ? &usable_models : &models, name, id, has_near, err);
}

lr_code cli_model_id(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                     struct lr_error *err)
{
    return names_find(s, &models, name, id, NULL, err);
}

lr_code cli_usable_model_id(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                            struct lr_error *err)
{
    return names_find(s, &usable_models, name, id, NULL, err);
}

lr_code cli_key_id(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                   struct lr_error *err)
{
    return names_find(s, &keys, name, id, NULL, err);
}

static lr_code only_node(const struct lr_settings *s, char id[CLI_ID_MAX], struct lr_error *err)
{
    struct cli_answer a;
    struct lr_str text = {0};
    lr_code code = cli_ask(s, "GET", nodes.path, NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? lr_json_get(a.json, nodes.member) : NULL;
    uint32_t count = lr_json_is(list, LR_JSON_ARRAY) ? list->count : 0;
    if (code == LR_OK && count == 0)
        code = lr_fail(err, LR_NOT_FOUND, "no node has joined this router yet");
    else if (code == LR_OK && count > 1)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "%u nodes have joined: say which with --node NODE (see llm-router "
                       "nodes)",
                       count);
    if (code == LR_OK)
        (void)lr_json_str(lr_json_get(&list->items[0], "id"), &text);
    lr_str_copy(id, CLI_ID_MAX, text);
    cli_answer_free(&a);
    return code;
}

lr_code cli_node_id(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                    struct lr_error *err)
{
    return name != NULL ? names_find(s, &nodes, name, id, NULL, err) : only_node(s, id, err);
}

lr_code cli_choose_node(const struct lr_settings *s, char id[CLI_ID_MAX], struct lr_error *err)
{
    return cli_node_id(s, lr_settings_str(s, "node"), id, err);
}
