/* cli/debug_write_gguf.c - `debug write-gguf`: a GGUF model with random weights.
 *
 * For tests and benchmarks of engines that read GGUF, so that no test downloads a model:
 * byte-level BPE with merges over lower-case letters, ChatML control
 * tokens and template, and for gpt-oss Harmony's control tokens, too; gguf.c has the tensors of
 * each architecture.  The same options give the same bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/gguf.h"

enum {
    ALIGNMENT = 32,
    HEAD_MAX = 64 << 20,
    TEMPLATE_MAX = 128 << 10, /* jinja/jinja.h's limit */
    BYTES = 256,
    LETTERS = 26,
    KIND_NORMAL = 1, /* kinds of tokens */
    KIND_CONTROL = 3,
    KIND_USER = 4,
    KIND_UNUSED = 5,
    VALUE_U32 = 4, /* GGUF's types of values */
    VALUE_I32 = 5,
    VALUE_F32 = 6,
    VALUE_BOOL = 7,
    VALUE_STRING = 8,
    VALUE_ARRAY = 9,
};

static const struct {
    const char *text;
    uint32_t kind;
} last_tokens[] = {
    {"<|endoftext|>", KIND_CONTROL},
    {"<|im_start|>", KIND_CONTROL},
    {"<|im_end|>", KIND_CONTROL},
    {"<tool>", KIND_USER},
    {"<unused0>", KIND_UNUSED},
    /* only of gpt-oss */
    {"<|start|>", KIND_CONTROL},
    {"<|message|>", KIND_CONTROL},
    {"<|channel|>", KIND_CONTROL},
    {"<|constrain|>", KIND_CONTROL},
    {"<|end|>", KIND_CONTROL},
    {"<|call|>", KIND_CONTROL},
    {"<|return|>", KIND_CONTROL},
};
enum {
    LAST_MAX = sizeof(last_tokens) / sizeof(last_tokens[0]),
    HARMONY = 7,
};

/* Common pairs, highest priority first; the rest of the vocabulary is letters. */
static const char *const common[][2] = {
    {" ", "t"}, {"h", "e"},   {"i", "n"}, {" ", "a"}, {"r", "e"},  {"o", "n"},
    {"e", "r"}, {" t", "he"}, {" ", "w"}, {"i", "s"}, {"in", "g"}, {" ", "o"},
};
enum { COMMON = sizeof(common) / sizeof(common[0]) };
/* "ab", then "ab" + "c"; those that are common already are left out. */
enum {
    REPEATED = 7,
    PAIRS = LETTERS * LETTERS,
    MERGES_MAX = COMMON + PAIRS * (1 + LETTERS) - REPEATED
};

static const char chat_template[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* ---- the header ---- */

static void write_gguf_number(struct lr_buf *b, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        lr_buf_add_char(b, (char)(unsigned char)(value >> (8 * i)));
}

static void string(struct lr_buf *b, struct lr_str s)
{
    write_gguf_number(b, s.len, 8);
    lr_buf_add_str(b, s);
}

static void write_gguf_put_string(struct lr_buf *b, const char *key, const char *value)
{
    string(b, lr_str_z(key));
    write_gguf_number(b, VALUE_STRING, 4);
    string(b, lr_str_z(value));
}

static void put_u32(struct lr_buf *b, const char *key, uint32_t value)
{
    string(b, lr_str_z(key));
    write_gguf_number(b, VALUE_U32, 4);
    write_gguf_number(b, value, 4);
}

static void put_f32(struct lr_buf *b, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    string(b, lr_str_z(key));
    write_gguf_number(b, VALUE_F32, 4);
    write_gguf_number(b, bits, 4);
}

static void begin_array(struct lr_buf *b, const char *key, unsigned type, uint64_t count)
{
    string(b, lr_str_z(key));
    write_gguf_number(b, VALUE_ARRAY, 4);
    write_gguf_number(b, type, 4);
    write_gguf_number(b, count, 8);
}

/* Byte-level BPE writes bytes as printable characters: the same character, or from U+0100
 * on. */
static void spell(struct lr_buf *b, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned c = (unsigned char)bytes[i], moved = 0;
        char text[4];
        for (unsigned k = 0; k < c; k++)
            moved += !((k >= 33 && k <= 126) || (k >= 161 && k <= 172) || k >= 174);
        bool is_plain = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
        lr_buf_add(b, text, lr_utf8_encode(is_plain ? c : 256 + moved, text));
    }
}

