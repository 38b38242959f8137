/* tokenizer/from_words.c - vocab.txt: WordPiece, one token a line, as BERT's converter makes
 * it. */
#include "base/utf8.h"
#include "tokenizer/source.h"

static bool flag(const struct lr_json *config, const char *key, bool otherwise)
{
    (void)lr_json_bool(lr_json_get(config, key), &otherwise);
    return otherwise;
}

static const char *name_of(bool value)
{
    return value ? "true" : "false";
}

/* The token of a role, by tokenizer_config.json or as BERT names it. */
static struct lr_str role(const struct lr_json *config, const char *key, const char *otherwise)
{
    const struct lr_json *value = lr_json_get(config, key);
    struct lr_str text;
    return lr_json_str(value, &text) || lr_json_str(lr_json_get(value, "content"), &text)
               ? text
               : lr_str_z(otherwise);
}

static void write_vocab(struct lr_str text, struct lr_buf *out)
{
    struct lr_str line;
    for (uint32_t id = 0; lr_str_split(&text, '\n', &line); id++) {
        if (line.len != 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0 && text.len == 0)
            break; /* after the last line */
        lr_buf_add_z(out, id == 0 ? "" : ",");
        lr_json_quote(out, line);
        lr_buf_addf(out, ":%u", id);
    }
}

static bool has_line(struct lr_str text, struct lr_str wanted, uint32_t *id)
{
    struct lr_str line;
    for (*id = 0; lr_str_split(&text, '\n', &line); ++*id) {
        if (line.len != 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (lr_str_eq(line, wanted))
            return true;
    }
    return false;
}

lr_code tokenizer_from_words(struct lr_str first, struct lr_str second,
                             const struct lr_json *config, struct lr_buf *out,
                             struct lr_error *err)
{
    static const char *const roles[][2] = {{"unk_token", "[UNK]"},
                                           {"pad_token", "[PAD]"},
                                           {"cls_token", "[CLS]"},
                                           {"sep_token", "[SEP]"},
                                           {"mask_token", "[MASK]"}};
    bool lower = flag(config, "do_lower_case", true), any = false;
    uint32_t id, cls, sep;
    (void)second;
    lr_buf_add_z(out, "{\"added_tokens\":[");
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        struct lr_str name = role(config, roles[i][0], roles[i][1]);
        if (!has_line(first, name, &id))
            continue;
        tokenizer_write_added(out, !any, id, name, true);
        any = true;
    }
    lr_buf_addf(out,
                "],\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                "\"handle_chinese_chars\":%s,\"strip_accents\":%s,\"lowercase\":%s},"
                "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
                "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},",
                name_of(flag(config, "tokenize_chinese_chars", true)),
                name_of(flag(config, "strip_accents", lower)), name_of(lower));
    if (has_line(first, role(config, "cls_token", "[CLS]"), &cls) &&
        has_line(first, role(config, "sep_token", "[SEP]"), &sep))
        lr_buf_addf(out,
                    "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"\",%u],"
                    "\"sep\":[\"\",%u]},",
                    cls, sep);
    lr_buf_add_z(out, "\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\","
                      "\"max_input_chars_per_word\":100");
    tokenizer_write_text(out, false, "unk_token", role(config, "unk_token", "[UNK]"));
    lr_buf_add_z(out, ",\"vocab\":{");
    write_vocab(first, out);
    lr_buf_add_z(out, "}}}");
    return lr_utf8_valid(first) ? LR_OK
                                : lr_fail(err, LR_MODEL_CORRUPT, "vocab.txt is not UTF-8");
}
