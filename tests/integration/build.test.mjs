// What the release build creates and installs: hardened programs that contain nothing of the machine
// they were built on, the list of components, and no engine for tests.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { track } from '../support/scene.mjs';
import { BIN, BUILD, LONG, makeModel, startNode, tempDir } from './node_harness.mjs';

const SOURCE = path.resolve(BUILD, '../..');
const tool = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
const engines = fs.readdirSync(path.join(BUILD, 'engines'));
const programs = [BIN, ...engines.map((id) => path.join(BUILD, 'engines', id, `${id}.so`))];
const commands = () => JSON.parse(fs.readFileSync(path.join(BUILD, 'compile_commands.json')));
const hash = (file) => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');
const filesBelow = (dir) =>
  fs
    .readdirSync(dir, { recursive: true })
    .filter((name) => fs.statSync(path.join(dir, name)).isFile())
    .sort();

it('an npm package runs no script of its own when it is installed, unless its folder is meant to', () => {
  for (const [words, runs] of [
    [[], false],
    [['scripts'], true],
  ]) {
    const dir = tempDir('npm');
    const at = (name) => path.join(dir, name);
    fs.mkdirSync(at('dep'));
    const scripts = { install: `touch ${at('ran')}`, postinstall: `touch ${at('ran')}` };
    fs.writeFileSync(at('dep/package.json'), JSON.stringify({ name: 'dep', version: '1.0.0', scripts }));
    fs.writeFileSync(at('package.json'), JSON.stringify({ name: 'all', dependencies: { dep: 'file:dep' }, scripts }));
    execFileSync('npm', ['install', '--package-lock-only', '--ignore-scripts', '--offline'], {
      cwd: dir,
      stdio: 'pipe',
    });
    const said = execFileSync(path.join(SOURCE, 'tools/npm-packages'), [dir, ...words], { encoding: 'utf8' });
    assert.match(said, /installing the npm packages/);
    assert.equal(fs.existsSync(at('node_modules/dep/package.json')), true);
    assert.equal(fs.existsSync(at('ran')), runs);
  }
  const setup = fs.readFileSync(path.join(SOURCE, 'tools/setup'), 'utf8');
  assert.deepEqual(setup.match(/^.*npm-packages.* scripts\b.*$/gm)?.length, 1, 'one folder is meant to');
  assert.doesNotMatch(setup, /npm (ci|install)/);
});

describe('make run', () => {
  it('says which engines the build has, and how to get the one for GGUF where it is missing', () => {
    assert.match(
      tool('make', '-C', SOURCE, '-n', 'run'),
      /tools\/build release\n(.*\n)*tools\/engines\n(.*\n)*tools\/run\n/,
    );
    const said = tool(path.join(SOURCE, 'tools/engines'), path.join(BUILD, 'engines'));
    assert.match(
      said,
      /^Engines of this build: gptoss for safetensors \(on cpu.*\); llama_cpp for gguf \(on cpu.*\)\.\n$/,
    );
    const some = tempDir('engines');
    fs.mkdirSync(path.join(some, 'gptoss'));
    fs.copyFileSync(path.join(BUILD, 'engines/gptoss/manifest.json'), path.join(some, 'gptoss/manifest.json'));
    const lacking = tool(path.join(SOURCE, 'tools/engines'), some);
    assert.match(
      lacking,
      /^Engines of this build: gptoss for safetensors [^;]*\.\nGGUF models need .*`tools\/setup llama`/,
    );
    assert.match(
      tool(path.join(SOURCE, 'tools/engines'), tempDir('none')),
      /^Engines of this build: none\.\nGGUF models/,
    );
  });
});