/* Both halves of merge i; they are earlier tokens. */
static void merge_halves(uint32_t i, char left[8], char right[8])
{
    if (i < COMMON) {
        (void)snprintf(left, 8, "%s", common[i][0]);
        (void)snprintf(right, 8, "%s", common[i][1]);
        return;
    }
    i -= COMMON;
    bool is_pair = i < PAIRS;
    uint32_t pair = is_pair ? i : (i - PAIRS) / LETTERS;
    char first = (char)('a' + pair / LETTERS), second = (char)('a' + pair % LETTERS);
    char third = (char)('a' + (i - PAIRS) % LETTERS);
    (void)snprintf(left, 8, is_pair ? "%c" : "%c%c", first, second);
    (void)snprintf(right, 8, "%c", is_pair ? second : third);
}

/* Pairs that are among the common ones would occur twice. */
static bool is_repeated(uint32_t i)
{
    char left[8], right[8];
    merge_halves(i, left, right);
    for (uint32_t k = 0; k < COMMON && i >= COMMON; k++)
        if (strcmp(common[k][0], left) == 0 && strcmp(common[k][1], right) == 0)
            return true;
    return strcmp(left, "in") == 0 && strcmp(right, "g") == 0 && i >= COMMON;
}

static uint32_t last_count(const struct cli_gguf_shape *s)
{
    return s->family == CLI_GGUF_GPT_OSS ? LAST_MAX : LAST_MAX - HARMONY;
}

/* Merges of a vocabulary; its other tokens are fillers that no text becomes. */
static uint32_t merge_count(const struct cli_gguf_shape *s)
{
    uint32_t room = s->vocab - BYTES - last_count(s);
    return room < MERGES_MAX ? room : MERGES_MAX;
}

static void put_tokens(struct lr_buf *b, const struct cli_gguf_shape *s, uint32_t merges)
{
    char left[8], right[8];
    uint32_t last = last_count(s);
    begin_array(b, "tokenizer.ggml.tokens", VALUE_STRING, s->vocab);
    for (unsigned c = 0; c < BYTES; c++) {
        struct lr_buf text;
        char byte = (char)(unsigned char)c;
        lr_buf_init(&text, 16);
        spell(&text, &byte, 1);
        string(b, lr_buf_str(&text));
        lr_buf_free(&text);
    }
    for (uint32_t i = 0, n = 0; n < merges; i++) {
        struct lr_buf text;
        if (is_repeated(i))
            continue;
        merge_halves(i, left, right);
        lr_buf_init(&text, 64);
        spell(&text, left, strlen(left));
        spell(&text, right, strlen(right));
        string(b, lr_buf_str(&text));
        lr_buf_free(&text);
        n++;
    }
    for (uint32_t i = BYTES + merges; i < s->vocab - last; i++) {
        char filler[24];
        (void)snprintf(filler, sizeof(filler), "<filler%u>", i);
        string(b, lr_str_z(filler));
    }
    for (uint32_t i = 0; i < last; i++)
        string(b, lr_str_z(last_tokens[i].text));
    begin_array(b, "tokenizer.ggml.token_type", VALUE_I32, s->vocab);
    for (uint32_t i = 0; i < s->vocab - last; i++)
        write_gguf_number(b, KIND_NORMAL, 4);
    for (uint32_t i = 0; i < last; i++)
        write_gguf_number(b, last_tokens[i].kind, 4);
}

