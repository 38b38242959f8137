#include "cli/synonyms.h"

#include <string.h>

/* ---- commands ---- */

/* `typed` has one or two words; they become the words of `ours`. */
static const struct {
    const char *typed[2];
    const char *ours[3];
} synonyms[] = {
    {{"ls"}, {"list"}},
    {{"rm"}, {"models", "rm"}},
    {{"remove"}, {"models", "rm"}},
    {{"delete"}, {"models", "rm"}},
    {{"load"}, {"models", "load"}},
    {{"unload"}, {"models", "unload"}},
    {{"pin"}, {"models", "pin"}},
    {{"unpin"}, {"models", "unpin"}},
    {{"cp"}, {"models", "alias"}},
    {{"copy"}, {"models", "alias"}},
    {{"info"}, {"show"}},
    {{"inspect"}, {"show"}},
    {{"get"}, {"pull"}},
    {{"download"}, {"pull"}},
    {{"install"}, {"pull"}},
    {{"start"}, {"up"}},
    {{"server", "start"}, {"up"}},
    {{"server", "status"}, {"status"}},
    {{"server", "stop"}, {"help", "up"}},
    {{"log", "stream"}, {"logs", "-f"}},
    {{"find"}, {"search"}},
    {{"complete"}, {"run"}},
    {{"generate"}, {"run"}},
    {{"-v"}, {"version"}},
};

static const struct {
    const char *typed, *sentence;
} refused[] = {
    {"push", "models are not uploaded from here: the hub's own tools do (hf upload)"},
    {"quantize",
     "models are not converted here: llm-router search finds repositories with GGUF "
     "or quantized weights"},
    {"convert", "models are not converted here: llm-router search finds repositories with GGUF "
                "or quantized weights"},
    {"import", "a model's folder is used where it lies: llm-router up --model FOLDER, or "
               "llm-router register NAME --path"},
    {"login", "a token of the hub is in HF_TOKEN, or in the file that HF_TOKEN_PATH names, of "
              "router and nodes; keys of this server: llm-router keys create"},
    {"signin", "a token of the hub is in HF_TOKEN, or in the file that HF_TOKEN_PATH names, of "
               "router and nodes; keys of this server: llm-router keys create"},
    {"daemon", "the package has services (systemctl start llm-router-up); without it: "
               "llm-router up"},
    {"llama-server", "type llm-router up --model FILE.gguf"},
    {"openai", "the APIs are there once llm-router up runs: llm-router help up"},
    {"runtime", "engines are the runtimes here: llm-router engines"},
    {"embed", "vectors come from POST /v1/embeddings; a model that gives them is loaded like "
              "any other: llm-router pull MODEL"},
    {"tokenize", "type llm-router debug tokenize"},
    {"top-models", "type llm-router usage"},
};

static bool synonym_matches(size_t row, int argc, const char *const *argv)
{
    const char *second = synonyms[row].typed[1];
    return strcmp(argv[0], synonyms[row].typed[0]) == 0 &&
           (second == NULL || (argc > 1 && strcmp(argv[1], second) == 0));
}

/* vllm serve MODEL, llama-server -m MODEL: a server with this model. */
static int serve(int argc, const char *const *argv, const char *out[CLI_SYNONYM_ARGS])
{
    int n = 0, at = 1;
    out[n++] = "up";
    if (argc > 1 && argv[1][0] != '-') {
        out[n++] = "--model";
        out[n++] = argv[1];
        at = 2;
    }
    for (; at < argc && n + 1 < CLI_SYNONYM_ARGS; at++)
        out[n++] = argv[at];
    out[n] = NULL;
    return n;
}

lr_code cli_synonym(int argc, const char *const *argv, const char *out[CLI_SYNONYM_ARGS],
                    int *count, struct lr_error *err)
{
    *count = 0;
    if (argc == 0 || argc + 4 > CLI_SYNONYM_ARGS)
        return LR_OK;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strcmp(argv[0], refused[i].typed) == 0)
            return lr_fail(err, LR_INVALID_ARGUMENT, "there is no \"llm-router %s\": %s",
                           refused[i].typed, refused[i].sentence);
    if (strcmp(argv[0], "serve") == 0) {
        *count = serve(argc, argv, out);
        return LR_OK;
    }
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++) {
        if (!synonym_matches(i, argc, argv))
            continue;
        int n = 0;
        for (size_t k = 0; k < 3 && synonyms[i].ours[k] != NULL; k++)
            out[n++] = synonyms[i].ours[k];
        for (int k = synonyms[i].typed[1] != NULL ? 2 : 1; k < argc; k++)
            out[n++] = argv[k];
        out[n] = NULL;
        *count = n;
        break;
    }
    return LR_OK;
}

/* ---- flags ---- */

