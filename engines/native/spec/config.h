/* native/spec/config.h - config.json read through a table of fields.
 *
 * An architecture lists every field that changes its result: name, type, limits, default.  A
 * value that the table does not allow is an error that names the field.  Fields of a wrapper's
 * text_config come first, then those of the top level.
 */
#ifndef NATIVE_SPEC_CONFIG_H
#define NATIVE_SPEC_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "model/config.h"

enum native_field_kind {
    NATIVE_FIELD_COUNT,
    NATIVE_FIELD_OR_NULL,
    NATIVE_FIELD_PATTERN,
    NATIVE_FIELD_NUMBER,
    NATIVE_FIELD_NUMBER_OR_NULL,
    NATIVE_FIELD_FLAG,
    NATIVE_FIELD_WORD,
    NATIVE_FIELD_KIND,
    NATIVE_FIELD_LIST,
    NATIVE_FIELD_WORDS,
    NATIVE_FIELD_LETTERS,
    NATIVE_FIELD_ROPE,
    NATIVE_FIELD_ONLY,
    NATIVE_FIELD_ONLY_FLAG,
    NATIVE_FIELD_ONLY_COUNT,
};

#define NATIVE_REQUIRED (-1e300) /* as a default: the field must be there */

/* `name` may hold several names for one field: "num_experts|num_local_experts". */
struct native_field {
    enum native_field_kind kind;
    const char *name;
    size_t offset;
    double least, most, otherwise;
    const char *words; /* allowed words: "silu|gelu" */
};

#define NATIVE_COUNT(type, member, name, least, most, otherwise)                               \
    {                                                                                          \
        NATIVE_FIELD_COUNT, name, offsetof(type, member), least, most, otherwise, NULL         \
    }
/* The same, where null means 0 and a missing member the default. */
#define NATIVE_COUNT_OR_NULL(type, member, name, least, most, otherwise)                       \
    {                                                                                          \
        NATIVE_FIELD_OR_NULL, name, offsetof(type, member), least, most, otherwise, NULL       \
    }
/* A count, a text whose letters are counted ("LLLG": 4), or a list that repeats one count. */
#define NATIVE_COUNT_OR_TEXT(type, member, name, least, most, otherwise)                       \
    {                                                                                          \
        NATIVE_FIELD_PATTERN, name, offsetof(type, member), least, most, otherwise, NULL       \
    }
#define NATIVE_NUMBER(type, member, name, least, most, otherwise)                              \
    {                                                                                          \
        NATIVE_FIELD_NUMBER, name, offsetof(type, member), least, most, otherwise, NULL        \
    }
/* The same, where null means 0 and a missing member the default. */
#define NATIVE_NUMBER_OR_NULL(type, member, name, least, most, otherwise)                      \
    {                                                                                          \
        NATIVE_FIELD_NUMBER_OR_NULL, name, offsetof(type, member), least, most, otherwise,     \
            NULL                                                                               \
    }
#define NATIVE_FLAG(type, member, name, otherwise)                                             \
    {                                                                                          \
        NATIVE_FIELD_FLAG, name, offsetof(type, member), 0, 1, otherwise, NULL                 \
    }
/* An index into words; the first one is the default. */
#define NATIVE_WORD(type, member, name, words)                                                 \
    {                                                                                          \
        NATIVE_FIELD_WORD, name, offsetof(type, member), 0, 0, 0, words                        \
    }
/* The index of model_type in words; 0 for any other. */
#define NATIVE_KIND(type, member, words)                                                       \
    {                                                                                          \
        NATIVE_FIELD_KIND, "model_type", offsetof(type, member), 0, 0, 0, words                \
    }
/* A list of numbers (struct native_list), or of words, as indices into words. */
#define NATIVE_NUMBERS(type, member, name, least, most)                                        \
    {                                                                                          \
        NATIVE_FIELD_LIST, name, offsetof(type, member), least, most, 0, NULL                  \
    }
#define NATIVE_WORDS(type, member, name, words)                                                \
    {                                                                                          \
        NATIVE_FIELD_WORDS, name, offsetof(type, member), 0, 0, 0, words                       \
    }
/* The same, or a text of which each letter is a word. */
#define NATIVE_LETTERS(type, member, name, words)                                              \
    {                                                                                          \
        NATIVE_FIELD_LETTERS, name, offsetof(type, member), 0, 0, 0, words                     \
    }
/* rope_theta, rope_scaling, rope_parameters; theta and the rotated part of a head where the
 * config says nothing. */
#define NATIVE_ROPE_FROM(type, member, theta, partial)                                         \
    {                                                                                          \
        NATIVE_FIELD_ROPE, "", offsetof(type, member), partial, 0, theta, ""                   \
    }