static void put_merges(struct lr_buf *b, uint32_t merges)
{
    char left[8], right[8];
    begin_array(b, "tokenizer.ggml.merges", VALUE_STRING, merges);
    for (uint32_t i = 0, n = 0; n < merges; i++) {
        struct lr_buf text;
        if (is_repeated(i))
            continue;
        merge_halves(i, left, right);
        lr_buf_init(&text, 64);
        spell(&text, left, strlen(left));
        lr_buf_add_char(&text, ' ');
        spell(&text, right, strlen(right));
        string(b, lr_buf_str(&text));
        lr_buf_free(&text);
        n++;
    }
}

static void put_bool(struct lr_buf *b, const char *key, bool value)
{
    string(b, lr_str_z(key));
    write_gguf_number(b, VALUE_BOOL, 4);
    write_gguf_number(b, value, 1);
}

static void put_shape(struct lr_buf *b, const struct cli_gguf_shape *s, const char *family)
{
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {
        {"context_length", s->context},     {"embedding_length", s->width},
        {"block_count", s->layers},         {"feed_forward_length", s->feed_forward},
        {"attention.head_count", s->heads},
    };
    char key[64];
    write_gguf_put_string(b, "general.architecture", family);
    write_gguf_put_string(b, "general.name", "random weights");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(key, sizeof(key), "%s.%s", family, rows[i].name);
        put_u32(b, key, rows[i].value);
    }
}

/* Texts stand between the begin and the end token; a separator parts query and document. */
static void put_bert(struct lr_buf *b, const struct cli_gguf_shape *s, uint32_t controls)
{
    enum { POOLING_MEAN = 1, POOLING_RANK = 4 };
    put_f32(b, "bert.attention.layer_norm_epsilon", 1e-5f);
    put_bool(b, "bert.attention.causal", false);
    put_u32(b, "bert.pooling_type",
            s->family == CLI_GGUF_RERANKER ? POOLING_RANK : POOLING_MEAN);
    put_u32(b, "tokenizer.ggml.token_type_count", 2);
    put_u32(b, "tokenizer.ggml.seperator_token_id", controls + 1);
    put_bool(b, "tokenizer.ggml.add_sep_token", true);
    put_bool(b, "tokenizer.ggml.add_eos_token", true);
}

static void put_template(struct lr_buf *b, const struct cli_gguf_shape *s)
{
    string(b, LR_STR_LIT("tokenizer.chat_template"));
    write_gguf_number(b, VALUE_STRING, 4);
    string(b, s->chat_template);
}

static void put_llama(struct lr_buf *b, const struct cli_gguf_shape *s)
{
    put_u32(b, "llama.attention.head_count_kv", s->kv_heads);
    put_u32(b, "llama.rope.dimension_count", s->head_size);
    put_f32(b, "llama.rope.freq_base", 10000.0f);
    put_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_template(b, s);
}

static void put_gpt_oss(struct lr_buf *b, const struct cli_gguf_shape *s)
{
    put_u32(b, "gpt-oss.attention.head_count_kv", s->kv_heads);
    put_u32(b, "gpt-oss.attention.key_length", s->head_size);
    put_u32(b, "gpt-oss.attention.value_length", s->head_size);
    put_u32(b, "gpt-oss.attention.sliding_window", s->window);
    put_f32(b, "gpt-oss.attention.layer_norm_rms_epsilon", 1e-5f);
    put_u32(b, "gpt-oss.expert_count", s->experts);
    put_u32(b, "gpt-oss.expert_used_count", s->experts_used);
    put_u32(b, "gpt-oss.expert_feed_forward_length", s->feed_forward);
    put_f32(b, "gpt-oss.rope.freq_base", 150000.0f);
    write_gguf_put_string(b, "gpt-oss.rope.scaling.type", "yarn");
    put_f32(b, "gpt-oss.rope.scaling.factor", 32.0f);
    put_u32(b, "gpt-oss.rope.scaling.original_context_length", 4096);
    put_template(b, s);
}

