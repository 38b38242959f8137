/* model/gptoss_storage.h - memory of a struct model_gptoss; shared by its two readers. */
#ifndef MODEL_GPTOSS_STORAGE_H
#define MODEL_GPTOSS_STORAGE_H

#include "base/arena.h"
#include "base/file.h"
#include "model/gptoss.h"

struct model_gptoss_storage {
    struct lr_arena arena;             /* the layer table and the source's name */
    struct model_weights *weights;     /* owned; NULL when read from a model.bin */
    struct lr_file_map map;            /* of the model.bin */
    uint16_t *rebuilt;                 /* owned: Q and K of a model.bin in plain order */
    struct model_gptoss_layer *layers; /* of the model, writable; set with rebuilt */
};

/* Fills m's pointers from m->storage->weights, or from the model.bin at path, whose mapping
 * goes to m->storage->map.  `layers` is m->layers, writable. */
LR_MUST_USE lr_code model_gptoss_from_safetensors(struct model_gptoss *m,
                                                  struct model_gptoss_layer *layers,
                                                  struct lr_error *err);
LR_MUST_USE lr_code model_gptoss_from_metalbin(struct model_gptoss *m,
                                               struct model_gptoss_layer *layers,
                                               const char *path, struct lr_error *err);

#endif
