/* chat/prompt.c - see chat/prompt.h. */
#include "chat/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat/codec.h"
#include "chat/format.h"
#include "chat/harmony/template.h"
#include "chat/template/chatml.h"
#include "chat/template/manners.h"
#include "chat/template/object.h"
#include "chat/template/render.h"
#include "chat/template/repair.h"

/* Memory limit for the variables and for repaired messages; everything else stays in the
 * request. */
enum { CONTEXT_MAX = 256 << 20 };

/* The variables of a template, with the names of the Hugging Face tools. */
enum { OWN_VARIABLES = 11 };

static void prompt_put(struct lr_json_member *members, uint32_t *count, struct lr_str key,
                       struct lr_json value)
{
    members[(*count)++] = (struct lr_json_member){key, value};
}

/* The client's variables come last and may replace all of ours except messages, tools and
 * add_generation_prompt, which the codec refuses.  The client's keys are unique, so only ours
 * are compared. */
static void put_kwargs(struct lr_json_member *members, uint32_t *count,
                       const struct lr_json *kwargs)
{
    uint32_t own = *count;
    for (uint32_t i = 0; i < kwargs->count; i++) {
        const struct lr_json_member *m = &kwargs->members[i];
        uint32_t at = 0;
        while (at < own && !lr_str_eq(members[at].key, m->key))
            at++;
        if (at < own)
            members[at].value = m->value;
        else
            prompt_put(members, count, m->key, m->value);
    }
}

static bool mentions(const struct chat_model *model, const char *word)
{
    return lr_str_find(model->source, lr_str_z(word)) != LR_STR_NONE;
}

/* The switch of reasoning has another name in each family.  Variables that a template does not
 * know have no effect. */
static void put_thinking(struct lr_json_member *members, uint32_t *count,
                         const struct chat_request *req, const struct chat_model *model)
{
    static const char *const switches[] = {"enable_thinking", "thinking"};
    bool is_on = req->thinking == CHAT_THINKING_ON, is_off = req->thinking == CHAT_THINKING_OFF;
    struct lr_str effort = req->reasoning_effort;
    if (is_off && mentions(model, "no_think") && mentions(model, "reasoning_effort"))
        effort = LR_STR_LIT("no_think"); /* Hunyuan 3 */
    if (effort.len > 0)
        prompt_put(members, count, LR_STR_LIT("reasoning_effort"),
                   (struct lr_json){.type = LR_JSON_STRING, .text = effort});
    if (!is_on && !is_off)
        return;
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
        prompt_put(members, count, lr_str_z(switches[i]),
                   (struct lr_json){.type = LR_JSON_BOOL, .boolean = is_on});
    if (mentions(model, "thinking_mode")) /* MiniMax M3 */
        prompt_put(
            members, count, LR_STR_LIT("thinking_mode"),
            (struct lr_json){.type = LR_JSON_STRING,
                             .text = is_on ? LR_STR_LIT("enabled") : LR_STR_LIT("disabled")});
    if (is_off && mentions(model, "thinking_budget")) /* Seed-OSS */
        prompt_put(members, count, LR_STR_LIT("thinking_budget"),
                   (struct lr_json){.type = LR_JSON_NUMBER, .text = LR_STR_LIT("0")});
}

/* Templates without a variable look for a word in a message.  False: no memory. */
static bool switch_by_word(struct lr_arena *arena, const struct chat_request *req,
                           const struct chat_model *model, struct lr_json *messages)
{
    struct lr_str role, text;
    struct chat_object o;
    uint32_t at = messages->count;
    bool is_due = req->thinking == CHAT_THINKING_OFF && mentions(model, "/no_think") &&
                  !mentions(model, "enable_thinking is");
    while (is_due && at != 0 &&
           !(lr_json_str(lr_json_get(&messages->items[at - 1], "role"), &role) &&
             lr_str_eq_z(role, "user")))
        at--;
    if (!is_due || at == 0 ||
        !lr_json_str(lr_json_get(&messages->items[at - 1], "content"), &text))
        return true;
    struct lr_json *items = lr_arena_array(arena, messages->count, sizeof(*items));
    char *joined = lr_arena_printf(arena, LR_STR_FMT " /no_think", LR_STR_ARG(text));
    if (items == NULL || joined == NULL ||
        !chat_object_begin(&o, arena, &messages->items[at - 1], 0))
        return false;
    memcpy(items, messages->items, messages->count * sizeof(*items));
    chat_object_set(&o, "content",
                    chat_string_json(lr_str(joined, text.len + strlen(" /no_think"))));
    items[at - 1] = chat_object_json(&o);
    messages->items = items;
    return true;
}

