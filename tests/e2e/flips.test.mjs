// A network that flips bits between router and node, without TLS: the answers are exact all the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleet } from './fleet.mjs';
import { LONG, makeEcho, nodes, say, stream } from './support.mjs';

const TEXT = 'every good boy deserves fruit, and all cows eat grass';
const ANSWERS = LONG ? 400 : 40;

// A small generator, so that a run can be repeated: SEED=n.
function random(seed) {
  let state = seed >>> 0 || 1;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

// Flips one bit in one of about `every` reads of a link, either way; its Upgrade stays as it is.
function flip(proxy, every, draw) {
  const count = { flips: 0 };
  const change = (bytes) => {
    if (bytes.includes('HTTP/1.1') || draw(every) !== 0) return bytes;
    const changed = Buffer.from(bytes);
    changed[draw(changed.length)] ^= 1 << draw(8);
    count.flips++;
    return changed;
  };
  proxy.change = change;
  proxy.changeAnswer = change;
  return count;
}

test('bits that are flipped on a link without TLS end the link, and every answer is exact', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  const draw = random(seed);
  const { router, all } = await fleet(2, makeEcho('flipped', { step_ms: 2 }), { proxied: true });
  const counts = all.map((node) => flip(node.proxy, 60, draw));
  const wrong = [];
  const flips = () => counts[0].flips + counts[1].flips;
  // On a busy machine a read has more frames, so that fewer reads are hit: more answers are asked for then.
  for (let i = 0; i < ANSWERS || (flips() <= ANSWERS / 8 && i < 20 * ANSWERS); i += 8) {
    const outs = await Promise.all(
      Array.from({ length: 8 }, () => stream(router.url, { model: 'flipped', ...say(TEXT) })),
    );
    wrong.push(...outs.filter((o) => o.text !== TEXT && o.error === null && o.status === 200));
  }
  for (const node of all) node.proxy.change = node.proxy.changeAnswer = undefined;
  assert.ok(flips() > ANSWERS / 8, `there were flips: ${JSON.stringify(counts)}`);
  assert.deepEqual(
    wrong.map((o) => o.text),
    [],
    `seed ${seed}`,
  );
  assert.match([router, ...all].map((p) => p.log).join(''), /(link\.broken|request\.cut) .*checksum/);
  const after = await stream(router.url, { model: 'flipped', ...say(TEXT) });
  assert.deepEqual([after.error, after.text], [null, TEXT], JSON.stringify(await nodes(router)));
});

// Flips one bit of the Q where it passes within `around` first.
function flipOnce(proxy, direction, around) {
  const count = { flips: 0 };
  proxy[direction] = (bytes) => {
    const at = bytes.indexOf(around);
    if (at < 0 || count.flips > 0) return bytes;
    count.flips++;
    const changed = Buffer.from(bytes);
    changed[at + around.indexOf('Q')] ^= 2; // S
    return changed;
  };
  return count;
}

for (const [what, direction, around] of [
  ['an answer', 'changeAnswer', Buffer.from('\x01\0\0\0Q')], // a token's text
  ['a prompt', 'change', Buffer.from('pQr')],
])
  test(`one flipped bit in ${what} costs its client nothing`, async () => {
    const { router, all } = await fleet(1, makeEcho('once', { step_ms: 2 }), { proxied: true });
    const count = flipOnce(all[0].proxy, direction, around);
    const text = 'abcdefghijklmnopQrstuvwxyz';
    const out = await stream(router.url, { model: 'once', ...say(text) });
    assert.deepEqual([out.error, out.text, count.flips], [null, text, 1]);
  });
