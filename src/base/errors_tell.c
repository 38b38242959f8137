#include <stdio.h>
#include <string.h>

#include "base/errors.h"
#include "llm-router/engine.h"

void lr_error_tell(const struct lr_engine_host *host, const struct lr_error *err)
{
    struct lr_identity identity;
    struct lr_str names[LR_ERROR_HOLES];
    struct lr_error_value values[LR_ERROR_HOLES];
    char copies[LR_ERROR_HOLES * 64 + sizeof(err->text)], *at = copies;
    if (!LR_HOST_HAS(host, tell_error) || !lr_error_read(err, &identity))
        return;
    const struct lr_spans *spans = &identity.error;
    (void)lr_error_holes(spans->id, names);
    for (size_t i = 0; i < spans->count; i++) {
        size_t room = (size_t)(copies + sizeof(copies) - at);
        values[i].name = at;
        at += snprintf(at, room, LR_STR_FMT, LR_STR_ARG(lr_str_sub(names[i], 0, 62))) + 1;
        room = (size_t)(copies + sizeof(copies) - at);
        values[i].value = at;
        lr_str_copy(at, room, lr_str(err->text + spans->holes[i].at, spans->holes[i].len));
        at += strlen(at) + 1;
    }
    host->tell_error(host->ctx, lr_error_rows[spans->id].id, values, spans->count);
}
