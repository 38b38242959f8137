/* native/spec/builder.h - how an architecture writes its list of operations.
 *
 * Each function appends one operation and returns the register that it writes.  The first error
 * is kept and later calls do nothing, so that an architecture is straight text.  Tensor names
 * are those of a plain model ("model.layers.0.mlp.up_proj"); the builder finds them below a
 * wrapper's prefix too, adds ".weight", and refuses another type or shape by name.
 *
 * Inside a layer names are relative: native_layer() sets what comes before them.  A name that
 * begins with '/' is not.  A name may name rows of a tensor: "qkv_proj[64:32]" are 32 rows from
 * row 64 on.
 */
#ifndef NATIVE_SPEC_BUILDER_H
#define NATIVE_SPEC_BUILDER_H

#include "engines/native/spec/config.h"
#include "engines/native/spec/spec.h"

struct native_builder;

enum { X = NATIVE_X };

/* Names until the next call begin with this format of n; "": outside of all layers. */
void native_layer(struct native_builder *b, const char *format, uint32_t n);
/* True: there is a tensor of this name, with or without ".weight". */
bool native_has(struct native_builder *b, const char *name);
/* Another name than `name` where the files have that. */
const char *native_either(struct native_builder *b, const char *name, const char *other);
/* The tensors below this name are known and not needed. */
void native_ignore(struct native_builder *b, const char *name);
/* Ends the build: a value that this architecture does not understand. */
void native_refuse(struct native_builder *b, const char *format, ...) LR_PRINTF(2, 3);
/* name with a number in it, in the builder's memory. */
const char *native_name(struct native_builder *b, const char *format, ...) LR_PRINTF(2, 3);

uint32_t native_width(const struct native_builder *b, reg r);

/* ---- rows ---- */

void native_embed(struct native_builder *b, reg x, const char *table, uint32_t rows,
                  uint32_t width, double scale);
/* From now on the id stands for an image or a sound: its embedding is that of `padding`. */
void native_placeholder(struct native_builder *b, uint32_t id, uint32_t padding);
/* Into a register of its own. */
reg native_lookup(struct native_builder *b, const char *table, uint32_t rows, uint32_t width,
                  double scale);
/* x += row of the table. */
void native_embed_add(struct native_builder *b, reg x, const char *table, uint32_t rows,
                      enum native_row row, uint32_t first);

reg native_norm(struct native_builder *b, reg in, const char *weight, double eps);
reg native_layer_norm(struct native_builder *b, reg in, const char *weight, bool bias,
                      double eps);
/* In place, over each head; the same weight for all heads.  weight NULL: none. */
void native_head_norm(struct native_builder *b, reg x, const char *weight, uint32_t head_size,
                      double eps);
/* Every option: in place where out == in; weight may be NULL. */
reg native_norm_with(struct native_builder *b, reg out, reg in, reg gate, const char *weight,
                     bool bias, const struct native_norm *how);

/* With `bias` also "<name>.bias". */
reg native_linear(struct native_builder *b, reg in, const char *name, uint32_t rows,
                  uint32_t columns, bool bias);
/* With bias; stored as [columns][rows]. */
reg native_linear_by_columns(struct native_builder *b, reg in, const char *name, uint32_t rows,
                             uint32_t columns);
reg native_heads(struct native_builder *b, reg in, const char *name,
                 const struct native_heads *how);

/* groups * length values: value offset + i of each group of group_in values. */
reg native_slice(struct native_builder *b, reg in, uint32_t groups, uint32_t group_in,
                 uint32_t offset, uint32_t length);
/* The same into a part of a register that exists: out[g * out_stride + out_offset + i]. */
void native_place(struct native_builder *b, reg out, reg in, const struct native_slice *how);
reg native_register(struct native_builder *b, uint32_t width);

reg native_gate(struct native_builder *b, reg value, reg gate, enum native_act act,
                uint32_t group);
reg native_act(struct native_builder *b, reg in, enum native_act act);
void native_add(struct native_builder *b, reg x, reg in, double scale);
void native_scale(struct native_builder *b, reg x, double scale);
/* x *= a tensor of one value, or of one for each column. */
void native_scale_by(struct native_builder *b, reg x, const char *name, uint32_t count,
                     double scale);
void native_softcap(struct native_builder *b, reg x, double cap);

/* ---- attention ---- */

/* The table of a rope for heads of this number of values; `dims` 0: from rope->partial. */
uint32_t native_rope_table(struct native_builder *b, const struct native_rope *rope,
                           uint32_t head_size, uint32_t dims);
void native_rotate(struct native_builder *b, reg x, uint32_t heads, uint32_t head_size,
                   uint32_t table);
void native_rotate_with(struct native_builder *b, reg x, const struct native_rotate *how);
/* *cache, where not NULL, is the cache that a later layer may name as its source.  k and v are
 * NATIVE_NO_REG with a source. */
reg native_attend(struct native_builder *b, reg q, reg k, reg v,
                  const struct native_attention *how, uint32_t *cache);

/* ---- experts ---- */

/* bias: added to the scores for the choice alone; scales: of each expert; both may be NULL. */
reg native_route(struct native_builder *b, reg scores, const char *bias, const char *scales,
                 const struct native_route *how);

/* Names of the experts' tensors, with "%u" where each expert has its own.  A fused tensor
 * [experts, rows, columns] has no "%u".  up NULL: gate holds the rows of both. */
struct native_expert_names {
    const char *gate, *up, *down;
    const char *gate_bias, *down_bias; /* NULL: none */
    bool transposed;                   /* stored as [experts, columns, rows] */
};
reg native_experts(struct native_builder *b, reg in, reg route,
                   const struct native_expert_names *names, const struct native_experts *how);

/* ---- state ---- */

reg native_conv(struct native_builder *b, reg in, const char *name, uint32_t channels,
                uint32_t kernel, bool bias, enum native_act act);
reg native_delta(struct native_builder *b, reg qkv, reg beta, reg a, const char *a_log,
                 const char *dt_bias, const struct native_delta *how);
reg native_ssm(struct native_builder *b, reg xbc, reg dt, const char *a_log, const char *d,
               const char *dt_bias, const struct native_ssm *how);

/* ---- the end ---- */

/* Logits, from here on only of the tokens that need them. */
reg native_unembed(struct native_builder *b, reg in, const char *name, uint32_t vocab,
                   bool bias);
/* True: modules.json says that the model gives vectors. */
bool native_gives_vectors(const struct native_builder *b);
/* A classifier with one label behind pooling by `pool`: sigmoid(out(norm(act(dense(x))))).
 * dense and norm may be NULL. */
struct native_classifier {
    enum native_pool pool;
    const char *dense, *norm, *out;
    enum native_act act;
    bool dense_bias, norm_bias, out_bias;
    double eps;
};
void native_end_rank(struct native_builder *b, reg in, const struct native_classifier *how);
/* True: config.json's architecture ends with "ForSequenceClassification". */
bool native_classifies(const struct native_builder *b);
/* The files say that the model ranks by its answer, yes or no: the probability of yes, of these
 * two rows of `head`. */
bool native_asks(const struct native_builder *b);
void native_end_asks(struct native_builder *b, reg in, const char *head);
/* Pooling of this register and the dense layers behind it: a row for each text. */
void native_end_vector(struct native_builder *b, reg in);

#endif
