/* cli/keys.c - llm-router keys: create, list, change, rotate and revoke keys. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "name", .type = LR_SETTING_STRING, .help = "name of the key"},
    {.name = "owner",
     .type = LR_SETTING_STRING,
     .help = "the person or team that the key belongs to; usage is summed up by owner"},
    {.name = "label", .type = LR_SETTING_STRING, .help = "a note of the operator"},
    {.name = "role",
     .type = LR_SETTING_CHOICE,
     .fallback = "api",
     .choices = "admin|viewer|api|node|metrics",
     .help = "what the key may do"},
    {.name = "expires",
     .type = LR_SETTING_DURATION,
     .fallback = "0",
     .help =
         "how long the key is valid; 0: no limit; default: no limit, but node-key-life of the "
         "router for role node"},
    {.name = "uses",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .max = 1000000,
     .help = "with role node: how many nodes may join with the key; 0: any number"},
    {.name = "requests-per-minute",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "0: no limit"},
    {.name = "tokens-per-minute",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "0: no limit"},
    {.name = "tokens-per-month",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "budget of prompt and completion tokens in a calendar month (UTC); a key that has "
             "used it gets 429; 0: no budget"},
    {.name = "tokens-per-month-soft",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "as many tokens in a month raise an alert; 0: none"},
    {.name = "concurrent-requests",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "requests that may run at the same time; 0: no limit"},
    {.name = "request-bytes",
     .type = LR_SETTING_SIZE,
     .fallback = "0",
     .help = "size of the body of a request; 0: no limit"},
    {.name = "addresses",
     .type = LR_SETTING_LIST,
     .value = "CIDR,...",
     .help = "networks that the key may be used from; \"any\" (the default): every address"},
    {.name = "keep-texts",
     .type = LR_SETTING_CHOICE,
     .fallback = "off",
     .choices = "off|on",
     .help = "on: the router's request log keeps the prompts and answers of this key, in "
             "memory, and admins can read them; turning it off deletes them"},
    {.name = "overlap",
     .type = LR_SETTING_DURATION,
     .fallback = "24h",
     .max = 31536000000,
     .help = "with rotate: how long the old secret is valid; 0: not any more"},
    {.name = "models",
     .type = LR_SETTING_LIST,
     .value = "ID,...",
     .help = "the models that the key may use; \"all\" (the default): every model"},
    {.name = "anyway",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "allow --models to name a model that is not registered yet"},
};

static const struct {
    const char *name, *none; /* the word for no limit */
} lists[] = {{"models", "all"}, {"addresses", "any"}};
enum { LISTS = sizeof(lists) / sizeof(lists[0]) };

/* To the router an empty list is no limit: that must be said by its word, because the variable
 * of a script may be empty. */
static lr_code check_lists(const struct lr_settings *s, struct lr_error *err)
{
    for (size_t i = 0; i < LISTS; i++)
        if (lr_settings_has(s, lists[i].name) && lr_settings_list_count(s, lists[i].name) == 0)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "--%s is empty: name at least one, or \"%s\" for no limit",
                           lists[i].name, lists[i].none);
    return LR_OK;
}

/* A model that is misspelled would leave the key without a right, in silence. */
static lr_code check_models(const struct lr_settings *s, struct lr_error *err)
{
    char id[CLI_ID_MAX];
    lr_code code = LR_OK;
    if (!lr_settings_has(s, "models") || lr_settings_bool(s, "anyway"))
        return LR_OK;
    for (size_t i = 0; code == LR_OK && i < lr_settings_list_count(s, "models"); i++) {
        const char *item = lr_settings_list_item(s, "models", i);
        if (strcmp(item, "all") != 0)
            code = cli_model_id(s, item, id, err);
    }
    if (code != LR_NOT_FOUND)
        return code;
    struct lr_error why = *err;
    return lr_fail(err, LR_NOT_FOUND, "%s; --anyway allows a model that will come later",
                   why.text);
}

