// Vulkan devices: which of them a node computes on, and what a node on such a device counts as.
// Lavapipe, Mesa's Vulkan driver for the processor, is the device.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { FAMILIES, makeFamilyModel } from '../support/family_model.mjs';
import { GB, makeGpus } from '../support/gpus.mjs';
import {
  BIN,
  call,
  cli,
  DEMO,
  ENGINES,
  LONG,
  launch,
  makeToken,
  nodes,
  online,
  startNode,
  startRouter,
  startUp,
  tempDir,
  until,
} from './support.mjs';

process.env.VK_ICD_FILENAMES = '/usr/share/vulkan/icd.d/lvp_icd.x86_64.json';
const DEBUG_BIN = process.env.LLM_ROUTER_DEBUG_BIN ?? path.resolve('build/asan/bin/llm-router');
const started = [];
const keep = (process) => {
  started.push(process);
  return process;
};
after(() => Promise.all(started.map((process) => process.stop('SIGKILL'))));

test('a Vulkan device that computes on the processor is a CPU: auto never takes it, and the node joins as a node without a GPU', async () => {
  const args = ['node', '--listen', '127.0.0.1:0', '--data-dir', tempDir('node'), '--nvml-library', '/nonexistent'];
  await assert.rejects(
    launch(args, { match: /never/ }),
    /no GPU with Vulkan, which lists vulkan:0 \(llvmpipe[^]*--device cpu/,
  );
  const router = keep(await startRouter());
  const token = await makeToken(router);
  const refused = keep(await startNode(router, { args: ['--device', 'vulkan:0'], token }));
  await until('the node is refused', () => /no GPU .*--allow-cpu-nodes/.test(refused.log));
  assert.equal(await online(router), 0);

  const up = keep(await startUp({ args: ['--device', 'vulkan'] }));
  await until('the node of up has joined', async () => (await online(up)) === 1);
  assert.equal((await nodes(up))[0].device, 'cpu');
});

test('up --device vulkan answers with the demo model', async () => {
  const up = keep(
    await startUp({
      args: ['--device', 'vulkan', '--model', 'models/demo', '--step-timeout', '2m'],
      ms: 300000, // the driver compiles the kernels first, which takes ten seconds and more
    }),
  );
  const answer = await call(`${up.url}/v1/chat/completions`, {
    body: { model: 'demo', temperature: 0, messages: [{ role: 'user', content: 'What is 3 + 4?' }] },
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.json));
  assert.match(answer.json.choices[0].message.content, /7/);
});

test('a device that Vulkan does not list is refused with the devices that it lists', async () => {
  await assert.rejects(
    launch(['node', '--listen', '127.0.0.1:0', '--data-dir', tempDir('node'), '--device', 'vulkan:7'], {
      match: /never/,
    }),
    /there is no device vulkan:7; Vulkan lists vulkan:0 \(llvmpipe/,
  );
});

test('a node on Metal is refused on a system without Metal', async () => {
  await assert.rejects(
    launch(['node', '--listen', '127.0.0.1:0', '--data-dir', tempDir('node'), '--device', 'metal'], {
      match: /never/,
    }),
    /there is no device metal: Metal is part of macOS; on this system use --device vulkan, cuda or cpu/,
  );
});

test('a device is named by a part of its name, and without a driver the message says what to install where', async () => {
  const up = keep(await startUp({ args: ['--device', 'vulkan:llvm'] }));
  await until('the node of up has joined', async () => (await online(up)) === 1);
  const args = ['node', '--listen', '127.0.0.1:0', '--data-dir', tempDir('node'), '--device', 'vulkan'];
  await assert.rejects(
    launch(args, { match: /never/, env: { VK_ICD_FILENAMES: '/nonexistent' } }),
    /Vulkan lists no device: install [^]*Debian and Ubuntu libvulkan1 and mesa-vulkan-drivers[^]*Windows[^]*macOS/,
  );
});

const RECURRENT = 'qwen3_5';

function familyModel() {
  const folder = tempDir('native');
  return makeFamilyModel(FAMILIES[RECURRENT], DEMO, path.join(folder, RECURRENT));
}

// Two turns; the second one begins with what the first one left in the cache.
async function converse(url) {
  const messages = [{ role: 'user', content: 'What comes after the last thing that was said? '.repeat(20) }];
  const ask = async () => {
    const body = { model: RECURRENT, temperature: 0, max_tokens: 40, ignore_eos: true, messages };
    const { status, json } = await call(`${url}/v1/chat/completions`, { body });
    assert.equal(status, 200, JSON.stringify(json));
    assert.equal(json.usage.completion_tokens, 40);
    return json;
  };
  const first = await ask();
  messages.push(first.choices[0].message, { role: 'user', content: 'And then?' });
  const { usage } = await ask();
  return usage.prompt_tokens_details.cached_tokens;
}

test('a model of the native engine serves on a Vulkan device that is named, with its state in the prefix cache', async () => {
  const up = keep(await startUp({ args: ['--device', 'vulkan', '--model', familyModel(), '--step-timeout', '2m'] }));
  assert.ok((await converse(up.url)) > 0);
});

// The stand-in for NVML has a GPU with lavapipe's UUID, and the manifest of the engine has Vulkan.
test('on a node of NVIDIA GPUs an engine without CUDA computes on the same GPU through Vulkan', async () => {
  const { stdout } = await cli(['worker', '--devices']);
  const [{ uuid }] = JSON.parse(stdout.trim().split('\n').at(-1));
  const gpus = makeGpus([{ total: 8 * GB, used: 0, words: `uuid=${uuid}` }]);
  const engines = tempDir('engines');
  fs.cpSync(path.join(ENGINES, 'native'), path.join(engines, 'native'), { recursive: true, dereference: true });
  const manifest = path.join(engines, 'native/manifest.json');
  const { trial_backends: trial, ...rest } = JSON.parse(fs.readFileSync(manifest));
  fs.writeFileSync(manifest, JSON.stringify({ ...rest, backends: [...rest.backends, ...trial] }));
  const args = ['--device', 'cuda', '--model', familyModel(), '--step-timeout', '2m', '--engines-dir', engines];
  const up = keep(await startUp({ args: [...args, ...gpus.args], env: gpus.env }));
  assert.ok((await converse(up.url)) > 0);
  assert.match(up.log, /model\.by_vulkan model=qwen3_5 engine=native/);
});

test('doctor lists the Vulkan devices', async () => {
  const { stdout } = await cli(['doctor', '--no-hub', '--data-dir', tempDir('doctor')]).catch((error) => error);
  assert.match(stdout, /ok {4}vulkan:0 is llvmpipe.*computes on the processor, Vulkan 1\.3/);
});

// The driver compiles llama.cpp's kernels for the processor, which takes a minute or more.
if (LONG)
  test('a GGUF model on a Vulkan device gives the greedy tokens of the CPU', () => {
    const dir = path.join(tempDir('gguf'), 'tiny');
    execFileSync(BIN, ['debug', 'write-gguf', '--output', path.join(dir, 'model.gguf')]);
    const ids = (device) =>
      JSON.parse(
        execFileSync(
          BIN,
          [
            'debug',
            'generate',
            '--engine',
            'llama_cpp',
            '--engines-dir',
            ENGINES,
            '--model',
            dir,
            '--device',
            device,
            '--ignore-stop',
            '--max-tokens',
            '12',
          ],
          { input: '[65, 66, 67, 68]' },
        ),
      );
    const expected = ids('cpu');
    assert.equal(expected.length, 12);
    assert.deepEqual(ids('vulkan:0'), expected);
  });

// lavapipe keeps each kernel that it has compiled as a file in the one folder that a confined worker may write to.
if (LONG)
  test('a confined worker runs a GGUF model on a Vulkan device, and keeps the compiled kernels for the next load', async () => {
    const models = tempDir('gguf');
    const dir = tempDir('up');
    execFileSync(BIN, ['debug', 'write-gguf', '--output', path.join(models, 'tiny/model.gguf')]);
    const args = ['--device', 'vulkan', '--models-dir', models, '--engines-dir', ENGINES];
    args.push('--load-timeout', '10m', '--step-timeout', '10m');
    const loadMs = async () => {
      const up = keep(await startUp({ args, dir }));
      assert.match(up.log, /node\.confinement workers=confined/);
      const body = { model: 'tiny', prompt: 'hello', max_tokens: 4, temperature: 0 };
      const answer = await call(`${up.url}/v1/completions`, { body });
      assert.equal(answer.status, 200, JSON.stringify(answer.json));
      await up.stop();
      return Number(up.log.match(/worker\.ready model=tiny .* ms=(\d+)/)[1]);
    };
    const first = await loadMs();
    const second = await loadMs();
    assert.ok(second < first / 2, `loads took ${first} and ${second} ms`);
  });

// With vectors of 128 bits lavapipe has subgroups of 4.
test('doctor says why a Vulkan device cannot be used', async () => {
  const env = { LP_NATIVE_VECTOR_WIDTH: '128' };
  const { stdout } = await cli(['doctor', '--no-hub', '--data-dir', tempDir('doctor')], env).catch((error) => error);
  assert.match(
    stdout,
    /note {2}vulkan:0 is llvmpipe.*, which cannot be used: it has subgroups of 4: 8, 16, 32 or 64 are/,
  );
});

test('doctor counts Metal as a GPU', async () => {
  const doctor = (env) =>
    cli(['doctor', '--no-hub', '--as', 'node', '--data-dir', tempDir('doctor')], env).catch((error) => error);
  const [without, mac] = await Promise.all([doctor({}), doctor({ LR_METAL_LIBRARY: '/stands/for/metal' })]);
  assert.match(without.stdout, /MISS {2}an NVIDIA GPU/);
  assert.match(mac.stdout, /ok {4}metal is the GPU of this Mac\nok {4}a GPU\n/);
});

test('doctor computes the demo model on a device and compares it with the processor', async () => {
  const doctor = (device) =>
    cli(['doctor', '--no-hub', '--data-dir', tempDir('doctor'), '--device', device]).catch((error) => error);
  const [vulkan, metal] = await Promise.all([doctor('vulkan:0'), doctor('metal')]);
  const error = Number(
    vulkan.stdout.match(/ok {4}vulkan:0 \(llvmpipe .*\) computes .* \(relative error ([\d.e-]+), /)[1],
  );
  assert.ok(error > 0 && error < 1e-3, String(error));
  assert.match(metal.stdout, /MISS {2}metal computes [^]*use --device (cuda, vulkan|vulkan, cuda) or cpu/);
});

// The build with sanitizers has the Metal backend, and a stand-in for Metal that computes on lavapipe.
const withMetal = (library, args = []) =>
  promisify(execFile)(
    DEBUG_BIN,
    ['doctor', '--no-hub', '--data-dir', tempDir('doctor'), '--device', 'metal', ...args],
    { env: { ...process.env, LR_METAL_LIBRARY: library, ASAN_OPTIONS: 'detect_leaks=0' }, timeout: 60000 },
  ).catch((error) => error);

test('doctor computes the demo model on Metal and names the GPU', async () => {
  const { stdout } = await withMetal(path.resolve(DEBUG_BIN, '../../testing/fake_metal.so'));
  assert.match(stdout, /ok {4}metal \(.+\) computes the demo model as the processor does \(relative error/);
});

// Opening a pipe that nobody writes to waits for ever, as a driver does that hangs.
test('doctor ends a device that hangs after --device-timeout', async () => {
  const pipe = path.join(tempDir('pipe'), 'metal.so');
  execFileSync('mkfifo', [pipe]);
  const { stdout } = await withMetal(pipe, ['--device-timeout', '15s']);
  assert.match(stdout, /MISS {2}metal computes [^]*metal gave no result within 15 s/);
});