#define NATIVE_ROPE(type, member) NATIVE_ROPE_FROM(type, member, 10000, 1)
/* rope_parameters of one kind of layer. */
#define NATIVE_ROPE_OF(type, member, layers, theta)                                            \
    {                                                                                          \
        NATIVE_FIELD_ROPE, "", offsetof(type, member), 1, 0, theta, layers                     \
    }
/* Any other value is refused by name. */
#define NATIVE_ONLY(name, words)                                                               \
    {                                                                                          \
        NATIVE_FIELD_ONLY, name, 0, 0, 0, 0, words                                             \
    }
#define NATIVE_ONLY_FLAG(name, value)                                                          \
    {                                                                                          \
        NATIVE_FIELD_ONLY_FLAG, name, 0, 0, 1, value, NULL                                     \
    }
#define NATIVE_ONLY_COUNT(name, value)                                                         \
    {                                                                                          \
        NATIVE_FIELD_ONLY_COUNT, name, 0, 0, 0, value, NULL                                    \
    }
#define NATIVE_END                                                                             \
    {                                                                                          \
        NATIVE_FIELD_COUNT, NULL, 0, 0, 0, 0, NULL                                             \
    }

struct native_list {
    uint32_t count; /* 0: not given */
    double at[MODEL_LAYERS_MAX];
};

enum native_rope_kind {
    NATIVE_ROPE_PLAIN,
    NATIVE_ROPE_LINEAR,
    NATIVE_ROPE_DYNAMIC,
    NATIVE_ROPE_YARN,
    NATIVE_ROPE_LONG,
    NATIVE_ROPE_LLAMA3,
    NATIVE_ROPE_PROPORTIONAL,
};

struct native_rope {
    enum native_rope_kind kind;
    double theta;
    double partial; /* part of a head that is rotated */
    double factor;
    double attention;        /* factor of sine and cosine; 0: from the others */
    double attention_longer; /* the same, beyond the original context */
    double beta_fast, beta_slow, mscale, mscale_all;
    double low, high; /* llama3 */
    double alpha;     /* dynamic, of Hunyuan */
    double query_beta;
    uint32_t original; /* context that the model was first trained for; 0: not given */
    uint32_t context;
    bool truncate;
    bool own; /* rope_parameters has a part for this kind of layer */
    struct native_list *shorter, *longer; /* longrope; in the arena */
};

/* Fields that most decoders have. */
struct native_base {
    uint32_t hidden, layers, heads, kv_heads, head_size, intermediate, vocab, context;
    double eps;
    bool tied, bias;
    struct native_rope rope;
};

#define NATIVE_BASE(type)                                                                      \
    NATIVE_COUNT(type, base.hidden, "hidden_size", 1, 65536, NATIVE_REQUIRED),                 \
        NATIVE_COUNT(type, base.layers, "num_hidden_layers", 1, MODEL_LAYERS_MAX,              \
                     NATIVE_REQUIRED),                                                         \
        NATIVE_COUNT(type, base.heads, "num_attention_heads", 1, 1024, NATIVE_REQUIRED),       \
        NATIVE_COUNT(type, base.kv_heads, "num_key_value_heads", 1, 1024, 0),                  \
        NATIVE_COUNT(type, base.head_size, "head_dim", 1, 1024, 0),                            \
        NATIVE_COUNT(type, base.vocab, "vocab_size", 1, 1 << 22, NATIVE_REQUIRED),             \
        NATIVE_COUNT(type, base.context, "max_position_embeddings", 1, 1 << 26,                \
                     NATIVE_REQUIRED),                                                         \
        NATIVE_ROPE(type, base.rope)
#define NATIVE_INTERMEDIATE(type)                                                              \
    NATIVE_COUNT(type, base.intermediate, "intermediate_size", 1, 1 << 20, NATIVE_REQUIRED)
#define NATIVE_RMS_EPS(type, otherwise)                                                        \
    NATIVE_NUMBER(type, base.eps, "rms_norm_eps", 0, 1, otherwise)
#define NATIVE_TIED(type, otherwise)                                                           \
    NATIVE_FLAG(type, base.tied, "tie_word_embeddings", otherwise)
#define NATIVE_BIAS(type) NATIVE_FLAG(type, base.bias, "attention_bias", false)

/* Fills `out`, of which the fields are members.  Lists of a rope lie in the arena.
 * MODEL_CORRUPT: missing, of another type, beyond its limits.  UNSUPPORTED: a value that the
 * table does not know. */
LR_MUST_USE lr_code native_config_read(const struct lr_json *config,
                                       const struct native_field *fields,
                                       struct lr_arena *arena, void *out, struct lr_error *err);

/* head_size and kv_heads that were not given; heads must be a multiple of kv_heads. */
LR_MUST_USE lr_code native_base_settle(struct native_base *base, struct lr_error *err);

#endif
