/* wire/fleet_live.h - events and downloads in a heartbeat (internal to fleet.c). */
#ifndef WIRE_FLEET_LIVE_H
#define WIRE_FLEET_LIVE_H

#include "wire/fleet.h"

void wire_fleet_live_write(struct lr_json_writer *w, const struct wire_heartbeat *m);
LR_MUST_USE lr_code wire_fleet_live_read(struct lr_arena *arena, const struct lr_json *obj,
                                         struct wire_heartbeat *out, struct lr_error *err);

#endif