/* A list as an array; `none` in it stands for an empty list. */
static void cli_keys_put_list(const struct lr_settings *s, const char *name, const char *none,
                              struct lr_json_writer *w)
{
    if (!lr_settings_has(s, name))
        return;
    lr_json_member_array(w, name);
    for (size_t i = 0; i < lr_settings_list_count(s, name); i++) {
        const char *item = lr_settings_list_item(s, name, i);
        if (strcmp(item, none) != 0)
            lr_json_put_str(w, lr_str_z(item));
    }
    lr_json_end_array(w);
}

/* The given limits, as members of an open object. */
static void put_limits(const struct lr_settings *s, struct lr_json_writer *w)
{
    static const struct {
        const char *flag, *member;
    } limits[] = {{"requests-per-minute", "requests_per_minute"},
                  {"tokens-per-minute", "tokens_per_minute"},
                  {"tokens-per-month", "tokens_per_month"},
                  {"tokens-per-month-soft", "tokens_per_month_soft"},
                  {"concurrent-requests", "concurrent_requests"}};
    static const char *const texts[] = {"name", "owner", "label"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (lr_settings_has(s, texts[i]))
            lr_json_member_z(w, texts[i], lr_settings_str(s, texts[i]));
    if (lr_settings_source(s, "expires") != LR_FROM_DEFAULT)
        lr_json_member_u64(w, "expires_in", (lr_settings_ms(s, "expires") + 999) / 1000);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (lr_settings_source(s, limits[i].flag) != LR_FROM_DEFAULT)
            lr_json_member_i64(w, limits[i].member, lr_settings_int(s, limits[i].flag));
    if (lr_settings_source(s, "request-bytes") != LR_FROM_DEFAULT)
        lr_json_member_u64(w, "request_bytes", lr_settings_size(s, "request-bytes"));
    if (lr_settings_source(s, "keep-texts") != LR_FROM_DEFAULT)
        lr_json_member_bool(w, "keep_texts",
                            strcmp(lr_settings_str(s, "keep-texts"), "on") == 0);
    for (size_t i = 0; i < LISTS; i++)
        cli_keys_put_list(s, lists[i].name, lists[i].none, w);
}

static lr_code cli_keys_create(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    struct lr_json_writer w;
    lr_code code = check_lists(s, err);
    if (code == LR_OK)
        code = check_models(s, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&body, 16 << 10);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "role", lr_settings_str(s, "role"));
    if (lr_settings_source(s, "uses") != LR_FROM_DEFAULT)
        lr_json_member_i64(&w, "uses", lr_settings_int(s, "uses"));
    put_limits(s, &w);
    lr_json_end_object(&w);
    code = cli_ask(s, "POST", "/v0/keys", &body, &a, err);
    lr_buf_clear(&body);
    if (code == LR_OK) {
        lr_buf_addf(&body, "%s\n", cli_text(&a.arena, a.json, "key"));
        code = cli_report(s, &a, &body, err);
    }
    if (code == LR_OK && strcmp(lr_settings_str(s, "role"), "node") == 0 &&
        lr_settings_int(s, "uses") == 0)
        (void)fprintf(
            stderr,
            "Any number of nodes can join with this key (--uses N limits the number)%s.\n",
            cli_int(a.json, "expires") != 0 ? " until it expires" : ", for ever");
    cli_answer_free(&a);
    lr_buf_free(&body);
    return code;
}

