#include "plugin/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "llm-router/engine.h"

/* Errors of all fields are collected into one message, so that an author can fix them
 * together. */
struct reading {
    struct plugin_manifest *out;
    const struct lr_json *root;
    struct lr_buf problems;
};

static void complain(struct reading *r, const char *field, const char *what)
{
    if (r->problems.len != 0)
        lr_buf_add_z(&r->problems, "; ");
    lr_buf_addf(&r->problems, "\"%s\" %s", field, what);
}

/* A string that can become part of a log line, a path and a metric label. */
static bool plugin_manifest_is_plain(struct lr_str s)
{
    if (s.len == 0 || s.len > PLUGIN_MANIFEST_TEXT)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < 0x20 || s.ptr[i] == 0x7f)
            return false;
    return true;
}

static const char *read_string(struct reading *r, const char *field, bool required)
{
    const struct lr_json *value = lr_json_get(r->root, field);
    struct lr_str text;

    if (value == NULL) {
        if (required)
            complain(r, field, "is missing");
        return NULL;
    }
    if (!lr_json_str(value, &text) || !plugin_manifest_is_plain(text)) {
        complain(r, field, "must be a string of 1 to 256 printable characters");
        return NULL;
    }
    return lr_arena_copy(&r->out->arena, text);
}

static const char *const *plugin_manifest_read_list(struct reading *r, const char *field)
{
    static const char rule[] = "must be a list of 1 to 256 printable strings";
    const struct lr_json *value = lr_json_get(r->root, field);

    if (value == NULL) {
        complain(r, field, "is missing");
        return NULL;
    }
    if (value->type != LR_JSON_ARRAY || value->count == 0 ||
        value->count > PLUGIN_MANIFEST_ITEMS) {
        complain(r, field, rule);
        return NULL;
    }
    const char **list = lr_arena_array(&r->out->arena, value->count + 1, sizeof(*list));
    if (list == NULL)
        return NULL;
    for (uint32_t i = 0; i < value->count; i++) {
        struct lr_str text;
        if (!lr_json_str(&value->items[i], &text) || !plugin_manifest_is_plain(text)) {
            complain(r, field, rule);
            return NULL;
        }
        list[i] = lr_arena_copy(&r->out->arena, text);
    }
    list[value->count] = NULL;
    return list;
}

static void read_id(struct reading *r)
{
    const char *id = read_string(r, "engine_id", true);
    if (id == NULL)
        return;
    size_t ok = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (id[ok] != '\0' || ok > 64)
        complain(r, "engine_id", "may hold only a-z, 0-9, _ and -, at most 64 of them");
    r->out->engine_id = id;
}

static void read_abi(struct reading *r)
{
    const struct lr_json *value = lr_json_get(r->root, "abi_version");
    uint64_t number;

    if (value == NULL)
        complain(r, "abi_version", "is missing");
    else if (!lr_json_u64(value, &number) || number == 0 || number > UINT32_MAX)
        complain(r, "abi_version", "must be a whole number from 1 on");
    else
        r->out->abi_version = (uint32_t)number;
}

static void read_priority(struct reading *r)
{
    const struct lr_json *value = lr_json_get(r->root, "priority");
    int64_t number = 0;

    if (value != NULL && (!lr_json_i64(value, &number) || number < -PLUGIN_MANIFEST_PRIORITY ||
                          number > PLUGIN_MANIFEST_PRIORITY))
        complain(r, "priority", "must be a whole number from -1000 to 1000");
    else
        r->out->priority = (int32_t)number;
}

