#include "model/fingerprint.h"

#include <errno.h>
#include <string.h>

#include "base/sha256.h"
#include "model/map.h"

enum {
    HEAD_BYTES = 64 << 10, /* of a file without a length of its header */
    HEADER_MAX = 1 << 20,  /* of a safetensors header; larger ones are cut */
    SAMPLE_BYTES = 4096,
    SAMPLES_MAX = 64, /* of one file */
    SAMPLES_MIN = 4,
    SAMPLES_ALL = 512, /* of all files, while each has more than the least */
};

/* What renders prompts, and what only describes: a router sends rendered prompts. */
static bool decides_tokens(const char *name)
{
    struct lr_str n = lr_str_z(name);
    return !lr_str_starts(n, "chat_template") && !lr_str_eq_z(n, "tokenizer_config.json") &&
           !lr_str_eq_z(n, "special_tokens_map.json");
}

static void add_u64(struct lr_sha256 *h, uint64_t value)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    lr_sha256_add(h, bytes, sizeof(bytes));
}

struct source {
    int fd;
    const char *path;
    struct lr_sha256 *h;
    struct lr_error *err;
};

static lr_code add_bytes(const struct source *s, uint64_t at, uint64_t len)
{
    unsigned char piece[SAMPLE_BYTES];
    while (len != 0) {
        size_t want = len < sizeof(piece) ? (size_t)len : sizeof(piece);
        ssize_t got = pread(s->fd, piece, want, (off_t)at);
        if (got <= 0)
            return lr_fail(s->err, LR_MODEL_CORRUPT, "%s cannot be read at byte %llu: %s",
                           s->path, (unsigned long long)at,
                           got < 0 ? strerror(errno) : "the file has become shorter");
        lr_sha256_add(s->h, piece, (size_t)got);
        at += (uint64_t)got;
        len -= (uint64_t)got;
    }
    return LR_OK;
}

/* Bytes at the front that are read as a whole: of safetensors the header, which names every
 * tensor with its type, shape and place. */
static uint64_t head_of(const struct source *s, const char *name, uint64_t size)
{
    unsigned char bytes[8];
    uint64_t len = HEAD_BYTES;
    if (lr_str_ends(lr_str_z(name), ".safetensors") &&
        pread(s->fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes)) {
        len = 0;
        for (unsigned i = 0; i < sizeof(bytes); i++)
            len |= (uint64_t)bytes[i] << (8 * i);
        len = len < HEADER_MAX ? len + sizeof(bytes) : HEADER_MAX;
    }
    return len < size ? len : size;
}

/* Pieces at equal distances, the file's last bytes among them; a file that is not larger than
 * its samples is read whole. */
static lr_code add_samples(const struct source *s, uint64_t from, uint64_t size,
                           uint64_t samples)
{
    lr_code code = LR_OK;
    uint64_t left = size - from;
    if (left <= samples * SAMPLE_BYTES)
        return add_bytes(s, from, left);
    uint64_t room = left - SAMPLE_BYTES;
    for (uint64_t i = 0; i < samples && code == LR_OK; i++)
        code = add_bytes(
            s, from + room / (samples - 1) * i + room % (samples - 1) * i / (samples - 1),
            SAMPLE_BYTES);
    return code;
}

static lr_code add_file(struct lr_sha256 *h, const struct model_descriptor *d,
                        const struct model_file *file, uint64_t samples, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = model_path(path, d->model_dir, lr_str_z(file->name), err);
    if (code != LR_OK)
        return code;
    struct source s = {.path = path, .h = h, .err = err};
    struct lr_stat info;
    s.fd = lr_open(path, LR_OPEN_READ, 0);
    if (s.fd < 0)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s cannot be opened: %s", path, strerror(errno));
    uint64_t size = lr_fstat(s.fd, &info) ? info.size : 0;
    lr_sha256_add(h, file->name, strlen(file->name) + 1);
    add_u64(h, size);
    uint64_t head = head_of(&s, file->name, size);
    code = add_bytes(&s, 0, head);
    if (code == LR_OK)
        code = add_samples(&s, head, size, samples);
    (void)close(s.fd);
    return code;
}

/* Of each file: fewer where there are many files, so that the whole takes milliseconds. */
static uint64_t samples_of(const struct model_descriptor *d)
{
    uint64_t files = 1;
    for (size_t i = 0; i < d->file_count; i++)
        files += decides_tokens(d->files[i].name);
    uint64_t samples = SAMPLES_ALL / files;
    return samples > SAMPLES_MAX ? SAMPLES_MAX : samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
}

lr_code model_fingerprint(const struct model_descriptor *d, char out[MODEL_FINGERPRINT_LEN + 1],
                          struct lr_error *err)
{
    struct lr_sha256 h;
    unsigned char digest[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];
    uint64_t samples = samples_of(d);
    lr_code code = LR_OK;
    out[0] = '\0';
    lr_sha256_init(&h);
    for (size_t i = 0; i < d->file_count && code == LR_OK; i++)
        if (decides_tokens(d->files[i].name))
            code = add_file(&h, d, &d->files[i], samples, err);
    if (code != LR_OK)
        return code;
    lr_sha256_end(&h, digest);
    lr_sha256_hex(digest, hex);
    memcpy(out, hex, MODEL_FINGERPRINT_LEN);
    out[MODEL_FINGERPRINT_LEN] = '\0';
    return LR_OK;
}

lr_code model_fingerprint_of(const char *dir, enum model_format format, const char *filename,
                             char out[MODEL_FINGERPRINT_LEN + 1], struct lr_error *err)
{
    struct model_descriptor *d;
    lr_code code = model_descriptor_open(dir, format, filename, &d, err);
    if (code == LR_OK)
        code = model_fingerprint(d, out, err);
    model_descriptor_close(d);
    return code;
}
