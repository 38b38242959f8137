/* A layer at the end of a long context: the last rows against sums of our own in doubles, with
 * keys and values of all positions before written into the pages by the test.  Plain and scaled
 * ropes, windows and soft caps; with LR_LONG at the width of real models. */
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "engines/native/spec/math.h"
#include "tests/unit/native/support.h"

enum { VOCAB = 32, INNER = 48, CONTEXT = 131072, ROWS_MAX = 8, PAGE = 32, TENSORS_MAX = 16 };

/* What a case has beside Llama. */
struct shape {
    const char *name, *config;
    uint32_t head_size, window;
    bool gemma;   /* Gemma 2: norms on both sides, soft caps */
    double theta; /* and what the rope scales, by its kind: */
    enum { PLAIN, LLAMA3, YARN, LONG } rope;
};

static const struct shape shapes[] = {
    {"plain, heads of 256",
     "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"rope_theta\":1e6",
     256, 0, false, 1e6, PLAIN},
    {"llama3",
     "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"rope_theta\":5e5,"
     "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}",
     128, 0, false, 5e5, LLAMA3},
    {"yarn",
     "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"rope_theta\":1e6,"
     "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
     "\"original_max_position_embeddings\":32768}",
     128, 0, false, 1e6, YARN},
    {"longrope",
     "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"rope_theta\":1e4",
     128, 0, false, 1e4, LONG},
    {"a window of 512",
     "\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\","
     "\"sliding_window\":512,\"rope_theta\":1e6",
     128, 512, false, 1e6, PLAIN},
    {"a window of 4096, soft caps",
     "\"architectures\":[\"Gemma2ForCausalLM\"],\"model_type\":\"gemma2\","
     "\"sliding_window\":4096,\"rope_theta\":1e4,\"query_pre_attn_scalar\":224,"
     "\"hidden_activation\":\"gelu_pytorch_tanh\",\"layer_types\":[\"sliding_attention\"]",
     256, 4096, true, 1e4, PLAIN},
};

/* ---- the model ---- */

struct tensor {
    char name[64];
    uint32_t rows, columns;
    uint16_t *values; /* owned: BF16 */
};

struct model {
    const struct shape *shape;
    uint32_t hidden, heads, kv_heads;
    struct tensor tensors[TENSORS_MAX];
    uint32_t count;
    char dir[64];
};

/* -1 to 1, of two numbers. */
static float noise(uint32_t a, uint32_t b)
{
    uint32_t x = a * 0x9E3779B9u ^ (b + 0x7F4A7C15u) * 0x85EBCA6Bu;

    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    x *= 0x297A2D39u;
    x ^= x >> 15;
    return (float)x / 2147483648.0f - 1.0f;
}

static double value_of(const struct tensor *t, size_t i)
{
    uint32_t bits = (uint32_t)t->values[i] << 16;
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static void add_tensor(struct model *m, const char *name, uint32_t rows, uint32_t columns)
{
    struct tensor *t = &m->tensors[m->count];
    double spread = rows > 1 ? 2 / sqrt(columns) : 0.2;

    *t = (struct tensor){.rows = rows, .columns = columns};
    snprintf(t->name, sizeof(t->name), "%s.weight", name);
    t->values = malloc((size_t)rows * columns * sizeof(*t->values));
    assert_non_null(t->values);
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        float v = (float)(noise(m->count, (uint32_t)i) * spread + (rows > 1 ? 0 : 1));
        uint32_t bits;
        memcpy(&bits, &v, sizeof(bits));
        t->values[i] = (uint16_t)(bits >> 16);
    }
    m->count++;
}

static const struct tensor *tensor_of(const struct model *m, const char *part)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (strstr(m->tensors[i].name, part) != NULL)
            return &m->tensors[i];
    fail_msg("no tensor %s", part);
    return NULL;
}

