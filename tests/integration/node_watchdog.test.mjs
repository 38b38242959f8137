// Hanging and dying engines cost a worker, never the node.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  ask,
  children,
  countFds,
  events,
  generate,
  isAlive,
  LONG,
  makeModel,
  rss,
  sleep,
  startNode,
  stopwatch,
  tempDir,
  until,
} from './node_harness.mjs';

describe('the watchdog', () => {
  let node;
  const models = tempDir('models');
  const once = (name) => path.join(models, name);
  before(async () => {
    makeModel(models, 'hangs', 'faulty', { hang: 'step', after_tokens: 3, once: once('h1') });
    makeModel(models, 'hangs-always', 'faulty', { hang: 'step' });
    makeModel(models, 'hangs-loading', 'faulty', { hang: 'load', once: once('h2') });
    makeModel(models, 'hangs-probed', 'faulty', { hang: 'probe' });
    makeModel(models, 'loads-long', 'faulty', { load_ms: 2500 });
    makeModel(models, 'prefills-long', 'faulty', { prefill_ms: 100 });
    makeModel(models, 'hangs-closing', 'faulty', { hang: 'close' });
    makeModel(models, 'steady', 'echo', { step_ms: 10 });
    node = await startNode({
      models,
      args: ['--step-timeout', '1s', '--load-timeout', '800ms', '--prefill-chunk', '8'],
    });
  });
  after(() => node.stop());

  const kills = async () =>
    Number(
      (await (await fetch(`${node.url}/metrics`)).text()).match(/^llm_router_node_watchdog_kills_total (\d+)$/m)[1],
    );
  const ram = async () => (await node.get('/v0/memory')).pools.find((p) => p.pool === 'ram');

  it('kills a hanging step, the answer continues, and the next request works', async () => {
    // Another model streams all the while and must never pause.
    let last = stopwatch();
    let gap = 0;
    const steady = (async () => {
      for await (const event of events(node, ask('steady', 's'.repeat(240)))) {
        if (event.event === 'token') {
          gap = Math.max(gap, last.ms);
          last = stopwatch();
        }
        if (event.event === 'accepted' || event.event === 'prefill') last = stopwatch();
      }
    })();
    await until('steady runs', async () => (await node.worker('steady'))?.live === 1);
    await until('hangs is ready', async () => {
      node.post('/v0/models/hangs/load');
      return (await node.model('hangs')).state === 'ready';
    });
    const { pid } = await node.worker('hangs');
    const watch = stopwatch();
    const asked = generate(node, ask('hangs', 'a story'));
    // Half the time without progress: no longer well, and it says of whom.
    const ill = await until('ill', async () => {
      const response = await fetch(`${node.url}/health`);
      return response.status === 503 && response.json();
    });
    assert.deepEqual([ill.status, ill.model], ['stalled', 'hangs']);
    const answer = await asked;
    const took = [watch.real, watch.ms];
    assert.deepEqual([answer.error, answer.text], [null, 'a story']);
    assert.match(node.log, /request\.lost .*no progress for \d+ ms.*step-timeout/);
    assert.ok(took[0] >= 1000 && took[1] < 2000, `${took} ms`);
    await until('the worker is gone', () => !isAlive(pid), 1000);
    const { claims } = await ram(); // and what it held: the only claim is its successor's
    assert.deepEqual(
      claims.filter((c) => c.model === 'hangs').map((c) => c.pid),
      [(await node.worker('hangs')).pid],
    );
    assert.equal((await node.get('/health')).status, 'ok');
    assert.equal((await generate(node, ask('hangs', 'again'))).text, 'again');
    await steady;
    assert.ok(gap < 400, `the other model paused for ${gap} ms`);
  });

  it('puts the model into waiting after three kills in a row, gives the reason, and retries', async () => {
    // Two deaths are the first request's strikes; the third one opens the circuit breaker.
    const struck = await generate(node, ask('hangs-always', 'x'));
    assert.deepEqual([struck.error.code, struck.error.retryable], ['TIMEOUT', false]);
    const second = await generate(node, ask('hangs-always', 'x'));
    assert.deepEqual([second.error.code, second.error.retryable], ['UNAVAILABLE', true]);
    const model = await until('it waits', async () => {
      const m = await node.model('hangs-always');
      return m.state === 'waiting' && m;
    });
    assert.match(model.reason, /no progress/);
    assert.deepEqual([model.failures, model.workers], [3, []]);
    const refused = await generate(node, ask('hangs-always', 'x'));
    assert.deepEqual([refused.error.code, refused.error.retryable], ['UNAVAILABLE', true]);
    assert.match(refused.error.message, /no progress.*tried again in 1 s/);
    await until('it is loaded again', async () => (await node.model('hangs-always')).state === 'ready');
    assert.equal((await node.model('hangs-always')).failures, 3, 'loaded is not yet served');
  });

  it('kills a hanging load', async () => {
    const answer = await generate(node, ask('hangs-loading', 'x'));
    assert.deepEqual([answer.error.code, answer.error.retryable], ['UNAVAILABLE', true]);
    assert.match(answer.error.message, /no progress for \d+ ms.*load-timeout/);
    assert.equal((await generate(node, ask('hangs-loading', 'well'))).text, 'well');
  });

  it('kills an engine that hangs in its probe', async () => {
    const answer = await generate(node, ask('hangs-probed', 'x'));
    assert.match(answer.error.message, /did not answer in time/);
  });

  it('does not kill a load that takes three times its limit and makes progress', async () => {
    const before = await kills();
    const start = Date.now();
    const answer = await generate(node, ask('loads-long', 'patience'));
    assert.equal(answer.text, 'patience');
    assert.ok(Date.now() - start > 3 * 800);
    assert.equal(await kills(), before);
    assert.equal(node.log.match(/worker\.start model=loads-long/g).length, 1);
  });

  it('does not kill a prefill that takes twice its limit and makes progress', async () => {
    const before = await kills();
    const start = Date.now();
    const answer = await generate(node, ask('prefills-long', 'p'.repeat(8 * 24)));
    assert.equal(answer.done.reason, 'stop');
    assert.ok(Date.now() - start > 2 * 1000);
    assert.equal(await kills(), before);
  });

  it('kills a worker that hangs when it is closed: the model is still unloaded', async () => {
    await generate(node, ask('hangs-closing', 'x'));
    const { pid } = await node.worker('hangs-closing');
    await node.post('/v0/models/hangs-closing/unload');
    await until('unloaded', async () => (await node.model('hangs-closing')).state === 'present', 3000);
    assert.equal(isAlive(pid), false);
    assert.equal((await generate(node, ask('hangs-closing', 'back'))).text, 'back');
  });

  it('counts its kills', async () => {
    assert.equal(await kills(), 5);
  });
});

