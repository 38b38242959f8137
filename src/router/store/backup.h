/* router/store/backup.h - copies the database of a router that may run, and puts a copy back.
 */
#ifndef ROUTER_STORE_BACKUP_H
#define ROUTER_STORE_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

/* Copies the SQLite database of a router that may run.  The file is new, mode 0600; CONFLICT
 * where it exists. */
LR_MUST_USE lr_code router_backup(const char *data_dir, const char *file, struct lr_error *err);

struct router_restored {
    int64_t keys, models; /* that the copy has */
    char kept[4096];      /* where the database before is now; "": there was none */
};

/* Puts a copy of `file` in the place of the database.  CONFLICT while a router uses the folder.
 * The copy is checked first: it is whole, and this program can use it; until then nothing is
 * changed.  The database before is kept beside it.  only_check: nothing is put in place. */
LR_MUST_USE lr_code router_restore(const char *data_dir, const char *file, bool only_check,
                                   struct router_restored *out, struct lr_error *err);

#endif
