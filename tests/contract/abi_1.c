/* tests/contract/abi_1.c - the layout of ABI 1 as its first release had it, on machines with 64
 * bits.  An engine compiled then reads and writes these places: members are only ever appended,
 * so none of these numbers may change. */
#include "llm-router/engine.h"

#define AT(type, member, place)                                                                \
    _Static_assert(offsetof(struct type, member) == (place), #type "." #member " has moved")

#if UINTPTR_MAX == UINT64_MAX
AT(lr_engine_facts, backends, 48);
AT(lr_engine_options, max_tokens, 32);
AT(lr_engine_options, extra_json, 72);
AT(lr_engine_need, kv, 48);
AT(lr_engine_need, reserved, 76);
AT(lr_engine_request, sampling, 64);
AT(lr_engine_request, max_tokens, 128);
AT(lr_engine_request, cache_scope, 152);
AT(lr_engine_request, priority, 164);
AT(lr_usage, cached_tokens, 12);
AT(lr_token, bytes, 8);
AT(lr_token, top, 32);
AT(lr_engine_host, log, 16);
AT(lr_engine_host, on_done, 40);
AT(lr_engine_host, on_enter, 64);
AT(lr_engine_stats, kv_bytes_in_use, 24);
AT(lr_engine_stats, generated_tokens, 80);
AT(lr_engine_api, describe, 8);
AT(lr_engine_api, step, 56);
AT(lr_engine_api, logits, 88);

/* These stand inside another struct or in arrays: they cannot even be appended to. */
_Static_assert(sizeof(struct lr_sampling) == 64, "lr_sampling stands inside lr_engine_request");
_Static_assert(sizeof(struct lr_segment) == 24, "lr_segment stands in arrays");
_Static_assert(sizeof(struct lr_logprob) == 8, "lr_logprob stands in arrays");
_Static_assert(sizeof(struct lr_logit_bias) == 8, "lr_logit_bias stands in arrays");
_Static_assert(sizeof(struct lr_error) == 512, "lr_error is written by either side");

/* Where the additions begin: the sizes that hosts and engines of the first release say. */
AT(lr_engine_options, target_gap_ms, 80);
AT(lr_engine_need, requests, 80);
AT(lr_engine_request, document, 168);
AT(lr_engine_host, on_vector, 72);
AT(lr_engine_host, try_mask, 88);
AT(lr_engine_host, tell_error, 96);
AT(lr_engine_stats, kv_bytes_reclaimable, 88);
AT(lr_engine_api, limit_kv, 96);
AT(lr_engine_api, count_tokens, 104);
#endif
