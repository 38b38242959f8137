/* cli/debug_fetch.c - `debug manifest` and `debug fetch`: registration and download without a
 * router or a node. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/commands.h"
#include "hub/download.h"
#include "hub/register.h"

enum { MOST_FILES = HUB_MANIFEST_FILES_MAX, PROGRESS_MS = 1000 };

/* ---- debug manifest ---- */

static struct lr_str debug_fetch_setting(const struct lr_settings *s, const char *name)
{
    return lr_str_z(lr_settings_str(s, name));
}

static lr_code print_manifest(const struct hub_registration *registration, struct lr_error *err)
{
    struct lr_buf out;
    lr_buf_init(&out, HUB_MANIFEST_BYTES_MAX);
    hub_manifest_encode(registration->manifest, &out);
    lr_buf_add_char(&out, '\n');
    lr_code code = cli_print(&out, err);
    lr_buf_free(&out);
    return code;
}

static lr_code run_manifest(const struct lr_settings *s, struct lr_error *err)
{
    struct hub_client client;
    struct hub_supported *supported = NULL;
    struct hub_registration registration = {0};
    struct lr_buf list;
    const char *path = lr_settings_str(s, "supported-models");
    struct hub_register_input in = {.client = &client,
                                    .repo = lr_str_z(lr_settings_positional(s, 0)),
                                    .revision = debug_fetch_setting(s, "revision"),
                                    .request = {.filename = debug_fetch_setting(s, "filename"),
                                                .name = debug_fetch_setting(s, "name")}};
    if (lr_settings_has(s, "format") &&
        !hub_format_find(debug_fetch_setting(s, "format"), &in.request.format))
        return lr_fail(err, LR_INVALID_ARGUMENT, "--format is safetensors or gguf");
    lr_buf_init(&list, HUB_SUPPORTED_BYTES_MAX);
    lr_code code = hub_client_read(&client, s, err);
    if (code == LR_OK && path != NULL)
        code = lr_file_read_buf(path, &list, err);
    if (code == LR_OK)
        code = hub_supported_parse(lr_buf_str(&list), &supported, err);
    in.supported = supported;
    if (code == LR_OK)
        code = hub_register(&in, &registration, NULL, err);
    if (code == LR_OK)
        code = print_manifest(&registration, err);
    if (code != LR_OK && err != NULL)
        (void)lr_fail_prefix(err, "%s", lr_code_name(code));
    hub_registration_free(&registration);
    hub_supported_destroy(supported);
    lr_buf_free(&list);
    return code;
}

static const struct lr_setting manifest_flags[] = {
    {.name = "format",
     .type = LR_SETTING_STRING,
     .value = "NAME",
     .help = "safetensors or gguf, if the repository has both"},
    {.name = "revision",
     .type = LR_SETTING_STRING,
     .value = "REV",
     .help = "branch, tag or commit; default: the repository's default branch"},
    {.name = "filename",
     .type = LR_SETTING_STRING,
     .value = "FILE",
     .help = "the index, the weights or the GGUF file, if there are several"},
    {.name = "name",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "id of the model; default: the name of the repository"},
    {.name = "supported-models",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "supported_models.json; default: the built-in list"},
    {.name = "hub-host",
     .type = LR_SETTING_LIST,
     .value = "HOST[:PORT]",
     .help = "also allow downloads from this host, even at a private address"},
};

const struct cli_command cli_debug_manifest = {
    .name = "manifest",
    .summary = "Create the manifest of a Hugging Face repository",
    .arguments = "REPO",
    .details =
        "Lists the repository at HF_ENDPOINT and prints the manifest that a node would use,\n"
        "or the reason why the model cannot be registered. Weights are not downloaded.\n"
        "  llm-router debug manifest openai/gpt-oss-20b",
    .flags = {manifest_flags, sizeof(manifest_flags) / sizeof(manifest_flags[0])},
    .least = 1,
    .most = 1,
    .run = run_manifest,
};

/* ---- debug fetch ---- */

static void debug_fetch_show(struct hub_download *download)
{
    struct hub_progress p;
    char done[32], total[32], rate[32];
    hub_download_progress(download, &p);
    lr_format_size(p.done_bytes, done);
    lr_format_size(p.total_bytes, total);
    lr_format_size(p.rate, rate);
    (void)fprintf(stderr, "%s: %u of %u files, %s of %s, %s/s",
                  hub_download_state_name(p.state), p.files_done, p.file_count, done, total,
                  rate);
    if (p.remaining_ms != UINT64_MAX)
        (void)fprintf(stderr, ", %llu s left", (unsigned long long)(p.remaining_ms / 1000));
    (void)fputc('\n', stderr);
}

