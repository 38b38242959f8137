/* cli/search.c - llm-router search: repositories of the hub by words. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/talk.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS, CLI_JSON_FLAG};

static void print_found(struct cli_answer *a, struct lr_buf *out)
{
    enum { SHOWN = 20 };
    const struct lr_json *list = cli_array(a->json, "repositories");
    if (list == NULL || list->count == 0) {
        lr_buf_add_z(out, "Nothing of that name was found: use fewer words\n");
        return;
    }
    lr_buf_addf(out, "%-56s %10s  %s\n", "REPOSITORY", "DOWNLOADS", "FORMATS");
    for (uint32_t i = 0; i < list->count && i < SHOWN; i++) {
        const struct lr_json *r = &list->items[i];
        bool gguf = cli_bool(r, "gguf"), safetensors = cli_bool(r, "safetensors");
        lr_buf_addf(out, "%-56s %10lld  %s%s%s%s\n", cli_text(&a->arena, r, "repo"),
                    (long long)cli_int(r, "downloads"), safetensors ? "safetensors" : "",
                    safetensors && gguf ? ", " : "", gguf ? "gguf" : "",
                    cli_bool(r, "gated") ? "  gated" : "");
    }
    lr_buf_add_z(out, "llm-router fit REPOSITORY tells whether one runs here, llm-router run "
                      "REPOSITORY runs it\n");
}

static lr_code run_search(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_buf words, path;
    lr_buf_init(&words, 4096);
    lr_buf_init(&path, 16 << 10);
    cli_talk_join(s, 0, &words);
    lr_buf_add_z(&path, "/v0/search?q=");
    cli_escape(&path, lr_buf_z(&words));
    lr_code code = cli_show(s, lr_buf_z(&path), print_found, err);
    lr_buf_free(&words);
    lr_buf_free(&path);
    return code;
}

const struct cli_command cli_command_search = {
    .name = "search",
    .summary = "Search Hugging Face for models",
    .arguments = "WORDS...",
    .details =
        "Asks the hub's public search (HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE of the router\n"
        "hold). A name of Ollama's library works, too: llm-router search qwen3:8b",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 32,
    .run = run_search,
};
