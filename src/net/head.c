/* net/head.c - see head.h: the guard, llhttp, and the rules that decide where a message
 * ends. */
#include "net/head.h"

#include "base/errors.h"

#include <llhttp.h>
#include <string.h>

/* ---- the guard ---- */

/* Bytes that the guard must check: control characters, CR, LF, DEL. All others pass in a tight
 * loop. */
static bool is_special(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

static enum net_head_result head_refuse(struct lr_error *err, const char *why)
{
    (void)lr_fail_as(err, head_malformed, why);
    return NET_HEAD_BAD;
}

enum net_head_result net_head_scan(struct net_head_scan *scan, struct lr_str bytes,
                                   struct lr_error *err)
{
    size_t at = scan->at;
    for (;;) {
        if (at == scan->line_start && at < bytes.len &&
            (bytes.ptr[at] == ' ' || bytes.ptr[at] == '\t'))
            return head_refuse(err, "a line begins with a blank (folded header)");
        while (at < bytes.len && !is_special((unsigned char)bytes.ptr[at]))
            at++;
        /* A CR at the end of the input is checked again together with the next byte. */
        scan->at = at;
        if (at == bytes.len)
            return NET_HEAD_MORE;
        if (bytes.ptr[at] == '\n')
            return head_refuse(err, "a line ends in LF without CR");
        if (bytes.ptr[at] != '\r')
            return head_refuse(err, "it contains a control byte");
        if (at + 1 == bytes.len)
            return NET_HEAD_MORE;
        if (bytes.ptr[at + 1] != '\n')
            return head_refuse(err, "it contains CR without LF");
        bool is_empty = at == scan->line_start;
        at += 2;
        scan->at = at;
        scan->line_start = at;
        if (is_empty)
            return NET_HEAD_COMPLETE;
        scan->line_count++;
    }
}

/* ---- llhttp over a complete block ---- */

struct collected {
    struct net_header *items;
    size_t count;
    size_t cap;
    bool in_value; /* the last callback was a value */
    bool is_complete;
    bool is_split; /* a span came in several pieces: impossible in a block that passed the guard
                    */
};

static void extend(struct collected *c, struct lr_str *span, const char *at, size_t len)
{
    if (span->len == 0)
        *span = lr_str(at, len);
    else if (span->ptr + span->len == at)
        span->len += len;
    else
        c->is_split = true;
}

static int on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct collected *c = parser->data;
    if (c->in_value || c->count == 0) {
        if (c->count == c->cap)
            return -1;
        c->items[c->count++] = (struct net_header){.name = {at, 0}, .value = {"", 0}};
        c->in_value = false;
    }
    extend(c, &c->items[c->count - 1].name, at, len);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct collected *c = parser->data;
    c->in_value = true;
    if (len != 0)
        extend(c, &c->items[c->count - 1].value, at, len);
    return 0;
}

static int on_value_end(llhttp_t *parser)
{
    struct collected *c = parser->data;
    c->in_value = true; /* also for an empty value, which has no span */
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct collected *c = parser->data;
    c->is_complete = true;
    return HPE_PAUSED; /* bodies are parsed by body.h */
}

static lr_code run_llhttp(llhttp_type_t type, struct lr_str block, struct collected *c,
                          llhttp_t *parser, struct lr_error *err)
{
    static const llhttp_settings_t settings = {
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_end,
        .on_headers_complete = on_headers_complete,
    };
    llhttp_init(parser, type, &settings);
    parser->data = c;
    llhttp_errno_t rc = llhttp_execute(parser, block.ptr, block.len);
    if (rc == HPE_PAUSED && c->is_complete && !c->is_split)
        return LR_OK;
    const char *reason = llhttp_get_error_reason(parser);
    return lr_fail(err, LR_INVALID_ARGUMENT, "malformed HTTP head: %s",
                   reason != NULL && reason[0] != '\0' ? reason : llhttp_errno_name(rc));
}

