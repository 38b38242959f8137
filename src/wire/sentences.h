/* wire/sentences.h - the errors of neighbours and engines that tell no ids.
 *
 * This is the only file that reads an error's English.  Nodes and routers of protocol 2, and
 * engines that do not know tell_error of engine.h, send a code and a sentence: sentences that
 * an earlier release knew get their identity here.  It goes with the release after next
 * (docs/upgrade.md).  Thread: any.
 */
#ifndef WIRE_SENTENCES_H
#define WIRE_SENTENCES_H

#include "base/errors.h"

/* Gives an error without an identity the one of its sentence, where that is known. */
void wire_sentence_know(struct lr_error *err);

#endif
