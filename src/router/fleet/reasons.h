/* router/fleet/reasons.h - what a reason says, as a code and parameters, for pages in other
 * languages.
 *
 * Reasons of models and messages of alerts are English sentences, most of them of nodes.  This
 * table knows the frequent ones: a sentence that fits a pattern gets its code and the texts
 * that stand in its holes.  A hole {cause} is looked up, too: cause_code and cause_params stand
 * beside it.  A sentence that fits none has no code, and is shown as it is.  The page has a
 * text for each code in each language (dashboard/i18n), which tests/e2e/dashboard_lib.test.mjs
 * checks. Thread: any.
 */
#ifndef ROUTER_FLEET_REASONS_H
#define ROUTER_FLEET_REASONS_H

#include "base/json.h"
#include "base/str.h"

/* Members `prefix`_code and `prefix`_params, into an open object; nothing where the text is
 * empty or not known. */
void router_reason_put(struct lr_json_writer *w, const char *prefix, struct lr_str text);

/* Whether the text fits the pattern of this code; *value gets what stands in the hole, and is
 * borrowed from the text. */
bool router_reason_find(struct lr_str text, const char *code, const char *hole,
                        struct lr_str *value);

#endif