/* SmolLM3's template knows the tools under another name. */
static void put_tools(struct lr_json_member *members, uint32_t *count,
                      const struct chat_request *req, const struct chat_model *model)
{
    struct lr_json none = {.type = LR_JSON_NULL};
    struct lr_json tools = req->tools != NULL ? *req->tools : none;
    prompt_put(members, count, LR_STR_LIT("tools"), tools);
    if (mentions(model, "xml_tools"))
        prompt_put(members, count, LR_STR_LIT("xml_tools"), tools);
}

static lr_code make_context(const struct chat_request *req, const struct chat_model *model,
                            struct lr_arena *arena, struct lr_json *out, struct lr_error *err)
{
    const struct lr_json *kwargs = req->template_kwargs;
    uint32_t room = OWN_VARIABLES + (kwargs != NULL ? kwargs->count : 0);
    struct lr_json_member *members = lr_arena_array(arena, room, sizeof(*members));
    struct lr_json none = {.type = LR_JSON_NULL};
    uint32_t count = 0;

    if (members == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u template variables", room);
    struct lr_json messages = *req->messages;
    if (model->dialect.is_channels && !chat_format_show(arena, req, &messages))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the response format");
    prompt_put(members, &count, LR_STR_LIT("messages"), messages);
    put_tools(members, &count, req, model);
    prompt_put(members, &count, LR_STR_LIT("documents"), none);
    prompt_put(members, &count, LR_STR_LIT("add_generation_prompt"),
               (struct lr_json){.type = LR_JSON_BOOL, .boolean = true});
    put_thinking(members, &count, req, model);
    if (!switch_by_word(arena, req, model, &members[0].value))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the last message");
    if (kwargs != NULL)
        put_kwargs(members, &count, kwargs);
    *out = (struct lr_json){.type = LR_JSON_OBJECT, .count = count, .members = members};
    return LR_OK;
}

static size_t special_tokens(const struct chat_model *model, struct jinja_var vars[4])
{
    const struct jinja_var all[] = {
        {LR_STR_LIT("bos_token"), model->bos_token},
        {LR_STR_LIT("eos_token"), model->eos_token},
        {LR_STR_LIT("unk_token"), model->unk_token},
        {LR_STR_LIT("pad_token"), model->pad_token},
    };
    size_t count = 0;
    /* Templates join the first two to texts without a look whether the model has them. */
    for (size_t i = 0; i < 4; i++)
        if (i < 2 || all[i].text.len > 0)
            vars[count++] = (struct jinja_var){
                all[i].name, all[i].text.len > 0 ? all[i].text : LR_STR_LIT("")};
    return count;
}

/* Renders with the model's own template or the default template of its family. */
static lr_code prompt_render(const struct chat_model *model, const struct lr_json *context,
                             const struct tm *now, struct lr_arena *arena,
                             struct jinja_output *out, struct lr_error *err)
{
    struct jinja_var trusted[4];
    if (model->chat_template == NULL)
        return model->dialect.is_channels ? chat_harmony_render(context, now, out, err)
                                          : chat_chatml_render(context, out, err);
    struct jinja_input input = {.context = context,
                                .trusted = trusted,
                                .trusted_count = special_tokens(model, trusted),
                                .now = now};
    lr_code code = chat_template_render(model->chat_template, &input, arena, out, err);
    return code == LR_OK ? LR_OK : lr_fail_prefix(err, "the model's chat template");
}

void chat_model_learn(struct chat_model *model)
{
    struct jinja_var trusted[4];
    model->manners = 0;
    if (model->chat_template != NULL)
        model->manners =
            chat_manners_of(model->chat_template, trusted, special_tokens(model, trusted));
}

struct lr_str chat_model_ending(const struct chat_model *model, char out[CHAT_ENDING_MAX])
{
    struct jinja_var trusted[4];
    return model->chat_template == NULL
               ? (struct lr_str){0}
               : chat_manners_ending(model->chat_template, trusted,
                                     special_tokens(model, trusted), out);
}

/* The messages as the template takes them. */
static lr_code fit(struct lr_arena *arena, const struct chat_model *model,
                   const struct lr_json **context, struct lr_error *err)
{
    struct chat_object o;
    struct lr_json *fitted = lr_arena_alloc(arena, sizeof(*fitted));
    bool good =
        fitted != NULL && chat_object_begin(&o, arena, *context, 0) &&
        chat_manners_apply(arena, model->manners, &chat_object_find(&o, "messages")->value);
    if (!good)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the messages");
    *fitted = chat_object_json(&o);
    *context = fitted;
    return LR_OK;
}

static lr_code render_chat(const struct chat_request *req, const struct chat_model *model,
                           int64_t now, struct jinja_output *out, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_json context;
    const struct lr_json *repaired;
    struct tm tm;
    time_t seconds = (time_t)now;

    if (model->lacks_template)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "this model has no chat template, and its vocabulary has no marks of "
                       "turns: use /v1/completions, or register the model with "
                       "--chat-template FILE");
    localtime_r(&seconds, &tm);
    lr_arena_init(&arena, CONTEXT_MAX);
    lr_code code = make_context(req, model, &arena, &context, err);
    if (code == LR_OK)
        code = chat_repair(&arena, &context, model->dialect.format, &repaired, err);
    if (code == LR_OK && model->chat_template != NULL)
        code = fit(&arena, model, &repaired, err);
    if (code == LR_OK)
        code = prompt_render(model, repaired, &tm, &arena, out, err);
    lr_arena_free(&arena);
    return code;
}

