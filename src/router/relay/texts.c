#include "router/relay/texts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"

/* ---- the prompt ---- */

/* The texts of a turn's prompts one after the other, without a copy of them. */
struct prompts {
    size_t total;            /* bytes */
    size_t at;               /* bytes that were looked at */
    struct lr_buf head, end; /* the first and the last bytes */
};

static bool is_within(unsigned char byte) /* a character that began before */
{
    return (byte & 0xC0) == 0x80;
}

/* Adds the part of a text that lies in the first or in the last half of what is kept. */
static void take(struct prompts *p, struct lr_str text)
{
    const size_t half = ROUTER_TEXT_MAX / 2;
    size_t head_end = p->total <= ROUTER_TEXT_MAX ? p->total : half;
    size_t end_begin = p->total <= ROUTER_TEXT_MAX ? p->total : p->total - half;
    size_t from = p->at, to = p->at + text.len;
    if (from < head_end)
        lr_buf_add(&p->head, text.ptr, (to < head_end ? to : head_end) - from);
    if (to > end_begin) {
        size_t skip = end_begin > from ? end_begin - from : 0;
        lr_buf_add(&p->end, text.ptr + skip, text.len - skip);
    }
    p->at = to;
}

static void walk(const struct chat_turn *turn, struct prompts *p,
                 void (*fn)(struct prompts *p, struct lr_str text))
{
    char ids[48];
    for (uint32_t i = 0; i < turn->prompt_count; i++) {
        const struct chat_prompt *prompt = &turn->prompts[i];
        if (i != 0)
            fn(p, LR_STR_LIT("\n\n"));
        for (size_t k = 0; k < prompt->segment_count; k++)
            fn(p, lr_str(prompt->segments[k].text, prompt->segments[k].len));
        if (prompt->ids != NULL) {
            (void)snprintf(ids, sizeof(ids), "[%zu token ids]", prompt->id_count);
            fn(p, lr_str_z(ids));
        }
    }
    if (turn->query.len != 0) { /* of a reranking */
        fn(p, LR_STR_LIT("\n\n"));
        fn(p, lr_str(turn->query.text, turn->query.len));
    }
}

static void measure(struct prompts *p, struct lr_str text)
{
    p->total += text.len;
}

void router_texts_prompt(const struct chat_turn *turn, struct lr_buf *json)
{
    struct prompts p = {0};
    struct lr_json_writer w;
    lr_buf_init(&p.head, ROUTER_TEXT_MAX);
    lr_buf_init(&p.end, ROUTER_TEXT_MAX);
    walk(turn, &p, measure);
    walk(turn, &p, take);
    struct lr_str head = lr_buf_str(&p.head), end = lr_buf_str(&p.end);
    if (end.len != 0) { /* whole characters */
        head.len = lr_utf8_valid_prefix(head);
        while (end.len != 0 && is_within((unsigned char)end.ptr[0]))
            end = lr_str_sub(end, 1, end.len);
    }
    lr_json_writer_init(&w, json);
    lr_json_begin_object(&w);
    LR_JSON_MEMBERS(&w, LR_STR("begin", head),
                    LR_UINT("left_out", p.total - head.len - end.len), LR_STR("end", end));
    lr_json_end_object(&w);
    lr_buf_free(&p.head);
    lr_buf_free(&p.end);
}

/* ---- the answer ---- */

struct router_kept_answer *router_kept_answer_new(uint32_t choices)
{
    struct router_kept_answer *answer =
        calloc(1, sizeof(*answer) + choices * sizeof(answer->choices[0]));
    if (answer == NULL)
        return NULL;
    answer->room = ROUTER_TEXT_MAX;
    answer->count = choices;
    for (uint32_t i = 0; i < choices; i++)
        lr_buf_init(&answer->choices[i].text, ROUTER_TEXT_MAX);
    return answer;
}

void router_kept_answer_free(struct router_kept_answer *answer)
{
    for (uint32_t i = 0; answer != NULL && i < answer->count; i++)
        lr_buf_free(&answer->choices[i].text);
    free(answer);
}

/* Arguments belong to the part of their call. */
static bool continues(const struct router_kept_choice *c, enum chat_delta_kind kind)
{
    if (c->part_count == 0 || kind == CHAT_DELTA_TOOL_BEGIN)
        return false;
    enum chat_delta_kind last = c->parts[c->part_count - 1].kind;
    return last == (kind == CHAT_DELTA_TOOL_ARGUMENTS ? CHAT_DELTA_TOOL_BEGIN : kind);
}

void router_kept_answer_add(struct router_kept_answer *answer, uint32_t choice,
                            const struct chat_delta *delta)
{
    if (choice >= answer->count || delta->text.len == 0)
        return;
    struct router_kept_choice *c = &answer->choices[choice];
    struct lr_str text = delta->text;
    bool is_new = !continues(c, delta->kind);
    if (c->left_out != 0 || (is_new && c->part_count == ROUTER_TEXT_PARTS))
        text.len = 0; /* what follows a gap would read as if there were none */
    else if (text.len > answer->room)
        text.len = lr_utf8_valid_prefix(lr_str_sub(text, 0, answer->room));
    c->left_out += delta->text.len - text.len;
    if (text.len == 0)
        return;
    bool is_call = delta->kind == CHAT_DELTA_TOOL_BEGIN;
    if (is_new)
        c->parts[c->part_count++] =
            (struct router_kept_part){delta->kind, c->text.len, is_call ? text.len : 0};
    lr_buf_add_str(&c->text, text);
    answer->room -= text.len;
}

static void put_part(struct lr_json_writer *w, const struct router_kept_choice *c, uint32_t i)
{
    const struct router_kept_part *part = &c->parts[i];
    struct lr_str all = lr_buf_str(&c->text);
    size_t end = i + 1 < c->part_count ? part[1].begin : all.len;
    bool is_call = part->kind == CHAT_DELTA_TOOL_BEGIN;
    lr_json_begin_object(w);
    lr_json_member_z(w, "kind",
                     is_call                              ? "tool_call"
                     : part->kind == CHAT_DELTA_REASONING ? "reasoning"
                                                          : "content");
    if (is_call)
        lr_json_member_str(w, "name",
                           lr_str_sub(all, part->begin, part->begin + part->name_len));
    lr_json_member_str(w, "text", lr_str_sub(all, part->begin + part->name_len, end));
    lr_json_end_object(w);
}

void router_kept_answer_write(const struct router_kept_answer *answer, struct lr_buf *json)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, json);
    lr_json_begin_array(&w);
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct router_kept_choice *c = &answer->choices[i];
        lr_json_begin_object(&w);
        lr_json_member_array(&w, "parts");
        for (uint32_t k = 0; !c->text.failed && k < c->part_count; k++)
            put_part(&w, c, k);
        lr_json_end_array(&w);
        lr_json_member_u64(&w, "left_out", c->left_out);
        lr_json_end_object(&w);
    }
    lr_json_end_array(&w);
}
