// Reads and writes model.safetensors: BF16 and F32, as doubles.
import fs from 'node:fs';
import path from 'node:path';

const FILE = 'model.safetensors';

// The same numbers each time: a small generator (xorshift32), and sums of four for a bell.
export function numbers(seed) {
  let state = seed;
  const unit = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  return () => (unit() + unit() + unit() + unit() - 2) * Math.sqrt(3);
}

// A number in 0 to 2^32 that depends on the text.
export function hashOf(text) {
  let hash = 2166136261;
  for (const letter of text) hash = Math.imul(hash ^ letter.charCodeAt(0), 16777619);
  return hash >>> 0 || 1;
}

// The bytes of a tensor, the upper halves of its floats; 0s below make the same values in doubles.
export function bf16(values) {
  const bits = new Uint32Array(Float32Array.from(values).buffer);
  return Buffer.from(Uint16Array.from(bits, (v) => v >>> 16).buffer);
}

export function fromBf16(bytes) {
  const halves = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  return Float64Array.from(new Float32Array(Uint32Array.from(halves, (v) => v << 16).buffer));
}

// tensors: name to {shape, bytes}, all of them BF16.
export function writeTensors(dir, tensors) {
  const header = {};
  const data = [];
  let at = 0;
  for (const [name, { shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype: 'BF16', shape, data_offsets: [at, at + bytes.length] };
    data.push(bytes);
    at += bytes.length;
  }
  const text = JSON.stringify(header);
  const padded = text.padEnd(Math.ceil(text.length / 8) * 8); // the data begins at a multiple of 8
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(padded.length));
  fs.mkdirSync(dir, { recursive: true });
  fs.writeFileSync(path.join(dir, FILE), Buffer.concat([size, Buffer.from(padded), ...data]));
}

// name to {shape, values}.
export function readTensors(dir) {
  const file = fs.readFileSync(path.join(dir, FILE));
  const begin = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, begin));
  delete header.__metadata__;
  return Object.fromEntries(
    Object.entries(header).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [from, to],
        },
      ]) => {
        const bytes = file.subarray(begin + from, begin + to);
        const floats = () => Float64Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
        return [name, { shape, values: dtype === 'F32' ? floats() : fromBf16(bytes) }];
      },
    ),
  );
}
