// A gpt-oss snapshot of random weights with the demo model's shapes and tokenizer: its
// answers are noise, and at temperature 1 every token depends on the seed, the index and all
// tokens before it.
import fs from 'node:fs';
import path from 'node:path';

// A small generator (xorshift32), so that a snapshot is the same each time.
function bytesOf(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state & 0xff;
  };
}

// Random bfloat16 of about 2^exponent; positive where the sign would undo a norm.
function fillBf16(bytes, next, exponent, positive) {
  const high = (127 + exponent) >> 1;
  for (let i = 0; i < bytes.length; i += 2) {
    bytes[i] = next();
    bytes[i + 1] = high | (positive ? 0 : next() & 0x80);
  }
}

function fill(name, bytes, next) {
  if (name.endsWith('_blocks')) for (let i = 0; i < bytes.length; i++) bytes[i] = next();
  else if (name.endsWith('_scales')) for (let i = 0; i < bytes.length; i++) bytes[i] = 127 - 5 - (next() & 1);
  else if (name.includes('norm')) fillBf16(bytes, next, 0, true);
  else fillBf16(bytes, next, name.includes('embed') ? -1 : name.includes('lm_head') ? -3 : -5, false);
}

export function makeRandomModel(from, to, seed = 1) {
  fs.mkdirSync(to, { recursive: true });
  const next = bytesOf(seed);
  for (const name of fs.readdirSync(from)) {
    const source = path.join(from, name);
    if (!fs.statSync(source).isFile()) continue;
    const bytes = fs.readFileSync(source);
    if (name.endsWith('.safetensors')) {
      const start = 8 + Number(bytes.readBigUInt64LE(0));
      const header = JSON.parse(bytes.subarray(8, start));
      for (const [tensor, { data_offsets: at }] of Object.entries(header))
        if (at) fill(tensor, bytes.subarray(start + at[0], start + at[1]), next);
    }
    fs.writeFileSync(path.join(to, name), bytes);
  }
  return to;
}