if (LONG)
  describe('the watchdog with its defaults', () => {
    it('kills a hanging step 30 seconds after its last progress, and the answer continues', async () => {
      const models = tempDir('models');
      makeModel(models, 'hangs', 'faulty', { hang: 'step', after_tokens: 3 });
      const node = await startNode({ models });
      const start = Date.now();
      const answer = await generate(node, ask('hangs', 'four'));
      const took = Date.now() - start;
      assert.equal(answer.text, 'four');
      assert.ok(took >= 30000 && took < 33000, `${took} ms`);
      await node.stop();
    });
  });

describe('a crash', () => {
  let node;
  const models = tempDir('models');
  before(async () => {
    makeModel(models, 'poison', 'faulty', { poison: 'cyanide' });
    makeModel(models, 'crashes-once', 'faulty', { crash: 'step', after_tokens: 4, once: path.join(models, 'c1') });
    makeModel(models, 'crashes-loading', 'faulty', { crash: 'load' });
    makeModel(models, 'crashes-loading-once', 'faulty', { crash: 'load', once: path.join(models, 'c2') });
    makeModel(models, 'crashes-closing', 'faulty', { crash: 'close' });
    makeModel(models, 'deadly', 'faulty', { crash: 'step' });
    makeModel(models, 'fails', 'faulty', { fail: 'step', once: path.join(models, 'c3') });
    makeModel(models, 'fails-loading', 'faulty', { fail: 'load' });
    makeModel(models, 'garbage', 'faulty', { invalid_utf8: true });
    makeModel(models, 'noisy', 'faulty', { noise: true });
    makeModel(models, 'liar', 'faulty', { weights_bytes: 1000000, use_bytes: 500000000 });
    makeModel(models, 'leaks', 'faulty', { leak_bytes: 120_000_000 });
    makeModel(models, 'well', 'echo', { step_ms: 2 });
    node = await startNode({ models });
  });
  after(() => node.stop());

  it('is invisible to the client: the answer continues where it stopped', async () => {
    const answer = await generate(node, ask('crashes-once', 'uninterrupted'));
    assert.equal(answer.text, 'uninterrupted');
    assert.equal(answer.done.usage.completion_tokens, 14);
  });

  it('caused twice by one request ends that request, and no other', async () => {
    await generate(node, ask('poison', 'warm up'));
    const good = Array.from({ length: 8 }, (_, i) => generate(node, ask('poison', `innocent ${i} ${'.'.repeat(200)}`)));
    const bad = await generate(node, ask('poison', 'some cyanide here'));
    assert.equal(bad.error.code, 'INTERNAL');
    assert.equal(bad.error.retryable, false);
    assert.match(bad.error.message, /died twice.*not tried again/);
    for (const [i, answer] of (await Promise.all(good)).entries())
      assert.equal(answer.text, `innocent ${i} ${'.'.repeat(200)}`);
    assert.equal((await generate(node, ask('poison', 'after'))).text, 'after');
  });

  it('costs two workers at most: a request that kills both is not tried a third time', async () => {
    const answer = await generate(node, ask('deadly', 'x'));
    assert.deepEqual([answer.error.code, answer.error.retryable], ['INTERNAL', false]);
    assert.match(answer.error.message, /died twice.*not tried again/);
    // A model that was in use is loaded again.
    const model = await until('ready again', async () => {
      const m = await node.model('deadly');
      return m.state === 'ready' && m;
    });
    assert.deepEqual([model.workers[0].live, model.queued, model.leases], [0, 0, 0]);
    assert.equal(node.log.match(/worker\.start model=deadly/g).length, 3);
    assert.equal(node.log.match(/worker\.died model=deadly/g).length, 2);
  });

  it('while loading is retried three times at once, then with pauses', async () => {
    const answer = await generate(node, ask('crashes-loading', 'x'));
    assert.deepEqual([answer.error.code, answer.error.retryable], ['UNAVAILABLE', true]);
    const model = await node.model('crashes-loading');
    assert.match(model.reason, /SIGKILL while it loaded/);
    assert.deepEqual([model.state, model.failures], ['waiting', 3]);
    assert.equal(node.log.match(/worker\.start model=crashes-loading /g).length, 3);
    await node.post('/v0/models/crashes-loading/unload');
    assert.equal((await generate(node, ask('crashes-loading-once', 'ok'))).text, 'ok');
  });

  it('while closing does not keep the model from being unloaded', async () => {
    await generate(node, ask('crashes-closing', 'x'));
    await node.post('/v0/models/crashes-closing/unload');
    await until('unloaded', async () => (await node.model('crashes-closing')).state === 'present');
    assert.equal((await generate(node, ask('crashes-closing', 'back'))).text, 'back');
  });

  it('of the sticky kind (a device error) restarts the worker', async () => {
    assert.equal((await generate(node, ask('fails', 'device'))).text, 'device');
    const answer = await generate(node, ask('fails-loading', 'x'));
    assert.match(answer.error.message, /told to fail/);
    assert.equal((await node.model('fails-loading')).state, 'waiting');
    await node.post('/v0/models/fails-loading/unload');
  });

  it('is not caused by an engine that emits invalid UTF-8', async () => {
    const response = await node.post('/v1/completions', { model: 'garbage', prompt: 'ab' });
    assert.equal((await response.json()).choices[0].text, '\ufffda\ufffdb');
  });

  it('is not caused by an engine that prints: its lines go to the log, with its name', async () => {
    assert.equal((await generate(node, ask('noisy', 'ok'))).text, 'ok');
    await until(
      'logged',
      () =>
        /engine=faulty model=noisy .*"a plugin writes to stdout"/.test(node.log) && /writes to stderr/.test(node.log),
    );
  });

  it('an engine that uses more memory than it stated is killed, and its memory is freed', async () => {
    const answer = generate(node, ask('liar', 'x'));
    const { pid } = await until('a worker', () => node.worker('liar'));
    await until('it uses them', () => rss(pid) > 500_000_000);
    assert.equal((await answer).text, 'x');
    await until('found out', () => /memory\.overuse model=liar/.test(node.log), 5000);
    await until('it is gone', () => !isAlive(pid), 2000);
    assert.equal(rss(pid), 0);
    await until('its memory is free', async () =>
      (await node.get('/v0/memory')).pools[0].claims.every((c) => c.model !== 'liar'),
    );
    assert.equal((await generate(node, ask('liar', 'again'))).text, 'again');
    await node.post('/v0/models/liar/unload');
    await until('unloaded', async () => (await node.model('liar')).state === 'present');
  });

  it('an engine that leaks memory is restarted before it uses all memory', async () => {
    let pid;
    for (let i = 0; !/memory\.overuse model=leaks/.test(node.log); i++) {
      assert.ok(i < 20, 'nobody noticed 2.4 GB');
      const answer = await generate(node, ask('leaks', 'drip'));
      assert.equal(answer.text, 'drip');
      pid ??= (await node.worker('leaks'))?.pid;
      await until(
        'measured',
        async () =>
          (await node.worker('leaks'))?.measured_bytes > i * 120_000_000 ||
          /memory\.overuse model=leaks/.test(node.log),
      );
    }
    await until('it is gone', () => !isAlive(pid), 2000);
    assert.equal((await generate(node, ask('leaks', 'drip'))).text, 'drip');
    // Killed, not closed: a sanitizer would report at its exit what was leaked on purpose.
    process.kill((await node.worker('leaks')).pid, 'SIGKILL');
    await until('gone', async () => (await node.model('leaks')).state === 'present');
  });

  const footprint = async () => {
    const ram = (await node.get('/v0/memory')).pools[0];
    return { reserved: ram.reserved, models: ram.claims.map((c) => c.model).sort() };
  };

  it('by kill -9, again and again under load: the node survives, no request is lost silently', async () => {
    const rounds = LONG ? 100 : 10;
    await generate(node, ask('well', 'x'));
    const fds = countFds(node);
    const before = { ...(await footprint()), rss: rss(node.pid) };
    let stop = false;
    let answered = 0;
    const clients = Array.from({ length: 8 }, async () => {
      while (!stop) {
        const text = 'z'.repeat(20 + Math.floor(Math.random() * 60));
        const answer = await generate(node, ask('well', text));
        if (answer.done) {
          assert.equal(answer.text, text);
          answered++;
        } else {
          // The second: on a busy machine three workers in a row may die before they have given a token.
          assert.match(answer.error.message, /died twice|failures in a row; tried again/);
        }
      }
    });
    for (let i = 0; i < rounds; i++) {
      const worker = await until(
        'a worker',
        async () => {
          const w = await node.worker('well');
          return w?.ready && w.live > 0 && w;
        },
        40000,
      );
      await sleep(Math.random() * 60);
      try {
        process.kill(worker.pid, 'SIGKILL');
      } catch {
        /* it had left */
      }
      await until('another worker', async () => (await node.worker('well'))?.pid !== worker.pid, 40000);
    }
    stop = true;
    await Promise.all(clients);
    assert.ok(answered > 0);
    assert.equal((await generate(node, ask('well', 'fine'))).text, 'fine');
    await until('nothing is left', async () => {
      const w = await node.worker('well');
      return w.live === 0 && w.stats.pages_in_use === 0;
    });
    await until(`there are ${fds} descriptors again, or eight more`, () => countFds(node) <= fds + 8);
    // Memory is where it was: nothing reserved or counted for the dead, no growth in the node.
    const { rss: baseline, ...claims } = before;
    assert.deepEqual(await footprint(), claims);
    assert.ok(rss(node.pid) < baseline + 32e6, `${baseline} bytes became ${rss(node.pid)}`);
    for (const pid of children(node.pid)) assert.ok(isAlive(pid), `process ${pid} is a zombie`);
  });
});