static const struct {
    const char *typed, *ours;
} foreign[] = {
    {"--port", "--listen 127.0.0.1:PORT of llm-router up, or --url URL to talk to a server"},
    {"-p",
     "--listen 127.0.0.1:PORT of llm-router up; a prompt follows the model: llm-router run "
     "MODEL PROMPT"},
    {"--host", "--listen ADDRESS:PORT of llm-router router; --url URL to talk to a server"},
    {"--ctx-size", "--max-context TOKENS of llm-router up and llm-router node"},
    {"-c", "--max-context TOKENS of llm-router up and llm-router node"},
    {"--context-length", "--max-context TOKENS of llm-router up and llm-router node"},
    {"--num-ctx", "--max-context TOKENS of llm-router up and llm-router node"},
    {"--max-model-len", "--max-context TOKENS of llm-router up and llm-router node"},
    {"--max-num-seqs", "--max-sequences N of llm-router up and llm-router node"},
    {"--parallel", "--max-sequences N of llm-router up and llm-router node"},
    {"-np", "--max-sequences N of llm-router up and llm-router node"},
    {"--served-model-name", "llm-router models alias MODEL NAME, or --alias NAME of llm-router "
                            "register"},
    {"--alias", "llm-router models alias MODEL NAME"},
    {"-a", "llm-router models alias MODEL NAME"},
    {"--identifier", "llm-router models alias MODEL NAME"},
    {"--tensor-parallel-size", "none: a model lies on one GPU as a whole, and --replicas puts "
                               "copies on several (llm-router node)"},
    {"-tp", "none: a model lies on one GPU as a whole, and --replicas puts copies on several "
            "(llm-router node)"},
    {"--pipeline-parallel-size", "none: a model lies on one GPU as a whole"},
    {"--data-parallel-size", "--replicas N of llm-router up and llm-router node"},
    {"--gpu-memory-utilization", "--vram-limit SIZE of llm-router up and llm-router node"},
    {"--n-gpu-layers",
     "none: a model lies on a GPU as a whole; --device cuda, vulkan or cpu of "
     "llm-router up chooses"},
    {"-ngl",
     "none: a model lies on a GPU as a whole; --device cuda, vulkan or cpu of llm-router "
     "up chooses"},
    {"--gpu", "--device cuda, vulkan or cpu of llm-router up"},
    {"--reasoning-parser", "none: the model's chat template shows how it reasons "
                           "(docs/dialects.md)"},
    {"--tool-call-parser", "none: the model's chat template shows how it calls tools "
                           "(docs/dialects.md)"},
    {"--enable-auto-tool-choice", "none: tools work without a flag"},
    {"--enable-prefix-caching", "none: prefixes are always cached"},
    {"--enable-chunked-prefill", "none: prompts are always computed in chunks; --prefill-chunk "
                                 "sets their size"},
    {"--flash-attn", "none: the engine chooses"},
    {"-fa", "none: the engine chooses"},
    {"--jinja", "none: chat templates are always rendered"},
    {"--chat-template-file", "--chat-template FILE of llm-router register"},
    {"--api-key",
     "--key KEY, or LLM_ROUTER_KEY; a server asks for keys with --require-key, and "
     "llm-router keys create makes one"},
    {"--hf-repo", "the repository itself: llm-router run org/name:Q4_K_M"},
    {"-hf", "the repository itself: llm-router run org/name:Q4_K_M"},
    {"--hf-file", "--filename FILE"},
    {"--hf-token",
     "HF_TOKEN in the environment, or a file that HF_TOKEN_PATH names: a token is "
     "no argument, since every user of the machine reads those"},
    {"--quantization", "the name: llm-router run org/name:Q4_K_M"},
    {"-q", "the name: llm-router run org/name:Q4_K_M"},
    {"--dtype", "none: weights are computed as they are stored"},
    {"--trust-remote-code", "none: code of a repository never runs here"},
    {"--download-dir", "--models-dir FOLDER of llm-router up and llm-router node"},
    {"--threads-batch", "--engine-threads of llm-router up and llm-router node"},
    {"-t", "--engine-threads of llm-router up and llm-router node"},
    {"-m", "--model NAME"},
    {"-n", "--max-tokens N"},
    {"--n-predict", "--max-tokens N"},
    {"--num-predict", "--max-tokens N"},
    {"--temp", "--temperature X"},
    {"--ttl", "none: a model stays loaded until its memory is needed; llm-router stop MODEL "
              "unloads it"},
    {"--keepalive", "none: a model stays loaded until its memory is needed; llm-router models "
                    "pin MODEL keeps it"},
    {"--insecure", "--tls-ca FILE names the authority of a server's certificate"},
    {"--nowordwrap", "none: answers are printed as they come"},
    {"--hidethinking", "none: reasoning is printed with --reasoning alone"},
};

lr_code cli_foreign_flags(const struct lr_settings *s, int argc, const char *const *argv,
                          struct lr_error *err)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        struct lr_str flag = lr_str_z(argv[i]), name;
        if (!lr_str_starts(flag, "-"))
            continue;
        size_t equals = lr_str_find_char(flag, '=');
        flag = equals != LR_STR_NONE ? lr_str_sub(flag, 0, equals) : flag;
        name = lr_str_starts(flag, "--") ? lr_str_sub(flag, 2, flag.len) : lr_str(NULL, 0);
        if (name.len != 0 && lr_settings_knows(s, name))
            continue;
        for (size_t k = 0; k < sizeof(foreign) / sizeof(foreign[0]); k++)
            if (lr_str_eq_z(flag, foreign[k].typed))
                return lr_fail(err, LR_INVALID_ARGUMENT, "%s is of another server; here: %s",
                               foreign[k].typed, foreign[k].ours);
    }
    return LR_OK;
}
