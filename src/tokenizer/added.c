/* tokenizer/added.c - added_tokens: reading them and finding them in text.
 *
 * As in the Hugging Face tokenizer: leftmost match, the longest there; tokens with
 * "normalized": false are matched first, the others in the remaining text.  One rule is our
 * own: a control token that is not entirely in trusted text is no match at all, so it cannot
 * hide another token either.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/internal.h"
#include "tokenizer/reader.h"

static bool read_flag(const struct lr_json *object, const char *key, bool otherwise, bool *out)
{
    const struct lr_json *value = lr_json_get(object, key);
    *out = otherwise;
    return value == NULL || lr_json_bool(value, out);
}

static lr_code read_token(const struct lr_json *item, uint32_t index, struct added_token *token,
                          struct lr_error *err)
{
    uint64_t id = 0;
    const struct lr_json *number = lr_json_get(item, "id");
    if (!lr_json_is(item, LR_JSON_OBJECT) ||
        !(lr_json_u64(number, &id) || lr_json_is(number, LR_JSON_NULL)) ||
        !lr_json_str(lr_json_get(item, "content"), &token->text))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "added_tokens[%u] must be an object with an \"id\" and a \"content\"",
                       index);
    if (id >= TOKENIZER_MAX_VOCAB)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "added_tokens[%u].id %llu is above the limit of %d", index,
                       (unsigned long long)id, TOKENIZER_MAX_VOCAB - 1);
    if (token->text.len == 0)
        return lr_fail(err, LR_MODEL_CORRUPT, "added_tokens[%u] with id %llu has an empty text",
                       index, (unsigned long long)id);
    token->id = (uint32_t)id;
    bool good = read_flag(item, "special", false, &token->special) &&
                read_flag(item, "single_word", false, &token->single_word) &&
                read_flag(item, "lstrip", false, &token->lstrip) &&
                read_flag(item, "rstrip", false, &token->rstrip) &&
                read_flag(item, "normalized", !token->special, &token->normalized);
    if (!good)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "added_tokens[%u]: special, single_word, lstrip, rstrip and normalized "
                       "must be true or false",
                       index);
    return LR_OK;
}

static bool find_id(const struct vocab *v, struct lr_str text, uint32_t *id)
{
    struct lr_buf spelled;
    const struct vocab_slot *slot = NULL;
    lr_buf_init(&spelled, text.len + 1);
    if (v->raw)
        lr_buf_add_str(&spelled, text);
    if (v->raw || tokenizer_alphabet_bytes(text, &spelled))
        slot = tokenizer_vocab_find(v, spelled.data, spelled.len);
    lr_buf_free(&spelled);
    if (slot != NULL)
        *id = slot->id;
    return slot != NULL;
}

/* The vocabulary may also contain an added token; then both must agree. */
static lr_code enter(struct vocab *v, const struct added_token *token, struct lr_error *err)
{
    uint16_t flags = (uint16_t)(TOKEN_ADDED | (token->special ? TOKEN_SPECIAL : 0));
    struct lr_buf spelled;
    lr_buf_init(&spelled, token->text.len + 1);
    bool is_letters = !v->raw && tokenizer_alphabet_bytes(token->text, &spelled);
    struct lr_str form = is_letters ? lr_buf_str(&spelled) : token->text;
    const struct vocab_slot *known = (v->raw || is_letters) && form.len != 0
                                         ? tokenizer_vocab_find(v, form.ptr, form.len)
                                         : NULL;
    lr_buf_free(&spelled);
    if (known != NULL && known->id != token->id && !v->repeats)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "token \"%.*s\" has the id %u in added_tokens and %u in model.vocab",
                       (int)(token->text.len < 80 ? token->text.len : 80), token->text.ptr,
                       token->id, known->id);
    struct token *there = token->id < v->size ? &v->tokens[token->id] : NULL;
    bool same = there != NULL && there->flags != 0 &&
                (known != NULL ||
                 lr_str_eq(lr_str(vocab_bytes(v, token->id), there->len), token->text));
    if (!same) /* an id that is taken is refused there */
        return tokenizer_vocab_add(v, token->id, token->text, flags, err);
    there->flags = (uint16_t)(there->flags | flags);
    return LR_OK;
}

static int by_text(const void *a, const void *b)
{
    return lr_str_cmp(((const struct added_token *)a)->text,
                      ((const struct added_token *)b)->text);
}

static lr_code fail_twice(struct lr_str text, struct lr_error *err)
{
    return lr_fail(err, LR_MODEL_CORRUPT, "added_tokens has \"%.*s\" twice",
                   (int)(text.len < 80 ? text.len : 80), text.ptr);
}

/* A text that is special in one entry and plain in another could be used by untrusted text. */
static lr_code check_apart(const struct added *a, struct lr_error *err)
{
    const struct added_matcher *m = &a->matchers[0], *n = &a->matchers[1];
    for (uint32_t i = 0, j = 0; i < m->count && j < n->count;) {
        int order = lr_str_cmp(m->tokens[i].text, n->tokens[j].text);
        if (order == 0)
            return fail_twice(m->tokens[i].text, err);
        if (order < 0)
            i++;
        else
            j++;
    }
    return LR_OK;
}

