// What a release is made of beside its archives: manifests of package managers, the apt repository, the
// image, the workflows.  All are made from one file and the checksums.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import { promisify } from 'node:util';
import Ajv from 'ajv';
import { parseYaml } from '../support/kustomize.mjs';
import { BUILD, ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const isLong = process.env.LR_LONG === '1';
const work = tempDir('release');
const run = promisify(execFile);
const tool = (name) => path.join(ROOT, 'tools', name);
const digest = (file) => createHash('sha256').update(fs.readFileSync(file)).digest('hex');

// Every file below a folder, with its checksum.
const sumsOf = (folder) =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
    .map((file) => `${digest(file)} ${path.relative(folder, file)}`);

describe('channels', () => {
  const folder = path.join(work, 'archives');
  const names = ['linux-x64.tar.gz', 'linux-arm64.tar.gz', 'macos-arm64.tar.gz', 'windows-x64.zip'].map(
    (n) => `llm-router-1.2.3-${n}`,
  );
  fs.mkdirSync(folder);
  for (const name of names) fs.writeFileSync(path.join(folder, name), `the bytes of ${name}`);
  fs.writeFileSync(path.join(folder, 'SHA256SUMS'), execFileSync('sha256sum', names, { cwd: folder }));
  const versions = path.join(work, 'versions');
  fs.writeFileSync(versions, `base_url=https://example.org/releases\npublic_key=${'1'.repeat(64)}\n`);
  const make = (out) => {
    execFileSync(tool('release-channels'), [folder, path.join(work, out), versions]);
    return path.join(work, out);
  };
  const out = make('channels');
  const read = (name) => fs.readFileSync(path.join(out, name), 'utf8');
  const url = (name) => `https://example.org/releases/1.2.3/${name}`;
  const sum = (name) => digest(path.join(folder, name));

  it('Homebrew, Scoop and winget name the archives that exist, each with its checksum', () => {
    const formula = read('homebrew/llm-router.rb');
    for (const name of names.slice(0, 3))
      assert.ok(formula.includes(`url "${url(name)}"\n`) && formula.includes(`sha256 "${sum(name)}"`), name);
    const scoop = JSON.parse(read('scoop/llm-router.json'));
    assert.deepEqual(scoop.architecture['64bit'], {
      url: url(names[3]),
      hash: sum(names[3]),
      extract_dir: 'llm-router-1.2.3-windows-x64',
    });
    const [installer] = parseYaml(read('winget/LlmRouter.LlmRouter.installer.yaml'));
    assert.equal(installer.Installers[0].InstallerUrl, url(names[3]));
    assert.equal(installer.Installers[0].InstallerSha256, sum(names[3]).toUpperCase());
  });

  it("the manifests fit the forms that Scoop's and winget's schemas ask for", () => {
    const ajv = new Ajv({ allErrors: true });
    // The parts of the published schemas that these manifests use (Scoop: schema.json; winget: version 1.6.0).
    const text = { type: 'string', minLength: 1 };
    const scoop = {
      type: 'object',
      additionalProperties: false,
      required: ['version', 'homepage', 'license'],
      properties: {
        version: { type: 'string', pattern: '^[\\w\\.\\-+_]+$' },
        description: text,
        homepage: text,
        license: text,
        notes: text,
        bin: text,
        architecture: {
          type: 'object',
          additionalProperties: false,
          properties: {
            '64bit': {
              type: 'object',
              additionalProperties: false,
              properties: { url: text, hash: { type: 'string', pattern: '^[a-fA-F0-9]{64}$' }, extract_dir: text },
            },
          },
        },
        checkver: { type: 'object', additionalProperties: false, properties: { url: text, regex: text } },
        autoupdate: {
          type: 'object',
          additionalProperties: false,
          properties: {
            architecture: {
              type: 'object',
              additionalProperties: false,
              properties: {
                '64bit': { type: 'object', additionalProperties: false, properties: { url: text, extract_dir: text } },
              },
            },
            hash: { type: 'object', additionalProperties: false, properties: { url: text } },
          },
        },
      },
    };
    assert.ok(ajv.validate(scoop, JSON.parse(read('scoop/llm-router.json'))), JSON.stringify(ajv.errors));
    const id = {
      type: 'string',
      maxLength: 128,
      pattern: '^[^\\.\\s\\\\/:\\*\\?"<>\\|]{1,32}(\\.[^\\.\\s\\\\/:\\*\\?"<>\\|]{1,32}){1,7}$',
    };
    const asked = {
      '': ['version', ['DefaultLocale']],
      '.installer': ['installer', ['Installers']],
      '.locale.en-US': ['defaultLocale', ['PackageLocale', 'Publisher', 'PackageName', 'License', 'ShortDescription']],
    };
    for (const [suffix, [type, members]] of Object.entries(asked)) {
      const [manifest] = parseYaml(read(`winget/LlmRouter.LlmRouter${suffix}.yaml`));
      const schema = {
        type: 'object',
        required: ['PackageIdentifier', 'PackageVersion', 'ManifestType', 'ManifestVersion', ...members],
        properties: {
          PackageIdentifier: id,
          PackageVersion: { type: 'string', pattern: '^[^\\\\/:\\*\\?"<>\\|]+$' },
          ManifestType: { const: type },
          ManifestVersion: { const: '1.6.0' },
          ShortDescription: { type: 'string', minLength: 3, maxLength: 256 },
          InstallerType: { enum: ['zip'] },
          NestedInstallerType: { enum: ['portable'] },
          Installers: {
            type: 'array',
            minItems: 1,
            items: {
              type: 'object',
              required: ['Architecture', 'InstallerUrl', 'InstallerSha256'],
              properties: {
                Architecture: { enum: ['x64'] },
                InstallerUrl: { type: 'string', pattern: '^https://.+$' },
                InstallerSha256: { type: 'string', pattern: '^[A-Fa-f0-9]{64}$' },
              },
            },
          },
        },
      };
      assert.ok(ajv.validate(schema, manifest), `${suffix}: ${JSON.stringify(ajv.errors)}`);
    }
  });

  it('the same archives give the same bytes, and a missing archive is an error', () => {
    assert.deepEqual(sumsOf(make('again')), sumsOf(out));
    const few = path.join(work, 'few');
    fs.mkdirSync(few);
    fs.writeFileSync(
      path.join(few, 'SHA256SUMS'),
      fs.readFileSync(path.join(folder, 'SHA256SUMS'), 'utf8').split('\n')[0],
    );
    const { status, stderr } = spawnSync(tool('release-channels'), [few, path.join(work, 'none'), versions], {
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.match(stderr, /has no checksum for/);
  });
});

describe('the apt repository', () => {
  const servers = [];
  after(() => servers.forEach((server) => server.close()));

  // A small package, for what matters here is the repository.
  function packageOf(version) {
    const root = path.join(work, `deb-${version}`);
    fs.mkdirSync(path.join(root, 'DEBIAN'), { recursive: true });
    fs.writeFileSync(
      path.join(root, 'DEBIAN/control'),
      `Package: llm-router\nVersion: ${version}\nArchitecture: amd64\nMaintainer: a test <test@example.org>\nDescription: a test\n`,
    );
    const file = path.join(work, `llm-router_${version}_amd64.deb`);
    execFileSync('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '--build', root, file], { stdio: 'ignore' });
    return file;
  }
  const home = path.join(work, 'gnupg');
  fs.mkdirSync(home, { mode: 0o700 });
  const env = { ...process.env, GNUPGHOME: home };

  it('apt-get finds the package in it, checks the signature, and refuses a changed repository', async () => {
    await run(
      'gpg',
      ['--batch', '--passphrase', '', '--quick-gen-key', 'a test <test@example.org>', 'ed25519', 'sign'],
      { env },
    );
    const site = path.join(work, 'apt');
    await run(tool('release-apt'), [site, 'test@example.org', packageOf('1.2.3')], { env });
    const server = http.createServer((request, response) => {
      const file = path.join(site, path.normalize(request.url));
      if (!fs.existsSync(file)) return response.writeHead(404).end();
      response.end(fs.readFileSync(file));
    });
    servers.push(server);
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    // An apt of its own, which knows this repository only.
    const apt = path.join(work, 'apt-root');
    for (const folder of ['lists/partial', 'cache/archives/partial', 'etc'])
      fs.mkdirSync(path.join(apt, folder), { recursive: true });
    fs.writeFileSync(path.join(apt, 'status'), '');
    fs.writeFileSync(
      path.join(apt, 'sources.list'),
      `deb [arch=amd64 signed-by=${site}/llm-router.asc] http://127.0.0.1:${server.address().port} stable main\n`,
    );
    const options = {
      'Dir::State': apt,
      'Dir::State::lists': `${apt}/lists`,
      'Dir::State::status': `${apt}/status`,
      'Dir::Cache': `${apt}/cache`,
      'Dir::Etc::sourcelist': `${apt}/sources.list`,
      'Dir::Etc::sourceparts': '-',
      'Dir::Etc::parts': `${apt}/etc`,
      'APT::Architecture': 'amd64',
      'APT::Sandbox::User': 'root',
    };
    const words = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    const ask = async (...args) => {
      try {
        return await run('apt-get', [...words, ...args], { cwd: apt, encoding: 'utf8' });
      } catch (error) {
        return { ...error, isBad: true };
      }
    };
    const updated = await ask('update');
    assert.ok(!updated.isBad, updated.stderr);
    assert.equal(updated.stderr, '', 'no warning');
    const got = await ask('download', 'llm-router=1.2.3');
    assert.ok(!got.isBad, got.stderr);
    assert.ok(fs.readdirSync(apt).some((name) => name.startsWith('llm-router_1.2.3')));
    const file = path.join(site, 'dists/stable/InRelease');
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('Origin: llm-router', 'Origin: llm-routes'));
    const changed = await ask('update', '-o', 'APT::Update::Error-Mode=any');
    assert.ok(changed.isBad || /signatures? (were|was) invalid|BADSIG/.test(changed.stderr), changed.stderr);
  });
});

describe('the image', () => {
  it('umoci makes it without a daemon, with the settings of the Containerfile, and twice with the same bytes', () => {
    const prefix = path.join(work, 'prefix');
    // The whole release in make test-long; here the program without engines.
    if (isLong) execFileSync('cmake', ['--install', BUILD, '--prefix', prefix], { stdio: 'ignore' });
    else {
      fs.mkdirSync(path.join(prefix, 'bin'), { recursive: true });
      fs.copyFileSync(path.join(BUILD, 'bin/llm-router'), path.join(prefix, 'bin/llm-router'));
      for (const folder of ['lib/llm-router/engines', 'share/llm-router'])
        fs.mkdirSync(path.join(prefix, folder), { recursive: true });
    }
    const make = (name) => {
      execFileSync(tool('release-image'), [prefix, path.join(work, name)], { stdio: 'pipe' });
      return path.join(work, name);
    };
    const image = make('image');
    assert.deepEqual(sumsOf(make('image-again')), sumsOf(image));
    const blob = (of) => JSON.parse(fs.readFileSync(path.join(image, 'blobs', of.replace(':', '/')), 'utf8'));
    const { manifests } = JSON.parse(fs.readFileSync(path.join(image, 'index.json'), 'utf8'));
    const { config } = blob(blob(manifests[0].digest).config.digest);
    const file = fs.readFileSync(path.join(ROOT, 'Containerfile'), 'utf8').split('FROM scratch')[1];
    assert.equal(config.User, file.match(/^USER (.*)$/m)[1]);
    assert.deepEqual(config.Entrypoint, JSON.parse(file.match(/^ENTRYPOINT (.*)$/m)[1]));
    assert.deepEqual(config.Cmd, JSON.parse(file.match(/^CMD (.*)$/m)[1]));
    assert.deepEqual(Object.keys(config.Volumes), JSON.parse(file.match(/^VOLUME (.*)$/m)[1]));
    assert.equal(config.StopSignal, file.match(/^STOPSIGNAL (.*)$/m)[1]);
    const variables = [...file.matchAll(/^ENV (.*)$/gm)].flatMap((line) => line[1].split(' '));
    for (const variable of variables) assert.ok(config.Env.includes(variable), variable);
    const ports = file.match(/^EXPOSE (.*)$/m)[1].split(' ');
    assert.deepEqual(
      Object.keys(config.ExposedPorts).sort(),
      ports.map((port) => `${port}/tcp`),
    );
  });
});

describe('publication', () => {
  it('is refused while address and key wait for a publisher, with every reason', () => {
    const { status, stderr } = spawnSync(tool('release-check'), ['9.9.9'], { encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /VERSION is "9\.9\.9", and CMakeLists\.txt has/);
    assert.match(stderr, /base_url is the invalid address/);
    assert.match(stderr, /public_key is nobody's key/);
  });

  it('CHANGELOG.md has one section of what is not released', () => {
    const text = fs.readFileSync(path.join(ROOT, 'CHANGELOG.md'), 'utf8');
    assert.equal([...text.matchAll(/^## .*Unreleased/gm)].length, 1);
  });

  it('every action of a workflow is pinned by its commit, and rights are given to the job that needs them', () => {
    for (const name of fs.readdirSync(path.join(ROOT, '.github/workflows'))) {
      const text = fs.readFileSync(path.join(ROOT, '.github/workflows', name), 'utf8');
      for (const [line] of text.matchAll(/uses: .*/g))
        assert.match(line, /^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v[\d.]+$/, name);
      const [workflow] = parseYaml(text);
      assert.deepEqual(workflow.permissions, { contents: 'read' }, name);
      assert.ok(workflow.concurrency, name);
    }
  });
});