static void read_library(struct reading *r)
{
    const char *name = read_string(r, "library", true);
    if (name != NULL && (strchr(name, '/') != NULL || strchr(name, '\\') != NULL ||
                         strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
        complain(r, "library", "must name a file in the manifest's own folder");
    r->out->library = name;
}

static void read_sha256(struct reading *r)
{
    const char *hash = read_string(r, "library_sha256", false);
    if (hash != NULL && (strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64))
        complain(r, "library_sha256", "must be 64 lower-case hex digits");
    r->out->library_sha256 = hash;
}

lr_code plugin_manifest_parse(struct plugin_manifest *out, struct lr_str text,
                              struct lr_error *err)
{
    struct lr_json_limits limits = {.max_depth = 8, .max_bytes = PLUGIN_MANIFEST_BYTES};
    struct lr_arena tree;
    struct reading r = {.out = out};

    *out = (struct plugin_manifest){0};
    /* Far more than the JSON tree of the largest manifest and its copied strings need. */
    lr_arena_init(&out->arena, 4 * (size_t)PLUGIN_MANIFEST_BYTES);
    lr_arena_init(&tree, 64 * (size_t)PLUGIN_MANIFEST_BYTES);
    lr_buf_init(&r.problems, 16 << 10);

    lr_code code = lr_json_parse(&tree, text, &limits, &r.root, err);
    if (code == LR_OK && r.root->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "must be a JSON object");
    if (code == LR_OK) {
        read_id(&r);
        out->engine_version = read_string(&r, "engine_version", true);
        read_abi(&r);
        read_priority(&r);
        out->runtimes = plugin_manifest_read_list(&r, "runtimes");
        out->formats = plugin_manifest_read_list(&r, "formats");
        out->architectures = plugin_manifest_read_list(&r, "architectures");
        out->backends = plugin_manifest_read_list(&r, "backends");
        if (lr_json_get(r.root, "trial_backends") != NULL)
            out->trial_backends = plugin_manifest_read_list(&r, "trial_backends");
        read_library(&r);
        out->license = read_string(&r, "license", true);
        read_sha256(&r);
        if (r.problems.len != 0)
            code = lr_fail(err, LR_INVALID_ARGUMENT, "%s", lr_buf_z(&r.problems));
    }
    lr_buf_free(&r.problems);
    lr_arena_free(&tree);
    if (code != LR_OK)
        plugin_manifest_free(out);
    return code;
}

bool plugin_manifest_computes_on(const struct plugin_manifest *manifest, const char *backend,
                                 bool is_named)
{
    return plugin_list_has(manifest->backends, backend) ||
           (is_named && plugin_list_has(manifest->trial_backends, backend));
}

static lr_code plugin_manifest_read_text(struct lr_buf *buf, const char *path,
                                         struct lr_error *err)
{
    int fd = lr_open(path, LR_OPEN_READ | LR_OPEN_NO_WAIT, 0);
    if (fd < 0)
        return lr_fail_errno(err, errno == ENOENT ? LR_NOT_FOUND : LR_IO, "%s", path);
    char *room = lr_buf_reserve(buf, PLUGIN_MANIFEST_BYTES + 1);
    ssize_t got = room != NULL ? read(fd, room, PLUGIN_MANIFEST_BYTES + 1) : -1;
    lr_code code = LR_OK;
    if (got < 0)
        code = lr_fail_errno(err, LR_IO, "%s", path);
    else if (got > PLUGIN_MANIFEST_BYTES)
        code =
            lr_fail(err, LR_TOO_LARGE, "%s: larger than %d bytes", path, PLUGIN_MANIFEST_BYTES);
    else
        lr_buf_commit(buf, (size_t)got);
    (void)close(fd);
    return code;
}

/* A user who may write a parent folder can replace the engine. */
static lr_code check_parents(const char *folder, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = LR_OK;
    (void)snprintf(path, sizeof(path), "%s", folder);
    for (char *slash; code == LR_OK && (slash = strrchr(path, '/')) != NULL;) {
        bool is_root = slash == path;
        slash[is_root ? 1 : 0] = '\0';
        code = lr_file_check_owner(path, true, err);
        if (is_root)
            break;
    }
    return code == LR_OK ? LR_OK : lr_fail_prefix(err, "a folder above the engine");
}

static lr_code check_file(const char *folder, const char *name, char real[LR_PATH_MAX],
                          struct lr_error *err)
{
    char wanted[LR_PATH_MAX];
    struct lr_stat info;

    int n = snprintf(wanted, sizeof(wanted), "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof(wanted))
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s: the path is too long", folder);
    if (lr_realpath(wanted, real) == NULL)
        return lr_fail_errno(err, LR_NOT_FOUND, "library %s", wanted);
    size_t folder_len = strlen(folder);
    if (strncmp(real, folder, folder_len) != 0 || real[folder_len] != '/')
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "library %s is really %s, outside its engine folder", wanted, real);
    if (!lr_stat(real, &info))
        return lr_fail_errno(err, LR_IO, "%s", real);
    if (info.kind != LR_KIND_FILE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "library %s is not a regular file", real);
    return lr_file_check_owner(real, false, err);
}

lr_code plugin_manifest_check_file(const struct plugin_manifest *manifest, const char *name,
                                   struct lr_error *err)
{
    char real[LR_PATH_MAX];
    return check_file(manifest->folder, name, real, err);
}

static lr_code check_library(struct plugin_manifest *m, struct lr_error *err)
{
    char real[LR_PATH_MAX];

    lr_code code = lr_file_check_owner(m->folder, false, err);
    if (code == LR_OK)
        code = check_parents(m->folder, err);
    if (code == LR_OK)
        code = check_file(m->folder, m->library, real, err);
    if (code != LR_OK)
        return code;
    m->library_path = lr_arena_copy(&m->arena, lr_str_z(real));
    return m->library_path != NULL ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory");
}

lr_code plugin_manifest_read(struct plugin_manifest *out, const char *folder,
                             struct lr_error *err)
{
    char real[LR_PATH_MAX];
    char path[LR_PATH_MAX + sizeof("/manifest.json")];
    struct lr_buf text;

    *out = (struct plugin_manifest){0};
    if (lr_realpath(folder, real) == NULL)
        return lr_fail_errno(err, LR_NOT_FOUND, "%s", folder);
    (void)snprintf(path, sizeof(path), "%s/manifest.json", real);

    lr_buf_init(&text, PLUGIN_MANIFEST_BYTES + 2);
    lr_code code = plugin_manifest_read_text(&text, path, err);
    if (code == LR_OK) {
        code = plugin_manifest_parse(out, lr_buf_str(&text), err);
        if (code != LR_OK)
            (void)lr_fail_prefix(err, "%s", path);
    }
    lr_buf_free(&text);
    if (code == LR_OK) {
        out->folder = lr_arena_copy(&out->arena, lr_str_z(real));
        code = out->folder != NULL ? check_library(out, err)
                                   : lr_fail(err, LR_OUT_OF_RAM, "no memory");
    }
    if (code != LR_OK)
        plugin_manifest_free(out);
    return code;
}

lr_code plugin_manifest_check_abi(const struct plugin_manifest *manifest, struct lr_error *err)
{
    if (manifest->abi_version == LR_ENGINE_ABI)
        return LR_OK;
    return lr_fail(err, LR_ABI_MISMATCH,
                   "engine \"%s\" %s is built for engine ABI %u, this program for %u: install "
                   "the build of the engine that belongs to this version",
                   manifest->engine_id, manifest->engine_version, manifest->abi_version,
                   LR_ENGINE_ABI);
}

bool plugin_list_has(const char *const *list, const char *item)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, item) == 0)
            return true;
    return false;
}

void plugin_manifest_free(struct plugin_manifest *manifest)
{
    lr_arena_free(&manifest->arena);
    *manifest = (struct plugin_manifest){0};
}

void plugin_engines_dir(const char *set, char out[LR_PATH_MAX])
{
    char self[LR_PATH_MAX];
    (void)snprintf(out, LR_PATH_MAX, "%s", set != NULL ? set : "engines");
    if (set != NULL || lr_self_path(self, sizeof(self), NULL) != LR_OK)
        return;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(self, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    (void)snprintf(out, LR_PATH_MAX, "%.4000s/engines", self);
    if (!lr_dir_exists(out))
        (void)snprintf(out, LR_PATH_MAX, "%.4000s/lib/llm-router/engines", self);
}
