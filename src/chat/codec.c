/* chat/codec.c - see chat/codec.h. */
#include "chat/codec.h"

static const struct {
    const char *path;
    const struct chat_codec *codec;
} table[] = {
#define X(path, codec) {path, &codec},
    CHAT_CODECS(X)
#undef X
};

size_t chat_codec_count(void)
{
    return sizeof(table) / sizeof(table[0]);
}

const struct chat_codec *chat_codec_at(size_t index)
{
    return table[index].codec;
}

bool chat_model_plain(struct lr_str name, struct lr_str *out)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    static const char tag[] = ":latest";
    *out = name;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (lr_str_starts(*out, hosts[i]))
            *out = lr_str_sub(*out, strlen(hosts[i]), out->len);
    if (lr_str_ends(*out, tag))
        *out = lr_str_sub(*out, 0, out->len - strlen(tag));
    return out->len != 0 && out->len != name.len;
}

const struct chat_codec *chat_codec_of(struct lr_str path)
{
    for (size_t i = 0; i < chat_codec_count(); i++)
        if (lr_str_starts(path, "/") &&
            lr_str_eq_z(lr_str_sub(path, 1, path.len), table[i].path))
            return table[i].codec;
    return NULL;
}

/* "/v1/messages/count_tokens" */
static bool is_count_of(struct lr_str path, const char *api, const char *count)
{
    size_t below = 1 + strlen(api) + 1;
    return count != NULL && path.len > below && path.ptr[below - 1] == '/' &&
           lr_str_eq_z(lr_str_sub(path, 1, below - 1), api) &&
           lr_str_eq_z(lr_str_sub(path, below, path.len), count);
}

const struct chat_codec *chat_codec_near(struct lr_str path)
{
    const struct chat_codec *codec = chat_codec_of(path);
    for (size_t i = 0; codec == NULL && i < chat_codec_count(); i++) {
        const struct chat_codec *c = table[i].codec;
        if (is_count_of(path, table[i].path, c->count_path) ||
            (c->beside != NULL && lr_str_starts(path, c->beside)))
            codec = c;
    }
    return codec;
}
