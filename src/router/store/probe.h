/* router/store/probe.h - looks whether the database that the settings name answers.
 */
#ifndef ROUTER_STORE_PROBE_H
#define ROUTER_STORE_PROBE_H

#include "base/settings.h"

/* For `llm-router config check`.  Nothing is created or changed. */
LR_MUST_USE lr_code router_check_database(const struct lr_settings *settings,
                                          struct lr_error *err);

#endif
