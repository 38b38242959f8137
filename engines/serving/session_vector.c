/* serving/session_vector.c - see session.h: the result of a request for a vector. */
#include <math.h>
#include <stdlib.h>

#include "base/fail.h"
#include "engines/serving/session.h"

/* To length 1.  False: the values have no direction. */
static bool session_vector_scale(float *values, uint32_t count)
{
    double squares = 0;

    for (uint32_t i = 0; i < count; i++)
        squares += (double)values[i] * (double)values[i];
    if (!isfinite(squares) || squares <= 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        values[i] = (float)((double)values[i] / sqrt(squares));
    return true;
}

static void session_vector_fail(struct engine_session *s, struct engine_sequence *seq,
                                lr_code code, const char *text)
{
    struct lr_error error;

    lr_fail(&error, code, "%s", text);
    engine_session_finish(s, seq, LR_FINISH_ERROR, &error);
}

void engine_session_tell_vector(struct engine_session *s, struct engine_sequence *seq,
                                const float *values, uint32_t count)
{
    bool embeds = seq->kind == LR_REQUEST_EMBED;
    uint32_t wanted = embeds && seq->dimensions != 0 ? seq->dimensions : count;
    struct lr_vector vector = {.size = sizeof(vector), .count = wanted};
    float *copy = malloc(wanted * sizeof(*copy));

    if (copy == NULL) {
        session_vector_fail(s, seq, LR_OUT_OF_RAM, "no memory for the result");
        return;
    }
    memcpy(copy, values, wanted * sizeof(*copy));
    vector.values = copy;
    if (embeds ? session_vector_scale(copy, wanted) : isfinite(copy[0])) {
        s->host.on_vector(s->host.ctx, seq->id, &vector);
        if (seq->state != ENGINE_ENDED)
            engine_session_finish(s, seq, LR_FINISH_STOP, NULL);
    } else {
        session_vector_fail(s, seq, LR_INTERNAL, "the model computed no number for this text");
    }
    free(copy);
}
