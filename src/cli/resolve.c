#include "cli/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "base/os/fd.h"
#include "cli/follow.h"
#include "cli/terminal.h"

enum { RESOLVE_BYTES = 64 << 10, ROUNDS_MAX = 2 };

static void add_flag(struct lr_json_writer *w, const struct lr_settings *s, const char *name)
{
    if (lr_settings_knows(s, lr_str_z(name)) && lr_settings_has(s, name))
        lr_json_member_z(w, name, lr_settings_str(s, name));
}

static void resolve_add_number(struct lr_json_writer *w, const struct lr_settings *s,
                               const char *name)
{
    if (lr_settings_knows(s, lr_str_z(name)) && lr_settings_has(s, name))
        lr_json_member_u64(w, name, (uint64_t)lr_settings_int(s, name));
}

lr_code cli_ask_resolve(const struct lr_settings *s, const char *name, struct cli_answer *out,
                        struct lr_error *err)
{
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, RESOLVE_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "name", name);
    add_flag(&w, s, "filename");
    add_flag(&w, s, "revision");
    resolve_add_number(&w, s, "context");
    resolve_add_number(&w, s, "users");
    lr_json_end_object(&w);
    lr_code code = cli_ask(s, "POST", "/v0/models/resolve", &body, out, err);
    lr_buf_free(&body);
    return code;
}

/* "acme/x: x-Q4_K_M.gguf (4.9 GiB): the best quantization that fits here ..." */
static void tell_choice(struct cli_answer *a, FILE *out)
{
    const struct lr_json *chosen = lr_json_get(a->json, "chosen");
    char size[32];
    if (chosen == NULL)
        return;
    const char *file = cli_text(&a->arena, chosen, "filename");
    lr_format_size((uint64_t)cli_int(chosen, "weight_bytes"), size);
    cli_tell(out, "%s: %s (%s): %s\n", cli_text(&a->arena, a->json, "id"),
             file[0] != '\0' ? file : cli_text(&a->arena, chosen, "format"), size,
             cli_text(&a->arena, chosen, "why"));
}

/* What was chosen is registered as the router wrote it. */
static lr_code register_choice(const struct lr_settings *s, struct cli_answer *choice,
                               char id[CLI_ID_MAX], struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, RESOLVE_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_put_value(&w, lr_json_get(choice->json, "registration"));
    lr_code code = cli_ask(s, "POST", "/v0/models/register", &body, &a, err);
    if (code == LR_OK)
        lr_str_copy(id, CLI_ID_MAX, lr_str_z(cli_raw(&a.arena, a.json, "id")));
    const struct lr_json *warnings = code == LR_OK ? cli_array(a.json, "warnings") : NULL;
    struct lr_str text;
    for (uint32_t i = 0; warnings != NULL && i < warnings->count; i++)
        if (lr_json_str(&warnings->items[i], &text))
            cli_tell(stderr, "warning: " LR_STR_FMT "\n", LR_STR_ARG(text));
    cli_answer_free(&a);
    lr_buf_free(&body);
    return code;
}

/* Lists what runs here; true: the person at the terminal pressed Enter. */
static bool takes_first(struct cli_answer *a, char name[CLI_ID_MAX])
{
    const struct lr_json *list = cli_array(a->json, "suggestions");
    if (list == NULL || list->count == 0 || isatty(STDIN_FILENO) == 0 ||
        isatty(STDERR_FILENO) == 0)
        return false;
    cli_tell(stderr, "%s\n", cli_text(&a->arena, a->json, "message"));
    for (uint32_t i = 0; i < list->count; i++) {
        char size[32];
        const struct lr_json *one = &list->items[i];
        lr_format_size((uint64_t)cli_int(one, "weight_bytes"), size);
        cli_tell(stderr, "  %u  %s  %s, %lld downloads%s\n", i + 1,
                 cli_text(&a->arena, one, "repo"), size, (long long)cli_int(one, "downloads"),
                 cli_bool(one, "gated") ? ", gated" : "");
    }
    cli_tell(stderr, "Enter runs the first, any other answer none: ");
    char *line = NULL;
    size_t size = 0;
    bool takes = getline(&line, &size, stdin) > 0 && lr_str_trim(lr_str_z(line)).len == 0;
    free(line);
    lr_str_copy(name, CLI_ID_MAX, lr_str_z(cli_raw(&a->arena, &list->items[0], "repo")));
    return takes;
}

/* The error of a name that is known nowhere: what was said of it here, then what the hub has.
 */
