// The playground as a workbench: two models, conversations, files, schemas, and what a request waits for.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { makeFaulty } from './fleet.mjs';
import { call, DEMO, LONG, makeEcho, say, startUp, tempDir, until } from './support.mjs';

const gate = path.join(tempDir('gate'), 'gate');
let up, browser;
before(async () => {
  fs.writeFileSync(gate, '');
  up = await startUp({
    args: [
      '--max-sequences',
      '1',
      '--model',
      makeEcho('echo'),
      '--model',
      DEMO,
      '--model',
      makeEcho('gated', { gate }),
      '--model',
      makeEcho('loads', { load_ms: 6000 }),
      '--model',
      makeFaulty('a-broken', { fail: 'load' }),
    ],
  });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await up?.stop();
});

async function open(hash = '#/playground/echo', options) {
  const page = await browser.open(`${up.url}/${hash}`, options);
  const box = page.locator('.composer textarea');
  await box.waitFor();
  page.say = async (text) => {
    await box.fill(text);
    await box.press('Enter');
  };
  page.ended = (count = 1) =>
    until('the answer', async () => (await page.locator('.turn.model:not([aria-busy]) .turn-facts').count()) >= count);
  page.chats = page.locator('.chats .chat-title');
  page.done = async () => {
    page.watch.assertClean();
    await page.context().close();
  };
  return page;
}

test('two models answer the same question side by side, each with its settings', async () => {
  for (const scheme of LONG ? SCHEMES : ['dark'])
    for (const size of LONG ? Object.keys(SIZES) : ['desktop'])
      for (const lang of LONG ? ['en', 'ja'] : ['en']) {
        const page = await open('#/playground/demo', { scheme, size, lang });
        await page.getByRole('button', { name: lang === 'en' ? 'Compare' : '比較', exact: true }).click();
        await page.locator('.lane-head select').nth(1).selectOption('echo');
        await page.say('Write hello world in Python');
        await page.ended(2);
        assert.deepEqual(await page.locator('.turn-name').allTextContents(), ['demo', 'echo']);
        assert.match(await page.locator('.lane').first().locator('.prose').textContent(), /print/);
        assert.equal(await page.locator('.lane').nth(1).locator('.prose').textContent(), 'Write hello world in Python');
        await page.look(`playground-compare${lang === 'ja' ? '-ja' : ''}`, { fullPage: false });
        if (size === 'desktop' && lang === 'en') {
          await page.getByRole('button', { name: 'Settings 2' }).click();
          await page.getByRole('dialog').getByLabel('System prompt').fill('Second side only');
          await page.keyboard.press('Escape');
          await page.getByRole('button', { name: 'Settings 1' }).click();
          assert.equal(await page.getByRole('dialog').getByLabel('System prompt').inputValue(), '');
        }
        await page.done();
      }
});

test('a question is edited and an answer branched without losing the conversation; it is renamed, searched, exported', async () => {
  const page = await open();
  await page.say('the first question');
  await page.ended();
  await page.say('the second question');
  await page.ended(2);
  await page.locator('.turn.user').first().hover();
  await page.getByRole('button', { name: 'Edit' }).first().click();
  await page.getByLabel('Edit the message').fill('another beginning');
  await page.getByLabel('Edit the message').press('Enter');
  await until(
    'the new answer',
    async () => (await page.locator('.prose').allTextContents()).join() === 'another beginning',
  );
  await page.ended();
  assert.deepEqual(await page.chats.allTextContents(), ['another beginning', 'the first question']);

  await page.locator('.chats .chat').nth(1).click();
  assert.equal(await page.locator('.turn').count(), 4, 'as it was');
  await page.getByRole('button', { name: 'Branch from here' }).first().click();
  assert.equal(await page.locator('.turn').count(), 2);
  assert.equal((await page.chats.allTextContents())[0], 'the first question (branch)');

  await page.getByRole('button', { name: 'Rename "the first question (branch)"' }).click();
  await page.getByLabel('Title of the conversation').fill('My notes');
  await page.getByLabel('Title of the conversation').press('Enter');
  await page.say('more words');
  await page.ended(2);
  assert.deepEqual(await page.chats.allTextContents(), ['My notes', 'another beginning', 'the first question']);
  await page.getByLabel('Search conversations').fill('second QUESTION');
  assert.deepEqual(await page.chats.allTextContents(), ['the first question'], 'found by what was said');
  await page.getByLabel('Search conversations').fill('');

  const saved = async (name) => {
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name, exact: true }).click(),
    ]);
    return [file.suggestedFilename(), fs.readFileSync(await file.path(), 'utf8')];
  };
  const [name, text] = await saved('Export this conversation');
  assert.equal(name, 'My-notes.md');
  assert.equal(
    text,
    '# My notes\n\n## You\n\nthe first question\n\n## echo\n\nthe first question\n\n## You\n\nmore words\n\n## echo\n\nmore words\n',
  );
  const [, all] = await saved('Export');
  assert.deepEqual(
    JSON.parse(all).map((c) => c.title),
    ['My notes', 'another beginning', 'the first question'],
  );
  await page.done();
});

