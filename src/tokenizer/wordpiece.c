/* tokenizer/wordpiece.c - WordPiece: the longest token that a word begins with, then the
 * longest continuation, and so on; a word with a rest is unknown as a whole. */
#include "tokenizer/chars.h"
#include "tokenizer/encoding.h"

/* The longest token at text[at..]; continuations are below the prefix's node.  0: none. */
static size_t longest(const struct encoding *e, struct lr_str text, size_t at, uint32_t node,
                      uint32_t *id)
{
    const struct trie *trie = &e->t->trie;
    size_t found = 0;
    for (size_t end = at; end < text.len;) {
        node = trie_next(trie, node, (unsigned char)text.ptr[end++]);
        if (node == 0)
            break;
        uint32_t token = trie_token(trie, node, e->spells_control);
        if (token == TRIE_NONE)
            continue;
        *id = token;
        found = end;
    }
    return found;
}

static size_t count_characters(struct lr_str text, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len && count <= most; i += char_width(text.ptr[i]))
        count++;
    return count;
}

lr_code tokenizer_wordpiece_encode(struct encoding *e, struct lr_str text)
{
    const struct wordpiece *w = &e->t->wordpiece;
    struct tokenizer_ids *out = e->bpe.out;
    size_t first = out->count;
    bool known = count_characters(text, w->longest) <= w->longest;
    for (size_t at = 0; known && at < text.len;) {
        uint32_t id = 0;
        size_t end = at == 0 || w->inner != 0 || w->prefix.len == 0
                         ? longest(e, text, at, at == 0 ? 0 : w->inner, &id)
                         : 0;
        known = end != 0;
        if (known)
            tokenizer_ids_add(out, id);
        at = end;
    }
    if (known)
        return LR_OK;
    if (w->unknown == TOKENIZER_NONE)
        return lr_fail(e->err, LR_INVALID_ARGUMENT,
                       "the text has words that model.vocab cannot write, and its unk_token is "
                       "not in it");
    out->count = first;
    tokenizer_ids_add(out, w->unknown);
    return LR_OK;
}
