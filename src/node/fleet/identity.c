/* node/fleet/identity.c - see node/fleet/identity.h. */
#include "node/fleet/identity.h"

#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"

enum {
    ID_LEN = 20,
    SECRET_LEN = 43, /* base62: 256 bits */
};

static lr_code read_identity(struct node_identity *out, const char *path, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text, id, secret;
    const struct lr_json *obj;
    lr_arena_init(&arena, 64 << 10);
    lr_code code = lr_file_read(&arena, path, 16 << 10, &text, err);
    if (code == LR_OK)
        code = lr_json_parse(&arena, text, NULL, &obj, err);
    if (code == LR_OK && (!lr_json_str(lr_json_get(obj, "node_id"), &id) ||
                          !lr_json_str(lr_json_get(obj, "secret"), &secret) ||
                          id.len >= sizeof(out->id) || secret.len >= sizeof(out->secret)))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "node_id or secret is missing");
    if (code == LR_OK) {
        (void)snprintf(out->id, sizeof(out->id), LR_STR_FMT, LR_STR_ARG(id));
        (void)snprintf(out->secret, sizeof(out->secret), LR_STR_FMT, LR_STR_ARG(secret));
    }
    lr_arena_free(&arena);
    return code == LR_OK ? LR_OK
                         : lr_fail_prefix(err, "%s (delete it to join as a new node)", path);
}

static lr_code make_identity(struct node_identity *out, const char *path, struct lr_error *err)
{
    char text[256], letters[SECRET_LEN + 1];
    (void)snprintf(out->id, sizeof(out->id), "node-");
    lr_random_base62(out->id + 5, ID_LEN);
    lr_random_base62(letters, SECRET_LEN);
    (void)snprintf(out->secret, sizeof(out->secret), "ln-%s", letters);
    (void)snprintf(text, sizeof(text), "{\"node_id\":\"%s\",\"secret\":\"%s\"}\n", out->id,
                   out->secret);
    return lr_file_write_atomic(path, lr_str_z(text), 0600, err);
}

lr_code node_identity_open(struct node_identity *out, const char *data_dir,
                           struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = lr_path_join(path, data_dir, LR_STR_LIT("node-identity.json"), err);
    if (code != LR_OK)
        return code;
    return lr_file_exists(path) ? read_identity(out, path, err) : make_identity(out, path, err);
}
