// gptoss/backend/shaders/sample.glsl - the larger value, of equal values the lower id.
#define NO_ID 0xFFFFFFFFu
shared float values[64];
shared uint ids[64];

void take(inout float value, inout uint id, float other, uint other_id)
{
    if (other_id != NO_ID && (id == NO_ID || other > value || (other == value && other_id < id))) {
        value = other;
        id = other_id;
    }
}

// Called by the whole work group; every invocation gets the result.
void group_best(inout float value, inout uint id)
{
    for (uint d = 1u; d < gl_SubgroupSize; d *= 2u) {
        float v = subgroupShuffleXor(value, d);
        uint i = subgroupShuffleXor(id, d);
        take(value, id, v, i);
    }
    if (subgroupElect()) {
        values[gl_SubgroupID] = value;
        ids[gl_SubgroupID] = id;
    }
    barrier();
    id = NO_ID;
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        take(value, id, values[i], ids[i]);
}
