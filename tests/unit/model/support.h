/* tests/unit/model/support.h - snapshots for one test: a temporary folder, files in it,
 * safetensors files from a header and a number of data bytes. */
#ifndef TESTS_UNIT_MODEL_SUPPORT_H
#define TESTS_UNIT_MODEL_SUPPORT_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fail.h"
#include "base/file.h"

static char folder[64]; /* the test's own; made by make_folder, removed by remove_folder */

static inline int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/lr-model-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return lr_dir_remove(folder, NULL) == LR_OK ? 0 : -1;
}

/* folder/name, in one of eight rotating buffers. */
static inline const char *in_folder(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline void write_bytes(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    if (len != 0)
        assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* A whole safetensors file in malloc'ed memory; claimed is the value of the length field. */
static inline unsigned char *safetensors_bytes(const char *header, uint64_t claimed,
                                               size_t data_len, size_t *len)
{
    size_t header_len = strlen(header);
    unsigned char *bytes = malloc(8 + header_len + data_len);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(claimed >> (8 * i));
    memcpy(bytes + 8, header, header_len);
    for (size_t i = 0; i < data_len; i++)
        bytes[8 + header_len + i] = (unsigned char)i;
    *len = 8 + header_len + data_len;
    return bytes;
}

static inline void write_safetensors(const char *name, const char *header, size_t data_len)
{
    size_t len;
    unsigned char *bytes = safetensors_bytes(header, strlen(header), data_len, &len);
    write_bytes(name, bytes, len);
    free(bytes);
}

static inline void copy_file(const char *from, const char *name)
{
    FILE *in = fopen(from, "rb"), *out = fopen(in_folder(name), "wb");
    static char block[1 << 16];
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(block, 1, sizeof(block), in)) != 0;)
        assert_int_equal(fwrite(block, 1, n, out), n);
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
}

static inline void assert_says(const struct lr_error *err, const char *part)
{
    if (strstr(err->text, part) == NULL)
        fail_msg("expected \"%s\" in: %s", part, err->text);
}

#endif
