/* tokenizer/reader.h - streaming reader for the two large members of a tokenizer.json.
 *
 * A tree of 200000 vocabulary entries and 446000 merges would cost more than everything else in
 * opening the file.  So they are streamed: strings are converted to token bytes while they are
 * read.  All small members go through base/json.h.  This reader is as strict as that parser.
 * Thread: one at a time.
 */
#ifndef TOKENIZER_READER_H
#define TOKENIZER_READER_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

struct reader {
    const char *at;
    const char *end;
    struct lr_str whole; /* the file, for error positions */
    struct lr_error *err;
    struct lr_buf scratch; /* owned: bytes of the string just read */
};

void tokenizer_reader_init(struct reader *r, struct lr_str whole, struct lr_str part,
                           struct lr_error *err);
void tokenizer_reader_free(struct reader *r);

/* MODEL_CORRUPT with line and column of r->at. */
LR_MUST_USE lr_code tokenizer_reader_fail(const struct reader *r, const char *what);

/* Skips blanks, then takes `c` if it is next. */
bool tokenizer_reader_take(struct reader *r, char c);
LR_MUST_USE lr_code tokenizer_reader_expect(struct reader *r, char c, const char *what);

/* A string into *out, which points into r->scratch and lives until the next one. */
LR_MUST_USE lr_code tokenizer_reader_string(struct reader *r, struct lr_str *out);

/* A string in the alphabet of byte-level BPE into the bytes it stands for.  Where a
 * character is outside that alphabet *is_bytes is false and *out the plain UTF-8. */
LR_MUST_USE lr_code tokenizer_reader_token(struct reader *r, struct lr_str *out,
                                           bool *is_bytes);

/* A whole number without sign, at most 15 digits. */
LR_MUST_USE lr_code tokenizer_reader_number(struct reader *r, uint64_t *out);

/* The text of the next value of any type; only its brackets and quotes are checked, the rest by
 * the code that parses the part. */
LR_MUST_USE lr_code tokenizer_reader_skip(struct reader *r, struct lr_str *out);

/* Checks that only blanks are left. */
LR_MUST_USE lr_code tokenizer_reader_done(struct reader *r);

/* Converts UTF-8 text of the byte alphabet to bytes and appends them; false when a character is
 * not in the alphabet (the bytes before it stay appended). */
bool tokenizer_alphabet_bytes(struct lr_str text, struct lr_buf *out);

/* The opposite: appends a letter for each byte. */
void tokenizer_alphabet_letters(struct lr_str bytes, struct lr_buf *out);

/* A number of any kind as it is written, for lr_json_double. */
LR_MUST_USE lr_code tokenizer_reader_double(struct reader *r, double *out);

#endif
