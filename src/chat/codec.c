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