static void write_weights(const struct model *m)
{
    char path[96], header[4096], *at = header;
    uint64_t offset = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct tensor *t = &m->tensors[i];
        uint64_t bytes = (uint64_t)t->rows * t->columns * 2;
        char shape[32];
        if (t->rows > 1)
            snprintf(shape, sizeof(shape), "%u,%u", t->rows, t->columns);
        else
            snprintf(shape, sizeof(shape), "%u", t->columns);
        at += snprintf(at, 256,
                       "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%" PRIu64
                       ",%" PRIu64 "]}",
                       i == 0 ? "{" : ",", t->name, shape, offset, offset + bytes);
        offset += bytes;
    }
    at += snprintf(at, 2, "}");
    while ((at - header) % 8 != 0)
        *at++ = ' ';
    uint64_t length = (uint64_t)(at - header);
    snprintf(path, sizeof(path), "%s/model.safetensors", m->dir);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&length, sizeof(length), 1, file);
    fwrite(header, 1, length, file);
    for (uint32_t i = 0; i < m->count; i++)
        fwrite(m->tensors[i].values, 2, (size_t)m->tensors[i].rows * m->tensors[i].columns,
               file);
    assert_int_equal(fclose(file), 0);
}

/* Factors of longrope: 1, 1.5, 2, ... and a quarter of that. */
static double long_factor(uint32_t i)
{
    return 1 + i * 0.5;
}

static void write_config(const struct model *m)
{
    char text[8192], own[4096], list[2][1600], path[96];
    char *at[2] = {list[0], list[1]};

    for (uint32_t i = 0; i < m->shape->head_size / 2; i++)
        for (int k = 0; k < 2; k++)
            at[k] += snprintf(at[k], 24, "%s%g", i == 0 ? "" : ",",
                              k == 0 ? long_factor(i) / 4 : long_factor(i));
    snprintf(own, sizeof(own), "%s", m->shape->config);
    if (m->shape->rope == LONG)
        snprintf(own, sizeof(own),
                 "%s,\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":32,"
                 "\"short_factor\":[%s],\"long_factor\":[%s],"
                 "\"original_max_position_embeddings\":4096}",
                 m->shape->config, list[0], list[1]);
    int n = snprintf(text, sizeof(text),
                     "{%s,\"vocab_size\":%u,\"hidden_size\":%u,\"intermediate_size\":%u,"
                     "\"num_hidden_layers\":1,\"num_attention_heads\":%u,"
                     "\"num_key_value_heads\":%u,\"head_dim\":%u,\"rms_norm_eps\":1e-6,"
                     "\"max_position_embeddings\":%u,\"tie_word_embeddings\":false}",
                     own, VOCAB, m->hidden, INNER, m->heads, m->kv_heads, m->shape->head_size,
                     CONTEXT);
    assert_in_range(n, 1, sizeof(text) - 1);
    snprintf(path, sizeof(path), "%s/config.json", m->dir);
    assert_int_equal(lr_file_write_atomic(path, lr_str(text, (size_t)n), 0600, NULL), LR_OK);
}

static void make_model(struct model *m, const struct shape *shape, bool real)
{
    uint32_t size = shape->head_size, hidden = real ? 4096 : 128;
    const char *layer = "model.layers.0";
    char name[64];

    *m = (struct model){.shape = shape,
                        .hidden = hidden,
                        .heads = real ? 4096 / size : 2,
                        .kv_heads = real ? 2 : 1};
    const struct {
        const char *part;
        uint32_t rows, columns;
    } parts[] = {
        {"self_attn.q_proj", m->heads * size, hidden},
        {"self_attn.k_proj", m->kv_heads * size, hidden},
        {"self_attn.v_proj", m->kv_heads * size, hidden},
        {"self_attn.o_proj", hidden, m->heads * size},
        {"mlp.gate_proj", INNER, hidden},
        {"mlp.up_proj", INNER, hidden},
        {"mlp.down_proj", hidden, INNER},
        {"input_layernorm", 1, hidden},
        {"post_attention_layernorm", 1, hidden},
        {"pre_feedforward_layernorm", 1, hidden},
        {"post_feedforward_layernorm", 1, hidden},
    };
    snprintf(m->dir, sizeof(m->dir), "/tmp/native-positions-XXXXXX");
    assert_non_null(mkdtemp(m->dir));
    add_tensor(m, "model.embed_tokens", VOCAB, hidden);
    add_tensor(m, "lm_head", VOCAB, hidden);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) - (shape->gemma ? 0 : 2); i++) {
        snprintf(name, sizeof(name), "%s.%s", layer, parts[i].part);
        add_tensor(m, name, parts[i].rows, parts[i].columns);
    }
    add_tensor(m, "model.norm", 1, hidden);
    write_weights(m);
    write_config(m);
}

