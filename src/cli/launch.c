/* cli/launch.c - llm-router launch: starts a coding agent against this server.
 *
 * The agent gets its variables and nothing else: no file of it is changed.  Where the server
 * asks for keys, a key for this model alone is made, stands in the agent's environment, and is
 * revoked when the agent has ended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/subprocess.h"
#include "cli/commands.h"
#include "cli/resolve.h"
#include "cli/terminal.h"

enum { LAUNCH_ENV = 16, LAUNCH_ARGS = 256, LAUNCH_TEXTS = 256 << 10 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "model",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "the model to use; default: the first that is ready"},
    CLI_CHOICE_FLAGS,
    {.name = "print",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the command and its variables, without a key, and start nothing"},
};

struct agent {
    const char *name;
    const char *install; /* what to type where it is missing */
    /* Tokens of its own instructions and tools; 0: not measured. */
    uint64_t own_tokens;
    const char *env[8]; /* with %u for the address, %m the model, %k the key; NULL at the end */
    const char *args[8]; /* before those of the person */
};

static const struct agent agents[] = {
    {"claude",
     "npm install -g @anthropic-ai/claude-code",
     33000,
     {"ANTHROPIC_BASE_URL=%u", "ANTHROPIC_AUTH_TOKEN=%k", "ANTHROPIC_MODEL=%m",
      "ANTHROPIC_DEFAULT_HAIKU_MODEL=%m", "ANTHROPIC_DEFAULT_SONNET_MODEL=%m",
      "ANTHROPIC_DEFAULT_OPUS_MODEL=%m", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", NULL},
     {"--model", "%m", NULL}},
    {"codex",
     "npm install -g @openai/codex",
     0,
     {"LLM_ROUTER_KEY=%k", NULL},
     {"-m", "%m", "-c", "model_provider=llm-router", "-c",
      "model_providers.llm-router={name=\"llm-router\", base_url=\"%u/v1\", "
      "wire_api=\"responses\", env_key=\"LLM_ROUTER_KEY\"}",
      NULL}},
    {"opencode",
     "npm install -g opencode-ai",
     0,
     {"LLM_ROUTER_KEY=%k",
      "OPENCODE_CONFIG_CONTENT={\"model\":\"llm-router/"
      "%m\",\"provider\":{\"llm-router\":{\"npm\":"
      "\"@ai-sdk/openai-compatible\",\"name\":\"llm-router\",\"options\":{\"baseURL\":\"%u/"
      "v1\","
      "\"apiKey\":\"{env:LLM_ROUTER_KEY}\"},\"models\":{\"%m\":{}}}}}",
      NULL},
     {NULL}},
    {"qwen",
     "npm install -g @qwen-code/qwen-code",
     0,
     {"OPENAI_BASE_URL=%u/v1", "OPENAI_API_KEY=%k", "OPENAI_MODEL=%m", NULL},
     {NULL}},
};

struct launch {
    const struct lr_settings *settings;
    const struct agent *agent;
    char model[CLI_ID_MAX], key[128], key_id[64];
    struct lr_arena texts;
    const char *env[LAUNCH_ENV], *argv[LAUNCH_ARGS];
};

/* A text with %u, %m and %k replaced; hides_key: with a stand-in for the key. */
static const char *launch_fill(struct launch *l, const char *text, bool hides_key)
{
    struct lr_buf out;
    const char *url = cli_router_url(l->settings);
    size_t url_len = strlen(url);
    while (url_len != 0 && url[url_len - 1] == '/')
        url_len--;
    lr_buf_init(&out, LAUNCH_TEXTS);
    for (; *text != '\0'; text++) {
        if (text[0] == '%' && text[1] == 'u')
            lr_buf_add(&out, url, url_len);
        else if (text[0] == '%' && text[1] == 'm')
            lr_buf_add_z(&out, l->model);
        else if (text[0] == '%' && text[1] == 'k')
            lr_buf_add_z(&out, hides_key ? "..." : l->key);
        else {
            lr_buf_add_char(&out, *text);
            continue;
        }
        text++;
    }
    const char *copy = lr_arena_copy(&l->texts, lr_buf_str(&out));
    lr_buf_free(&out);
    return copy != NULL ? copy : "";
}

static void fill_all(struct launch *l, bool hides_key)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; l->agent->env[i] != NULL; i++)
        l->env[k++] = launch_fill(l, l->agent->env[i], hides_key);
    l->env[k] = NULL;
    l->argv[n++] = l->agent->name;
    for (size_t i = 0; l->agent->args[i] != NULL; i++)
        l->argv[n++] = launch_fill(l, l->agent->args[i], hides_key);
    for (size_t i = 1; i < lr_settings_positional_count(l->settings) && n + 1 < LAUNCH_ARGS;
         i++)
        l->argv[n++] = lr_settings_positional(l->settings, i);
    l->argv[n] = NULL;
}

/* The model that --model names, or the first that is ready; its context must hold the agent. */
static lr_code launch_model(struct launch *l, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path;
    lr_code code = LR_OK;
    if (lr_settings_has(l->settings, "model"))
        code = cli_resolve_ready(l->settings, lr_settings_str(l->settings, "model"), l->model,
                                 err);
    else
        code = cli_first_model(l->settings, l->model, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v1/models/");
    cli_escape(&path, l->model);
    code = cli_ask(l->settings, "GET", lr_buf_z(&path), NULL, &a, err);
    uint64_t context = code == LR_OK ? (uint64_t)cli_int(a.json, "context_length") : 0;
    if (code == LR_OK && context != 0 && context <= l->agent->own_tokens)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s has a context of %llu tokens, and the instructions and tools of %s "
                       "take about %llu: choose another model with --model, or raise "
                       "--max-context of the node",
                       l->model, (unsigned long long)context, l->agent->name,
                       (unsigned long long)l->agent->own_tokens);
    cli_answer_free(&a);
    lr_buf_free(&path);
    return code;
}