test('a text file goes along with a message; what is no text is refused', async () => {
  const page = await open();
  const picker = page.locator('.composer input[type=file]');
  await picker.setInputFiles([{ name: 'a.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 2]) }]);
  await page.getByText('a.bin is not a text file.').waitFor();
  await picker.setInputFiles([
    { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('line ``` one\nline two') },
  ]);
  await page.locator('.file-chip').waitFor();
  assert.equal(await page.getByRole('alert').count(), 0);
  await page.say('Summarise');
  await page.ended();
  assert.equal(await page.locator('.turn.user .file-chip-name').textContent(), 'notes.txt');
  assert.equal(await page.locator('.turn.model .code pre').textContent(), 'line ``` one\nline two');
  assert.match(await page.locator('.turn.model .prose').textContent(), /^Summarisenotes\.txt/);
  await page.done();
});

test('a schema and tools begin with examples, say what is wrong, and shape the request', async () => {
  const page = await open('#/playground/demo');
  const schema = page.getByRole('textbox', { name: 'Answer as JSON (schema)' });
  await schema.fill('[1]');
  await page.getByText('Must be an object').waitFor();
  await page.getByLabel('Answer as JSON (schema): Examples').selectOption('verdict');
  assert.equal(JSON.parse(await schema.inputValue()).properties.label.enum.length, 3);
  await page.getByLabel('Tools (JSON): Examples').selectOption('weather');
  assert.equal(
    JSON.parse(await page.getByRole('textbox', { name: 'Tools (JSON)' }).inputValue())[0].function.name,
    'get_weather',
  );
  await page.locator('.json-field').nth(1).getByRole('button', { name: 'Clear' }).click();
  await page.getByLabel('Max tokens').fill('400');
  const [request] = await Promise.all([page.waitForRequest('**/v1/chat/completions'), page.say('How was it?')]);
  const sent = request.postDataJSON();
  assert.equal(sent.response_format.json_schema.schema.properties.label.enum[0], 'positive');
  assert.equal(sent.tools, undefined);
  await page.ended();
  const facts = await page.locator('.turn-facts').textContent();
  assert.match(facts, /tokens\/s.*prompt \d+/, 'tokens, speed and the prompt');
  await page.say('And again?');
  await page.ended(2);
  assert.match(await page.locator('.turn-facts').nth(1).textContent(), /prompt \d+(, \d+ cached)?/);
  await page.done();
});

test('while it waits, a request shows the seconds, its place in the queue and how much of the model is loaded', async () => {
  // The node takes two beyond its slot.
  const held = [1, 2, 3].map(() => call(`${up.url}/v1/chat/completions`, { body: { model: 'gated', ...say('x') } }));
  const inflight = async () => (await call(`${up.url}/v0/models?id=gated`)).json.models[0].nodes[0].inflight;
  await until('they run', async () => (await inflight()) === 3);
  const page = await open('#/playground/gated');
  await page.say('after them');
  await page.locator('.waiting', { hasText: 'Next in the queue' }).waitFor();
  await page.locator('.waiting-time', { hasText: /[1-9]\d* s/ }).waitFor();
  await page.look('playground-waiting', { fullPage: false });
  fs.writeFileSync(gate, 'x'.repeat(1000));
  await page.ended();
  await Promise.all(held);
  await call(`${up.url}/v0/models/loads/unload`, { body: {} });
  await page.visit('#/playground/loads');
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.say('hello');
  // In one look: what is asked next may find a model that has loaded meanwhile.
  await page
    .locator('.waiting', { hasText: /Loading the model.*[1-9]\d* %/s, has: page.locator('[role=progressbar]') })
    .waitFor();
  await page.ended();
  await page.done();
});

test('a model that cannot run is not chosen by the page, also if it was used last', async () => {
  await until('it has failed', async () =>
    ['failed', 'waiting'].includes((await call(`${up.url}/v0/models?id=a-broken`)).json.models[0]?.state),
  );
  const page = await open('#/playground');
  const model = page.getByRole('combobox', { name: 'Model' });
  assert.notEqual(await model.inputValue(), 'a-broken');
  await page.evaluate(() => localStorage.setItem('lr.play.local', JSON.stringify({ model: 'a-broken' })));
  await page.reload();
  await model.waitFor();
  assert.notEqual(await model.inputValue(), 'a-broken');
  await page.done();
});
