// Ten times more requests than the fleet can serve: few wait, and no longer than under normal load.  Runs alone
// (tests/run.mjs): on a busy machine the test itself could not send ten times what the fleet can serve.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrivals, quantile } from './arrivals.mjs';
import { fleet } from './fleet.mjs';
import { call, LONG, makeEcho, say, sleep, stream, until } from './support.mjs';

const SLOTS = 8;

// Requests a second that the fleet really serves, on a busy machine too.  Twice as many clients as slots ask:
// with as many clients as slots, a slot would stay free while its client asks again.
async function capacityOf(url, ask) {
  const counted = { from: Date.now() + 1000, to: Date.now() + 5000 }; // not the first and the last answers
  let done = 0,
    asked = 0;
  await Promise.all(
    Array.from({ length: 2 * SLOTS }, async () => {
      while (Date.now() < counted.to) {
        const out = await stream(url, ask(asked++).body);
        assert.equal(out.status, 200);
        done += Date.now() >= counted.from && Date.now() < counted.to;
      }
    }),
  );
  return done / ((counted.to - counted.from) / 1000);
}

// 5 to 35 tokens: slots come free one by one.
const manyLengths = (model) => (i) => ({ body: { model, ...say('x'.repeat(5 + ((i * 7) % 31))) } });

test('ten times too many requests with default settings: no more than 12 wait, requests admitted from then on wait as long as under normal load, and afterwards a burst is served', async () => {
  const { router } = await fleet(1, makeEcho('too-much', { step_ms: 20 }), {
    nodeArgs: ['--max-sequences', `${SLOTS}`],
  });
  const capacity = await capacityOf(router.url, manyLengths('too-much'));
  const explain = async () => (await call(`${router.url}/v0/explain?model=too-much`)).json;
  const once = LONG ? await arrivals(router.url, 0.9 * capacity, 90, manyLengths('too-much')) : [];
  let most = 0,
    noticed = 0, // when the router said that the model is overloaded
    ended = false;
  const look = (async () => {
    while (!ended) {
      const seen = await explain();
      if (noticed) most = Math.max(most, seen.queued);
      if (seen.overloaded) noticed ||= Date.now();
      await sleep(20);
    }
  })();
  const ten = await arrivals(router.url, 10 * capacity, LONG ? 60 : 7, manyLengths('too-much'));
  ended = true;
  await look;
  assert.ok(noticed, 'the overload was noticed');
  assert.ok(most <= 12, `${most} waited`);
  const served = ten.filter((o) => o.status === 200),
    refused = ten.filter((o) => o.status === 429);
  assert.equal(served.length + refused.length, ten.length);
  assert.ok(served.every((o) => o.done && !o.error));
  assert.ok(refused.every((o) => Number(o.headers.get('retry-after')) >= 1));
  assert.match(
    JSON.parse(refused.at(-1).body).error.message,
    /more requests come for model "too-much" than it can serve/,
  );
  if (LONG) {
    assert.ok(
      once.every((o) => o.status === 200),
      'nobody is refused at nine tenths of what it can do',
    );
    // Until the overload is noticed, the router takes the requests for a burst and lets them wait.
    const [at1, at10] = [once, served.filter((o) => o.begun > noticed)].map((all) =>
      quantile(
        all.map((o) => o.first),
        0.99,
      ),
    );
    assert.ok(at10 <= 2 * at1, `p99 of the first token: ${at10} ms at 10x, ${at1} ms at 0.9x`);
  }
  await until('it is over', async () => (await explain()).queued === 0);
  await sleep(1000); // a second without a refusal is what ends it
  const burst = await Promise.all(
    Array.from({ length: 100 }, (_, i) => stream(router.url, manyLengths('too-much')(i).body)),
  );
  assert.ok(
    burst.every((o) => o.status === 200 && o.done),
    'a burst of a hundred waits and is served',
  );
});