static lr_code collect(struct lr_arena *arena, llhttp_type_t type, struct lr_str *block,
                       size_t line_count, struct net_headers *headers, llhttp_t *parser,
                       struct lr_error *err)
{
    const char *copy = lr_arena_copy(arena, *block);
    struct collected c = {.cap = line_count};
    c.items = lr_arena_array(arena, line_count, sizeof(struct net_header));
    if (copy == NULL || c.items == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a head of %zu bytes", block->len);
    block->ptr = copy;
    lr_code code = run_llhttp(type, *block, &c, parser, err);
    if (code != LR_OK)
        return code;
    if (c.count + 1 != line_count)
        return lr_fail(err, LR_INVALID_ARGUMENT, "malformed HTTP head: a line is no header");
    for (size_t i = 0; i < c.count; i++) {
        c.items[i].value = lr_str_trim(c.items[i].value);
        if (!net_header_name_ok(c.items[i].name))
            return lr_fail(err, LR_INVALID_ARGUMENT, "malformed HTTP head: a bad header name");
    }
    *headers = (struct net_headers){c.items, c.count};
    return LR_OK;
}

/* ---- framing ---- */

struct framing {
    bool has_length;
    bool is_chunked;
    uint64_t length;
};

static lr_code read_framing(struct net_headers headers, struct framing *out, int *status,
                            struct lr_error *err)
{
    *out = (struct framing){0};
    struct lr_str length;
    struct lr_str encoding;
    out->has_length = net_headers_get(headers, "content-length", &length);
    out->is_chunked = net_headers_get(headers, "transfer-encoding", &encoding);
    *status = 400;
    if (out->has_length && out->is_chunked)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "both Content-Length and Transfer-Encoding are given");
    if (net_headers_count(headers, "content-length") > 1)
        return lr_fail(err, LR_INVALID_ARGUMENT, "Content-Length is given twice");
    if (net_headers_count(headers, "transfer-encoding") > 1)
        return lr_fail(err, LR_INVALID_ARGUMENT, "Transfer-Encoding is given twice");
    if (out->has_length && (length.len > 18 || !lr_str_u64(length, &out->length)))
        return lr_fail_as(err, length_malformed, length);
    if (out->is_chunked && !lr_str_eq_nocase(encoding, LR_STR_LIT("chunked"))) {
        *status = 501;
        return lr_fail_as(err, encoding_refused, encoding);
    }
    return LR_OK;
}

/* If llhttp reads the framing differently, one of the two parsers has a flaw that an attacker
 * may use: the message is refused. */
static bool llhttp_agrees(const llhttp_t *parser, const struct framing *framing)
{
    bool chunked = (parser->flags & F_CHUNKED) != 0;
    bool has_length = (parser->flags & F_CONTENT_LENGTH) != 0;
    return chunked == framing->is_chunked && has_length == framing->has_length &&
           (!has_length || parser->content_length == framing->length);
}

static bool keeps_alive(struct net_headers headers, int minor)
{
    if (net_headers_has_token(headers, "connection", "close"))
        return false;
    return minor >= 1 || net_headers_has_token(headers, "connection", "keep-alive");
}

/* ---- requests ---- */

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(".-_:[]%", c) != NULL);
}

static lr_code check_authority(struct lr_str authority, struct lr_error *err)
{
    for (size_t i = 0; i < authority.len; i++) {
        if (!is_host_char(authority.ptr[i]))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "the Host contains a character that no "
                           "host name has");
    }
    if (authority.len == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the Host is empty");
    return LR_OK;
}

static lr_code read_host(struct net_head *head, struct lr_error *err)
{
    size_t count = net_headers_count(head->headers, "host");
    if (count > 1)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the Host header is given twice");
    if (count == 0 && head->minor >= 1)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the Host header is missing");
    if (count == 0)
        return LR_OK;
    (void)net_headers_get(head->headers, "host", &head->authority);
    return check_authority(head->authority, err);
}

static struct lr_str without_scheme(struct lr_str target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        struct lr_str scheme = lr_str_z(schemes[i]);
        if (target.len > scheme.len &&
            lr_str_eq_nocase(lr_str_sub(target, 0, scheme.len), scheme))
            return lr_str_sub(target, scheme.len, target.len);
    }
    return lr_str(NULL, 0);
}