describe('every program of a release build', () => {
  for (const program of programs) {
    it(`is hardened: ${path.basename(program)}`, () => {
      const segments = tool('readelf', '-hlW', program),
        dynamic = tool('readelf', '-dW', program),
        symbols = tool('readelf', '--dyn-syms', '-W', program);
      assert.match(segments, /Type: +DYN/, 'its place in memory is chosen at random');
      assert.match(segments, /GNU_RELRO/);
      assert.match(segments, /GNU_STACK .* RW /, 'no stack is executable');
      assert.match(dynamic, /BIND_NOW/, 'its table of functions is read-only: full RELRO');
      assert.doesNotMatch(dynamic, /RPATH|RUNPATH/);
      assert.match(symbols, /__stack_chk_fail/);
      assert.match(symbols, /__\w+_chk@/, 'checked string and memory functions');
      if (process.arch === 'x64') assert.match(tool('readelf', '-nW', program), /x86 feature: .*SHSTK/);
      const compiled = fs.readFileSync(program, 'latin1').match(/GNU C1[17] [^\0]*/g) ?? [];
      assert.ok(compiled.length > 0, 'the debug information says how the code was compiled');
      for (const flags of compiled) {
        assert.match(flags, /-fstack-protector-strong/);
        assert.match(flags, /-fstack-clash-protection/);
        if (process.arch === 'x64') assert.match(flags, /-fcf-protection=full/);
      }
    });

    it(`contains no folder name of the build machine: ${path.basename(program)}`, () => {
      const bytes = fs.readFileSync(program, 'latin1');
      assert.ok(!bytes.includes(`${SOURCE}/`), bytes.match(new RegExp(`[^\\0]*${SOURCE}/[^\\0]*`))?.[0]);
      const folders = tool('readelf', '--debug-dump=info', '--dwarf-depth=1', program).match(/DW_AT_comp_dir.*/g);
      assert.ok(folders.length > 0);
      for (const folder of folders) assert.match(folder, /: \.\/build/);
    });
  }

  it('is compiled with _FORTIFY_SOURCE=3', () => {
    for (const { command, file } of commands())
      if (/\.c$/.test(file)) assert.match(command, /-D_FORTIFY_SOURCE=3/, file);
  });

  it('links nothing that no source file uses', () => {
    assert.doesNotMatch(fs.readFileSync(path.join(BUILD, 'build.ninja'), 'utf8'), /argon2/);
  });
});

// Compiles as the build did, from a copy of the sources in `root`; no compiler cache.
function compileIn(root, { command, directory, file }) {
  const move = (text) => text.replaceAll(SOURCE, root);
  fs.mkdirSync(path.join(move(directory), path.dirname(command.match(/ -o (\S+)/)[1])), { recursive: true });
  execFileSync('sh', ['-c', move(command).replace(/^\S*ccache\s+/, '')], { cwd: move(directory) });
  return hash(path.join(move(directory), command.match(/ -o (\S+)/)[1])) + path.basename(file);
}

it('a file compiled in two folders gives the same bytes', () => {
  const chosen = commands().filter(({ file }) =>
    /\/(src\/base\/json_read|src\/net\/tls|engines\/gptoss\/entry)\.c$/.test(file),
  );
  assert.ok(chosen.length >= 3);
  const [here, there] = ['here', 'a-folder-with-another-name'].map((name) => {
    const root = path.join(tempDir('build'), name);
    for (const folder of ['src', 'include', 'engines'])
      fs.cpSync(path.join(SOURCE, folder), path.join(root, folder), { recursive: true });
    return chosen.map((entry) => compileIn(root, entry));
  });
  assert.deepEqual(here, there);
});

if (LONG)
  it('two builds from two folders give the same bytes', async () => {
    const results = [];
    for (const name of ['here', 'a-folder-with-another-name']) {
      const root = path.join(tempDir('build'), name);
      for (const file of tool('git', '-C', SOURCE, 'ls-files', '--cached', '--others', '--exclude-standard')
        .trim()
        .split('\n')) {
        if (!fs.existsSync(path.join(SOURCE, file))) continue;
        fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
        fs.copyFileSync(path.join(SOURCE, file), path.join(root, file));
      }
      for (const kept of ['.cache', 'dashboard/node_modules'])
        if (fs.existsSync(path.join(SOURCE, kept))) fs.symlinkSync(path.join(SOURCE, kept), path.join(root, kept));
      const run = (...args) =>
        new Promise((done, fail) => {
          const child = track(
            spawn(args[0], args.slice(1), {
              cwd: root,
              stdio: ['ignore', 'ignore', 'inherit'],
              env: { ...process.env, CMAKE_C_COMPILER_LAUNCHER: '' },
            }),
          );
          child.on('exit', (code) => (code === 0 ? done() : fail(new Error(`${args.join(' ')} ended with ${code}`))));
        });
      await run('cmake', '--preset', 'release', `-DLR_KERNEL_CACHE=${path.join(SOURCE, 'build/kernels')}`);
      await run('cmake', '--build', '--preset', 'release', '--target', 'notices', '--', '--quiet');
      const made = path.join(root, 'build/release'),
        out = {};
      for (const folder of ['bin', 'engines', 'share'])
        for (const file of filesBelow(path.join(made, folder))) {
          out[`${folder}/${file}`] = hash(path.join(made, folder, file));
          assert.ok(!fs.readFileSync(path.join(made, folder, file), 'latin1').includes(root), file);
        }
      results.push(out);
    }
    assert.deepEqual(results[0], results[1]);
  });

