/* wire/abilities.c - what a model can do, in words: see wire/fleet.h. */
#include <stdio.h>

#include "base/errors.h"
#include "llm-router/engine.h"
#include "wire/fleet.h"

static const struct {
    uint32_t kind;
    const char *word;
} words[] = {{LR_REQUEST_GENERATE, "chat"},
             {LR_REQUEST_GENERATE, "completion"},
             {LR_REQUEST_EMBED, "embed"},
             {LR_REQUEST_RERANK, "rerank"}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

void wire_abilities_write(struct lr_json_writer *w, uint32_t requests)
{
    if (requests == 0)
        return;
    lr_json_member_array(w, "capabilities");
    for (size_t i = 0; i < WORDS; i++)
        if ((requests >> words[i].kind & 1) != 0)
            lr_json_put_z(w, words[i].word);
    lr_json_end_array(w);
}

const char *wire_abilities_text(uint32_t requests, char out[WIRE_ABILITIES_MAX])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < WORDS; i++)
        if ((requests >> words[i].kind & 1) != 0)
            len += (size_t)snprintf(out + len, WIRE_ABILITIES_MAX - len, "%s%s",
                                    len != 0 ? ", " : "", words[i].word);
    return out;
}

lr_code wire_abilities_check(uint32_t requests, uint32_t kind, const char *model,
                             struct lr_error *err)
{
    static const char *const asked[] = {"generates no text", "gives no embeddings",
                                        "ranks no documents"};
    char can[WIRE_ABILITIES_MAX];
    if (requests == 0 || (requests >> kind & 1) != 0)
        return LR_OK;
    return lr_fail_as(err, model_cannot, model, asked[kind],
                      wire_abilities_text(requests, can));
}
