#include "router/handover/secret.h"

#include "base/file.h"
#include "base/random.h"

enum { FILE_BYTES = 256 };

void router_handover_secret_read(const char *folder, char out[ROUTER_HANDOVER_SECRET + 1])
{
    char path[LR_PATH_MAX];
    struct lr_buf text;
    out[0] = '\0';
    lr_buf_init(&text, FILE_BYTES);
    if (lr_path_join(path, folder, LR_STR_LIT(ROUTER_HANDOVER_SECRET_NAME), NULL) == LR_OK &&
        lr_file_read_buf(path, &text, NULL) == LR_OK) {
        struct lr_str secret = lr_str_trim(lr_buf_str(&text));
        if (secret.len == ROUTER_HANDOVER_SECRET)
            lr_str_copy(out, ROUTER_HANDOVER_SECRET + 1, secret);
    }
    lr_buf_free(&text);
}

lr_code router_handover_secret_make(const char *folder, char out[ROUTER_HANDOVER_SECRET + 1],
                                    struct lr_error *err)
{
    char path[LR_PATH_MAX];
    router_handover_secret_read(folder, out);
    if (out[0] != '\0')
        return LR_OK;
    lr_random_base62(out, ROUTER_HANDOVER_SECRET);
    lr_code code = lr_path_join(path, folder, LR_STR_LIT(ROUTER_HANDOVER_SECRET_NAME), err);
    return code == LR_OK ? lr_file_write_atomic(path, lr_str_z(out), 0600, err) : code;
}