static const struct {
    const char *word;
    const char *architecture;
    uint32_t members; /* of the metadata */
} families[] = {[CLI_GGUF_LLAMA] = {"llama", "llama", 20},
                [CLI_GGUF_GPT_OSS] = {"gpt-oss", "gpt-oss", 28},
                [CLI_GGUF_BERT] = {"bert", "bert", 22},
                [CLI_GGUF_RERANKER] = {"reranker", "bert", 22}};

static void put_metadata(struct lr_buf *b, const struct cli_gguf_shape *s)
{
    uint32_t controls = s->vocab - last_count(s);
    bool is_bert = s->family == CLI_GGUF_BERT || s->family == CLI_GGUF_RERANKER;
    put_shape(b, s, families[s->family].architecture);
    write_gguf_put_string(b, "tokenizer.ggml.model", "gpt2");
    write_gguf_put_string(b, "tokenizer.ggml.pre", "gpt-2");
    put_tokens(b, s, merge_count(s));
    put_merges(b, merge_count(s));
    put_u32(b, "tokenizer.ggml.bos_token_id", controls);
    put_u32(b, "tokenizer.ggml.eos_token_id", controls + 2);
    put_bool(b, "tokenizer.ggml.add_bos_token", is_bert);
    if (is_bert)
        put_bert(b, s, controls);
    else if (s->family == CLI_GGUF_GPT_OSS)
        put_gpt_oss(b, s);
    else
        put_llama(b, s);
}

/* ---- the file ---- */

static lr_code write_gguf_flush(struct lr_buf *b, FILE *file, const char *path,
                                struct lr_error *err)
{
    if (b->failed)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", path);
    if (fwrite(b->data, 1, b->len, file) != b->len)
        return lr_fail_errno(err, LR_IO, "%s", path);
    lr_buf_clear(b);
    return LR_OK;
}

static void pad(struct lr_buf *b, uint64_t at)
{
    for (; at % ALIGNMENT != 0; at++)
        lr_buf_add_char(b, 0);
}

static uint64_t tensor_bytes(const struct cli_gguf_tensor *t)
{
    return cli_gguf_row_bytes(t) * cli_gguf_row_count(t);
}

