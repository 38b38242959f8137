// Clients: each sends requests, reads at its own speed, compares the answer with the undisturbed
// one, and retries when it was refused.
import { sleep } from '../support/scene.mjs';
import { ASKS, essence, gather, shout, streamed } from './asks.mjs';
import { HUB } from './fleet.mjs';
import { exchange } from './http.mjs';
import { Random } from './random.mjs';

const MANNERS = ['whole', 'stream', 'stream', 'stream', 'leave', 'slow'];

export class Load {
  constructor({ fleet, judge, clients, limits, seed }) {
    Object.assign(this, {
      fleet,
      judge,
      limits,
      clients,
      random: new Random(seed ^ 0x5eed),
      expected: new Map(),
      running: [],
      isOn: false,
    });
    this.counts = { checked: 0, refused: 0, gone: 0, cut: 0, left: 0, struck: 0 };
    this.slowest = 0;
  }

  // The undisturbed answers, at each router, twice: an answer that changes by itself proves nothing.
  async learn() {
    const all = ASKS.flatMap((one) =>
      this.fleet.routers.flatMap((router) => [
        [one, router],
        [one, router],
      ]),
    );
    const next = async () => {
      while (all.length) await this.#learn(...all.shift());
    };
    await Promise.all([next(), next(), next(), next()]);
  }

