/* tokenizer/from_merges.c - vocab.json and merges.txt: byte-level BPE, as the converters of
 * GPT-2 and Qwen 2 make it. */
#include "base/utf8.h"
#include "tokenizer/source.h"

static const char qwen_steps[] =
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'"
    "d)|"
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},";

static void write_merges(struct lr_str text, struct lr_buf *out)
{
    struct lr_str line;
    bool first = true;
    while (lr_str_split(&text, '\n', &line)) {
        if (line.len != 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0 || lr_str_starts(line, "#version"))
            continue;
        lr_buf_add_z(out, first ? "" : ",");
        lr_json_quote(out, line);
        first = false;
    }
}

/* The tokens that tokenizer_config.json gives a role are special. */
static void write_special(const struct lr_json *config, struct lr_buf *out)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                        "cls_token", "sep_token", "mask_token"};
    struct lr_str done[sizeof(roles) / sizeof(roles[0])], text;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        const struct lr_json *value = lr_json_get(config, roles[i]);
        if (!lr_json_str(value, &text) && !lr_json_str(lr_json_get(value, "content"), &text))
            continue;
        bool again = text.len == 0;
        for (size_t k = 0; k < count; k++)
            again = again || lr_str_eq(done[k], text);
        if (again)
            continue;
        tokenizer_write_added(out, count == 0, SOURCE_ANY_ID, text, true);
        done[count++] = text;
    }
    if (config == NULL)
        tokenizer_write_added(out, true, SOURCE_ANY_ID, LR_STR_LIT("<|endoftext|>"), true);
}

lr_code tokenizer_from_merges(struct lr_str first, struct lr_str second,
                              const struct lr_json *config, struct lr_buf *out,
                              struct lr_error *err)
{
    struct lr_str class = LR_STR_LIT("");
    bool prefix = false;
    (void)lr_json_str(lr_json_get(config, "tokenizer_class"), &class);
    (void)lr_json_bool(lr_json_get(config, "add_prefix_space"), &prefix);
    if (!lr_utf8_valid(second))
        return lr_fail(err, LR_MODEL_CORRUPT, "merges.txt is not UTF-8");
    lr_buf_add_z(out, "{\"added_tokens\":[");
    write_special(config, out);
    lr_buf_add_z(out, "],");
    if (lr_str_starts(class, "Qwen2Tokenizer"))
        lr_buf_add_z(out, qwen_steps);
    else
        lr_buf_addf(out,
                    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,"
                    "\"use_regex\":true},",
                    prefix ? "true" : "false");
    lr_buf_add_z(out, "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                      "\"vocab\":");
    lr_buf_add_str(out, first);
    lr_buf_add_z(out, ",\"merges\":[");
    write_merges(second, out);
    lr_buf_add_z(out, "]}}");
    return LR_OK;
}
