// gptoss/backend/shaders/scale_m.glsl - MXFP4 as float16.
#define UNSCALED 64.0 // 2^6: the factor that scale_m() leaves out

// 2^14 for the codes, 2^-6 against overflow.
f16vec2 scale_m(uint block)
{
    int e = int(scales[block / 4u] >> block % 4u * 8u & 255u) - int(p.excess) - 127 + 14 - 6;
    uint bits = uint(clamp(e, -15, 15) + 15) << 10; // below 2^-14: zero

    return unpackFloat2x16(bits | bits << 16);
}

void codes_m(uint w, f16vec2 scale, out f16vec2 v[4])
{
    v[0] = unpackFloat2x16((w << 9 & 0x0E000E00u) | (w << 12 & 0x80008000u)) * scale;
    v[1] = unpackFloat2x16((w << 5 & 0x0E000E00u) | (w << 8 & 0x80008000u)) * scale;
    v[2] = unpackFloat2x16((w << 1 & 0x0E000E00u) | (w << 4 & 0x80008000u)) * scale;
    v[3] = unpackFloat2x16((w >> 3 & 0x0E000E00u) | (w & 0x80008000u)) * scale;
}
