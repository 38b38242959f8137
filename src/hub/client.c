/* hub/client.c - endpoint and token from the environment, like the Hugging Face tools. */
#include "hub/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* $HF_TOKEN_PATH, $HF_HOME/token, $XDG_CACHE_HOME/huggingface/token, ~/.cache/... */
static bool token_path(char out[LR_PATH_MAX])
{
    const char *base;
    int len;
    if ((base = env("HF_TOKEN_PATH")) != NULL)
        len = snprintf(out, LR_PATH_MAX, "%s", base);
    else if ((base = env("HF_HOME")) != NULL)
        len = snprintf(out, LR_PATH_MAX, "%s/token", base);
    else if ((base = env("XDG_CACHE_HOME")) != NULL)
        len = snprintf(out, LR_PATH_MAX, "%s/huggingface/token", base);
    else if ((base = lr_user_dir()) != NULL)
        len = snprintf(out, LR_PATH_MAX, "%s/.cache/huggingface/token", base);
    else
        return false;
    return len > 0 && len < LR_PATH_MAX;
}

/* The token becomes a header line, so it must not contain control characters. */
static lr_code set_token(struct hub_client *client, struct lr_str text, const char *from,
                         struct lr_error *err)
{
    text = lr_str_trim(text);
    bool fine = text.len < sizeof(client->token);
    for (size_t i = 0; i < text.len && fine; i++)
        fine = text.ptr[i] > ' ' && text.ptr[i] < 0x7F;
    if (!fine)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s holds no token: one word of at most %zu characters is expected",
                       from, sizeof(client->token) - 1);
    memcpy(client->token, text.ptr, text.len);
    client->token[text.len] = '\0';
    return LR_OK;
}

static lr_code find_token(struct hub_client *client, struct lr_error *err)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    char path[LR_PATH_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (env(names[i]) != NULL)
            return set_token(client, lr_str_z(env(names[i])), names[i], err);
    }
    if (!token_path(path) || !lr_file_exists(path))
        return LR_OK;
    struct lr_buf text;
    lr_buf_init(&text, 4096);
    lr_code code = lr_file_read_buf(path, &text, err);
    if (code == LR_OK)
        code = set_token(client, lr_buf_str(&text), path, err);
    lr_buf_free(&text);
    return code;
}

/* As the Hugging Face tools read a variable that is on or off. */
static bool is_on(const char *value)
{
    static const char *const on[] = {"1", "ON", "YES", "TRUE"};
    for (size_t i = 0; value != NULL && i < sizeof(on) / sizeof(on[0]); i++)
        if (lr_str_eq_nocase(lr_str_z(value), lr_str_z(on[i])))
            return true;
    return false;
}

lr_code hub_client_init(struct hub_client *client, const char *const *hosts, size_t host_count,
                        struct lr_error *err)
{
    memset(client, 0, sizeof(*client));
    client->connect_ms = 15000;
    client->stall_ms = 30000;
    client->small_ms = 60000;
    client->user_agent = "llm-router";
    client->ca_file = env("SSL_CERT_FILE");
    client->is_offline = is_on(env("HF_HUB_OFFLINE"));
    lr_code code = hub_policy_init(&client->policy, env("HF_ENDPOINT"), hosts, host_count, err);
    return code == LR_OK ? find_token(client, err) : code;
}

lr_code hub_client_read(struct hub_client *client, const struct lr_settings *settings,
                        struct lr_error *err)
{
    const char *hosts[HUB_HOSTS_MAX + 1]; /* the policy refuses one too many */
    size_t count = lr_settings_list_count(settings, "hub-host");
    if (count > HUB_HOSTS_MAX + 1)
        count = HUB_HOSTS_MAX + 1;
    for (size_t i = 0; i < count; i++)
        hosts[i] = lr_settings_list_item(settings, "hub-host", i);
    return hub_client_init(client, hosts, count, err);
}
