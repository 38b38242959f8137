/* jinja/lexer.h - template source to tokens, one at a time.
 *
 * Whitespace control happens here: `-` and `+` at tags, trim_blocks, lstrip_blocks,
 * the one newline dropped at the end of the source, \r\n as \n.
 */
#ifndef JINJA_LEXER_H
#define JINJA_LEXER_H

#include "jinja/run.h"

enum token_kind {
    T_EOF,
    T_DATA,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_NAME,
    T_STRING,
    T_INTEGER,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_LT,
    T_LE,
    T_GT,
    T_GE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_ERROR, /* the run failed */
};

struct token {
    enum token_kind kind;
    uint32_t line;
    struct lr_str text; /* T_DATA, T_NAME, T_STRING (decoded); else as written */
    int64_t integer;
    double real;
};

enum lexer_state {
    LEX_ROOT,
    LEX_BLOCK,
    LEX_VARIABLE,
    LEX_RAW,
};

enum { LEX_MAX_BRACKETS = 256 };

struct lexer {
    struct run *run; /* memory and errors */
    struct lr_str source;
    size_t at;
    uint32_t line;
    enum lexer_state state;
    bool line_starting;
    char raw_sign;
    enum token_kind pending; /* a tag that follows the returned data directly */
    bool has_pending;
    char brackets[LEX_MAX_BRACKETS];
    size_t bracket_count;
};

/* Normalises newlines into the run's arena; false when the run failed. */
bool jinja_lexer_init(struct lexer *lexer, struct run *run, struct lr_str source);
struct token jinja_lexer_next(struct lexer *lexer);
const char *jinja_token_name(const struct token *token, char out[80]);

#endif
