/* LINK: hub wire model base */
/* Answers of the hub's search, fronts of GGUF files, and what nodes and routers say about fits.
 * The first byte selects. */
#include <stdint.h>
#include <stdlib.h>

#include "hub/look.h"
#include "wire/fit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_search(struct lr_str text)
{
    struct hub_found found = {0};
    char words[HUB_WORDS_MAX], quant[HUB_QUANT_MAX];
    if (hub_found_read(text, &found, NULL) == LR_OK)
        for (size_t i = 0; i < found.count; i++)
            if (!hub_repo_valid(lr_str_z(found.list[i].repo)))
                abort();
    hub_search_words(text, words, quant);
}

static void try_front(struct lr_str text)
{
    struct lr_arena arena;
    struct model_gguf g;
    struct model_size s;
    struct lr_error err = {0};
    lr_arena_init(&arena, 16 << 20);
    if (model_gguf_parse_front(&arena, text.ptr, text.len, "front", &g, &err) != LR_OK) {
        if (err.text[0] == '\0')
            abort();
    } else if (model_size_of_gguf(&g, &s, &err) == LR_OK) {
        (void)model_size_work(&s, UINT64_MAX);
        if (model_size_kv(&s, 10) > model_size_kv(&s, 20))
            abort();
    }
    if (model_size_of_config(text, &s, &err) == LR_OK)
        (void)model_size_tokens(&s, 1 << 30);
    lr_arena_free(&arena);
}

static void try_fit(struct lr_str text)
{
    struct lr_arena arena;
    struct wire_fit_question *q = calloc(1, sizeof(*q));
    struct wire_fit_answer *a = calloc(1, sizeof(*a));
    lr_arena_init(&arena, 64 << 20);
    if (q != NULL && wire_fit_question_parse(&arena, text, q, NULL) == LR_OK &&
        q->count > WIRE_FIT_MAX)
        abort();
    if (a != NULL && wire_fit_answer_parse(&arena, text, a, NULL) == LR_OK &&
        a->count > WIRE_FIT_MAX)
        abort();
    free(q);
    free(a);
    lr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct lr_str text = lr_str((const char *)data + 1, size - 1);
    if (data[0] == 's')
        try_search(text);
    else if (data[0] == 'g')
        try_front(text);
    else
        try_fit(text);
    return 0;
}