static lr_code read_target(struct net_head *head, struct lr_error *err)
{
    struct lr_str rest = head->target;
    for (size_t i = 0; i < rest.len; i++) {
        unsigned char c = (unsigned char)rest.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "the request target contains byte 0x%02x, which must be escaped", c);
    }
    if (lr_str_eq_z(rest, "*") && lr_str_eq_z(head->method, "OPTIONS")) {
        head->path = rest;
        return LR_OK;
    }
    struct lr_str absolute = without_scheme(rest);
    if (absolute.len != 0) {
        size_t end = 0;
        while (end < absolute.len && absolute.ptr[end] != '/' && absolute.ptr[end] != '?')
            end++;
        head->authority = lr_str_sub(absolute, 0, end);
        rest = lr_str_sub(absolute, end, absolute.len);
        lr_code code = check_authority(head->authority, err);
        if (code != LR_OK)
            return code;
    } else if (rest.len == 0 || rest.ptr[0] != '/') {
        return lr_fail(err, LR_INVALID_ARGUMENT, "the request target must begin with \"/\"");
    }
    size_t mark = lr_str_find_char(rest, '?');
    if (mark != LR_STR_NONE) {
        head->query = lr_str_sub(rest, mark + 1, rest.len);
        rest = lr_str_sub(rest, 0, mark);
    }
    head->path = rest.len != 0 ? rest : LR_STR_LIT("/");
    return LR_OK;
}

/* The first line again, by position: METHOD SP target SP HTTP/1.x and nothing else. */
static lr_code read_request_line(struct lr_str block, struct net_head *head, int *status,
                                 struct lr_error *err)
{
    struct lr_str line = lr_str_sub(block, 0, lr_str_find_char(block, '\r'));
    size_t first = lr_str_find_char(line, ' ');
    *status = 400;
    if (first == LR_STR_NONE || line.len < first + 11)
        return lr_fail(err, LR_INVALID_ARGUMENT, "malformed request line");
    head->method = lr_str_sub(line, 0, first);
    head->target = lr_str_sub(line, first + 1, line.len - 9);
    struct lr_str version = lr_str_sub(line, line.len - 9, line.len);
    if (!net_header_name_ok(head->method) || !lr_str_starts(version, " HTTP/") ||
        version.ptr[7] != '.')
        return lr_fail(err, LR_INVALID_ARGUMENT, "malformed request line");
    if (version.ptr[6] != '1' || (version.ptr[8] != '0' && version.ptr[8] != '1')) {
        *status = 505;
        return lr_fail(err, LR_UNSUPPORTED, "HTTP/%c.%c is not spoken here, only 1.1 and 1.0",
                       version.ptr[6], version.ptr[8]);
    }
    head->minor = version.ptr[8] - '0';
    if (lr_str_eq_z(head->method, "CONNECT")) {
        *status = 501;
        return lr_fail(err, LR_UNSUPPORTED, "CONNECT is not supported: this is no proxy");
    }
    return LR_OK;
}

static lr_code read_expect(struct net_head *head, int *status, struct lr_error *err)
{
    struct lr_str expect;
    if (!net_headers_get(head->headers, "expect", &expect) || head->minor < 1)
        return LR_OK;
    if (!lr_str_eq_nocase(expect, LR_STR_LIT("100-continue"))) {
        *status = 417;
        return lr_fail_as(err, expect_refused, expect);
    }
    head->expects_continue = true;
    return LR_OK;
}

/* Compressed bodies are refused, because a small body could unpack to a huge one. */
static lr_code check_encoding(const struct net_head *head, int *status, struct lr_error *err)
{
    struct lr_str encoding;
    if (!net_headers_get(head->headers, "content-encoding", &encoding) ||
        lr_str_eq_nocase(encoding, LR_STR_LIT("identity")))
        return LR_OK;
    *status = 415;
    return lr_fail_as(err, content_encoding, encoding);
}

