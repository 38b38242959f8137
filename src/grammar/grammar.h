/* grammar/grammar.h - constrained output: which tokens may come next.
 *
 * A constraint is a small JSON text, written by the chat layer (grammar/constraint.h) and sent
 * over the wire.  It is compiled into a program over bytes and control tokens.  A matcher
 * follows one answer through the program and gives a bit mask of the tokens that keep it legal.
 * Everything that a matcher accepts can be completed: there are no dead ends.  Thread: one at a
 * time; programs and vocabularies may be shared by matchers of one thread.
 */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"

enum {
    GRAMMAR_CONSTRAINT_MAX = 512 << 10, /* bytes of a constraint */
    GRAMMAR_STEPS_MAX = 1 << 16,        /* of a program; limits the size of schemas */
    GRAMMAR_WORK_MAX = 1 << 18,         /* steps of all schemas of a request; a few ms */
    GRAMMAR_DEPTH_MAX = 64,             /* nesting of values */
    GRAMMAR_INDENT_MAX = 32,            /* blanks after a line break */
    GRAMMAR_PROPERTIES_MAX = 512,       /* of one object */
};

/* ---- programs ---- */

struct grammar_program;

/* INVALID_ARGUMENT or UNSUPPORTED names the place and the wrong keyword. */
LR_MUST_USE lr_code grammar_compile(struct lr_str constraint, struct grammar_program **out,
                                    struct lr_error *err);
/* True for a constraint that only bounds reasoning: an engine that cannot mask tokens answers
 * without it. */
bool grammar_constraint_is_wish(struct lr_str constraint);
void grammar_program_free(struct grammar_program *program); /* NULL is fine */

/* ---- vocabularies ---- */

struct grammar_vocab;

/* The tokens of a model. token() gives borrowed bytes and LR_VOCAB_ flags; false ends the list.
 * The bytes of a control token are its name. */
struct grammar_tokens {
    void *ctx;
    bool (*token)(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags);
};

LR_MUST_USE lr_code grammar_vocab_create(const struct grammar_tokens *tokens,
                                         struct grammar_vocab **out, struct lr_error *err);
/* The same tokens for the matchers of another thread, with scratch memory and kept masks of
 * their own.  Borrows the tables of `vocab` until it is freed.  NULL: no memory. */
struct grammar_vocab *grammar_vocab_share(const struct grammar_vocab *vocab);
void grammar_vocab_free(struct grammar_vocab *vocab); /* NULL is fine */

/* ---- matchers ---- */

struct grammar_matcher;

/* Borrows both until it is freed.  UNSUPPORTED: the vocabulary lacks a control token that the
 * program needs. */
LR_MUST_USE lr_code grammar_matcher_create(const struct grammar_program *program,
                                           const struct grammar_vocab *vocab,
                                           struct grammar_matcher **out, struct lr_error *err);
/* The same on another thread than that of the vocabulary's other matchers, for one matcher at a
 * time.  Until grammar_matcher_settle the matcher takes tokens there and has no masks. */
LR_MUST_USE lr_code grammar_matcher_create_aside(const struct grammar_program *program,
                                                 const struct grammar_vocab *vocab,
                                                 struct grammar_matcher **out,
                                                 struct lr_error *err);
/* The matcher's work goes on on the thread of `vocab`: its vocabulary, or a share of it. */
void grammar_matcher_settle(struct grammar_matcher *m, const struct grammar_vocab *vocab);
void grammar_matcher_free(struct grammar_matcher *m); /* NULL is fine */

/* Advances by one token of the answer; false: the token is not legal, and nothing has
 * changed. */
bool grammar_matcher_token(struct grammar_matcher *m, uint32_t id);

/* The legal tokens as bits, in `words` words.  UNSUPPORTED: no token is legal, because the
 * vocabulary cannot spell the required text. */
LR_MUST_USE lr_code grammar_matcher_mask(struct grammar_matcher *m, uint32_t *mask,
                                         size_t words, struct lr_error *err);

/* Works on the mask of the state for about `work` moves of threads, at least 1; *used says how
 * many were needed.  *ready: grammar_matcher_mask now only copies the mask; otherwise the next
 * call goes on where this call ended.  UNSUPPORTED: the mask needs too many moves. */
LR_MUST_USE lr_code grammar_matcher_prepare(struct grammar_matcher *m, uint32_t work,
                                            uint32_t *used, bool *ready, struct lr_error *err);

/* The same byte by byte, for tests: text, or (control) the name of a control token. */
bool grammar_matcher_bytes(struct grammar_matcher *m, struct lr_str bytes, bool control);
/* True when the answer may end here. */
bool grammar_matcher_is_complete(const struct grammar_matcher *m);

#endif