static void free_model(struct model *m)
{
    struct lr_error err;

    for (uint32_t i = 0; i < m->count; i++)
        free(m->tensors[i].values);
    assert_int_equal(lr_dir_remove(m->dir, &err), LR_OK);
}

/* ---- in doubles ---- */

static void matrix(const struct model *m, const char *name, const double *x, double *y)
{
    const struct tensor *t = tensor_of(m, name);

    for (uint32_t r = 0; r < t->rows; r++) {
        double sum = 0;
        for (uint32_t i = 0; i < t->columns; i++)
            sum += value_of(t, (size_t)r * t->columns + i) * x[i];
        y[r] = sum;
    }
}

static void rms(const struct model *m, const char *name, const double *x, double *y)
{
    const struct tensor *t = tensor_of(m, name);
    double sum = 0;

    for (uint32_t i = 0; i < t->columns; i++)
        sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / t->columns + 1e-6);
    for (uint32_t i = 0; i < t->columns; i++)
        y[i] = x[i] * scale * (value_of(t, i) + (m->shape->gemma ? 1 : 0));
}

/* The angle of a pair at position 1, and the factor of sine and cosine. */
static double inverse_of(const struct shape *s, uint32_t pair, bool is_long, double *factor)
{
    double dims = s->head_size, v = pow(s->theta, -2.0 * pair / dims);

    *factor = 1;
    if (s->rope == LLAMA3) {
        double length = 2 * M_PI / v, smooth = (8192 / length - 1) / 3;
        return length > 8192 ? v / 8 : length < 2048 ? v : (1 - smooth) * v / 8 + smooth * v;
    }
    if (s->rope == YARN) {
        double low = floor(dims * log(32768 / (32 * 2 * M_PI)) / (2 * log(s->theta)));
        double high = ceil(dims * log(32768 / (2 * M_PI)) / (2 * log(s->theta)));
        double ramp = (pair - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        *factor = 0.1 * log(4) + 1;
        return v / 4 * ramp + v * (1 - ramp);
    }
    if (s->rope == LONG) {
        *factor = sqrt(1 + log(32) / log(4096));
        return v / (is_long ? long_factor(pair) : long_factor(pair) / 4);
    }
    return v;
}

static void turn(const struct shape *s, double *head, uint32_t position, bool is_long)
{
    uint32_t pairs = s->head_size / 2;

    for (uint32_t i = 0; i < pairs; i++) {
        double factor, inverse = inverse_of(s, i, is_long, &factor), a = head[i];
        double sine = sin(position * inverse) * factor,
               cosine = cos(position * inverse) * factor;
        head[i] = a * cosine - head[i + pairs] * sine;
        head[i + pairs] = head[i + pairs] * cosine + a * sine;
    }
}

/* Keys and values before the step. */
static float key_of(uint32_t position, uint32_t head, uint32_t d)
{
    return noise(position * 2 + head, d);
}

static float old_value(uint32_t position, uint32_t head, uint32_t d)
{
    return noise(position * 2 + head + 0x40000000u, d);
}

struct rows {
    uint32_t first, count; /* positions of the step */
    double *k, *v;         /* of the step's tokens: [row][kv_heads * head_size] */
};

static void attend_head(const struct model *m, const struct rows *rows, const double *q,
                        uint32_t row, uint32_t head, double *out)
{
    uint32_t size = m->shape->head_size, kv = head * m->kv_heads / m->heads,
             window = m->shape->window;
    uint32_t position = rows->first + row,
             from = window != 0 && position + 1 > window ? position + 1 - window : 0;
    double total = 0, scale = m->shape->gemma ? 1 / sqrt(224) : 1 / sqrt(size);

    memset(out, 0, size * sizeof(*out));
    for (uint32_t p = from; p <= position; p++) {
        const double *own_k = rows->k + ((size_t)(p - rows->first) * m->kv_heads + kv) * size;
        const double *own_v = rows->v + ((size_t)(p - rows->first) * m->kv_heads + kv) * size;
        bool old = p < rows->first;
        double score = 0;
        for (uint32_t d = 0; d < size; d++)
            score += q[d] * (old ? (double)key_of(p, kv, d) : own_k[d]);
        score *= scale;
        if (m->shape->gemma)
            score = 50 * tanh(score / 50);
        double power = exp(score); /* scores are small */
        total += power;
        for (uint32_t d = 0; d < size; d++)
            out[d] += power * (old ? (double)old_value(p, kv, d) : own_v[d]);
    }
    for (uint32_t d = 0; d < size; d++)
        out[d] /= total;
}

static void add_part(const struct model *m, const char *norm, double *x, double *part)
{
    if (m->shape->gemma)
        rms(m, norm, part, part);
    for (uint32_t i = 0; i < m->hidden; i++)
        x[i] += part[i];
}

static void finish_row(const struct model *m, double *x, double *logits)
{
    double *h = calloc(m->hidden, sizeof(*h)), gate[INNER], up[INNER];

    rms(m, m->shape->gemma ? "pre_feedforward" : "post_attention", x, h);
    matrix(m, "gate_proj", h, gate);
    matrix(m, "up_proj", h, up);
    for (uint32_t i = 0; i < INNER; i++)
        up[i] *= m->shape->gemma
                     ? 0.5 * gate[i] *
                           (1 + tanh(sqrt(2 / M_PI) * (gate[i] + 0.044715 * pow(gate[i], 3))))
                     : gate[i] / (1 + exp(-gate[i]));
    matrix(m, "down_proj", up, h);
    add_part(m, "post_feedforward", x, h);
    rms(m, "model.norm", x, h);
    matrix(m, "lm_head", h, logits);
    for (uint32_t i = 0; m->shape->gemma && i < VOCAB; i++)
        logits[i] = 30 * tanh(logits[i] / 30);
    free(h);
}

static void expect(const struct model *m, struct rows *rows, const uint32_t *ids, bool is_long,
                   double *logits)
{
    uint32_t size = m->shape->head_size, wide = m->heads * size, kv = m->kv_heads * size;
    double *h = calloc(m->hidden, sizeof(*h)), *q = calloc(wide, sizeof(*q)),
           *seen = calloc(wide, sizeof(*seen));
    double *x = calloc((size_t)rows->count * m->hidden, sizeof(*x));

    rows->k = calloc((size_t)rows->count * kv, sizeof(*rows->k));
    rows->v = calloc((size_t)rows->count * kv, sizeof(*rows->v));
    for (uint32_t r = 0; r < rows->count; r++) {
        double *own = x + (size_t)r * m->hidden;
        for (uint32_t i = 0; i < m->hidden; i++)
            own[i] = value_of(tensor_of(m, "embed_tokens"), (size_t)ids[r] * m->hidden + i) *
                     (m->shape->gemma ? sqrt(m->hidden) : 1);
        rms(m, "input_layernorm", own, h);
        matrix(m, "k_proj", h, rows->k + (size_t)r * kv);
        matrix(m, "v_proj", h, rows->v + (size_t)r * kv);
        for (uint32_t head = 0; head < m->kv_heads; head++)
            turn(m->shape, rows->k + (size_t)r * kv + head * size, rows->first + r, is_long);
        matrix(m, "q_proj", h, q);
        for (uint32_t head = 0; head < m->heads; head++) {
            turn(m->shape, q + head * size, rows->first + r, is_long);
            attend_head(m, rows, q + head * size, r, head, seen + head * size);
        }
        matrix(m, "o_proj", seen, h);
        add_part(m, "post_attention", own, h);
        finish_row(m, own, logits + r * VOCAB);
    }
    free(h);
    free(q);
    free(seen);
    free(x);
    free(rows->k);
    free(rows->v);
}

/* ---- the engine ---- */

static void write_keys(struct serving_backend *b, const struct model *m, uint32_t until)
{
    const struct native_cache *c = &b->spec->caches[0];
    const struct native_region *region = &b->regions[c->kind];
    uint32_t pages = b->plan.kinds[c->kind].pages, window = m->shape->window;
    size_t stride = (size_t)region->page_bytes / sizeof(float),
           head_floats = 2ull * c->key_size * PAGE;

    for (uint32_t p = window != 0 && until > window ? until - window : 0; p < until; p++)
        for (uint32_t h = 0; h < c->heads; h++) {
            float *at =
                (float *)(void *)region->base + p / PAGE % pages * stride + h * head_floats;
            for (uint32_t d = 0; d < c->key_size; d++) {
                at[(size_t)d * PAGE + p % PAGE] = key_of(p, h, d);
                at[(size_t)c->key_size * PAGE + (size_t)(p % PAGE) * c->key_size + d] =
                    old_value(p, h, d);
            }
        }
}

static void compare(struct serving_backend *b, const struct model *m, uint32_t last,
                    uint32_t count)
{
    uint32_t ids[ROWS_MAX], *table = calloc(CONTEXT / PAGE + 1, sizeof(*table));
    struct rows rows = {.first = last + 1 > count ? last + 1 - count : 0};
    float got[ROWS_MAX * VOCAB];
    double wanted[ROWS_MAX * VOCAB], difference = 0, norm = 0;
    struct lr_error err = {0};

    rows.count = last + 1 - rows.first;
    for (uint32_t i = 0; i < rows.count; i++)
        ids[i] = (last + i * 7) % VOCAB;
    for (uint32_t i = 0; i <= CONTEXT / PAGE; i++)
        table[i] = i % b->plan.kinds[0].pages;
    write_keys(b, m, rows.first);
    struct serving_step step = {.position = rows.first,
                                .count = rows.count,
                                .page_count = last / PAGE + 1,
                                .prompt = last + 1,
                                .tokens = ids,
                                .snapshot_load = SERVING_NONE,
                                .snapshot_save = SERVING_NONE,
                                .logits = got};
    step.pages[0] = table;
    const struct serving_batch batch = {.steps = &step, .count = 1, .tokens = rows.count};
    if (native_backend_cpu()->forward(b, &batch, &err) != LR_OK)
        fail_msg("%s", err.text);
    expect(m, &rows, ids, last + 1 > 4096, wanted);
    for (uint32_t i = 0; i < rows.count * VOCAB; i++) {
        difference += ((double)got[i] - wanted[i]) * ((double)got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    free(table);
    if (!(sqrt(difference / norm) <= 1e-5))
        fail_msg("%s, position %u: relative error %g", m->shape->name, last,
                 sqrt(difference / norm));
}

static void check_shape(const struct shape *shape, bool real, const uint32_t *ends,
                        uint32_t count)
{
    const struct serving_options options = {.device = "cpu",
                                            .max_sequences = 1,
                                            .max_context = CONTEXT,
                                            .kv_tokens = CONTEXT,
                                            .prefill_chunk = 64};
    const struct serving_backend_api *api = native_backend_cpu();
    const struct serving_host host = {0};
    uint32_t usable[1] = {UINT32_MAX};
    struct serving_backend *backend;
    struct serving_plan plan;
    struct lr_error err = {0};
    struct model m;
    void *opened;

    make_model(&m, shape, real);
    if (native_model_api()->open(&host, m.dir, &options, &opened, &err) != LR_OK ||
        api->plan(opened, &options, &plan, &err) != LR_OK ||
        api->open(&host, opened, usable, &options, &plan, &backend, &err) != LR_OK)
        fail_msg("%s: %s", shape->name, err.text);
    for (uint32_t i = 0; i < count; i++)
        compare(backend, &m, ends[i], real ? ROWS_MAX : 2);
    api->close(backend);
    native_model_api()->close(opened);
    free_model(&m);
}

static void the_last_rows_of_a_long_context_are_those_of_sums_in_doubles(void **state)
{
    static const uint32_t all[] = {0, 511, 512, 4095, 4096, 32767, 131071};
    bool is_long = getenv("LR_LONG") != NULL;

    (void)state;
    /* In `make test` the end of the context for YaRN alone: half a second for each. */
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_shape(&shapes[i], is_long, all, is_long || shapes[i].rope == YARN ? 7 : 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rows_of_a_long_context_are_those_of_sums_in_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
