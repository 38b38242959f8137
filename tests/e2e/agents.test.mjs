// Coding agents and frameworks, unmodified, with the recipes of docs/clients.md.  The packages are large (tests/clients/package.json), so only
// make test-long installs and runs them.
//
// Coding agents offer tools that the demo model would not call.  Their tool round trips use the echo engine: it answers with the user's message,
// so the test writes the call into the prompt; the agent runs its tool, and the engine answers with the result.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { after, before, describe, test } from 'node:test';
import { FORMS } from './forms.mjs';
import { DEMO, LONG, makeEcho, ROOT, startUp, tempDir, until } from './support.mjs';

const CLIENTS = path.join(ROOT, 'tests/clients');
const bin = (name) => path.join(CLIENTS, 'node_modules/.bin', name);
const load = (name) => import(pathToFileURL(createRequire(path.join(CLIENTS, 'package.json')).resolve(name)));

// Passes requests on and keeps them.
async function startRecorder(target) {
  const { hostname, port } = new URL(target);
  const seen = [];
  const server = http.createServer((req, res) => {
    const entry = { path: `${req.method} ${req.url.split('?')[0]}`, body: '', answer: '' };
    seen.push(entry);
    const { host, ...headers } = req.headers;
    const onward = http.request({ hostname, port, method: req.method, path: req.url, headers }, (answer) => {
      entry.status = answer.statusCode;
      res.writeHead(answer.statusCode, answer.headers);
      answer.on('data', (data) => {
        entry.answer += data;
      });
      answer.on('end', () => {
        entry.isOver = true;
      });
      answer.pipe(res);
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    req.on('data', (data) => {
      entry.body += data;
    });
    req.pipe(onward);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    seen,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe('clients that only make test-long installs', () => {
  if (!LONG) return; // the packages are not installed
  let up, recorder;
  before(async () => {
    // The instructions and tools of Claude Code have up to 200 KB, and a token of the echo engine is a byte.
    const echoes = Object.entries(FORMS).map(([form, { template, testing }]) => {
      const dir = makeEcho(form, testing);
      fs.writeFileSync(path.join(dir, 'chat_template.jinja'), template);
      return ['--model', dir];
    });
    up = await startUp({
      args: ['--model', makeEcho('agent'), '--model', DEMO, ...echoes.flat(), '--max-context', '400000'],
    });
    recorder = await startRecorder(up.url);
  });
  after(async () => {
    recorder?.close();
    await up?.stop();
  });

  // A folder of its own, no telemetry, and no way to any other host than this one.
  const quiet = (home) => ({
    PATH: process.env.PATH,
    HOME: home,
    TERM: 'xterm',
    LANG: 'C.UTF-8',
    HTTPS_PROXY: 'http://127.0.0.1:9',
    NO_PROXY: '127.0.0.1',
    DISABLE_TELEMETRY: '1',
    DISABLE_ERROR_REPORTING: '1',
    DISABLE_AUTOUPDATER: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    ANTHROPIC_BASE_URL: recorder.url,
    ANTHROPIC_AUTH_TOKEN: 'none',
    ANTHROPIC_DEFAULT_HAIKU_MODEL: 'demo',
    CODEX_HOME: path.join(home, '.codex'),
  });
  const run = (command, args, env) =>
    new Promise((done, fail) => {
      const child = spawn(command, args, { env, cwd: env.HOME, stdio: ['ignore', 'pipe', 'pipe'], timeout: 300000 });
      let out = '',
        log = '';
      child.stdout.on('data', (data) => {
        out += data;
      });
      child.stderr.on('data', (data) => {
        log += data;
      });
      child.on('error', fail);
      child.on('close', (code) => (code === 0 ? done(out) : fail(new Error(`${command}: ${code}\n${out}\n${log}`))));
    });
  const called = (name, input) => `<tool_call>\n${JSON.stringify({ name, arguments: input })}\n</tool_call>`;
  const claude = (args) => run(bin('claude'), args, quiet(tempDir('claude')));

  test('Claude Code: a prompt is answered', async () => {
    const args = ['-p', 'Hello there', '--model', 'demo', '--system-prompt', 'Be kind.', '--tools', ''];
    const { is_error: failed, result, usage } = JSON.parse(await claude([...args, '--output-format', 'json']));
    assert.equal(failed, false, result);
    assert.ok(result.length > 0);
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
  });

  test('Claude Code: all its tools are taken, it runs the tool that the model calls, and the model gets the result', async () => {
    const ask = called('Bash', { command: 'echo made-$((40+2))', description: 'x' });
    const out = await claude(['-p', ask, '--model', 'agent', '--allowedTools', 'Bash']);
    assert.match(out, /made-42/);
  });

  test('Claude Code in four dialects: the tool that the model calls after a thought is run, and the model gets the result', async () => {
    for (const [form, { call }] of Object.entries(FORMS)) {
      const said = call('Bash', { command: 'echo made-$((40+2))', description: 'x' }, 'I try it.');
      // The agent adds text to the prompt, which the engine repeats: here it is another thought.
      const ask = form === 'harmony' ? `${said}<|start|>assistant<|channel|>analysis<|message|>` : said;
      const out = await claude(['-p', ask, '--model', form, '--allowedTools', 'Bash']);
      assert.match(out, /made-42/, form);
      assert.doesNotMatch(out, /I try it/, form);
    }
  });

  test('Claude Code: /context shows how many tokens the router has counted', async () => {
    const from = recorder.seen.length;
    const out = await claude(['-p', '/context', '--model', 'demo']);
    assert.match(out, /\*\*Tokens:\*\* [\d.]+k?/);
    const counts = recorder.seen.slice(from).filter((r) => r.path === 'POST /v1/messages/count_tokens');
    assert.ok(counts.length >= 5, `${counts.length} requests`);
    assert.deepEqual([...new Set(counts.map((r) => r.status))], [200]);
  });

  test('Claude Code in a terminal: the request for a title gets JSON of its schema', async () => {
    const { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: _, ...env } = quiet(tempDir('terminal')); // it leaves titles out
    fs.writeFileSync(
      path.join(env.HOME, '.claude.json'),
      JSON.stringify({
        hasCompletedOnboarding: true,
        lastOnboardingVersion: '2.1.325',
        theme: 'dark',
        projects: { [fs.realpathSync(env.HOME)]: { hasTrustDialogAccepted: true } },
      }),
    );
    const from = recorder.seen.length;
    // script gives the program a terminal.
    const child = spawn(
      'script',
      ['-qfc', `stty cols 100 rows 40; exec ${bin('claude')} --model agent --tools ''`, '/dev/null'],
      {
        env,
        cwd: env.HOME,
      },
    );
    let screen = '';
    child.stdout.on('data', (data) => {
      screen += data;
    });
    const shows = (text) => stripVTControlCharacters(screen).includes(text);
    try {
      await until('the prompt is shown', () => shows('\u276f'), 60000);
      const title = () => recorder.seen.slice(from).find((r) => r.body.includes('"json_schema"') && r.isOver);
      for (const key of ['Hello there, please tell me about the weather in Paris', '\r']) {
        child.stdin.write(key);
        await until('the key has arrived', () => key === '\r' || shows('Paris'), 60000);
      }
      await until('the title is asked for', title, 60000);
      assert.equal(title().status, 200);
      assert.equal(title().path, 'POST /v1/messages');
      const text = [...title().answer.matchAll(/"text_delta","text":("(?:[^"\\]|\\.)*")/g)].map(([, said]) =>
        JSON.parse(said),
      );
      assert.match(text.join(''), /^\s*\{\s*"title"\s*:\s*"/, title().answer);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('Codex: a prompt is answered, and it runs the command that the model asks for', async () => {
    const provider = `model_providers.llm-router={name="llm-router", base_url="${recorder.url}/v1", wire_api="responses"}`;
    const codex = (model, ask, ...more) => {
      const env = quiet(tempDir('codex'));
      fs.mkdirSync(env.CODEX_HOME);
      const args = ['exec', '--skip-git-repo-check', '-m', model, '-c', 'model_provider=llm-router', '-c', provider];
      return run(bin('codex'), [...args, ...more, ask], env);
    };
    assert.ok((await codex('demo', 'Hello there')).length > 0);
    // Without its sandbox Codex declares a search with web access, which is left out.
    const free = '--dangerously-bypass-approvals-and-sandbox';
    assert.match(await codex('agent', called('exec_command', { cmd: 'echo made-$((40+2))' }), free), /made-42/);
    for (const [form, { call }] of Object.entries(FORMS)) {
      const ask = call('exec_command', { cmd: 'echo made-$((40+2))' }, 'I try it.');
      assert.match(await codex(form, ask, free), /made-42/, form);
    }
  });

  const weather = (z) => ({
    name: 'get_weather',
    description: 'Weather of a city',
    schema: z.object({ city: z.string() }),
  });

  test('LangChain: an answer, a stream, a tool round trip and structured output, by both APIs of OpenAI', async () => {
    const [{ ChatOpenAI }, { tool }, { HumanMessage, ToolMessage }, { z }] = await Promise.all(
      ['@langchain/openai', '@langchain/core/tools', '@langchain/core/messages', 'zod'].map(load),
    );
    for (const useResponsesApi of [false, true]) {
      const model = new ChatOpenAI({
        model: 'demo',
        apiKey: 'none',
        temperature: 0,
        maxRetries: 0,
        useResponsesApi,
        configuration: { baseURL: `${up.url}/v1` },
      });
      assert.ok((await model.invoke('Hello there')).text.length > 0);
      let text = '';
      for await (const chunk of await model.stream('Hello there')) text += chunk.text;
      assert.ok(text.length > 0);
      const getWeather = tool(async () => '{"temperature": 21, "sky": "sunny"}', weather(z));
      const messages = [new HumanMessage('What is the weather in Paris?')];
      const first = await model.bindTools([getWeather], { tool_choice: 'get_weather' }).invoke(messages);
      assert.match(first.tool_calls[0].args.city, /Paris/);
      const result = await getWeather.invoke(first.tool_calls[0]);
      assert.ok(result instanceof ToolMessage);
      const second = await model.bindTools([getWeather]).invoke([...messages, first, result]);
      assert.match(second.text, /21|sunny/i);
      const person = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(150) });
      const made = await model.withStructuredOutput(person, { method: 'jsonSchema' }).invoke('Hello');
      assert.deepEqual(Object.keys(made).sort(), ['age', 'name']);
    }
  });

  test('OpenAI Agents: a run and a streamed run with a tool', async () => {
    const [agents, { default: OpenAI }, { z }] = await Promise.all(['@openai/agents', 'openai', 'zod'].map(load));
    const { Agent, run: start, setDefaultOpenAIClient, setTracingDisabled, tool } = agents;
    setTracingDisabled(true);
    setDefaultOpenAIClient(new OpenAI({ baseURL: `${up.url}/v1`, apiKey: 'none' }));
    const cities = [];
    const { schema, ...about } = weather(z);
    const getWeather = tool({
      ...about,
      parameters: schema,
      execute: async ({ city }) => {
        cities.push(city);
        return '{"temperature": 21, "sky": "sunny"}';
      },
    });
    const agent = new Agent({
      name: 'Weather',
      model: 'demo',
      tools: [getWeather],
      modelSettings: { temperature: 0, toolChoice: 'required' }, // the SDK goes back to auto after a call
    });
    const ask = 'What is the weather in Paris?';
    assert.match((await start(agent, ask)).finalOutput, /21|sunny/i);
    const stream = await start(agent, ask, { stream: true });
    for await (const _ of stream);
    await stream.completed;
    assert.match(stream.finalOutput, /21|sunny/i);
    assert.equal(cities.length, 2);
    assert.match(cities[0], /Paris/);
  });
});
