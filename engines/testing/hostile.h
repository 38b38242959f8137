/* engines/testing/hostile.h - what a hostile engine tries, on Linux.
 *
 * Each attempt does no harm where it succeeds: it changes files that a test made for it, and
 * sends no signal.  An attempt that ends with another error than those of a refusal was not
 * refused: a service that does not run here would have been reached where it runs.
 *
 * The plug-in `hostile` (hostile_engine.c) makes all attempts when its library is opened.
 */
#ifndef ENGINES_TESTING_HOSTILE_H
#define ENGINES_TESTING_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sandbox.h"

enum { HOSTILE_PATH = 512, HOSTILE_REPORT = 8192 };

/* Where things are; paths are absolute, "" names nothing. */
struct hostile_plan {
    char outside[HOSTILE_PATH];   /* a file that is nothing to the engine */
    char spare[HOSTILE_PATH];     /* another one, to be removed */
    char readable[HOSTILE_PATH];  /* a file of its own model, not needed for anything */
    char model[HOSTILE_PATH];     /* the model's folder */
    char other[HOSTILE_PATH];     /* a file of another model */
    char secret[HOSTILE_PATH];    /* a file in the data folder */
    char to_folder[HOSTILE_PATH]; /* a file through a link of the model's folder to a folder */
    char to_file[HOSTILE_PATH];   /* a link of the model's folder to a file elsewhere */
    char handover[HOSTILE_PATH];  /* local sockets: the router's for its successor, */
    char listener[HOSTILE_PATH];  /* the one that a router listens on, */
    char datagram[HOSTILE_PATH];  /* and one as that of a service manager */
    int port;                     /* of 127.0.0.1, where somebody listens */
    int sibling;                  /* another process of this user */
};

struct hostile_attempt {
    const char *name;
    enum lr_barrier barrier;                     /* what refuses the attempt */
    int (*run)(const struct hostile_plan *plan); /* 0, or an errno */
};

/* Lists that end with a name of NULL. */
extern const struct hostile_attempt hostile_sockets[], hostile_processes[], hostile_memory[],
    hostile_files[], hostile_kernel[];

/* 0, or errno after a call that returned -1. */
int hostile_code(long result);
bool hostile_is_refusal(int code);

/* Makes all attempts: "name=ok" or "name=EACCES", one a line.  done: called for each attempt
 * too; NULL: not called. */
void hostile_try(const struct hostile_plan *plan, char report[HOSTILE_REPORT],
                 void (*done)(void *arg, const struct hostile_attempt *attempt, int code),
                 void *arg);

#endif
