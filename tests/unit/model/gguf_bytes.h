/* tests/unit/model/gguf_bytes.h - builds valid and invalid GGUF headers for tests. */
#ifndef TESTS_UNIT_MODEL_GGUF_BYTES_H
#define TESTS_UNIT_MODEL_GGUF_BYTES_H

#include <stdint.h>
#include <string.h>

struct gguf_bytes {
    unsigned char data[8192];
    size_t len;
};

static inline void gguf_number(struct gguf_bytes *g, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        g->data[g->len++] = (unsigned char)(value >> (8 * i));
}

static inline void gguf_string(struct gguf_bytes *g, const char *text)
{
    gguf_number(g, strlen(text), 8);
    memcpy(g->data + g->len, text, strlen(text));
    g->len += strlen(text);
}

static inline void gguf_begin(struct gguf_bytes *g, uint32_t version, uint64_t tensors,
                              uint64_t pairs)
{
    g->len = 0;
    memcpy(g->data, "GGUF", 4);
    g->len = 4;
    gguf_number(g, version, 4);
    gguf_number(g, tensors, 8);
    gguf_number(g, pairs, 8);
}

static inline void gguf_put_string(struct gguf_bytes *g, const char *key, const char *value)
{
    gguf_string(g, key);
    gguf_number(g, 8, 4);
    gguf_string(g, value);
}

static inline void gguf_put_u32(struct gguf_bytes *g, const char *key, uint32_t value)
{
    gguf_string(g, key);
    gguf_number(g, 4, 4);
    gguf_number(g, value, 4);
}

/* One F32 vector of n elements. */
static inline void gguf_tensor(struct gguf_bytes *g, const char *name, uint64_t n,
                               uint64_t offset)
{
    gguf_string(g, name);
    gguf_number(g, 1, 4);
    gguf_number(g, n, 8);
    gguf_number(g, 0, 4);
    gguf_number(g, offset, 8);
}

static inline void gguf_pad(struct gguf_bytes *g, size_t alignment, size_t data_bytes)
{
    while (g->len % alignment != 0)
        g->data[g->len++] = 0;
    memset(g->data + g->len, 0, data_bytes);
    g->len += data_bytes;
}

#endif