static lr_code take_segments(struct chat_prompt *prompt, struct lr_error *err)
{
    const struct jinja_output *from = &prompt->rendered;
    struct lr_segment *list = calloc(from->count > 0 ? from->count : 1, sizeof(*list));
    if (list == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu prompt segments", from->count);
    for (size_t i = 0; i < from->count; i++)
        list[i] = (struct lr_segment){.text = from->segments[i].text.ptr,
                                      .len = from->segments[i].text.len,
                                      .control = from->segments[i].control};
    prompt->owned = list;
    prompt->segments = list;
    prompt->segment_count = from->count;
    prompt->bytes = from->text.len;
    return LR_OK;
}

/* What becomes a vector: a text in which no control token is recognised, or ids. */
static lr_code borrow_raw(const struct chat_raw_prompt *raw, struct chat_prompt *prompt,
                          struct lr_error *err)
{
    prompt->ids = raw->ids;
    prompt->id_count = raw->id_count;
    if (raw->ids != NULL)
        return LR_OK;
    struct lr_segment *segment = malloc(sizeof(*segment));
    if (segment == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a text");
    *segment = (struct lr_segment){.text = raw->text.ptr, .len = raw->text.len};
    prompt->owned = segment;
    prompt->segments = segment;
    prompt->segment_count = 1;
    prompt->bytes = raw->text.len;
    return LR_OK;
}

/* A raw prompt in one allocation: its ids, or one segment and its text. */
static lr_code take_raw(const struct chat_raw_prompt *raw, struct chat_prompt *prompt,
                        struct lr_error *err)
{
    bool is_ids = raw->ids != NULL;
    size_t size =
        is_ids ? raw->id_count * sizeof(uint32_t) : sizeof(struct lr_segment) + raw->text.len;
    char *block = malloc(size);
    if (block == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a prompt of %zu bytes", size);
    prompt->owned = block;
    if (is_ids) {
        memcpy(block, raw->ids, size);
        prompt->ids = prompt->owned;
        prompt->id_count = raw->id_count;
        return LR_OK;
    }
    struct lr_segment *segment = prompt->owned;
    char *text = block + sizeof(*segment);
    memcpy(text, raw->text.ptr, raw->text.len);
    *segment = (struct lr_segment){.text = text, .len = raw->text.len, .control = 1};
    prompt->segments = segment;
    prompt->segment_count = 1;
    prompt->bytes = raw->text.len;
    return LR_OK;
}

/* Only the template's own text opens reasoning, never the client's. */
static bool opens_thought(const struct chat_model *model, const struct chat_prompt *prompt)
{
    for (size_t i = prompt->segment_count; i != 0; i--) {
        const struct lr_segment *s = &prompt->segments[i - 1];
        struct lr_str text = lr_str(s->text, s->len);
        if (lr_str_trim(text).len != 0)
            return s->control && chat_dialect_opens(&model->dialect, text);
    }
    return false;
}

lr_code chat_prompt_render(const struct chat_request *req, const struct chat_model *model,
                           uint32_t index, int64_t now, struct chat_prompt *out,
                           struct lr_error *err)
{
    *out = (struct chat_prompt){0};
    jinja_output_init(&out->rendered, JINJA_MAX_OUTPUT);
    if (req->codec->kind != LR_REQUEST_GENERATE)
        return borrow_raw(&req->prompts[index], out, err);
    if (req->prompts != NULL)
        return take_raw(&req->prompts[index], out, err);
    lr_code code = render_chat(req, model, now, &out->rendered, err);
    if (code == LR_OK)
        code = take_segments(out, err);
    if (code != LR_OK)
        return code;
    out->opens_thought = opens_thought(model, out);
    chat_lost_find(req->messages, req->tools, out->rendered.text, out->lost);
    if (req->thinking == CHAT_THINKING_OFF && out->opens_thought) {
        size_t len = strlen(out->lost);
        (void)snprintf(out->lost + len, sizeof(out->lost) - len, "%sthinking",
                       len != 0 ? ", " : "");
    }
    return LR_OK;
}

void chat_prompt_free(struct chat_prompt *prompt)
{
    jinja_output_free(&prompt->rendered);
    free(prompt->owned);
    *prompt = (struct chat_prompt){0};
}
