// A thousand models on a hundred nodes: every list opens, filters and pages quickly, and the
// answers behind them stay small.
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { startBrowser } from './browser.mjs';
import { call, LONG, sleep, startRouter, startStandIn, stopwatch } from './support.mjs';

const MODELS = 1000,
  NODES = 100;
const name = (i) => `org-${i % 10}/model-${String(i).padStart(4, '0')}`;
let router, browser;

// Registrations go into the store, nodes join over HTTP as real ones do and are not expected to
// send heartbeats while the test runs.
before(async () => {
  const first = await startRouter({});
  await first.stop();
  const store = new DatabaseSync(path.join(first.dir, 'router.db'));
  const insert = store.prepare(
    "INSERT INTO models (folded_id, id, source, format, manifest, chat_template, created_ms, path) VALUES (?, ?, 'local', 'safetensors', '', '', ?, '')",
  );
  store.exec('BEGIN');
  for (let i = 0; i < MODELS; i++) insert.run(name(i), name(i), 1700000000000 + i);
  store.exec('COMMIT');
  store.close();
  router = await startRouter({ dir: first.dir, args: ['--allow-cpu-nodes', '--node-timeout', '600s'] });
  const { url } = await startStandIn();
  for (let n = 0; n < NODES; n++) {
    const models = Array.from({ length: MODELS }, (_, i) => ({
      id: name(i),
      can_run: i % 7 !== 0,
      loaded: (i + n) % 50 === 0,
      state: i % 7 === 0 ? 'failed' : (i + n) % 50 === 0 ? 'ready' : 'present',
      ...(i % 7 === 0 && { reason: 'this node has 24 GB, the model needs 61 GB' }),
      slots: 16,
      engine: 'gptoss',
      weight_bytes: 13e9 + i,
    }));
    const answer = await call(`${router.url}/v0/nodes/join`, {
      body: {
        protocol: 2,
        version: '0.1.0',
        node_id: `node-scale-${n}`,
        name: `gpu-${String(n).padStart(3, '0')}`,
        url,
        device: 'cuda',
        secret: `lr-${String(n).padStart(40, '0')}`,
        draining: false,
        models,
        pools: [
          { name: 'ram', title: 'RAM', total: 5e11, used: 1e11 },
          { name: 'gpu0', title: 'NVIDIA H200', total: 1.5e11, used: 1e9 * n },
        ],
      },
    });
    assert.equal(answer.status, 200, answer.text);
  }
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await router?.stop('SIGKILL');
});

// Processor time of the page's main thread, and the time that passed: other processes of the machine do not count.
async function cost(page, fn) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async () =>
    1000 * (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value;
  const before = await spent(),
    begun = performance.now();
  await fn();
  const ms = (await spent()) - before,
    real = performance.now() - begun;
  await session.detach();
  return { ms, real };
}
const PRESS_MS = 50; // three frames: a key press that takes longer is felt
const LIVE_SHARE = 0.25; // of a processor, with lists that are read again all the time

const timed = async (what, limit, fn) => {
  const watch = stopwatch();
  await fn();
  const { ms } = watch;
  console.log(`# ${what}: ${Math.round(watch.real)} ms`);
  assert.ok(ms <= limit, `${what} took ${ms} ms, at most ${limit}`);
};

test('the answers behind the lists stay below half a megabyte', async () => {
  for (const list of ['/v0/models?brief=true', '/v0/nodes?brief=true', '/v0/models?id=org-1/model-0001']) {
    const begun = performance.now();
    const answer = await call(router.url + list);
    console.log(`# ${list}: ${answer.text.length} bytes in ${Math.round(performance.now() - begun)} ms`);
    assert.equal(answer.status, 200);
    assert.ok(answer.text.length < 512 * 1024, `${list}: ${answer.text.length} bytes`);
  }
});

test('the list of models opens, is filtered, sorted and paged', async () => {
  const page = await browser.open(router.url, { wait: false });
  await timed('models open', 5000, async () => {
    await page.visit('#/models');
    await page.getByRole('link', { name: name(0), exact: true }).waitFor();
  });
  assert.ok((await page.locator('tbody tr').count()) <= 50, 'only a page of rows is drawn');
  await page.getByText('1–50 of 1,000').waitFor();
  await timed('filter', 2000, async () => {
    await page.getByLabel('Filter models').fill('model-0999');
    await page.getByRole('link', { name: name(999) }).waitFor();
    assert.equal(await page.locator('tbody tr').count(), 1);
  });
  await page.getByLabel('Filter models').fill('failed 61 GB');
  await page.getByText('1–50 of 143').waitFor();
  await page.getByLabel('Filter models').fill('');
  await timed('next page', 2000, async () => {
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.getByText('51–100 of 1,000').waitFor();
  });
  await timed('sort', 2000, async () => {
    await page.getByRole('button', { name: 'Size' }).click();
    await page.getByText('1–50 of 1,000').waitFor();
  });
  await page.look('scale-models');
  const { ms: press } = await cost(page, () =>
    page.evaluate(async () => {
      const input = document.querySelector('input[type=search]');
      for (const text of ['o', 'or', 'org', 'org-', 'org-3']) {
        input.value = text;
        input.dispatchEvent(new Event('input', { bubbles: true }));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      }
    }),
  );
  console.log(`# a key press in the filter: ${Math.round(press / 5)} ms of processor time`);
  assert.ok(press / 5 < PRESS_MS, `${press / 5} ms`);
  page.watch.assertClean();
});

test('one model on a hundred nodes, the list of nodes, and the overview', async () => {
  const page = await browser.open(router.url, { wait: false });
  await timed('one model', 5000, async () => {
    await page.visit(`#/models/${encodeURIComponent(name(7))}`);
    await page.getByRole('link', { name: 'gpu-000' }).waitFor();
  });
  await page.getByText('1–25 of 100').waitFor();
  await timed('nodes', 5000, async () => {
    await page.visit('#/nodes'); // the page of the model has links to nodes and a filter of nodes, too
    await page.getByRole('link', { name: 'gpu-000' }).waitFor();
  });
  await page.getByLabel('Filter nodes').fill('gpu-099');
  await page.getByRole('link', { name: 'gpu-099' }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.getByLabel('Filter nodes').fill('');
  await page.look('scale-nodes');
  await timed('overview', 5000, async () => {
    await page.visit('#/overview');
    await page.getByText('of 100 are in service').waitFor();
  });
  page.watch.assertClean();
});

test('an open page of a big fleet leaves the processor to others: the lists, the overview and the picture', async () => {
  const page = await browser.open(router.url, { wait: false });
  for (const hash of LONG ? ['#/overview', '#/models', '#/nodes', '#/nodes?view=picture'] : ['#/nodes?view=picture']) {
    await page.visit(hash);
    await page.locator('.tally, tbody tr, .fleet-box').first().waitFor();
    const seconds = LONG ? 10 : 3;
    const { ms, real } = await cost(page, () => sleep(1000 * seconds));
    const share = ms / real;
    console.log(`# ${hash}: ${Math.round(100 * share)} % of a processor`);
    assert.ok(share < LIVE_SHARE, `${hash}: ${share}`);
  }
  assert.equal(await page.locator('.fleet-node').count(), NODES);
  page.watch.assertClean();
});