static lr_code added_finish(struct added_matcher *m, struct lr_error *err)
{
    if (m->count != 0)
        qsort(m->tokens, m->count, sizeof(*m->tokens), by_text);
    for (uint32_t i = 0; i < m->count; i++) {
        struct lr_str text = m->tokens[i].text;
        if (i != 0 && lr_str_eq(text, m->tokens[i - 1].text))
            return fail_twice(text, err);
        m->first[(unsigned char)text.ptr[0]] = true;
        m->only_first =
            text.ptr[0] == m->tokens[0].text.ptr[0] ? (unsigned char)text.ptr[0] : -1;
    }
    return LR_OK;
}

/* Sorts tokens after normalizing.  An empty one is never found; of equal ones the last of the
 * file, as in the reference, but a plain one must not stand for a special one. */
static lr_code order(struct added_matcher *m)
{
    uint32_t count = 0;
    memset(m->first, 0, sizeof(m->first));
    qsort(m->tokens, m->count, sizeof(*m->tokens), by_text);
    for (uint32_t i = 0; i < m->count; i++) {
        struct lr_str text = m->tokens[i].text;
        if (text.len == 0)
            continue;
        bool again = count != 0 && lr_str_eq(text, m->tokens[count - 1].text);
        if (again && m->tokens[count - 1].special)
            continue;
        m->tokens[again ? count - 1 : count] = m->tokens[i];
        count += again ? 0 : 1;
        m->first[(unsigned char)text.ptr[0]] = true;
    }
    m->count = count;
    m->only_first = -1;
    if (count != 0 && m->tokens[0].text.ptr[0] == m->tokens[count - 1].text.ptr[0])
        m->only_first = (unsigned char)m->tokens[0].text.ptr[0];
    return LR_OK;
}

static lr_code read_all(struct added *a, struct vocab *v, const struct lr_json *list,
                        struct lr_error *err)
{
    size_t used = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct added_token token;
        lr_code rc = read_token(&list->items[i], i, &token, err);
        /* source.h: the id is the vocabulary's, and a token that is not in it does not count.
         */
        if (rc == LR_OK && lr_json_is(lr_json_get(&list->items[i], "id"), LR_JSON_NULL) &&
            !find_id(v, token.text, &token.id))
            continue;
        if (rc == LR_OK)
            rc = enter(v, &token, err);
        if (rc != LR_OK)
            return rc;
        memcpy(a->text + used, token.text.ptr, token.text.len);
        token.text.ptr = a->text + used;
        used += token.text.len;
        struct added_matcher *m = &a->matchers[token.normalized];
        m->tokens[m->count++] = token;
        if (token.single_word && a->word == NULL) {
            rc = tokenizer_split_compile(
                LR_STR_LIT("^[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}]"), false,
                "the pattern of word characters", &a->word, err);
            if (rc != LR_OK)
                return rc;
        }
    }
    lr_code rc = added_finish(&a->matchers[0], err);
    if (rc == LR_OK)
        rc = added_finish(&a->matchers[1], err);
    return rc == LR_OK ? check_apart(a, err) : rc;
}