static void add_header(struct lr_buf *b, const struct cli_gguf_shape *s)
{
    uint64_t offset = 0;
    lr_buf_add_z(b, "GGUF");
    write_gguf_number(b, 3, 4);
    write_gguf_number(b, cli_gguf_tensor_count(s), 8);
    write_gguf_number(b, families[s->family].members, 8);
    put_metadata(b, s);
    for (uint32_t i = 0; i < cli_gguf_tensor_count(s); i++) {
        struct cli_gguf_tensor t = cli_gguf_tensor_at(s, i);
        const uint64_t sizes[] = {t.columns, t.rows, t.depth};
        uint32_t dimensions = t.depth != 0 ? 3 : t.rows != 0 ? 2 : 1;
        string(b, lr_str_z(t.name));
        write_gguf_number(b, dimensions, 4);
        for (uint32_t k = 0; k < dimensions; k++)
            write_gguf_number(b, sizes[k], 8);
        write_gguf_number(b, t.type, 4);
        write_gguf_number(b, offset, 8);
        offset = (offset + tensor_bytes(&t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    pad(b, b->len);
}

static lr_code write_tensor(const struct cli_gguf_tensor *t, uint64_t *state, FILE *file,
                            const char *path, struct lr_error *err)
{
    static const unsigned char zeros[ALIGNMENT];
    size_t bytes = cli_gguf_row_bytes(t);
    size_t rest = (ALIGNMENT - tensor_bytes(t) % ALIGNMENT) % ALIGNMENT;
    unsigned char *row = malloc(bytes);
    bool is_written = row != NULL;
    if (row == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", path);
    for (uint64_t i = 0; is_written && i < cli_gguf_row_count(t); i++) {
        cli_gguf_row(t, state, row);
        is_written = fwrite(row, 1, bytes, file) == bytes;
    }
    is_written = is_written && fwrite(zeros, 1, rest, file) == rest;
    lr_code code = is_written ? LR_OK : lr_fail_errno(err, LR_IO, "%s", path);
    free(row);
    return code;
}

static lr_code write_model(const struct cli_gguf_shape *s, FILE *file, const char *path,
                           struct lr_error *err)
{
    struct lr_buf b;
    uint64_t state = s->seed;
    lr_buf_init(&b, HEAD_MAX);
    add_header(&b, s);
    lr_code code = write_gguf_flush(&b, file, path, err);
    for (uint32_t i = 0; code == LR_OK && i < cli_gguf_tensor_count(s); i++) {
        struct cli_gguf_tensor t = cli_gguf_tensor_at(s, i);
        code = write_tensor(&t, &state, file, path, err);
    }
    lr_buf_free(&b);
    return code;
}

/* ---- the command ---- */

static enum cli_gguf_family family_of(const char *word)
{
    size_t i = 0;
    while (strcmp(families[i].word, word) != 0)
        i++;
    return (enum cli_gguf_family)i;
}

static void use_20b(struct cli_gguf_shape *s)
{
    s->vocab = 201088;
    s->layers = 24;
    s->width = s->feed_forward = 2880;
    s->heads = s->head_size = 64;
    s->kv_heads = 8;
    s->experts = 32;
    s->experts_used = 4;
    s->window = 128;
    s->context = 131072;
    s->quantized = true;
}

static lr_code read_shape(const struct lr_settings *settings, struct lr_arena *arena,
                          struct cli_gguf_shape *s, struct lr_error *err)
{
    const char *own_template = lr_settings_str(settings, "chat-template");
    *s = (struct cli_gguf_shape){
        .family = family_of(lr_settings_str(settings, "architecture")),
        .vocab = (uint32_t)lr_settings_int(settings, "vocab"),
        .layers = (uint32_t)lr_settings_int(settings, "layers"),
        .width = (uint32_t)lr_settings_int(settings, "width"),
        .heads = (uint32_t)lr_settings_int(settings, "heads"),
        .kv_heads = (uint32_t)lr_settings_int(settings, "kv-heads"),
        .feed_forward = (uint32_t)lr_settings_int(settings, "feed-forward"),
        .context = (uint32_t)lr_settings_int(settings, "context"),
        .experts = (uint32_t)lr_settings_int(settings, "experts"),
        .experts_used = (uint32_t)lr_settings_int(settings, "experts-used"),
        .window = (uint32_t)lr_settings_int(settings, "window"),
        .quantized = strcmp(lr_settings_str(settings, "type"), "q8_0") == 0,
        .seed = (uint64_t)lr_settings_int(settings, "seed"),
        .chat_template = lr_str_z(chat_template),
    };
    s->head_size = s->width / s->heads;
    if (s->width % (s->heads * CLI_GGUF_BLOCK) != 0 || s->feed_forward % CLI_GGUF_BLOCK != 0 ||
        s->heads % s->kv_heads != 0 || s->experts_used > s->experts)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "--width must be a multiple of %d times --heads, --feed-forward of %d, "
                       "--heads of --kv-heads, and --experts-used at most --experts",
                       CLI_GGUF_BLOCK, CLI_GGUF_BLOCK);
    if (strcmp(lr_settings_str(settings, "shape"), "20b") == 0 && s->family != CLI_GGUF_GPT_OSS)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "--shape 20b goes with --architecture gpt-oss");
    if (strcmp(lr_settings_str(settings, "shape"), "20b") == 0)
        use_20b(s);
    if (own_template == NULL)
        return LR_OK;
    return lr_file_read(arena, own_template, TEMPLATE_MAX, &s->chat_template, err);
}

static lr_code write_file(const struct lr_settings *settings, struct lr_arena *arena,
                          struct lr_error *err)
{
    const char *path = lr_settings_str(settings, "output");
    char folder[LR_PATH_MAX];
    struct cli_gguf_shape s;
    if (path == NULL || strlen(path) >= sizeof(folder))
        return lr_fail(err, LR_INVALID_ARGUMENT, "--output FILE is needed");
    lr_code code = read_shape(settings, arena, &s, err);
    if (code != LR_OK)
        return code;
    memcpy(folder, path, strlen(path) + 1);
    folder[(size_t)(lr_path_base(path) - path)] = '\0';
    if (folder[0] != '\0')
        code = lr_dir_create(folder, err);
    if (code != LR_OK)
        return code;
    FILE *file = lr_fopen(path, lr_settings_bool(settings, "replace") ? "wb" : "wbx");
    if (file == NULL)
        return lr_fail_errno(err, LR_IO, "%s", path);
    code = write_model(&s, file, path, err);
    if (fclose(file) != 0 && code == LR_OK)
        code = lr_fail_errno(err, LR_IO, "%s", path);
    if (code != LR_OK)
        (void)lr_unlink(path);
    return code;
}

static lr_code write_gguf_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct lr_arena arena;
    lr_arena_init(&arena, 2 * TEMPLATE_MAX);
    lr_code code = write_file(settings, &arena, err);
    lr_arena_free(&arena);
    return code;
}

#define INT_FLAG(flag, otherwise, low, high, text)                                             \
    {                                                                                          \
        .name = flag, .type = LR_SETTING_INT, .fallback = otherwise, .min = low, .max = high,  \
        .help = text                                                                           \
    }

static const struct lr_setting flags[] = {
    {.name = "output",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "the GGUF file to write"},
    {.name = "replace", .type = LR_SETTING_BOOL, .help = "replace an existing file"},
    {.name = "chat-template",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "the chat template; without it ChatML"},
    {.name = "architecture",
     .type = LR_SETTING_CHOICE,
     .fallback = "llama",
     .choices = "llama|gpt-oss|bert|reranker",
     .was = "family",
     .help = "llama and gpt-oss generate text, bert gives embeddings, reranker ranks "
             "documents; experts of gpt-oss are MXFP4"},
    {.name = "shape",
     .type = LR_SETTING_CHOICE,
     .fallback = "own",
     .choices = "own|20b",
     .help = "20b: all sizes of gpt-oss-20b, with q8_0 (13 GB); own: the sizes below"},
    {.name = "type",
     .type = LR_SETTING_CHOICE,
     .fallback = "f32",
     .choices = "f32|q8_0",
     .help = "data type of the weights"},
    INT_FLAG("vocab", "512", BYTES + COMMON + LAST_MAX, 1 << 20, "tokens in the vocabulary"),
    INT_FLAG("layers", "2", 1, 256, "number of layers"),
    INT_FLAG("width", "64", 32, 16384, "width of a hidden state"),
    INT_FLAG("heads", "2", 1, 256, "number of query heads"),
    INT_FLAG("kv-heads", "1", 1, 256, "number of key and value heads"),
    INT_FLAG("feed-forward", "128", 32, 65536, "width of the feed-forward layers"),
    INT_FLAG("experts", "8", 1, 1024, "experts of a layer of gpt-oss"),
    INT_FLAG("experts-used", "4", 1, 64, "experts that compute a token"),
    INT_FLAG("window", "128", 1, 1 << 20, "sliding window of every second layer of gpt-oss"),
    INT_FLAG("context", "4096", 16, 1 << 20, "context length in the header"),
    INT_FLAG("seed", "1", 0, INT64_MAX, "seed of the random weights"),
};

const struct cli_command cli_debug_write_gguf = {
    .name = "write-gguf",
    .summary = "Write a GGUF model with random weights, for tests and benchmarks",
    .details = "Byte-level BPE with ChatML.  The same options give the same bytes.\n"
               "  llm-router debug write-gguf --output model.gguf --layers 4 --width 256\n"
               "  llm-router debug write-gguf --output model.gguf --architecture gpt-oss "
               "--shape 20b",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = write_gguf_run,
};
