/* tokenizer/source.h - the files of a model's folder that can describe a tokenizer.
 *
 * Each other form is written as the text of a tokenizer.json, as the Hugging Face converters
 * make it, and then opened like one.  For this folder only.
 */
#ifndef TOKENIZER_SOURCE_H
#define TOKENIZER_SOURCE_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"

/* Writes a tokenizer.json for one or two files' contents; config is tokenizer_config.json, NULL
 * where there is none.  All borrowed for the call. */
typedef lr_code tokenizer_convert(struct lr_str first, struct lr_str second,
                                  const struct lr_json *config, struct lr_buf *out,
                                  struct lr_error *err);
tokenizer_convert tokenizer_from_sentencepiece, tokenizer_from_tekken, tokenizer_from_merges,
    tokenizer_from_words;

/* Appends "key":"text", with a comma before it unless first. */
void tokenizer_write_text(struct lr_buf *out, bool first, const char *key, struct lr_str text);

/* One entry of added_tokens.  An id that is SOURCE_ANY_ID is looked up in the vocabulary. */
void tokenizer_write_added(struct lr_buf *out, bool first, uint32_t id, struct lr_str text,
                           bool special);
#define SOURCE_ANY_ID UINT32_MAX

#endif