lr_code tokenizer_added_read(struct added *a, struct vocab *v, const struct lr_json *list,
                             struct lr_error *err)
{
    if (list == NULL || list->type == LR_JSON_NULL || lr_json_is(list, LR_JSON_ARRAY)) {
        if (list == NULL || list->type == LR_JSON_NULL || list->count == 0)
            return LR_OK;
    } else {
        return lr_fail(err, LR_MODEL_CORRUPT, "added_tokens must be an array");
    }
    size_t bytes = 1;
    for (uint32_t i = 0; i < list->count; i++) {
        struct lr_str content;
        if (lr_json_str(lr_json_get(&list->items[i], "content"), &content))
            bytes += content.len;
    }
    a->text = malloc(bytes);
    a->matchers[0].tokens = calloc(list->count, sizeof(struct added_token));
    a->matchers[1].tokens = calloc(list->count, sizeof(struct added_token));
    if (a->text == NULL || a->matchers[0].tokens == NULL || a->matchers[1].tokens == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u added tokens", list->count);
    return read_all(a, v, list, err);
}

lr_code tokenizer_added_normalize(struct added *a, const struct normalizer *n,
                                  struct lr_error *err)
{
    struct added_matcher *m = &a->matchers[1];
    struct normal_work work;
    struct finder finder = {0};
    struct lr_buf all;
    lr_code rc = LR_OK;
    if (n->count == 0 || m->count == 0)
        return LR_OK;
    tokenizer_normal_work_init(&work);
    lr_buf_init(&all, SIZE_MAX / 2);
    for (uint32_t i = 0; rc == LR_OK && i < m->count; i++) {
        const unsigned char *marks = NULL;
        struct lr_str out;
        rc = tokenizer_normal_apply(n, &work, &finder, m->tokens[i].text, &marks, &out, err);
        if (rc != LR_OK)
            break;
        m->tokens[i].at = all.len;
        m->tokens[i].text.len = out.len;
        lr_buf_add_str(&all, out);
    }
    if (rc == LR_OK && all.failed)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for %u added tokens", m->count);
    for (uint32_t i = 0; rc == LR_OK && i < m->count; i++)
        m->tokens[i].text.ptr = all.data + m->tokens[i].at;
    a->normalized = all.data;
    if (rc == LR_OK)
        rc = order(m);
    tokenizer_normal_work_free(&work);
    tokenizer_finder_free(&finder);
    return rc;
}

void tokenizer_added_free(struct added *a)
{
    free(a->text);
    free(a->normalized);
    free(a->matchers[0].tokens);
    free(a->matchers[1].tokens);
    tokenizer_split_free_code(a->word);
}

/* ---- finding ---- */

static bool is_trusted(const struct trust *trust, size_t start, size_t end)
{
    size_t low = 0, high = trust->count; /* changes of trust at or before start */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trust->flips[middle] <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low % 2 == 1 && (low == trust->count || trust->flips[low] >= end);
}

/* The longest token that is a prefix of text and may be recognised there. */
static const struct added_token *longest(const struct added_matcher *m, struct lr_str text,
                                         size_t base, const struct trust *trust)
{
    const struct added_token *best = NULL;
    uint32_t low = 0, high = m->count;
    for (size_t depth = 0; low < high; depth++) {
        /* Tokens low..high share text[0..depth); the shortest sorts first. */
        const struct added_token *token = &m->tokens[low];
        if (token->text.len == depth) {
            if (!token->special || is_trusted(trust, base, base + depth))
                best = token;
            low++;
        }
        if (depth == text.len)
            break;
        unsigned char want = (unsigned char)text.ptr[depth];
        uint32_t from = low, to = high;
        while (from < to) {
            uint32_t middle = from + (to - from) / 2;
            if ((unsigned char)m->tokens[middle].text.ptr[depth] < want)
                from = middle + 1;
            else
                to = middle;
        }
        low = from;
        for (to = high; from < to;) {
            uint32_t middle = from + (to - from) / 2;
            if ((unsigned char)m->tokens[middle].text.ptr[depth] <= want)
                from = middle + 1;
            else
                to = middle;
        }
        high = from;
    }
    return best;
}

/* Where the character before `at` begins; `at` > 0. */
static size_t step_back(struct lr_str text, size_t at)
{
    do
        at--;
    while (at != 0 && ((unsigned char)text.ptr[at] & 0xC0) == 0x80);
    return at;
}

static bool space_at(struct lr_str text, size_t at, size_t *len)
{
    uint32_t c;
    int n = lr_utf8_decode(text.ptr + at, text.len - at, &c);
    *len = n > 0 ? (size_t)n : 1;
    return n > 0 && char_is_space(c);
}

static bool word_at(const struct added *a, struct lr_str text, size_t at)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (data == NULL)
        return false;
    int rc = pcre2_match(a->word, (PCRE2_SPTR)(text.ptr + at), text.len - at, 0,
                         PCRE2_NO_UTF_CHECK, data, NULL);
    pcre2_match_data_free(data);
    return rc >= 0;
}

static bool stands_alone(const struct added *a, struct lr_str text, size_t start, size_t end)
{
    return (start == 0 || !word_at(a, text, step_back(text, start))) &&
           (end == text.len || !word_at(a, text, end));
}

/* The next position where a token may begin. */
static size_t next_first(const struct added_matcher *m, struct lr_str text, size_t at)
{
    if (m->only_first >= 0) {
        const char *found = memchr(text.ptr + at, m->only_first, text.len - at);
        return found != NULL ? (size_t)(found - text.ptr) : text.len;
    }
    while (at < text.len && !m->first[(unsigned char)text.ptr[at]])
        at++;
    return at;
}

bool tokenizer_added_next(const struct added *a, const struct added_matcher *m,
                          struct lr_str text, size_t *from, size_t base,
                          const struct trust *trust, struct added_hit *hit)
{
    size_t floor = *from;
    for (size_t at = *from; at < text.len; at++) {
        at = next_first(m, text, at);
        if (at == text.len)
            break;
        struct lr_str rest = lr_str(text.ptr + at, text.len - at);
        const struct added_token *token = longest(m, rest, base + at, trust);
        if (token == NULL)
            continue;
        size_t end = at + token->text.len, len;
        if (token->single_word && !stands_alone(a, text, at, end)) {
            at = end - 1; /* the match is consumed although it does not count */
            continue;
        }
        *hit = (struct added_hit){at, end, token->id};
        while (token->lstrip && hit->start > floor &&
               space_at(text, step_back(text, hit->start), &len))
            hit->start = step_back(text, hit->start);
        while (token->rstrip && hit->end < text.len && space_at(text, hit->end, &len))
            hit->end += len;
        *from = hit->end;
        return true;
    }
    *from = text.len;
    return false;
}
