// Promises of the command line: exit codes, help for every command, suggestions for typing errors, and pages
// that match the tables they are written from.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const program = process.env.LLM_ROUTER_BIN ?? path.join(root, 'build/release/bin/llm-router');

function run(args, options = {}) {
  return spawnSync(program, args, { encoding: 'utf8', ...options });
}

function commands() {
  return [...run(['help']).stdout.matchAll(/^ {2}([a-z]+) +/gm)].map((match) => match[1]);
}

test('version names the version and the commit', () => {
  for (const args of [['--version'], ['version'], ['-V']]) {
    const result = run(args);
    assert.equal(result.status, 0);
    assert.match(result.stdout, /^llm-router \d+\.\d+\.\d+ \(([0-9a-f]{12}|unknown)\)\n$/);
    assert.equal(result.stderr, '');
  }
});

test('the program without engines is under 8 MB', () => {
  assert.ok(statSync(program).size < 8e6, `${statSync(program).size} bytes`);
});

test('version takes under 20 ms', () => {
  // The fastest of many: what it takes when nothing else runs, process start included.
  const times = [];
  for (let i = 0; i < 300 && !(Math.min(...times) < 20); i++) {
    const start = process.hrtime.bigint();
    run(['--version']);
    times.push(Number(process.hrtime.bigint() - start) / 1e6);
  }
  assert.ok(Math.min(...times) < 20, `fastest of ${times.length}: ${Math.min(...times)} ms`);
});

test('every listed command explains itself with --help and with help', () => {
  const names = commands();
  assert.ok(names.includes('debug') && names.includes('node'), names.join(' '));
  for (const name of names) {
    const long = run([name, '--help']);
    assert.equal(long.status, 0, name);
    assert.match(long.stdout, new RegExp(`Usage: llm-router ${name}`), name);
    assert.equal(run(['help', name]).stdout, long.stdout, name);
  }
});

test('help for a word behind a command without tools names that command', () => {
  const result = run(['help', 'keys', 'create']);
  assert.equal(result.status, 2);
  assert.match(result.stderr, /llm-router keys has no tools: llm-router help keys explains it/);
});

test('no command at all is a usage error that lists the commands', () => {
  const result = run([]);
  assert.equal(result.status, 2);
  assert.equal(result.stdout, '');
  assert.match(result.stderr, /Usage: llm-router COMMAND/);
});

test('an unknown command or tool exits with 2 and suggests a similar one', () => {
  const command = run(['nodee']);
  assert.equal(command.status, 2);
  assert.match(command.stderr, /did you mean "llm-router node"\?/);
  const tool = run(['debug', 'tokenise']);
  assert.equal(tool.status, 2);
  assert.match(tool.stderr, /did you mean "llm-router debug tokenize"\?/);
});

test('an unknown flag, a bad value and a stray argument exit with 2 and name it', () => {
  const cases = [
    [['node', '--lisen', 'x'], /--lisen; did you mean --listen\?/],
    [['node', '--threads', 'many'], /--threads: "many" is not allowed; it takes a whole number, 0 to 256/],
    [['node', '--log-level=loud'], /one of error, warn, info, debug/],
    [['node', '--header-timeout', '30'], /a duration such as .*100ms to 10m/],
    [['node', '--listen'], /--listen needs a value/],
    [['node', '--allow-cpu-nodes'], /--allow-cpu-nodes is not a setting of node/],
    [['node', 'stray'], /does not take "stray"/],
    [['completion', 'csh'], /there is: bash/],
  ];
  for (const [args, expected] of cases) {
    const result = run(args);
    assert.equal(result.status, 2, args.join(' '));
    assert.match(result.stderr, expected);
    assert.equal(result.stdout, '');
  }
});