static void print_key(struct cli_answer *a, const struct lr_json *k, struct lr_buf *out)
{
    char expires[LR_TIME_TEXT_LEN + 1] = "never";
    const struct lr_json *models = cli_array(k, "models");
    struct lr_str model;
    int64_t end = cli_int(k, "expires"), requests = cli_int(k, "requests_per_minute"),
            tokens = cli_int(k, "tokens_per_minute");
    const char *state = cli_int(k, "revoked") != 0                         ? "revoked"
                        : end != 0 && end * 1000 <= lr_clock_wall_ms(NULL) ? "expired"
                                                                           : "good";
    if (end != 0)
        lr_time_format(end * 1000, expires);
    lr_buf_addf(out, "%-18s %-7s %-8s %-24s %s", cli_text(&a->arena, k, "id"),
                cli_text(&a->arena, k, "role"), state, expires, cli_text(&a->arena, k, "name"));
    if (strcmp(cli_text(&a->arena, k, "role"), "node") == 0) {
        long long uses = (long long)cli_int(k, "uses");
        if (uses == 0)
            lr_buf_add_z(out, "  any number of nodes");
        else
            lr_buf_addf(out, "  %lld of %lld nodes joined", (long long)cli_int(k, "joins"),
                        uses);
    }
    if (requests != 0)
        lr_buf_addf(out, "  %lld requests/min", (long long)requests);
    if (tokens != 0)
        lr_buf_addf(out, "  %lld tokens/min", (long long)tokens);
    if (cli_int(k, "tokens_per_month") != 0)
        lr_buf_addf(out, "  %lld of %lld tokens/month", (long long)cli_int(k, "month_tokens"),
                    (long long)cli_int(k, "tokens_per_month"));
    if (cli_int(k, "concurrent_requests") != 0)
        lr_buf_addf(out, "  %lld at once", (long long)cli_int(k, "concurrent_requests"));
    if (lr_json_get(k, "owner") != NULL)
        lr_buf_addf(out, "  owner %s", cli_text(&a->arena, k, "owner"));
    if (cli_bool(k, "keep_texts"))
        lr_buf_add_z(out, "  prompts and answers are kept");
    for (uint32_t i = 0; models != NULL && i < models->count; i++)
        if (lr_json_str(&models->items[i], &model)) {
            lr_buf_add_z(out, i == 0 ? "  models " : ",");
            cli_put(out, model);
        }
    lr_buf_add_z(out, "\n");
}

