// The Debian package: its files, its dependencies, its units, manual pages and completions.  With
// LR_LONG=1 it is also installed in a bare Debian 12 (package_root.test.mjs).
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { before, describe, it } from 'node:test';
import { settingsIn, unitFile } from '../support/deploy.mjs';
import { BIN, ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const tool = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
const sha = (file) => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');
const build = (...args) => {
  const out = tempDir('deb');
  const made = spawnSync(path.join(ROOT, 'tools/deb'), ['--fast', '--out', out, ...args], { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  return made.stdout.trim().split('\n').at(-1);
};
const commands = [...tool(BIN, 'help').matchAll(/^ {2}([a-z-]+) +/gm)].map((match) => match[1]);

let deb, tree, control;
const inTree = (name) => path.join(tree, name);
const field = (name) => control.match(new RegExp(`^${name}: (.*)`, 'm'))?.[1];

before(() => {
  deb = build();
  tree = path.join(tempDir('tree'), 'root');
  tool('dpkg-deb', '--extract', deb, tree);
  control = tool('dpkg-deb', '--field', deb);
});

describe('the package', () => {
  it('has the version of the program, the architecture of this machine and a sentence about itself', () => {
    assert.equal(field('Package'), 'llm-router');
    assert.equal(field('Version'), tool(BIN, 'version').split(' ')[1]);
    assert.equal(field('Architecture'), tool('dpkg', '--print-architecture').trim());
    assert.match(field('Description'), /^[a-z].{20,80}$/);
    assert.ok(Number(field('Installed-Size')) > 10000, 'in KiB');
    assert.equal(path.basename(deb), `llm-router_${field('Version')}_${field('Architecture')}.deb`);
  });

  it('has documents whose links lead to files of the package, and no scripts that trained the demo model', () => {
    const folder = inTree('usr/share/doc/llm-router');
    const pages = fs.readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.md'));
    assert.ok(pages.includes('docs/operating.md') && pages.some((name) => name.startsWith('docs/adr/')));
    let count = 0;
    for (const page of pages) {
      const text = fs.readFileSync(path.join(folder, page), 'utf8');
      for (const [, to] of text.matchAll(/(?<!!)\[[^\]]*\]\(([^)\s#]+)(?:#[^)\s]*)?\)/g)) {
        if (/^[a-z]+:/.test(to)) continue;
        count++;
        assert.ok(fs.existsSync(path.join(folder, path.dirname(page), to)), `${page}: ${to}`);
      }
    }
    assert.ok(count > 100, `${count} links`);
    assert.ok(!fs.existsSync(inTree('usr/share/llm-router/models/demo/training')));
    for (const unit of ['llm-router', 'llm-router-router', 'llm-router-node']) {
      const [page] = fs
        .readFileSync(inTree(`usr/lib/systemd/system/${unit}.service`), 'utf8')
        .match(/(?<=file:\/\/)\S+/);
      assert.ok(fs.existsSync(inTree(page.slice(1))), `${unit}: ${page}`);
    }
  });

  it('has program, engines, demo model, units, configuration, pages, completions and licences; all belong to root', () => {
    const list = tool('dpkg-deb', '--contents', deb).trim().split('\n');
    const modes = new Map(list.map((line) => [line.split(/\s+/)[5].replace(/^\.\//, ''), line.split(/\s+/)[0]]));
    for (const line of list) assert.equal(line.split(/\s+/)[1], 'root/root', line);
    for (const [name, mode] of [
      ['usr/bin/llm-router', '-rwxr-xr-x'],
      ['usr/lib/llm-router/engines/gptoss/manifest.json', '-rw-r--r--'],
      ['usr/share/llm-router/models/demo/config.json', '-rw-r--r--'],
      ['usr/share/llm-router/sbom.cdx.json', '-rw-r--r--'],
      ['usr/lib/systemd/system/llm-router.service', '-rw-r--r--'],
      ['usr/lib/systemd/system/llm-router.socket', '-rw-r--r--'],
      ['usr/lib/systemd/system/llm-router-router.service', '-rw-r--r--'],
      ['usr/lib/systemd/system/llm-router-router.socket', '-rw-r--r--'],
      ['usr/lib/systemd/system/llm-router-node.service', '-rw-r--r--'],
      ['usr/lib/sysusers.d/llm-router.conf', '-rw-r--r--'],
      ['usr/libexec/llm-router/node-folders', '-rwxr-xr-x'],
      ['etc/llm-router/llm-router.conf', '-rw-r--r--'],
      ['etc/llm-router/environment', '-rw-r-----'],
      ['usr/share/doc/llm-router/copyright', '-rw-r--r--'],
      ['usr/share/doc/llm-router/changelog.gz', '-rw-r--r--'],
    ])
      assert.equal(modes.get(name), mode, name);
    for (const [name, mode] of modes) {
      if (!name.startsWith('usr/share/doc/'))
        assert.doesNotMatch(name, /echo|faulty|inject|\.test\./, 'nothing for tests');
      assert.match(mode, /^.rw.r-.[r-]-./, `${name}: only root writes it`);
    }
    assert.match(tool('dpkg-deb', '--info', deb, 'conffiles'), /^\/etc\/llm-router\/llm-router\.conf$/m);
  });

  it('depends on the packages of every library that its programs need', () => {
    const depends = field('Depends').split(/, */);
    const names = depends.map((entry) => entry.split(/[ :|]/)[0]);
    const programs = fs
      .readdirSync(inTree('usr'), { recursive: true, withFileTypes: true })
      .filter((e) => e.isFile() && (/\.so$/.test(e.name) || e.name === 'llm-router'))
      .map((e) => path.join(e.parentPath, e.name))
      .filter((file) => fs.readFileSync(file).subarray(0, 4).toString('latin1') === '\x7fELF');
    assert.ok(programs.length >= 2);
    const libraries = new Set();
    for (const [, name, file] of tool('ldd', ...programs).matchAll(/^\s*(\S+) => (\S+)/gm)) {
      assert.notEqual(file, 'not', `${name} is not found`);
      if (!file.startsWith(tree)) libraries.add(fs.realpathSync(file));
    }
    assert.ok(libraries.size > 5);
    // Libraries of libraries come with the packages that need them.
    const direct = new Set(
      [...tool('readelf', '-dW', ...programs).matchAll(/NEEDED.*\[(.*)\]/g)].map((match) => match[1]),
    );
    for (const file of libraries) {
      const soname = tool('readelf', '-dW', file).match(/SONAME.*\[(.*)\]/)?.[1] ?? path.basename(file);
      if (!direct.has(soname)) continue;
      // dpkg may know a file by its name from before /lib became a link to /usr/lib.
      const known = spawnSync('dpkg', ['-S', file, file.replace(/^\/usr/, '')], { encoding: 'utf8' }).stdout;
      const owner = known.split(/[:,]/)[0];
      assert.ok(names.includes(owner), `${soname} is in ${owner}; the package needs ${names}`);
    }
    for (const opened of ['libcurl4', 'libpq5', 'ca-certificates']) assert.ok(names.includes(opened), opened);
  });

  it('built twice has the same bytes', () => {
    assert.equal(sha(build()), sha(deb));
  });

  it('has maintainer scripts that are POSIX shell', () => {
    for (const script of ['postinst', 'prerm', 'postrm', 'node-folders']) {
      const checked = spawnSync('shellcheck', [path.join(ROOT, 'deploy/debian', script)], { encoding: 'utf8' });
      assert.equal(checked.status, 0, checked.stdout);
    }
  });
});

describe('the systemd units', () => {
  const units = fs.readdirSync(path.join(ROOT, 'deploy/systemd'));

  it('pass systemd-analyze verify, with the program where the package puts it', () => {
    for (const name of ['etc/systemd/system', 'run', 'usr/share/man']) fs.mkdirSync(inTree(name), { recursive: true });
    fs.symlinkSync('usr/bin', inTree('bin'));
    fs.copyFileSync('/bin/kill', inTree('usr/bin/kill'));
    for (const unit of units) {
      const result = spawnSync(
        'systemd-analyze',
        ['verify', '--man=no', '--recursive-errors=no', `--root=${tree}`, unit],
        {
          encoding: 'utf8',
        },
      );
      assert.equal(result.status, 0, result.stderr);
      assert.equal(result.stderr, '');
    }
  });

  it('report their start, are watched, reload by SIGHUP, keep their data in /var/lib/llm-router and have no rights', () => {
    for (const unit of units.filter((name) => name.endsWith('.service'))) {
      const { Service } = unitFile(unit);
      const isNode = unit === 'llm-router-node.service';
      assert.deepEqual(
        [Service.Type, Service.User, Service.Group, Service.NoNewPrivileges, Service.ProtectSystem],
        ['notify', ...Array(2).fill(isNode ? 'llm-router-node' : 'llm-router'), 'yes', 'strict'],
        unit,
      );
      // systemd makes the router's folder; the node's folders in it are another user's.
      assert.equal(Service.StateDirectory, isNode ? undefined : 'llm-router', unit);
      assert.equal(
        Service.ReadWritePaths,
        isNode ? '-/var/lib/llm-router/node -/var/lib/llm-router/models' : undefined,
      );
      assert.match(Service.WatchdogSec, /^\d+s$/);
      assert.equal(Service.ExecReload, '/bin/kill -HUP $MAINPID');
      assert.equal(Service.CapabilityBoundingSet, '');
      const score = spawnSync(
        'systemd-analyze',
        ['security', '--offline=true', '--threshold=30', `--root=${tree}`, unit],
        {
          encoding: 'utf8',
        },
      );
      assert.equal(score.status, 0, `${unit}: exposure over 3.0\n${score.stdout}${score.stderr}`);
    }
  });

  it('name a configuration file that the command accepts, also with every proposed line', () => {
    for (const unit of units.filter((name) => name.endsWith('.service'))) {
      const [program, command, flag, file] = unitFile(unit).Service.ExecStart.split(' ');
      assert.deepEqual([program, flag], ['/usr/bin/llm-router', '--config']);
      const shipped = fs.readFileSync(inTree(file), 'utf8');
      const whole = path.join(tempDir('conf'), 'whole.conf');
      fs.writeFileSync(whole, shipped.replaceAll(/^#(?=[a-z-]+ = )/gm, ''));
      const known = settingsIn(command);
      for (const [, name] of fs.readFileSync(whole, 'utf8').matchAll(/^([a-z-]+) = /gm))
        assert.ok(known.has(name), `${file}: ${name} is no setting of llm-router ${command}`);
      const checked = spawnSync(
        BIN,
        ['config', 'check', inTree(file), '--as', command, '--', '--data-dir', tempDir('data')],
        { encoding: 'utf8' },
      );
      assert.equal(checked.status, 0, checked.stdout + checked.stderr);
      // The file is read before the first thing fails: a port that is no port.
      const result = spawnSync(BIN, [command, '--config', whole, '--threads', 'none'], { encoding: 'utf8' });
      assert.match(result.stderr, /--threads: "none" is not allowed/);
      assert.doesNotMatch(result.stderr, /whole\.conf/);
    }
  });
});

describe('the manual pages', () => {
  it('exist for the program, for each command and for the configuration file, and have no mistake', () => {
    const pages = [
      ...fs.readdirSync(inTree('usr/share/man/man1')).map((name) => inTree(`usr/share/man/man1/${name}`)),
      inTree('usr/share/man/man5/llm-router.conf.5.gz'),
    ];
    assert.deepEqual(
      pages.map((page) => path.basename(page, '.gz')).sort(),
      ['llm-router.1', ...commands.map((name) => `llm-router-${name}.1`), 'llm-router.conf.5'].sort(),
    );
    const plain = pages.map((page) => {
      const file = path.join(tempDir('man'), path.basename(page, '.gz'));
      fs.writeFileSync(file, tool('gzip', '-dc', page));
      return file;
    });
    const lint = spawnSync('mandoc', ['-Tlint', '-Wwarning', ...plain], { encoding: 'utf8' });
    assert.equal(lint.status, 0, lint.stdout + lint.stderr);
  });

  it('have every flag of --help and every setting', () => {
    const read = (...args) =>
      spawnSync('mandoc', ['-Tutf8'], {
        input: tool(BIN, 'debug', 'man-page', ...args),
        encoding: 'utf8',
      }).stdout.replaceAll(/.[\b]/g, '');
    for (const command of ['up', 'router', 'node', 'keys']) {
      const page = read(command);
      for (const [, flag] of tool(BIN, command, '--help').matchAll(/^ {2}(--\S+)/gm))
        assert.ok(page.includes(flag), `${command} ${flag}`);
    }
    const page = read('llm-router.conf');
    for (const name of settingsIn('router'))
      if (name !== 'config') assert.ok(new RegExp(`^ +${name}\\s`, 'm').test(page), name);
  });
});

describe('completions', () => {
  it('are loaded by bash', () => {
    const script = `source ${inTree('usr/share/bash-completion/completions/llm-router')}
      COMP_WORDS=(llm-router rou); COMP_CWORD=1; _llm_router; echo "\${COMPREPLY[*]}"`;
    assert.equal(spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout, 'router\n');
  });

  it('are loaded by zsh', () => {
    const file = inTree('usr/share/zsh/vendor-completions/_llm-router');
    assert.match(fs.readFileSync(file, 'utf8'), /^#compdef llm-router\n/, 'compinit finds it by this line');
    const script = `compdef() { print -- $@ }; source ${file}
      compadd() { print -- $@ }; _describe() { print -- \${(P)@[-1]} }
      words=(llm-router node --device ''); CURRENT=4; _llm_router
      words=(llm-router debug tok); CURRENT=3; _llm_router
      words=(llm-router rou); CURRENT=2; _llm_router`;
    const result = spawnSync('zsh', ['-f', '-c', script], { encoding: 'utf8' });
    assert.equal(result.stderr, '');
    const [name, values, tools, names] = result.stdout.split('\n');
    assert.equal(name, '_llm_router llm-router');
    assert.equal(values, 'auto cuda vulkan metal cpu');
    assert.match(tools, /tokenize:Convert text/);
    assert.match(names, /router:Serve one OpenAI-compatible endpoint/);
  });

  it('are loaded by fish', () => {
    const file = inTree('usr/share/fish/vendor_completions.d/llm-router.fish');
    const ask = (line) =>
      spawnSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`], { encoding: 'utf8' });
    assert.match(ask('llm-router rou').stdout, /^router\tServe one OpenAI-compatible endpoint/);
    assert.deepEqual(
      ask('llm-router node --device ')
        .stdout.trim()
        .split('\n')
        .map((line) => line.split('\t')[0]),
      ['auto', 'cpu', 'cuda', 'metal', 'vulkan'],
    );
    assert.match(ask('llm-router debug tok').stdout, /^tokenize/);
    assert.equal(ask('llm-router debug tok').stderr, '');
  });
});