static lr_code fail_unresolved(struct cli_answer *a, const struct lr_error *here,
                               struct lr_error *err)
{
    const char *kind = cli_raw(&a->arena, a->json, "kind");
    const char *message = cli_text(&a->arena, a->json, "message");
    const char *tail = strstr(message, "; on the hub");
    if (tail == NULL)
        tail = strstr(message, ", and the hub cannot");
    if (strcmp(kind, "words") != 0)
        return lr_fail(err, LR_NOT_FOUND, "%s", message);
    return lr_fail(err, LR_NOT_FOUND, "%s%s", here->text,
                   tail != NULL ? tail
                                : "; no repository of the hub with that name runs here "
                                  "(llm-router search finds more; a repository is written "
                                  "org/name)");
}

/* One name, and at a terminal the one that its suggestions offer. */
static lr_code resolve_name(const struct lr_settings *s, const char *name,
                            const struct lr_error *here, FILE *out, char id[CLI_ID_MAX],
                            struct lr_error *err)
{
    char next[CLI_ID_MAX] = "";
    lr_code code = LR_OK;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        struct cli_answer a;
        bool again = false;
        code = cli_ask_resolve(s, round == 0 ? name : next, &a, err);
        /* Not a hub's refusal, but ours: the key is a client's. */
        if (lr_error_is(err, LR_ERROR_role_needed))
            code = lr_fail(err, LR_NOT_FOUND, "%s", here->text);
        else if (code == LR_OK && lr_json_get(a.json, "registration") != NULL) {
            tell_choice(&a, out);
            code = register_choice(s, &a, id, err);
        } else if (code == LR_OK && strcmp(cli_raw(&a.arena, a.json, "kind"), "model") == 0) {
            lr_str_copy(id, CLI_ID_MAX, lr_str_z(cli_raw(&a.arena, a.json, "id")));
        } else if (code == LR_OK) {
            again = round == 0 && takes_first(&a, next);
            code = again ? LR_OK : fail_unresolved(&a, here, err);
        }
        cli_answer_free(&a);
        if (!again)
            break;
    }
    return code;
}

lr_code cli_resolve(const struct lr_settings *s, const char *name, bool usable, FILE *out,
                    char id[CLI_ID_MAX], struct lr_error *err)
{
    struct lr_error here = {0};
    bool has_near = false;
    lr_code code = cli_find_model(s, name, usable, id, &has_near, &here);
    /* What looks like a repository may be one, however similar to a model's name it is. */
    if (code != LR_NOT_FOUND || (has_near && strchr(name, '/') == NULL))
        return code == LR_OK ? LR_OK : lr_fail(err, here.code, "%s", here.text);
    return resolve_name(s, name, &here, out, id, err);
}

/* The model's id and state, from its name. */
static lr_code resolve_look_up(const struct lr_settings *s, const char *name,
                               char id[CLI_ID_MAX], bool *is_usable, bool *is_loaded,
                               struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v1/models/");
    cli_escape(&path, name);
    lr_code code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &a, err);
    if (code == LR_OK) {
        lr_str_copy(id, CLI_ID_MAX, lr_str_z(cli_raw(&a.arena, a.json, "id")));
        *is_loaded = strcmp(cli_raw(&a.arena, a.json, "state"), "ready") == 0;
        *is_usable = *is_loaded || cli_bool(a.json, "ready");
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    return code;
}

lr_code cli_resolve_ready(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                          struct lr_error *err)
{
    bool is_loaded = false;
    bool is_usable = false;
    lr_code code = cli_resolve(s, name, true, stderr, id, err);
    if (code == LR_OK)
        code = resolve_look_up(s, id, id, &is_usable, &is_loaded, err);
    /* A registration of an operator's: its files may still be on the way. */
    if (code == LR_OK && !is_usable) {
        code = cli_follow(s, id, "", CLI_GOAL_FILES, stderr, err);
        if (code == LR_PERMISSION_DENIED)
            code = LR_OK; /* only operators see how far it is: the request says the rest */
    }
    if (code != LR_OK || is_loaded)
        return code;
    code = cli_load(s, id, "", err);
    if (code == LR_OK)
        return cli_follow(s, id, "", CLI_GOAL_LOADED, stderr, err);
    /* The key of a client cannot ask for it: the request itself loads the model. */
    return code == LR_PERMISSION_DENIED ? LR_OK : code;
}

lr_code cli_first_model(const struct lr_settings *s, char id[CLI_ID_MAX], struct lr_error *err)
{
    struct cli_answer a;
    id[0] = '\0';
    lr_code code = cli_ask(s, "GET", "/v1/models", NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "data") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *m = &list->items[i];
        bool is_ready = strcmp(cli_raw(&a.arena, m, "state"), "ready") == 0;
        if (id[0] == '\0' || is_ready)
            lr_str_copy(id, CLI_ID_MAX, lr_str_z(cli_raw(&a.arena, m, "id")));
        if (is_ready)
            break;
    }
    if (code == LR_OK && id[0] == '\0')
        code = lr_fail(err, LR_NOT_FOUND,
                       "the router has no model that can run: see llm-router models");
    cli_answer_free(&a);
    return code;
}
