/* llamacpp/library.h - libllama, opened at run time.
 *
 * The plugin does not link libllama.  It opens the library beside it (a private copy of the
 * plugin has its libraries beside it too), else the installed library that it was built with.
 * So a missing or foreign library gives a clear message instead of a linker error, and another
 * version is refused before any of its structs, which are passed by value, is used.
 *
 * Opened once for a process and never closed.  Everything that libllama and ggml would print
 * goes to the worker's log.  Thread: the engine's caller; the log from any.
 */
#ifndef LLAMACPP_LIBRARY_H
#define LLAMACPP_LIBRARY_H

#include <llama.h>

#include "llm-router/engine.h"

/* The functions that we call. dlsym() finds ggml's functions through libllama's
 * dependencies. */
#define LLAMACPP_FUNCTIONS(X)                                                                  \
    X(llama_version)                                                                           \
    X(llama_log_set)                                                                           \
    X(llama_backend_init)                                                                      \
    X(llama_model_default_params)                                                              \
    X(llama_context_default_params)                                                            \
    X(llama_model_load_from_file)                                                              \
    X(llama_model_free)                                                                        \
    X(llama_model_get_vocab)                                                                   \
    X(llama_model_n_ctx_train)                                                                 \
    X(llama_model_has_encoder)                                                                 \
    X(llama_model_has_decoder)                                                                 \
    X(llama_model_is_diffusion)                                                                \
    X(llama_model_size)                                                                        \
    X(llama_init_from_model)                                                                   \
    X(llama_free)                                                                              \
    X(llama_n_ctx)                                                                             \
    X(llama_n_ctx_seq)                                                                         \
    X(llama_max_parallel_sequences)                                                            \
    X(llama_get_memory)                                                                        \
    X(llama_memory_seq_rm)                                                                     \
    X(llama_memory_seq_pos_min)                                                                \
    X(llama_memory_seq_pos_max)                                                                \
    X(llama_attach_threadpool)                                                                 \
    X(llama_batch_init)                                                                        \
    X(llama_batch_free)                                                                        \
    X(llama_decode)                                                                            \
    X(llama_encode)                                                                            \
    X(llama_get_embeddings_seq)                                                                \
    X(llama_model_n_embd_out)                                                                  \
    X(llama_model_n_cls_out)                                                                   \
    X(llama_model_chat_template)                                                               \
    X(llama_get_logits_ith)                                                                    \
    X(llama_vocab_type)                                                                        \
    X(llama_vocab_n_tokens)                                                                    \
    X(llama_vocab_get_text)                                                                    \
    X(llama_vocab_get_attr)                                                                    \
    X(llama_vocab_is_eog)                                                                      \
    X(llama_vocab_bos)                                                                         \
    X(llama_vocab_get_add_bos)                                                                 \
    X(llama_vocab_eos)                                                                         \
    X(llama_vocab_sep)                                                                         \
    X(llama_vocab_get_add_eos)                                                                 \
    X(llama_vocab_get_add_sep)                                                                 \
    X(llama_tokenize)                                                                          \
    X(llama_token_to_piece)                                                                    \
    X(ggml_set_abort_callback)                                                                 \
    X(ggml_backend_load)                                                                       \
    X(ggml_backend_load_all_from_path)                                                         \
    X(ggml_backend_dev_count)                                                                  \
    X(ggml_backend_dev_get)                                                                    \
    X(ggml_backend_dev_name)                                                                   \
    X(ggml_backend_dev_type)                                                                   \
    X(ggml_backend_dev_by_type)                                                                \
    X(ggml_backend_dev_get_props)                                                              \
    X(ggml_backend_dev_backend_reg)                                                            \
    X(ggml_backend_reg_get_proc_address)                                                       \
    X(ggml_threadpool_params_default)

struct llamacpp_library {
#define X(name) __typeof__(name) *name;
    LLAMACPP_FUNCTIONS(X)
#undef X
};

/* The functions.  UNSUPPORTED: no libllama was found; ABI_MISMATCH: not the version that this
 * plugin was built for; INTERNAL: it cannot be opened. */
LR_MUST_USE lr_code llamacpp_library_get(const struct llamacpp_library **out,
                                         struct lr_error *err);

/* Loads libllama's backend for "cuda", "vulkan" or "metal", once for a process.  A GPU's
 * backend has a name that libllama does not look for (device-cuda.so): it starts the GPU's
 * driver, which a model on the CPU neither needs nor pays for.  INTERNAL: the file is there and
 * cannot be loaded.  Without the file nothing is done: the backend may be part of libllama. */
LR_MUST_USE lr_code llamacpp_library_load_backend(const struct llamacpp_library *lib,
                                                  const char *kind, struct lr_error *err);

/* The folder of libllama if it is not beside the program; "": none.  See folder.c. */
extern const char llamacpp_library_folder[];

/* The same for a named file, for tests. */
LR_MUST_USE lr_code llamacpp_library_open(const char *path, const char *version,
                                          struct llamacpp_library *out, struct lr_error *err);

/* Where libllama's messages go from now on; NULL: they are dropped.  Borrowed until the next
 * call.  An error line is kept for llamacpp_library_complaint(). */
void llamacpp_library_log_to(const struct lr_engine_host *host);
/* Stops logging to this host if it is the current one. */
void llamacpp_library_log_end(const struct lr_engine_host *host);

void llamacpp_library_forget_complaint(void);
/* The first error that libllama has reported since then; "": none. */
void llamacpp_library_complaint(char *out, size_t size);

#endif
