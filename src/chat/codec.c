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

const struct chat_codec *chat_codec_of(struct lr_str path)
{
    for (size_t i = 0; i < chat_codec_count(); i++)
        if (lr_str_starts(path, "/") &&
            lr_str_eq_z(lr_str_sub(path, 1, path.len), table[i].path))
            return table[i].codec;
    return NULL;
}