/* Prints one JSON object: the state, and the result of every file. */
static lr_code print_result(struct hub_download *download, struct lr_error *err)
{
    struct hub_progress p;
    struct lr_buf out;
    struct lr_json_writer w;
    struct hub_file_progress *files = calloc(MOST_FILES, sizeof(*files));
    if (files == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the result");
    hub_download_progress(download, &p);
    size_t count = hub_download_files(download, files, MOST_FILES);
    lr_buf_init(&out, HUB_MANIFEST_BYTES_MAX);
    lr_json_writer_init(&w, &out);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "state", hub_download_state_name(p.state));
    lr_json_member_u64(&w, "total_bytes", p.total_bytes);
    lr_json_member_u64(&w, "done_bytes", p.done_bytes);
    lr_json_member_array(&w, "files");
    for (size_t i = 0; i < count; i++) {
        lr_json_begin_object(&w);
        lr_json_member_z(&w, "name", files[i].name);
        lr_json_member_z(&w, "state", hub_file_state_name(files[i].state));
        lr_json_member_u64(&w, "done", files[i].done);
        if (files[i].reason[0] != '\0')
            lr_json_member_z(&w, "reason", files[i].reason);
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    lr_buf_add_char(&out, '\n');
    lr_code code = cli_print(&out, err);
    lr_buf_free(&out);
    free(files);
    if (code == LR_OK && p.state != HUB_DOWNLOAD_DONE)
        code = lr_fail(err, p.error.code != LR_OK ? p.error.code : LR_CANCELLED, "%s: %s",
                       lr_code_name(p.error.code), p.error.text);
    return code;
}

/* A list setting as a NULL-terminated array; NULL when it is not set. */
static const char *const *names(const struct lr_settings *s, const char *name,
                                const char *out[HUB_LIST_MAX + 1])
{
    size_t count = lr_settings_list_count(s, name);
    if (!lr_settings_has(s, name))
        return NULL;
    if (count > HUB_LIST_MAX)
        count = HUB_LIST_MAX;
    for (size_t i = 0; i < count; i++)
        out[i] = lr_settings_list_item(s, name, i);
    out[count] = NULL;
    return out;
}

static lr_code fetch(const struct lr_settings *s, const struct hub_manifest *manifest,
                     const char *dir, struct lr_error *err)
{
    struct hub_client client;
    struct hub_downloads *downloads = NULL;
    struct hub_download *download = NULL;
    const char *runtimes[HUB_LIST_MAX + 1], *backends[HUB_LIST_MAX + 1];
    struct hub_filter filter = {.runtimes = names(s, "runtimes", runtimes),
                                .backends = names(s, "backends", backends)};
    struct hub_downloads_options options = {
        .connections = (uint32_t)lr_settings_int(s, "connections"),
        .attempts = (uint32_t)lr_settings_int(s, "attempts"),
        .backoff_ms = (uint32_t)lr_settings_ms(s, "backoff"),
        .disk_reserve = lr_settings_size(s, "disk-reserve")};
    lr_code code = hub_client_read(&client, s, err);
    client.stall_ms = (uint32_t)lr_settings_ms(s, "stall");
    if (code == LR_OK)
        code = hub_downloads_create(&client, &options, &downloads, err);
    if (code == LR_OK)
        code =
            hub_download_start(downloads, manifest, dir, &filter, NULL, NULL, &download, err);
    if (code == LR_OK) {
        while (!hub_download_wait(download, PROGRESS_MS))
            debug_fetch_show(download);
        code = print_result(download, err);
    }
    hub_download_release(download, NULL, NULL);
    hub_downloads_destroy(downloads);
    return code;
}

static lr_code run_fetch(const struct lr_settings *s, struct lr_error *err)
{
    const char *path = lr_settings_str(s, "manifest"), *dir = lr_settings_str(s, "output");
    struct hub_manifest *manifest = NULL;
    struct lr_buf text;
    if (path == NULL || dir == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "--manifest FILE and --output DIR are needed");
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    lr_code code = lr_file_read_buf(path, &text, err);
    if (code == LR_OK)
        code = hub_manifest_decode(lr_buf_str(&text), &manifest, err);
    lr_buf_free(&text);
    if (code == LR_OK)
        code = fetch(s, manifest, dir, err);
    hub_manifest_destroy(manifest);
    return code;
}

static const struct lr_setting fetch_flags[] = {
    {.name = "manifest",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "manifest, as printed by `debug manifest` or the router"},
    {.name = "output",
     .type = LR_SETTING_PATH,
     .value = "DIR",
     .help = "folder for the downloaded snapshot"},
    {.name = "runtimes", .type = LR_SETTING_LIST, .help = "engines of the node; default: all"},
    {.name = "backends",
     .type = LR_SETTING_LIST,
     .help = "backends of the node, for artifacts; default: all"},
    {.name = "connections",
     .type = LR_SETTING_INT,
     .fallback = "4",
     .min = 1,
     .max = 64,
     .help = "files that are downloaded at the same time"},
    {.name = "attempts",
     .type = LR_SETTING_INT,
     .fallback = "8",
     .min = 1,
     .max = 1000,
     .help = "attempts in a row without progress before a file fails"},
    {.name = "backoff",
     .type = LR_SETTING_DURATION,
     .fallback = "500ms",
     .min = 1,
     .max = 3600000,
     .help = "wait before the second attempt; doubled for each further attempt"},
    {.name = "stall",
     .type = LR_SETTING_DURATION,
     .fallback = "30s",
     .min = 1000,
     .max = 3600000,
     .help = "close a connection on which no byte arrived for this long"},
    {.name = "disk-reserve",
     .type = LR_SETTING_SIZE,
     .fallback = "256MiB",
     .help = "disk space to leave free"},
    {.name = "hub-host",
     .type = LR_SETTING_LIST,
     .value = "HOST[:PORT]",
     .help = "also allow downloads from this host, even at a private address"},
};

const struct cli_command cli_debug_fetch = {
    .name = "fetch",
    .summary = "Download the files of a manifest, as a node does",
    .details =
        "Resumes an earlier run and verifies every file. Prints one JSON object at the end,\n"
        "and progress on standard error.\n"
        "  llm-router debug fetch --manifest manifest.json --output snapshot",
    .flags = {fetch_flags, sizeof(fetch_flags) / sizeof(fetch_flags[0])},
    .run = run_fetch,
};