lr_code net_head_parse_request(struct lr_arena *arena, struct lr_str block, size_t line_count,
                               struct net_head *out, int *status, struct lr_error *err)
{
    *out = (struct net_head){.query = {"", 0}, .authority = {"", 0}};
    *status = 431;
    if (line_count > NET_HEAD_MAX_HEADERS + 1)
        return lr_fail_as(err, headers_many, line_count - 1, NET_HEAD_MAX_HEADERS);
    lr_code code = read_request_line(block, out, status, err);
    if (code != LR_OK)
        return code;
    llhttp_t parser;
    *status = 400;
    code = collect(arena, HTTP_REQUEST, &block, line_count, &out->headers, &parser, err);
    struct framing framing;
    int framing_status = 400;
    /* Our error messages for bad framing say more than llhttp's. */
    if (code == LR_OK)
        code = read_framing(out->headers, &framing, &framing_status, err);
    if (code != LR_OK) {
        *status = code == LR_OUT_OF_RAM ? 503 : framing_status;
        return code;
    }
    if (!llhttp_agrees(&parser, &framing))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the length of the body is ambiguous");
    if (framing.is_chunked && out->minor < 1)
        return lr_fail(err, LR_INVALID_ARGUMENT, "HTTP/1.0 has no Transfer-Encoding");
    /* Makes the slices of the caller's block point into the arena's copy. */
    code = read_request_line(block, out, status, err);
    if (code == LR_OK)
        code = read_host(out, err);
    if (code == LR_OK)
        code = read_target(out, err);
    if (code == LR_OK)
        code = read_expect(out, status, err);
    if (code == LR_OK)
        code = check_encoding(out, status, err);
    if (code != LR_OK)
        return code;
    out->body = framing.is_chunked                          ? NET_BODY_CHUNKED
                : framing.has_length && framing.length != 0 ? NET_BODY_LENGTH
                                                            : NET_BODY_NONE;
    out->length = framing.length;
    out->keep_alive = keeps_alive(out->headers, out->minor);
    return LR_OK;
}

/* ---- answers ---- */

lr_code net_head_parse_response(struct lr_arena *arena, struct lr_str block, size_t line_count,
                                const char *method, struct net_head *out, struct lr_error *err)
{
    *out = (struct net_head){.minor = 1};
    if (line_count > NET_HEAD_MAX_HEADERS + 1)
        return lr_fail(err, LR_UPSTREAM, "the answer has %zu header lines; the limit is %d",
                       line_count - 1, NET_HEAD_MAX_HEADERS);
    llhttp_t parser;
    struct framing framing;
    int unused;
    lr_code code =
        collect(arena, HTTP_RESPONSE, &block, line_count, &out->headers, &parser, err);
    if (code == LR_OK)
        code = read_framing(out->headers, &framing, &unused, err);
    if (code == LR_OK && (!llhttp_agrees(&parser, &framing) || parser.http_major != 1 ||
                          parser.http_minor > 1 || parser.status_code < 100))
        code = lr_fail(err, LR_UPSTREAM, "its length or version is ambiguous");
    if (code != LR_OK) {
        if (err != NULL)
            err->code = LR_UPSTREAM;
        return lr_fail_prefix(err, "the server's answer");
    }
    out->status = parser.status_code;
    out->minor = parser.http_minor;
    out->keep_alive = keeps_alive(out->headers, out->minor);
    out->length = framing.length;
    if (strcmp(method, "HEAD") == 0 || out->status < 200 || out->status == 204 ||
        out->status == 304)
        out->body = NET_BODY_NONE;
    else if (framing.is_chunked)
        out->body = NET_BODY_CHUNKED;
    else if (framing.has_length)
        out->body = framing.length != 0 ? NET_BODY_LENGTH : NET_BODY_NONE;
    else
        out->body = NET_BODY_UNTIL_CLOSE;
    if (out->body == NET_BODY_UNTIL_CLOSE)
        out->keep_alive = false;
    return LR_OK;
}