/* METHOD /v0/keys/ID[/ACTION]; prints `done` and the id, a new secret, or the key. */
static lr_code ask_of(const struct lr_settings *s, const char *method, const char *name,
                      const char *action, const struct lr_buf *body, const char *done,
                      struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, out;
    char id[CLI_ID_MAX];
    lr_code code = cli_key_id(s, name, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_init(&out, 16 << 10);
    lr_buf_add_z(&path, "/v0/keys/");
    cli_escape(&path, id);
    lr_buf_add_z(&path, action);
    code = cli_ask(s, method, lr_buf_z(&path), body, &a, err);
    if (code == LR_OK && done != NULL)
        lr_buf_addf(&out, "%s %s\n", done, id);
    else if (code == LR_OK && action[0] != '\0')
        lr_buf_addf(&out, "%s\n", cli_text(&a.arena, a.json, "key"));
    else if (code == LR_OK)
        print_key(&a, a.json, &out);
    if (code == LR_OK)
        code = cli_report(s, &a, &out, err);
    cli_answer_free(&a);
    lr_buf_free(&out);
    lr_buf_free(&path);
    return code;
}

static lr_code cli_keys_set(const struct lr_settings *s, const char *id, struct lr_error *err)
{
    struct lr_buf body;
    struct lr_json_writer w;
    lr_code code = check_lists(s, err);
    if (code == LR_OK)
        code = check_models(s, err);
    if (code != LR_OK)
        return code;
    if (lr_settings_source(s, "role") != LR_FROM_DEFAULT)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the role of a key cannot be changed: make a new key");
    lr_buf_init(&body, 16 << 10);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    put_limits(s, &w);
    lr_json_end_object(&w);
    code = body.len == 2 ? lr_fail(err, LR_INVALID_ARGUMENT,
                                   "say what to change: --name, --owner, --label, "
                                   "--expires, --models, --addresses, --keep-texts "
                                   "or a limit")
                         : ask_of(s, "PATCH", id, "", &body, NULL, err);
    lr_buf_free(&body);
    return code;
}

static lr_code cli_keys_rotate(const struct lr_settings *s, const char *id,
                               struct lr_error *err)
{
    struct lr_buf body;
    lr_buf_init(&body, 256);
    lr_buf_addf(&body, "{\"overlap\":%llu}",
                (unsigned long long)(lr_settings_ms(s, "overlap") + 999) / 1000);
    lr_code code = ask_of(s, "POST", id, "/rotate", &body, NULL, err);
    lr_buf_free(&body);
    return code;
}

/* Lists the keys with this id or name; NULL: with the given --name, --owner and --role, or all.
 */
static lr_code list_keys(const struct lr_settings *s, const char *wanted, struct lr_error *err)
{
    static const char *const filters[] = {"name", "owner", "role"};
    struct cli_answer a;
    struct lr_buf out;
    char id[CLI_ID_MAX] = "";
    lr_code code = wanted != NULL ? cli_key_id(s, wanted, id, err) : LR_OK;
    if (code != LR_OK)
        return code;
    code = cli_ask(s, "GET", "/v0/keys", NULL, &a, err);
    lr_buf_init(&out, 4 << 20);
    const struct lr_json *keys = cli_array(a.json, "keys");
    lr_buf_addf(&out, "%-18s %-7s %-8s %-24s %s\n", "KEY", "ROLE", "STATE", "EXPIRES",
                "NAME AND LIMITS");
    for (uint32_t i = 0; code == LR_OK && keys != NULL && i < keys->count; i++) {
        const struct lr_json *k = &keys->items[i];
        bool fits = wanted == NULL || strcmp(cli_raw(&a.arena, k, "id"), id) == 0;
        for (size_t f = 0; wanted == NULL && f < sizeof(filters) / sizeof(filters[0]); f++)
            if (lr_settings_source(s, filters[f]) != LR_FROM_DEFAULT)
                fits &= strcmp(cli_raw(&a.arena, k, filters[f]),
                               lr_settings_str(s, filters[f])) == 0;
        if (fits)
            print_key(&a, k, &out);
    }
    if (code == LR_OK)
        code = cli_report(s, &a, &out, err);
    cli_answer_free(&a);
    lr_buf_free(&out);
    return code;
}

static lr_code cli_keys_run(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const words[] = {"create", "list",   "show", "set",
                                        "rotate", "revoke", NULL};
    size_t count = lr_settings_positional_count(s);
    const char *word = count != 0 ? lr_settings_positional(s, 0) : "list";
    if (count <= 1 && strcmp(word, "list") == 0)
        return list_keys(s, NULL, err);
    if (count == 2 && strcmp(word, "show") == 0)
        return list_keys(s, lr_settings_positional(s, 1), err);
    if (count == 1 && strcmp(word, "create") == 0)
        return cli_keys_create(s, err);
    if (count == 2 && strcmp(word, "set") == 0)
        return cli_keys_set(s, lr_settings_positional(s, 1), err);
    if (count == 2 && strcmp(word, "rotate") == 0)
        return cli_keys_rotate(s, lr_settings_positional(s, 1), err);
    if (count == 2 && strcmp(word, "revoke") == 0)
        return ask_of(s, "DELETE", lr_settings_positional(s, 1), "", NULL, "revoked", err);
    return cli_fail_word(
        word, words, "keys takes: create, list, show KEY, set KEY, rotate KEY or revoke KEY",
        err);
}

const struct cli_command cli_command_keys = {
    .name = "keys",
    .summary = "Create, list, change, rotate and revoke keys",
    .arguments = "[create | list | show KEY | set KEY | rotate KEY | revoke KEY]",
    .details =
        "A new key is printed once; the router keeps only its hash. `set` changes the named\n"
        "properties and leaves the others as they are. `rotate` prints a new secret of the "
        "key;\n"
        "the old one stays valid for --overlap. KEY is the id of a key, or its name.\n"
        "`list` shows the keys with --name, --owner and --role, where these are given.\n"
        "For example: llm-router keys create --name ci --models demo --tokens-per-month "
        "1000000",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 2,
    .run = cli_keys_run,
};