  async #learn(one, router) {
    const { status, text } = await exchange(`${router.url}${one.path}`, {
      body: one.body,
      key: this.fleet.key,
      ms: this.limits.bound,
    });
    if (status !== 200) throw new Error(`undisturbed, "${one.name}" is answered with ${status}: ${text}`);
    const is = JSON.stringify(essence(one.path, JSON.parse(text)));
    const was = this.expected.get(one.name) ?? is;
    if (is !== was) throw new Error(`undisturbed, "${one.name}" has two answers:\n  ${was}\n  ${is}`);
    this.expected.set(one.name, is);
  }

  // What is right for an answer that was made within this time.
  rights(one, from, to) {
    const calm = this.expected.get(one.name);
    if (one.model !== HUB) return [calm];
    const loud = JSON.stringify(shout(JSON.parse(calm)));
    return [...this.judge.revisionsWithin(from, to)].map((letter) => (letter === 'A' ? calm : loud));
  }

  start() {
    this.isOn = true;
    this.running = Array.from({ length: this.clients }, (_, i) => this.#client(i));
  }

  async stop() {
    this.isOn = false;
    await Promise.all(this.running);
  }

  async #client(index) {
    while (this.isOn) {
      const one = this.random.pick(ASKS);
      const manner = this.random.pick(MANNERS);
      await this.#serve(one, manner, index + this.counts.checked);
      await sleep(this.random.int(5, 40));
    }
  }

  // Until it is answered.
  async #serve(one, manner, turn) {
    const begun = Date.now();
    for (let attempt = 0; ; attempt++) {
      const router = this.fleet.routers[(turn + attempt) % this.fleet.routers.length];
      const wait = await this.#attempt(one, manner, router);
      if (wait === undefined) return;
      if (Date.now() - begun > this.limits.refused)
        return void this.judge.broke(
          'nobody is refused for long',
          `"${one.name}" was refused for ${Date.now() - begun} ms, last by ${router.name}`,
        );
      if (!this.isOn) return;
      await sleep(wait);
    }
  }

  // How long to wait before the next attempt; undefined: it is over.
  async #attempt(one, manner, router) {
    const from = Date.now();
    const isStream = manner !== 'whole';
    const told = { one, manner, router, from };
    let answer,
      cut,
      hasLeft = false,
      pauses = 0;
    const onData = (text, response) => {
      if (manner === 'leave' && text.length > 600) {
        hasLeft = true;
        response.destroy();
      }
      if (manner === 'slow' && pauses < 4) {
        pauses++;
        response.pause();
        setTimeout(() => response.resume(), 250);
      }
    };
    try {
      answer = await exchange(`${router.url}${one.path}`, {
        body: isStream ? streamed(one) : one.body,
        key: this.fleet.key,
        ms: this.limits.bound,
        onData,
      });
    } catch (error) {
      cut = error;
    }
    told.to = Date.now();
    this.slowest = Math.max(this.slowest, told.to - from);
    if (cut?.stage === 'late')
      return void this.judge.broke(
        'nothing hangs',
        `${name(told)} had no end within ${this.limits.bound} ms; it said: ${tail(cut.text)}`,
        told,
      );
    if (cut !== undefined || hasLeft) return this.#judgeCut(told, cut ?? answer, hasLeft);
    return this.#judgeAnswer(told, answer, isStream);
  }

  #judgeCut(told, cut, hasLeft) {
    const { one, router, from, to } = told;
    // What came is right as far as it goes, whoever ended it.
    if (told.manner !== 'whole' && cut.text) {
      const got = gather(one.path, cut.text);
      if (
        !got.error &&
        !this.judge.isDated(one.model, from, to) &&
        !this.judge.isOther(one.model, from, to) &&
        !this.rights(one, from, to).some((right) => got.isBeginning(JSON.parse(right)))
      )
        return void this.judge.broke(
          'every answer is the undisturbed one',
          `${name(told)} began with ${tail(cut.text)}`,
          told,
        );
    }
    if (hasLeft) {
      this.counts.left++;
      return undefined;
    }
    if (!this.judge.isCutExcused(router, cut.stage, from, to))
      return void this.judge.broke(
        'no connection is cut',
        `${name(told)}: ${cut.message} ${cut.stage === 'before' ? 'before' : 'within'} the answer`,
        told,
      );
    this.counts.cut++;
    return 100;
  }

  #judgeAnswer(told, { status, headers, text }, isStream) {
    const { one, from, to } = told;
    if (status === 429 || status === 503) return this.#judgeRefusal(told, status, headers['retry-after'], text);
    if (status === 404) return this.#judgeGone(told, text);
    if (status >= 400 && this.#isReplaced(told, text)) return this.#goAgain();
    if (status === 500) return this.#judgeStrike(told, headers['x-request-id'], text);
    if (status !== 200)
      return void this.judge.broke(
        'every answer is the undisturbed one',
        `${name(told)} got status ${status}: ${tail(text)}`,
        told,
      );
    const got = isStream ? gather(one.path, text) : { essence: essence(one.path, JSON.parse(text)), isWhole: true };
    if (got.error) return this.#judgeStreamError(told, got.error, headers['x-request-id']);
    const isMixed = this.judge.isOther(one.model, from, to);
    const is = JSON.stringify(isMixed ? eachInOneCase(got.essence) : got.essence);
    const rights = this.rights(one, from, to);
    if (!got.isWhole || (!rights.includes(is) && !this.judge.isDated(one.model, from, to)))
      return void this.judge.broke(
        'every answer is the undisturbed one',
        `${name(told)}${got.isWhole ? '' : ' (not whole)'}\n    is    ${is}\n    calm  ${rights.join('\n    or    ')}`,
        told,
      );
    this.counts.checked++;
    this.judge.noteGood(told);
    return undefined;
  }

  #judgeRefusal(told, status, after, text) {
    if (!(Number(after) >= 1))
      return void this.judge.broke(
        'a refusal says when to come again',
        `${name(told)} got ${status} with Retry-After ${after}: ${tail(text)}`,
        told,
      );
    if (!this.judge.isStormy(told.from, told.to))
      return void this.judge.broke(
        'nobody is refused without a fault',
        `${name(told)} got ${status}: ${tail(text)}`,
        told,
      );
    this.counts.refused++;
    return Math.min(Number(after) * 1000, 1000);
  }

  #judgeGone(told, text) {
    if (!this.judge.isGone(told.one.model, told.from, told.to))
      return void this.judge.broke('404 only while the model is deleted', `${name(told)}: ${tail(text)}`, told);
    this.counts.gone++;
    return 300;
  }

  #judgeStrike(told, id, text) {
    const doubt = this.judge.doubtStrikes(id);
    if (doubt)
      return void this.judge.broke(
        '500 only after two strikes',
        `${name(told)} request ${id}: ${doubt}: ${tail(text)}`,
        told,
      );
    this.counts.struck++;
    return undefined;
  }

  // The weights that began the answer are nowhere any more.
  #isReplaced({ one, from, to }, text) {
    return this.judge.isOther(one.model, from, to) && /files of model .* were replaced while it was made/.test(text);
  }

  #goAgain() {
    this.counts.gone++;
    return 300;
  }

  // A stream that has begun can only say it within.
  #judgeStreamError(told, error, id) {
    const text = JSON.stringify(error);
    if (error.code === 'model_not_found') return this.#judgeGone(told, text);
    if (this.judge.isGone(told.one.model, told.from, told.to) || this.#isReplaced(told, text)) return this.#goAgain();
    return this.#judgeStrike(told, id, text);
  }
}

// Each choice is the answer of one model, and says it in capitals or not.  PARROT's undisturbed texts have none.
const inOneCase = (text) => (text === text.toUpperCase() ? text.toLowerCase() : text);
const eachInOneCase = (e) =>
  e.choices
    ? { ...e, choices: e.choices.map((c) => ({ ...c, text: inOneCase(c.text) })) }
    : { ...e, items: e.items.map((i) => [...i.slice(0, 3), ...i.slice(3).map(inOneCase)]) };

export const name = ({ one, manner, router }) => `"${one.name}" (${manner}, ${router.name})`;
const tail = (text) => (text ?? '').slice(-300).trim();
