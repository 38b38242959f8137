#include "bench/router/answer.h"

#include <stdlib.h>
#include <string.h>

void answer_begin(struct answer *a, const struct answer_expected *expected)
{
    void (*on_time)(void *, uint64_t) = a->on_time;
    void (*on_first)(void *) = a->on_first;
    void *arg = a->arg;
    memset(a, 0, offsetof(struct answer, head));
    memset((char *)a + offsetof(struct answer, head_len), 0,
           offsetof(struct answer, line) - offsetof(struct answer, head_len));
    a->line_len = a->text_len = 0;
    a->times = a->last_said = 0;
    a->has_finish = a->has_done = a->is_wrong = false;
    a->expected = expected;
    a->on_time = on_time;
    a->on_first = on_first;
    a->arg = arg;
}

/* The text of "content":"..." in one event or body; our servers escape as JSON does. */
static const char *find_content(const char *from, size_t len)
{
    static const char key[] = "\"content\":\"";
    const char *at = memmem(from, len, key, sizeof(key) - 1);
    return at != NULL ? at + sizeof(key) - 1 : NULL;
}

static void add_content(struct answer *a, const char *at, const char *end)
{
    bool is_first = a->text_len == 0 && a->times == 0;
    if (at == end || *at == '"')
        return; /* the first delta is an empty one */
    if (is_first && a->on_first != NULL)
        a->on_first(a->arg);
    if (a->expected->text == NULL) {
        uint64_t said = strtoull(at, NULL, 10);
        a->is_wrong = a->is_wrong || said < a->last_said || said == 0;
        a->last_said = said;
        a->times++;
        if (a->on_time != NULL)
            a->on_time(a->arg, said);
        return;
    }
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\' || a->text_len == sizeof(a->text)) {
            a->is_wrong = true; /* the texts of our benches need no escapes */
            return;
        }
        a->text[a->text_len++] = *at;
    }
}

static bool has(const char *in, size_t len, const char *what)
{
    return memmem(in, len, what, strlen(what)) != NULL;
}

static void end_line(struct answer *a)
{
    const char *line = a->line;
    size_t len = a->line_len;
    a->line_len = 0;
    a->line[len] = '\0';
    if (len == 0 || line[0] == ':')
        return;
    if (len < 6 || memcmp(line, "data: ", 6) != 0) {
        a->is_wrong = true;
        return;
    }
    if (strcmp(line + 6, "[DONE]") == 0) {
        a->has_done = true;
        return;
    }
    a->is_wrong = a->is_wrong || a->has_done || has(line, len, "\"error\"");
    const char *content = find_content(line, len);
    if (content != NULL)
        add_content(a, content, line + len);
    a->has_finish = a->has_finish || has(line, len, "\"finish_reason\":\"");
}

static void take_body(struct answer *a, const char *bytes, size_t len)
{
    bool is_lines = a->expected->is_stream && a->status == 200;
    for (size_t i = 0; i < len; i++) {
        if (is_lines && bytes[i] == '\n') {
            end_line(a);
        } else if (a->line_len + 1 < sizeof(a->line)) {
            a->line[a->line_len++] = bytes[i];
        } else {
            a->is_wrong = true;
            return;
        }
    }
}

static const char *header(const struct answer *a, const char *name)
{
    const char *at = strcasestr(a->head, name);
    return at != NULL ? at + strlen(name) : NULL;
}

static void read_head(struct answer *a)
{
    const char *length = header(a, "\r\ncontent-length: ");
    a->head_done = true;
    a->status = atoi(a->head + 9);
    a->is_chunked = header(a, "\r\ntransfer-encoding: chunked") != NULL;
    a->has_retry_after = header(a, "\r\nretry-after: ") != NULL;
    a->keeps_alive = header(a, "\r\nconnection: close") == NULL;
    a->left = length != NULL ? strtoull(length, NULL, 10) : 0;
    a->is_wrong = length == NULL && !a->is_chunked;
}

/* One byte of a size line, an end of a chunk or the trailer. */
static bool take_chunk_byte(struct answer *a, char c)
{
    if (a->chunk == CHUNK_SIZE && c == '\n') {
        a->chunk = a->left != 0 ? CHUNK_DATA : CHUNK_TRAILER;
        a->chunk_line = 0;
    } else if (a->chunk == CHUNK_SIZE && c != '\r') {
        int digit = c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0';
        a->left = a->left * 16 + (size_t)(digit & 15);
    } else if (a->chunk == CHUNK_END && c == '\n') {
        a->chunk = CHUNK_SIZE;
    } else if (a->chunk == CHUNK_TRAILER) {
        if (c == '\n' && a->chunk_line == 0)
            return true;
        if (c == '\n')
            a->chunk_line = 0;
        else if (c != '\r')
            a->chunk_line++;
    }
    return false;
}

static bool take_rest(struct answer *a, const char *bytes, size_t len)
{
    while (len != 0) {
        size_t piece = 1;
        if (!a->is_chunked || a->chunk == CHUNK_DATA) {
            piece = len < a->left ? len : a->left;
            take_body(a, bytes, piece);
            a->left -= piece;
            if (a->left == 0 && !a->is_chunked) {
                a->is_wrong = a->is_wrong || piece != len;
                return true;
            }
            if (a->left == 0)
                a->chunk = CHUNK_END;
        } else if (take_chunk_byte(a, *bytes)) {
            a->is_wrong = a->is_wrong || len != 1;
            return true;
        }
        bytes += piece;
        len -= piece;
    }
    return !a->is_chunked && a->left == 0;
}

bool answer_take(struct answer *a, const char *bytes, size_t len)
{
    if (a->head_done)
        return take_rest(a, bytes, len);
    size_t before = a->head_len;
    size_t room = sizeof(a->head) - 1 - before;
    size_t copied = len < room ? len : room;
    memcpy(a->head + before, bytes, copied);
    a->head_len += copied;
    a->head[a->head_len] = '\0';
    const char *end = strstr(a->head, "\r\n\r\n");
    if (end == NULL) {
        a->is_wrong = copied < len;
        return a->is_wrong;
    }
    size_t used = (size_t)(end + 4 - a->head) - before;
    a->head_len = (size_t)(end + 2 - a->head);
    a->head[a->head_len] = '\0';
    read_head(a);
    return a->is_wrong || take_rest(a, bytes + used, len - used);
}

bool answer_is_right(const struct answer *a)
{
    const struct answer_expected *e = a->expected;
    if (a->status != 200 || a->is_wrong)
        return false;
    if (e->is_stream) {
        bool ended = a->has_finish && a->has_done && a->line_len == 0;
        if (e->text == NULL)
            return ended && a->times != 0 && (e->tokens == 0 || a->times == e->tokens);
        return ended && a->text_len == strlen(e->text) &&
               memcmp(a->text, e->text, a->text_len) == 0;
    }
    const char *content = find_content(a->line, a->line_len);
    size_t len = strlen(e->text);
    return content != NULL && (size_t)(a->line + a->line_len - content) > len &&
           memcmp(content, e->text, len) == 0 && content[len] == '"' &&
           has(a->line, a->line_len, "\"finish_reason\":\"stop\"") &&
           has(a->line, a->line_len, "\"completion_tokens\":");
}