test('mistakes in the environment and in the config file are named', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'lr-cli-'));
  try {
    const file = path.join(folder, 'node.conf');
    writeFileSync(file, '# node\nlog-level = debug\nlisten-port = 5\n');
    const unknown = run(['node', '--config', file]);
    assert.equal(unknown.status, 2);
    assert.match(unknown.stderr, /node\.conf line 3: unknown setting listen-port/);
    writeFileSync(file, 'max-body-bytes = 5\n');
    assert.match(run(['node', '--config', file]).stderr, /line 1: max-body-bytes: "5" is not allowed; .* 1KiB to 1GiB/);
    const missing = run(['node', '--config', path.join(folder, 'none.conf')]);
    assert.equal(missing.status, 2);
    assert.match(missing.stderr, /none\.conf/);
    const env = run(['node'], { env: { ...process.env, LLM_ROUTER_DEVICE: 'tpu' } });
    assert.equal(env.status, 2);
    assert.match(env.stderr, /LLM_ROUTER_DEVICE: "tpu"/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('output that cannot be written is a failure', () => {
  const full = spawnSync('sh', ['-c', `"${program}" help > /dev/full`], { encoding: 'utf8' });
  assert.equal(full.status, 1);
  assert.match(full.stderr, /cannot write to standard output/);
});

test('a command that is started without standard streams does its work or says why not', () => {
  const shell = (command) => spawnSync('sh', ['-c', command, program], { encoding: 'utf8' });
  const quiet = shell('"$0" list --url http://127.0.0.1:1 <&- >&- 2>&-');
  assert.deepEqual([quiet.status, quiet.signal], [1, null], 'no abort: there is no router');
  const list = shell('"$0" list --url http://127.0.0.1:1 <&-');
  assert.match(list.stderr, /127\.0\.0\.1:1/);
  const lost = shell('"$0" version >&-');
  assert.equal(lost.status, 1);
  assert.match(lost.stderr, /cannot write to standard output/);
});

test('the pages written from the tables are up to date', () => {
  for (const page of ['settings', 'cli']) {
    const written = readFileSync(path.join(root, `docs/${page}.md`), 'utf8');
    const expected = run(['debug', `${page}-reference`]).stdout;
    assert.equal(written, expected, `run: llm-router debug ${page}-reference > docs/${page}.md`);
  }
});

test('bash completes commands, tools, flags and values', () => {
  const script = `source <("${program}" completion bash)
    t() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _llm_router; echo "\${COMPREPLY[*]}"; }
    t llm-router nod; t llm-router debug tok; t llm-router node --log-f; t llm-router node --log-format ""`;
  const result = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  assert.deepEqual(
    result.stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]),
    [commands().find((name) => name.startsWith('nod')), 'tokenize', '--log-format', 'text'],
  );
});

test('debug match tells accepted, rejected and refused texts apart', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'match-'));
  const match = (schema, texts) => {
    const file = path.join(folder, 'schema.json');
    writeFileSync(file, JSON.stringify(schema));
    const input = texts.map((text) => `${JSON.stringify({ text })}\n`).join('');
    const result = run(['debug', 'match', '--schema', file], { input });
    assert.equal(result.status, 0, result.stderr);
    return result.stdout.trimEnd().split('\n');
  };
  try {
    assert.deepEqual(match({ type: 'integer' }, ['12', '1x', '', '-']), [
      'accept',
      'reject at 1',
      'reject at 0',
      'reject at 1',
    ]);
    const [refused] = match({ type: 'nothing' }, ['1']);
    assert.match(refused, /^refused: .*"type"/);
    const grammar = path.join(folder, 'grammar.gbnf');
    writeFileSync(grammar, 'root ::= "a" root "b" | ""\n');
    for (const flag of [
      ['--grammar', grammar],
      ['--regex', '(ab|aabb)?'],
      ['--choice', '["", "ab", "aabb"]'],
    ]) {
      const input = ['aabb', 'ac', 'a'].map((text) => `${JSON.stringify({ text })}\n`).join('');
      assert.equal(run(['debug', 'match', ...flag], { input }).stdout, 'accept\nreject at 1\nreject at 1\n');
    }
    assert.equal(run(['debug', 'match', '--regex', 'a', '--choice', '[]'], { input: '' }).status, 2);
    const lines = [
      { schema: { type: 'null' } },
      { text: 'null' },
      { schema: { const: 1 }, text: '1' },
      { text: 'null' },
    ];
    const many = run(['debug', 'match'], { input: lines.map((line) => JSON.stringify(line)).join('\n') });
    assert.deepEqual(many.stdout.trimEnd().split('\n'), ['accept', 'accept', 'reject at 0']);
    assert.equal(run(['debug', 'match'], { input: '{"text": "1"}' }).status, 2);
    assert.equal(run(['debug', 'match'], { input: '{}' }).status, 2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
