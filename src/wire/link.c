#include "wire/link.h"

#include <stdio.h>

#define NAME "llm-router-link/"
#define SUMS "+sums"

void wire_link_name(uint32_t protocol, bool has_sums, char out[WIRE_LINK_NAME_MAX])
{
    (void)snprintf(out, WIRE_LINK_NAME_MAX, NAME "%u%s", (unsigned)protocol,
                   has_sums ? SUMS : "");
}

bool wire_link_parse(struct lr_str name, uint32_t *protocol, bool *has_sums)
{
    uint64_t number;
    name = lr_str_trim(name);
    bool is_sealed = lr_str_ends(name, SUMS);
    if (is_sealed)
        name = lr_str_sub(name, 0, name.len - (sizeof(SUMS) - 1));
    if (!lr_str_starts(name, NAME) ||
        !lr_str_u64(lr_str_sub(name, sizeof(NAME) - 1, name.len), &number) ||
        number > UINT32_MAX)
        return false;
    *protocol = (uint32_t)number;
    if (has_sums != NULL)
        *has_sums = is_sealed;
    return true;
}

uint32_t wire_protocol_common(uint64_t theirs)
{
    if (theirs < WIRE_PROTOCOL_FIRST || theirs + 1 < WIRE_PROTOCOL ||
        theirs > WIRE_PROTOCOL + 1)
        return 0;
    return theirs < WIRE_PROTOCOL ? (uint32_t)theirs : WIRE_PROTOCOL;
}
