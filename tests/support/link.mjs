// A router's end of a link to a node: frames both ways, as src/wire/link.h describes them.
//
//   const link = await openLink(node.port);
//   link.submit(7, { model: 'echo', seed: 1, segments: [{ text: 'hi', control: false }] });
//   ... link.heard(7), link.text(7), link.isOver(7) ...; link.cancel(7); link.close();
import http from 'node:http';
import { until } from './scene.mjs';

export const VERSION = 2;
export const TYPE = {
  SUBMIT: 3,
  CANCEL: 4,
  SWAP: 6,
  LOADING: 64,
  PREFILL: 65,
  TOKEN: 66,
  DONE: 67,
  TICK: 68,
  ACCEPTED: 69,
  ERROR: 71,
  LOST: 74,
  REFUSED: 75,
  PING: 76,
};
const LAST = [TYPE.DONE, TYPE.ERROR, TYPE.LOST, TYPE.REFUSED];
const REASONS = ['stop', 'length', 'cancelled', 'error'];

const u8 = (v) => Buffer.from([v]);
const u32 = (v) => {
  const b = Buffer.alloc(4);
  b.writeUInt32LE(v >>> 0);
  return b;
};
const u64 = (v) => {
  const b = Buffer.alloc(8);
  b.writeBigUInt64LE(BigInt(v));
  return b;
};
const f32 = (v) => {
  const b = Buffer.alloc(4);
  b.writeFloatLE(v);
  return b;
};
const str = (v = '') => {
  const b = Buffer.from(v);
  return Buffer.concat([u32(b.length), b]);
};
const ids = (v = []) => [u32(v.length), ...v.map(u32)];

export function frame(type, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([u32(body.length), Buffer.from([VERSION, type, 0, 0]), body]);
}

// Takes whole frames off the front of a buffer: [frames, rest].
export function takeFrames(bytes) {
  const all = [];
  for (let size; bytes.length >= 8 && bytes.length >= (size = 8 + bytes.readUInt32LE(0)); bytes = bytes.subarray(size))
    all.push(bytes.subarray(0, size));
  return [all, bytes];
}

// CRC-32C of `bytes` behind bytes with the sum `before`.
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0x82f63b78 : 0);
  return sum;
});
function crc32c(before, bytes) {
  let sum = ~before;
  for (const byte of bytes) sum = CRC_TABLE[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}
function seal(one) {
  const head = crc32c(0, one.subarray(0, 8));
  return Buffer.concat([u32(head), one, u32(crc32c(head, one.subarray(8)))]);
}

// For a proxy on a link without TLS, whose frames have checksums (wire/seal.h): change(frame) gives the
// frames that take the place of each whole frame in these bytes, and gets new sums.  Other bytes stay.
export function changeFrames(bytes, change) {
  if (bytes[8] !== VERSION) return bytes;
  const out = [];
  for (
    let size;
    bytes.length >= 16 && bytes.length >= (size = 16 + bytes.readUInt32LE(4));
    bytes = bytes.subarray(size)
  )
    out.push(...change(Buffer.from(bytes.subarray(4, size - 4))).map(seal));
  return Buffer.concat([...out, bytes]);
}

export function submitFrame(number, ask, leaves = '') {
  const generated = ask.generated ?? [];
  return frame(
    leaves ? TYPE.SWAP : TYPE.SUBMIT,
    u64(number),
    u64(ask.deadline_ms ?? 0),
    u32(generated.length),
    u32(0),
    u8(0),
    u8((ask.no_queue ? 1 : 0) | (ask.ignore_stop ? 2 : 0)),
    u8(0),
    u8(0),
    str(ask.request_id),
    str(ask.model),
    str(''),
    str(leaves),
    f32(1),
    f32(1),
    f32(0),
    f32(1),
    f32(0),
    f32(0),
    u32(0),
    u64(ask.seed ?? 1),
    u32(0),
    u32(0),
    u32(0),
    u32(ask.max_tokens ?? 0),
    u32(0),
    str(''),
    u32(ask.segments.length),
    ...ask.segments.flatMap((s) => [u8(s.control ? 1 : 0), str(s.text)]),
    ...ids(),
    ...ids(),
    str(''),
    ...generated.map(u32),
  );
}

const text = (body, at) => body.subarray(at + 4, at + 4 + body.readUInt32LE(at)).toString();

export function readEvent(bytes) {
  const type = bytes[5],
    body = bytes.subarray(8);
  const event = {
    type,
    request: Number(body.readBigUInt64LE(0) & 0xffffffffn),
    index: body.readUInt32LE(8),
    more: (body[12] & 1) === 1,
    body,
  };
  if (type === TYPE.TOKEN)
    Object.assign(event, { id: body.readUInt32LE(16), special: (body[20] & 1) === 1, text: text(body, 28) });
  if (type === TYPE.DONE)
    Object.assign(event, { reason: REASONS[body.readUInt32LE(16)], completion_tokens: body.readUInt32LE(24) });
  if (type === TYPE.ERROR || type === TYPE.REFUSED)
    Object.assign(event, { code: body.readInt32LE(17), message: text(body, 21) });
  if (type === TYPE.ACCEPTED) event.swapped = body[body.length - 1] === 1;
  return event;
}

export const upgradeHeaders = (secret, protocol = VERSION) => ({
  connection: 'Upgrade',
  upgrade: `llm-router-link/${protocol}`,
  ...(secret && { authorization: `Bearer ${secret}` }),
});

// Rejects with { status, body } where the node refuses.
export async function openLink(port, { secret, protocol } = {}) {
  const request = http.request({ port, path: '/v0/link', headers: upgradeHeaders(secret, protocol) });
  request.end();
  const [answer, socket, head] = await new Promise((done, fail) => {
    request.on('upgrade', (...all) => done(all));
    request.on('error', fail);
    request.on('response', (refused) => {
      let body = '';
      refused.on('data', (bytes) => {
        body += bytes;
      });
      refused.on('end', () =>
        fail(Object.assign(new Error(`${refused.statusCode}: ${body}`), { status: refused.statusCode, body })),
      );
    });
  });
  const link = { protocol: answer.headers.upgrade, streams: new Map(), pings: 0, ended: false, socket };
  let rest = Buffer.alloc(0);
  const take = (bytes) => {
    const [all, left] = takeFrames(Buffer.concat([rest, bytes]));
    rest = left;
    for (const one of all) {
      if (one[5] === TYPE.PING) {
        link.pings++;
        continue;
      }
      const event = readEvent(one);
      if (!link.streams.has(event.request)) link.streams.set(event.request, []);
      link.streams.get(event.request).push(event);
    }
  };
  take(head);
  socket.on('data', take);
  socket.on('error', () => {});
  socket.on('close', () => {
    link.ended = true;
  });
  link.send = (bytes) => socket.write(bytes);
  link.submit = (number, ask, leaves) => link.send(submitFrame(number, ask, leaves));
  link.cancel = (number) => link.send(frame(TYPE.CANCEL, u64(number)));
  link.close = () => socket.destroy();
  link.heard = (number) => link.streams.get(number) ?? [];
  link.last = (number) => link.heard(number).find((e) => LAST.includes(e.type));
  link.isOver = (number) => link.last(number) !== undefined;
  link.tokens = (number) => link.heard(number).filter((e) => e.type === TYPE.TOKEN);
  link.text = (number) =>
    link
      .tokens(number)
      .filter((e) => !e.special)
      .map((e) => e.text)
      .join('');
  // What the node said to the SUBMIT: ACCEPTED or REFUSED.
  link.answer = (number) => until(`an answer to ${number}`, () => link.heard(number)[0]);
  return link;
}
