// gptoss/backend/shaders/pack.glsl - eight numbers of a packed row; see pack.comp.

// The part of a number that float16 holds exactly.  A conversion there and back could be left
// out by a compiler.
float first_part(float v)
{
    return uintBitsToFloat(floatBitsToUint(clamp(v, -65504.0, 65504.0)) & 0xFFFFE000u);
}

#ifndef PACK_NOTHING
void put_packed(uint at, uint pieces, vec4 a, vec4 b)
{
    uvec4 high, low;

    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        vec2 first = vec2(first_part(a[i]), first_part(b[i]));
        high[i] = packHalf2x16(first);
        low[i] = pack_half(a[i] - first.x, b[i] - first.y);
    }
    y[at] = high;
    y[at + pieces] = low;
}
#endif