/* On a server without keys none is made; a client's own key is used as it is. */
static lr_code launch_make_key(struct launch *l, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    lr_code code = cli_ask(l->settings, "GET", "/v0/whoami", NULL, &a, err);
    bool needs_key = code == LR_OK && cli_bool(a.json, "needs_key");
    bool is_admin = code == LR_OK && strcmp(cli_raw(&a.arena, a.json, "role"), "admin") == 0;
    cli_answer_free(&a);
    const char *own = cli_router_key(l->settings);
    (void)snprintf(l->key, sizeof(l->key), "%s", own != NULL ? own : "none");
    if (code != LR_OK || !needs_key || !is_admin)
        return code;
    lr_buf_init(&body, 4096);
    lr_buf_addf(&body, "{\"name\":\"launch %s\",\"role\":\"api\",\"models\":[", l->agent->name);
    lr_json_quote(&body, lr_str_z(l->model));
    lr_buf_add_z(&body, "]}");
    code = cli_ask(l->settings, "POST", "/v0/keys", &body, &a, err);
    if (code == LR_OK) {
        LR_COPY(l->key, lr_str_z(cli_raw(&a.arena, a.json, "key")));
        LR_COPY(l->key_id, lr_str_z(cli_raw(&a.arena, a.json, "id")));
    }
    cli_answer_free(&a);
    lr_buf_free(&body);
    return code;
}

static void revoke_key(const struct launch *l)
{
    struct cli_answer a;
    struct lr_buf path;
    struct lr_error err;
    if (l->key_id[0] == '\0')
        return;
    lr_buf_init(&path, 256);
    lr_buf_add_z(&path, "/v0/keys/");
    cli_escape(&path, l->key_id);
    if (cli_ask(l->settings, "DELETE", lr_buf_z(&path), NULL, &a, &err) != LR_OK)
        cli_tell(stderr, "the key %s could not be revoked: %s; llm-router keys revoke %s\n",
                 l->key_id, err.text, l->key_id);
    cli_answer_free(&a);
    lr_buf_free(&path);
}

static lr_code start_agent(struct launch *l, struct lr_error *err)
{
    struct lr_subprocess child = {0};
    struct lr_error why;
    struct lr_spawn spawn = {.argv = l->argv, .env = l->env, .shares_terminal = true};
    if (lr_subprocess_start(&spawn, &child, &why) != LR_OK)
        return lr_fail(err, LR_NOT_FOUND, "%s is not installed (%s): %s", l->agent->name,
                       why.text, l->agent->install);
    /* Ctrl-C is the agent's; this process stays to revoke its key. */
    (void)signal(SIGINT, SIG_IGN);
    (void)lr_subprocess_wait(&child, -1);
    char how[LR_EXIT_TEXT_LEN];
    int status = child.status;
    lr_subprocess_close(&child);
    return status == 0
               ? LR_OK
               : lr_fail(err, LR_UPSTREAM, "%s %s", l->agent->name, lr_exit_text(status, how));
}

static void print_command(const struct launch *l)
{
    for (size_t i = 0; l->env[i] != NULL; i++)
        cli_tell(stdout, "%s\n", l->env[i]);
    for (size_t i = 0; l->argv[i] != NULL; i++)
        cli_tell(stdout, "%s%s", i != 0 ? " " : "", l->argv[i]);
    cli_tell(stdout, "\n");
}

static lr_code run_launch(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const names[] = {"claude", "codex", "opencode", "qwen", NULL};
    struct launch l = {.settings = s};
    const char *name = lr_settings_positional(s, 0);
    for (size_t i = 0; i < sizeof(agents) / sizeof(agents[0]); i++)
        if (strcmp(name, agents[i].name) == 0)
            l.agent = &agents[i];
    if (l.agent == NULL)
        return cli_fail_word(name, names, "launch takes claude, codex, opencode or qwen", err);
    lr_arena_init(&l.texts, (size_t)LAUNCH_TEXTS * 4);
    bool prints = lr_settings_bool(s, "print");
    lr_code code = launch_model(&l, err);
    if (code == LR_OK && !prints)
        code = launch_make_key(&l, err);
    if (code == LR_OK)
        fill_all(&l, prints);
    if (code == LR_OK && prints)
        print_command(&l);
    else if (code == LR_OK)
        code = start_agent(&l, err);
    revoke_key(&l);
    lr_arena_free(&l.texts);
    return code;
}

const struct cli_command cli_command_launch = {
    .name = "launch",
    .summary = "Start a coding agent against this server",
    .arguments = "claude|codex|opencode|qwen [-- ARGS...]",
    .details =
        "The agent gets its variables for this server and the model; no file of it is "
        "changed.\n"
        "Where the server asks for keys, a key for this model alone is made, and revoked when\n"
        "the agent has ended. What follows -- goes to the agent.\n"
        "  llm-router launch claude --model org/name -- -p 'What does this folder do?'",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 200,
    .run = run_launch,
};
