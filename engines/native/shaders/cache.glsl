// native/shaders/cache.glsl - where keys and values lie: [page][head][K: position, V: position],
// a pair of float16 numbers in a word, or (MODE 1) of float32 numbers in two.
layout(constant_id = 1) const uint MODE = 0u;
layout(push_constant) uniform P { push_attend p; };

// The place of a head in a page, in pairs.
uint head_at(uint page, uint head)
{
    return (page * p.kv_heads + head) * NATIVE_GPU_PAGE * (p.key_size + p.cache_values) / 2u;
}