describe('an installation', () => {
  let prefix;
  const share = (name = '') => path.join(prefix, 'share/llm-router', name);
  before(() => {
    prefix = tempDir('install');
    tool('cmake', '--install', BUILD, '--prefix', prefix);
  });

  it('lists everything that is linked in, loaded or embedded, with its version', () => {
    const bom = JSON.parse(fs.readFileSync(share('sbom.cdx.json')));
    assert.deepEqual([bom.bomFormat, bom.specVersion, bom.metadata.component.name], ['CycloneDX', '1.5', 'llm-router']);
    const found = new Map(bom.components.map((c) => [c.name, c]));
    // A library's file name, and the component that it is.
    const names = {
      'libuv.so': 'libuv',
      'libssl.so': 'openssl',
      'libcrypto.so': 'openssl',
      'libpcre2-8.so': 'libpcre2-8',
      'libsqlite3.so': 'sqlite3',
      'libutf8proc.so': 'libutf8proc',
      'libllhttp.so': 'llhttp',
      'libc.so': 'glibc',
      'libm.so': 'glibc',
      'ld-linux-x86-64.so': 'glibc',
    };
    for (const program of programs)
      for (const [, file] of tool('readelf', '-dW', program).matchAll(/\(NEEDED\).*\[(.*?\.so)/g))
        assert.ok(found.has(names[file]), `${path.basename(program)} needs ${file}`);
    const packages = Object.keys(JSON.parse(fs.readFileSync(path.join(SOURCE, 'dashboard/package-lock.json'))).packages)
      .filter(Boolean)
      .map((name) => name.replace(/^.*node_modules\//, ''));
    for (const name of [
      'llhttp',
      'libcurl',
      'libpq',
      ...(engines.includes('llama_cpp') ? ['llama.cpp'] : []),
      ...packages,
    ])
      assert.ok(found.has(name), name);
    for (const { name, version, purl, licenses } of bom.components) {
      assert.match(version, /^\d/, name);
      assert.match(purl, /^pkg:(deb|npm|generic)\/.+@\d/);
      assert.ok(licenses[0].license.id);
    }
    assert.equal(found.get('libcurl').scope, 'optional', 'it is loaded when it is first used');
  });

  it('brings the licence text of each, and the long texts these refer to', () => {
    const bom = JSON.parse(fs.readFileSync(share('sbom.cdx.json')));
    for (const name of ['llm-router', ...bom.components.map((c) => c.name)])
      assert.ok(fs.statSync(share(`licenses/${name}.txt`)).size > 200, name);
    for (const file of filesBelow(share('licenses')))
      for (const [, name] of fs
        .readFileSync(share(`licenses/${file}`), 'utf8')
        .matchAll(/\/usr\/share\/common-licenses\/([A-Za-z0-9.+-]*[A-Za-z0-9])/g))
        assert.ok(fs.existsSync(share(`licenses/common/${name}.txt`)), `${file} refers to ${name}`);
  });

  it('has no engine for tests', () => {
    assert.deepEqual(
      filesBelow(prefix).filter((file) => /echo|faulty|fake|inject/.test(file)),
      [],
    );
  });
});

describe('the engines that a user is offered', () => {
  let node;
  after(() => node?.stop());

  it('do not include those for tests: a model that asks for them has no engine', async () => {
    const models = tempDir('models');
    makeModel(models, 'from-the-hub', 'faulty', { hang: 'load' });
    node = await startNode({ engines: path.join(BUILD, 'engines'), models });
    const ids = (await node.get('/v0/engines')).engines.map((e) => e.id);
    assert.ok(ids.includes('gptoss') && !ids.includes('echo') && !ids.includes('faulty'), ids.join());
    const model = await node.model('from-the-hub');
    assert.match(JSON.stringify(model), /no engine for runtime \\"faulty\\"/);
  });
});
