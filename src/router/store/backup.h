/* router/store/backup.h - copies the database of a router that may run.
 */
#ifndef ROUTER_STORE_BACKUP_H
#define ROUTER_STORE_BACKUP_H

#include "base/fail.h"

/* Copies the SQLite database of a router that may run.  The file is new, mode 0600; CONFLICT
 * where it exists. */
LR_MUST_USE lr_code router_backup(const char *data_dir, const char *file, struct lr_error *err);

#endif
