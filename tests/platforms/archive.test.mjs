// The archives of tools/dist: what is inside, what the programs need of the system, and, for linux-x64,
// that they run on an old system.  tools/test-platforms runs this file with
//   LR_TARGETS  the targets whose archives are in build/dist
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { elf, macho, pe } from './binary.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');
const DIST = path.join(ROOT, 'build/dist');
const TARGETS = (process.env.LR_TARGETS ?? 'linux-x64 linux-arm64 windows-x64 macos-arm64').split(' ');
const OLDEST_GLIBC = '2.31';
const run = promisify(execFile);

const work = fs.mkdtempSync(path.join(os.tmpdir(), 'lr-archive-'));
after(() => fs.rmSync(work, { recursive: true, force: true }));

// The archive of a target, unpacked.
const folders = new Map();
function unpacked(target) {
  if (folders.has(target)) return folders.get(target);
  const [archive] = fs
    .readdirSync(DIST)
    .filter((name) => /^llm-router-.*\.(zip|tar\.gz)$/.test(name) && name.includes(`-${target}.`));
  assert.ok(archive, `build/dist has no archive for ${target}: run tools/dist ${target}`);
  const file = path.join(DIST, archive);
  if (archive.endsWith('.zip')) execFileSync('unzip', ['-q', file, '-d', work]);
  else execFileSync('tar', ['-xzf', file, '-C', work]);
  folders.set(target, path.join(work, archive.replace(/\.(zip|tar\.gz)$/, '')));
  return folders.get(target);
}
const enginesOf = (folder) => path.join(folder, 'lib/llm-router/engines');
const suffixes = { windows: '.dll', macos: '.so', linux: '.so' };
// Program and engines, without libraries that others have compiled and that only travel with an engine.
function programs(target) {
  const folder = unpacked(target);
  const suffix = suffixes[target.split('-')[0]];
  const program = path.join(folder, 'bin', target.startsWith('windows') ? 'llm-router.exe' : 'llm-router');
  const engines = fs.readdirSync(enginesOf(folder)).map((id) => path.join(enginesOf(folder), id, `${id}${suffix}`));
  assert.ok(engines.length > 0);
  return { program, engines, all: [program, ...engines] };
}
// What gpt-oss computes on, and the library of the GPU's driver, which the engine opens by name.
const gptoss = {
  'linux-x64': { backends: ['cpu', 'cuda', 'vulkan'], opens: ['libcuda.so.1', 'libvulkan.so.1'] },
  'linux-arm64': { backends: ['cpu', 'vulkan'], opens: ['libvulkan.so.1'] },
  'windows-x64': { backends: ['cpu', 'cuda', 'vulkan'], opens: ['nvcuda.dll', 'vulkan-1.dll'] },
  'macos-arm64': { backends: ['cpu', 'vulkan', 'metal'], opens: ['libvulkan.1.dylib', 'Metal.framework/Metal'] },
};
// What llama.cpp computes on, which of its libraries lie beside the llama_cpp engine, what they may need of the
// system, and the oldest system that has it.
const llama = {
  'linux-x64': {
    backends: ['cpu', 'vulkan'],
    files: [/^libllama\.v/, /^libggml\.v/, /^libggml-base\.so$/, /^libggml-cpu-x64\.so$/, /^device-vulkan\.so$/],
    system: /^(lib(c|m|gcc_s|stdc\+\+|vulkan)|ld-linux[-\w]*)\.so\.\d$/,
  },
  'linux-arm64': {
    backends: ['cpu'],
    files: [/^libllama\.v/, /^libggml\.v/, /^libggml-base\.so$/, /^libggml-cpu-armv8\.0_1\.so$/],
    system: /^(lib(c|m|gcc_s|stdc\+\+)|ld-linux[-\w]*)\.so\.\d$/,
  },
  'windows-x64': {
    backends: ['cpu'],
    files: [/^llama\.v/, /^ggml\.v/, /^ggml-base\.dll$/, /^ggml-cpu-x64\.dll$/],
    system: /^(kernel32|advapi32|(msvcp|vcruntime)140(_1)?|api-ms-win-crt-[-\w]+)\.dll$/i,
  },
  'macos-arm64': {
    backends: ['cpu', 'metal'],
    files: [/^libllama\./, /^libggml\./, /^libggml-base\.dylib$/, /^libggml-cpu-apple_m1\.so$/, /^device-metal\.so$/],
    system: /^\/(usr\/lib|System)\//,
  },
};
const LLAMA_GLIBC = '2.34';
const LLAMA_MACOS = '14.0';
// How many kernels the GPU backends have.
const KERNELS = fs
  .readFileSync(path.join(ROOT, 'engines/gptoss/backend/shaders/kernels.def'), 'utf8')
  .match(/^KERNEL\(/gm).length;
const SPIRV = Buffer.from([0x03, 0x02, 0x23, 0x07]); // how each compiled kernel begins
const MSL = Buffer.from('#include <metal_stdlib>'); // how the text of each kernel begins
function count(bytes, part) {
  let found = 0;
  for (let at = bytes.indexOf(part); at !== -1; at = bytes.indexOf(part, at + part.length)) found++;
  return found;
}
const older = (a, b) => a.localeCompare(b, undefined, { numeric: true }) <= 0;

for (const target of TARGETS)
  describe(target, () => {
    it('the archive has program, engine, demo model, licences, components, checksums and a README', () => {
      const folder = unpacked(target);
      const { all } = programs(target);
      for (const file of all) assert.ok(fs.statSync(file).size > 10_000, file);
      const share = path.join(folder, 'share/llm-router');
      const bom = JSON.parse(fs.readFileSync(path.join(share, 'sbom.cdx.json'), 'utf8'));
      assert.ok(fs.existsSync(path.join(share, 'models/demo/config.json')));
      assert.match(fs.readFileSync(path.join(folder, 'README.txt'), 'utf8'), new RegExp(`for ${target}`));
      for (const { name, version } of bom.components) {
        assert.ok(fs.existsSync(path.join(share, `licenses/${name}.txt`)), `no licence text of ${name}`);
        assert.match(version, /^\d/, name);
      }
      const parts = new Map(bom.components.map((part) => [part.name, part]));
      for (const name of ['libuv', 'openssl', 'sqlite3', 'llhttp']) assert.ok(parts.has(name), name);
      const isLinux = target.startsWith('linux');
      assert.equal(parts.get('glibc')?.version, isLinux ? OLDEST_GLIBC : undefined);
      assert.equal(parts.has('libpq'), isLinux, 'PostgreSQL can be used on Linux only');
      assert.equal(parts.get('libcurl').scope, target.startsWith('windows') ? 'required' : 'optional');
    });

    it('SHA256SUMS has every file, and its sum', () => {
      const folder = unpacked(target);
      const lines = fs.readFileSync(path.join(folder, 'SHA256SUMS'), 'utf8').trim().split('\n');
      const sums = new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
      const files = fs
        .readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => path.relative(folder, path.join(entry.parentPath ?? entry.path, entry.name)))
        .filter((name) => name !== 'SHA256SUMS');
      assert.deepEqual([...sums.keys()].sort(), files.sort());
      for (const name of files)
        assert.equal(
          createHash('sha256')
            .update(fs.readFileSync(path.join(folder, name)))
            .digest('hex'),
          sums.get(name),
          name,
        );
    });

    it('the gpt-oss engine has its GPU backends, with every kernel, and opens their drivers by name', () => {
      const folder = path.join(enginesOf(unpacked(target)), 'gptoss');
      const { backends, library } = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
      assert.deepEqual(backends, gptoss[target].backends);
      const bytes = fs.readFileSync(path.join(folder, library));
      for (const name of gptoss[target].opens) assert.notEqual(bytes.indexOf(name), -1, name);
      assert.ok(count(bytes, SPIRV) >= KERNELS, `${count(bytes, SPIRV)} kernels for Vulkan`);
      if (backends.includes('metal')) assert.ok(count(bytes, MSL) >= KERNELS, `${count(bytes, MSL)} kernels for Metal`);
    });

    it('the llama_cpp engine has llama.cpp beside it, whose libraries need only each other and the system', () => {
      const folder = path.join(enginesOf(unpacked(target)), 'llama_cpp');
      const { backends, library } = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
      assert.deepEqual(backends, llama[target].backends);
      const files = fs.readdirSync(folder).filter((name) => name !== 'manifest.json' && name !== library);
      for (const wanted of llama[target].files)
        assert.ok(
          files.some((name) => wanted.test(name)),
          `no ${wanted}`,
        );
      for (const name of files) {
        const file = path.join(folder, name);
        const read = { linux: elf, windows: pe, macos: macho }[target.split('-')[0]](file);
        const others = read.libraries.map((needed) => needed.replace(/^@rpath\//, ''));
        assert.deepEqual(
          others.filter((needed) => !files.includes(needed) && !llama[target].system.test(needed)),
          [],
          name,
        );
        for (const version of read.versions ?? []) assert.ok(older(version, LLAMA_GLIBC), `${name}: ${version}`);
        if (target.startsWith('macos')) {
          assert.ok(older(read.oldest, LLAMA_MACOS), `${name}: ${read.oldest}`);
          assert.ok(read.signature.isRight, name);
          assert.ok(fs.readFileSync(file).includes('@loader_path\0'), `${name} looks for others beside it`);
        }
      }
      const bom = JSON.parse(fs.readFileSync(path.join(unpacked(target), 'share/llm-router/sbom.cdx.json'), 'utf8'));
      const version = bom.components.find((part) => part.name === 'llama.cpp')?.version;
      assert.ok(fs.readFileSync(path.join(folder, library)).includes(`${version}\0`), `built for ${version}`);
    });

    it('nothing names a folder of the machine that built it', () => {
      for (const file of programs(target).all)
        assert.equal(fs.readFileSync(file).indexOf(`${ROOT}/`), -1, `${file} has ${ROOT}`);
    });
  });

for (const target of TARGETS.filter((name) => name.startsWith('linux')))
  describe(target, () => {
    it(`program and engines need no symbol newer than GLIBC_${OLDEST_GLIBC}, and nothing but the C library`, () => {
      for (const file of programs(target).all) {
        const { versions, libraries } = elf(file);
        assert.ok(versions.length > 0, file);
        assert.deepEqual(
          versions.filter((version) => !older(version, OLDEST_GLIBC)),
          [],
          file,
        );
        assert.deepEqual(
          libraries.filter((name) => !/^(lib(c|m|dl|rt|pthread)|ld-linux[-\w]*)\.so\.\d$/.test(name)),
          [],
          file,
        );
      }
    });
    it('an engine exports its entry and nothing else', () => {
      for (const file of programs(target).engines) assert.deepEqual(elf(file).exports, ['lr_engine_entry'], file);
    });
  });

if (TARGETS.includes('linux-x64'))
  describe('linux-x64 on other systems', () => {
    const inRoot = async (root, command) => {
      const args = ['--alone', root, 'sh', '-c', command];
      return run(path.join(ROOT, 'tests/support/in_root'), args, { maxBuffer: 1 << 26, timeout: 300_000 }).catch(
        (error) => assert.fail(`${command}\n${error.stdout}\n${error.stderr}`),
      );
    };
    before(() => assert.equal(process.getuid(), 0, 'a root folder of another system needs the rights of root'));

    it('in a bare Debian 11 (glibc 2.31) the program starts, answers, and stops', async () => {
      const root = path.join(work, 'bullseye');
      fs.mkdirSync(root);
      await run(path.join(ROOT, 'tests/support/bare_root'), [root, 'bullseye'], { timeout: 600_000 });
      fs.cpSync(unpacked('linux-x64'), path.join(root, 'opt/llm-router'), { recursive: true });
      const { stdout } = await inRoot(
        root,
        `set -e
        . /etc/os-release; echo "release $VERSION_CODENAME"
        cd /opt/llm-router
        ./llm-router up --device cpu --data-dir /var/tmp/data --no-hf-cache > /tmp/log 2>&1 &
        server=$!
        for i in $(seq 600); do
          ./llm-router chat --model demo --temperature 0 'What is the capital of Japan?' > /tmp/answer 2> /dev/null && break
          kill -0 $server || { cat /tmp/log >&2; exit 1; }
          sleep 0.2
        done
        cat /tmp/answer
        kill -TERM $server
        wait $server`,
      );
      assert.match(stdout, /release bullseye/);
      assert.match(stdout, /Tokyo/);
    });

    it('a link elsewhere starts the program', () => {
      const link = path.join(work, 'link to llm-router');
      fs.symlinkSync(path.join(unpacked('linux-x64'), 'llm-router'), link);
      const version = path.basename(unpacked('linux-x64')).split('-')[2];
      assert.ok(execFileSync(link, ['version'], { encoding: 'utf8', cwd: '/' }).includes(version));
    });

    it('on a system without glibc the start script says what is missing', () => {
      const root = path.join(work, 'musl');
      for (const name of ['bin', 'opt']) fs.mkdirSync(path.join(root, name), { recursive: true });
      fs.copyFileSync('/bin/busybox', path.join(root, 'bin/busybox'));
      for (const name of ['sh', 'dirname', 'uname']) fs.symlinkSync('busybox', path.join(root, 'bin', name));
      fs.cpSync(unpacked('linux-x64'), path.join(root, 'opt/llm-router'), { recursive: true });
      assert.throws(
        () => execFileSync('chroot', [root, '/bin/sh', '/opt/llm-router/llm-router', 'version'], { stdio: 'pipe' }),
        (error) => error.status === 1 && /needs the GNU C library \(glibc\) 2\.31/.test(error.stderr.toString()),
      );
    });
  });

if (TARGETS.includes('windows-x64'))
  describe('windows-x64', () => {
    it('program and engine need only libraries of Windows', () => {
      const system =
        /^(kernel32|advapi32|ws2_32|bcrypt|psapi|shell32|user32|crypt32|iphlpapi|userenv|ole32|msvcrt|dbghelp)\.dll$/i;
      for (const file of programs('windows-x64').all)
        assert.deepEqual(
          pe(file).libraries.filter((name) => !system.test(name)),
          [],
          file,
        );
    });
    it('an engine exports its entry and nothing else', () => {
      for (const file of programs('windows-x64').engines) assert.deepEqual(pe(file).exports, ['lr_engine_entry']);
    });
  });

if (TARGETS.includes('macos-arm64'))
  describe('macos-arm64, which is inspected and not run', () => {
    it('program and engine are for macOS 11 on arm64 and need only libraries of the system', () => {
      for (const file of programs('macos-arm64').all) {
        const { cpu, system, oldest, libraries } = macho(file);
        assert.equal(cpu, 0x0100000c, file);
        assert.equal(system, 'macOS', file);
        assert.equal(oldest, '11.0', file);
        assert.ok(libraries.length > 0, file);
        assert.deepEqual(
          libraries.filter((name) => !name.startsWith('/usr/lib/') && !name.startsWith('/System/')),
          [],
          file,
        );
      }
    });
    it('each has an ad hoc signature that fits its bytes', () => {
      for (const file of programs('macos-arm64').all)
        assert.deepEqual(macho(file).signature, { isAdHoc: true, isRight: true }, file);
    });
  });
