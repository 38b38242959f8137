/* net/body.c - see body.h: the parser of body framing. */
#include "net/body.h"

#include "base/errors.h"

enum {
    CHUNK_SIZE_FIRST, /* at least one hex digit must follow */
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST_CR, /* after the chunk of size 0 */
    CHUNK_LAST_LF,
    CHUNK_DONE,
};

enum { MAX_DIGITS = 16, MAX_LINE = 256 };

void net_body_init(struct net_body *body, enum net_body_kind kind, uint64_t length)
{
    *body = (struct net_body){.kind = kind, .left = length};
    if (kind == NET_BODY_CHUNKED)
        body->left = 0;
}

static enum net_body_result bad(struct lr_error *err, const char *why)
{
    (void)lr_fail_as(err, body_malformed, why);
    return NET_BODY_BAD;
}

static enum net_body_result take_data(struct net_body *body, struct lr_str *input,
                                      struct lr_str *data)
{
    uint64_t take = body->left < input->len ? body->left : input->len;
    *data = lr_str_sub(*input, 0, (size_t)take);
    *input = lr_str_sub(*input, (size_t)take, input->len);
    body->left -= take;
    body->total += take;
    return NET_BODY_DATA;
}

/* Parses one byte of framing; returns NULL or what is wrong. */
static const char *chunk_byte(struct net_body *body, char c)
{
    int digit = lr_hex_digit(c);
    switch (body->state) {
    case CHUNK_SIZE_FIRST:
    case CHUNK_SIZE:
        if (digit >= 0) {
            if (++body->line > MAX_DIGITS || body->left >> 59 != 0)
                return "a chunk size is too large";
            body->left = body->left << 4 | (unsigned)digit;
            body->state = CHUNK_SIZE;
            return NULL;
        }
        if (body->state == CHUNK_SIZE_FIRST || (c != ';' && c != '\r'))
            return "a chunk size is not made of hex digits alone";
        body->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
        return NULL;
    case CHUNK_EXTENSION:
        if (c == '\r') {
            body->state = CHUNK_SIZE_LF;
            return NULL;
        }
        if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
            return "a control byte in a chunk extension";
        return ++body->line > MAX_LINE ? "a chunk extension is too long" : NULL;
    case CHUNK_SIZE_LF:
        if (c != '\n')
            return "a chunk size line does not end in CR LF";
        body->state = body->left != 0 ? CHUNK_DATA : CHUNK_LAST_CR;
        body->line = 0;
        return NULL;
    case CHUNK_DATA_CR:
        if (c != '\r')
            return "a chunk is longer than its size";
        body->state = CHUNK_DATA_LF;
        return NULL;
    case CHUNK_DATA_LF:
        if (c != '\n')
            return "a chunk does not end in CR LF";
        body->state = CHUNK_SIZE_FIRST;
        return NULL;
    case CHUNK_LAST_CR:
        if (c != '\r')
            return "trailers are not accepted";
        body->state = CHUNK_LAST_LF;
        return NULL;
    default:
        if (c != '\n')
            return "the last chunk does not end in CR LF";
        body->state = CHUNK_DONE;
        return NULL;
    }
}

static enum net_body_result next_chunked(struct net_body *body, struct lr_str *input,
                                         struct lr_str *data, struct lr_error *err)
{
    while (body->state != CHUNK_DONE) {
        if (input->len == 0)
            return NET_BODY_MORE;
        if (body->state == CHUNK_DATA) {
            (void)take_data(body, input, data);
            if (body->left == 0)
                body->state = CHUNK_DATA_CR;
            return NET_BODY_DATA;
        }
        const char *why = chunk_byte(body, input->ptr[0]);
        if (why != NULL)
            return bad(err, why);
        *input = lr_str_sub(*input, 1, input->len);
    }
    return NET_BODY_END;
}

enum net_body_result net_body_next(struct net_body *body, struct lr_str *input,
                                   struct lr_str *data, struct lr_error *err)
{
    *data = lr_str("", 0);
    switch (body->kind) {
    case NET_BODY_NONE:
        return NET_BODY_END;
    case NET_BODY_LENGTH:
        if (body->left == 0)
            return NET_BODY_END;
        return input->len == 0 ? NET_BODY_MORE : take_data(body, input, data);
    case NET_BODY_CHUNKED:
        return next_chunked(body, input, data, err);
    case NET_BODY_UNTIL_CLOSE:
        break;
    }
    if (input->len == 0)
        return NET_BODY_MORE;
    body->left = input->len;
    return take_data(body, input, data);
}

bool net_body_ends_here(const struct net_body *body)
{
    switch (body->kind) {
    case NET_BODY_LENGTH:
        return body->left == 0;
    case NET_BODY_CHUNKED:
        return body->state == CHUNK_DONE;
    default:
        return true;
    }
}
