// gptoss/backend/shaders/rope.glsl - the results of four rows d, d + 1, d + 32, d + 33 of a
// head: rotated; q to its buffer, k and v to their page.
// PAIRED: the rows of a head of q or k are stored in the order 0, 32, 1, 33, ..., those of q as
// halves and those of k as quarters.
bool is_paired(uint row)
{
    return PAIRED && row / 64u < p.heads + p.kv_heads;
}

// How far behind `row` the row r of the four is stored.
uint stored(uint row, uint r)
{
    return is_paired(row) ? row % 64u + 2u * (r & 1u) + r / 2u : (r & 1u) + r / 2u * 32u;
}

void put(uint t, uint row, vec4 v)
{
    uint head = row / 64u, d = row % 64u, q_width = p.heads * 64u;

    if (head < p.heads + p.kv_heads) {
        vec2 c = vec2(rope[t * 64u + d], rope[t * 64u + d + 1u]);
        vec2 s = vec2(rope[t * 64u + 32u + d], rope[t * 64u + 33u + d]);
        if (PAIRED)
            v *= head < p.heads ? 2.0 : 4.0;
        v = vec4(v.xy * c - v.zw * s, v.zw * c + v.xy * s);
    }
    if (head < p.heads) {
        q[t * q_width + row] = v.x;
        q[t * q_width + row + 1u] = v.y;
        q[t * q_width + row + 32u] = v.z;
        q[t * q_width + row + 33u] = v.w;
        return;
    }
    uint is_v = head >= p.heads + p.kv_heads ? 1u : 0u;
    uint kv_head = head - p.heads - is_v * p.kv_heads;
    uint slot = p.window != 0u ? info[t].window_slot : info[t].full_slot;
    uint page = slot / GPU_PAGE_TOKENS;
    uint at = (((page * p.kv_heads + kv_head) * 2u + is_v) * GPU_PAGE_TOKENS +
               slot % GPU_PAGE_TOKENS) * 32u + d / 2u;
    kv[at] = pack_half(v.x, v.y);
    kv[at + 16u] = pack_half(v.z, v.w);
}
