// The GPUs of a node in the browser: figures and charts of each, from a fake NVML.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { GB, makeGpus, writeHistory } from '../support/gpus.mjs';
import { startBrowser } from './browser.mjs';
import { keep } from './fleet.mjs';
import { makeEcho, nodes, online, register, startNode, startRouter, until } from './support.mjs';

const words = 'util=37 temp=61 power=312000 limit=700000 clock=1830 throttle=4 ecc=3 dbe=0 xids=0';
const usual = [
  { total: 80 * GB, used: 20 * GB, words },
  { total: 80 * GB, used: 40 * GB, words: 'util=5 temp=40 power=90000 limit=700000 clock=345 dbe=0' },
  { total: 24 * GB, used: 12 * GB, words: 'temp=30' }, // tells little of itself
];
const TEN_MIN_AGO = { utilization: 91, temperature: 77, power: 650000, clock: 1980 };
let router, node, browser, gpus;
let writtenAt; // the ages of the history's figures count from here

// GPU 0 rises and falls every quarter of an hour, GPU 1 is at 20 %, GPU 2 tells its temperature only.
const figures = (i, age) => {
  const wave = 50 + 45 * Math.sin(age / 150);
  if (i === 2) return { used: 12 * GB, total: 24 * GB, temperature: 33 };
  if (i === 1) return { used: 40 * GB, total: 80 * GB, utilization: 20, temperature: 45, power: 120000, clock: 900 };
  const rest = age >= 540 && age <= 660 ? TEN_MIN_AGO : { utilization: wave, temperature: 40 + wave / 3 };
  return { used: (20 + wave / 10) * GB, total: 80 * GB, power: 100000 + wave * 5000, clock: 1200 + wave * 7, ...rest };
};

before(async () => {
  gpus = makeGpus(usual);
  const first = await startRouter({ args: ['--allow-cpu-nodes'] });
  const args = [...gpus.args, '--model', makeEcho('on-gpu', { on_device: true, weights_bytes: 2 * GB })];
  const started = keep(await startNode(first, { name: 'tower', args, env: gpus.env }));
  await until('the node is there', async () => (await online(first)) === 1);
  node = (await nodes(first))[0].id;
  await register(first, 'on-gpu');
  const port = Number(new URL(first.url).port);
  await first.stop();
  writtenAt = Date.now();
  writeHistory(first.dir, node, 3, 48, figures);
  router = keep(await startRouter({ args: ['--allow-cpu-nodes'], dir: first.dir, port }));
  await until('the node is back', async () => (await online(router)) === 1);
  assert.ok(started.pid > 0);
  browser = await startBrowser();
});
after(() => browser?.close());

const open = (how) => browser.open(`${router.url}/#/nodes/${node}`, how);
const card = (page, title) => page.locator('.gpus .stat').filter({ has: page.getByRole('heading', { name: title }) });
const cells = (page, gpu) => page.locator('.gpus').getByRole('row', { name: new RegExp(`^${gpu}\\b`) });

test('each GPU has its figures in a row, and they follow the GPU', async () => {
  const page = await open();
  const row = cells(page, 'GPU 0');
  for (const text of ['37 %', '61 °C', '312 W', 'of 700 W', '1.83 GHz', '18.6 GiB of 74.5 GiB', '3 corrected errors'])
    await row.getByText(text, { exact: true }).waitFor();
  await row.getByText('at its power limit').waitFor();
  assert.deepEqual((await cells(page, 'GPU 2').getByRole('cell').allTextContents()).slice(1), [
    '–',
    '11.2 GiB of 22.4 GiB',
    '30 °C',
    '–',
    '–',
  ]);
  gpus.set([
    { ...usual[0], words: words.replace('util=37', 'util=73').replace('throttle=4', 'throttle=64') },
    ...usual.slice(1),
  ]);
  await row.getByText('73 %', { exact: true }).waitFor();
  await row.getByText('slowed by heat').waitFor();
  gpus.set([...usual.slice(0, 2), { ...usual[2], words: 'temp=30 dbe=2' }]);
  await cells(page, 'GPU 2').getByText('faulty', { exact: true }).waitFor();
  await cells(page, 'GPU 2').getByText('2 uncorrectable errors').waitFor();
  gpus.set(usual);
  await page.context().close();
});

/** How many pixels of a chart have the colour of each series. */
const pixels = (chart, tones) =>
  chart.locator('canvas').evaluate((canvas, wanted) => {
    const probe = document.body.appendChild(document.createElement('i'));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const counts = wanted.map((tone) => {
      probe.style.color = `var(--chart-${tone})`;
      const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
      let count = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24)
          count++;
      return count;
    });
    probe.remove();
    return counts;
  }, tones);

test('a chart of each figure has a line for each GPU that tells it, a time axis, a scale and a legend', async () => {
  const page = await open();
  await page.locator('.gpus .legend').waitFor();
  assert.deepEqual(await page.locator('.gpus .legend li').allTextContents(), ['GPU 0', 'GPU 1', 'GPU 2']);
  for (const [title, drawn] of [
    ['Utilization', [true, true, false]],
    ['Memory used', [true, true, true]],
    ['Temperature', [true, true, true]],
    ['Power', [true, true, false]],
    ['Clock', [true, true, false]],
  ]) {
    await card(page, title).locator('canvas').waitFor();
    const counts = await pixels(card(page, title), [1, 4, 2]);
    assert.deepEqual(
      counts.map((n) => n > 60),
      drawn,
      `${title}: ${counts}`,
    );
    const [time, value] = await Promise.all(
      [0, 1].map((i) => card(page, title).locator('.u-axis').nth(i).boundingBox()),
    );
    assert.ok(
      time.y >= value.y + value.height - 1 && value.width > 20,
      'the time is below the chart, the scale beside it',
    );
  }
  for (const range of ['1 h', '24 h', '7 d']) {
    await Promise.all([
      page.waitForResponse((r) => r.url().includes(`range=${range.replace(' ', '')}`) && r.ok()),
      page.getByLabel(range, { exact: true }).check({ force: true }),
    ]);
    await until(`a line of ${range}`, async () => (await pixels(card(page, 'Utilization'), [1]))[0] > 60);
  }
  await page.look('gpus');
  page.watch.assertClean();
  await page.context().close();
});

test('the pointer on one chart shows that time in all charts and in the rows', async () => {
  const page = await open();
  const over = card(page, 'Utilization').locator('.u-over');
  await over.waitFor();
  const box = await over.boundingBox();
  const age = 600 + (Date.now() - writtenAt) / 1000;
  await over.hover({ position: { x: box.width * (1 - age / 900), y: box.height / 2 } });
  for (const text of ['91 %', '77 °C', '650 W', '1.98 GHz'])
    await cells(page, 'GPU 0').getByText(text, { exact: true }).waitFor();
  await card(page, 'Temperature').getByText('77 °C', { exact: true }).waitFor();
  await page.mouse.move(0, 0);
  await cells(page, 'GPU 0').getByText('37 %', { exact: true }).waitFor();
  await page.context().close();
});

test('on a phone, in the dark and in Japanese the GPUs fit the page', async () => {
  const page = await open({ scheme: 'dark', size: 'phone', lang: 'ja' });
  await page.getByRole('heading', { name: '使用率' }).waitFor();
  await until('the line is drawn', async () => (await pixels(page.locator('.gpus .stat').first(), [1]))[0] > 60);
  await page.look('gpus-ja');
  page.watch.assertClean();
  await page.context().close();
});
