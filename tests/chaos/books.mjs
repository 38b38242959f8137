// The books of a chaos test: a client whose tokens are counted on both sides.  After each round nothing of its usage
// may be missing or counted twice, whatever was killed, full or wrong meanwhile; and a key whose budget is spent
// stays refused.
import { sleep } from '../support/scene.mjs';
import { DEMO } from './fleet.mjs';
import { ask } from './http.mjs';

const BODY = { model: DEMO, messages: [{ role: 'user', content: 'count' }], max_tokens: 4, temperature: 0 };
const MONTHS_S = 100 * 86400; // on both sides of today: a clock may have been there

export class Books {
  constructor({ fleet, judge, limits }) {
    Object.assign(this, { fleet, judge, limits, least: 0, most: 0, turn: 0, isOn: false });
  }

  // Keys and first entries, which an early backup has, too.
  async begin() {
    this.key = await this.fleet.operate(0, '/v0/keys', { name: 'books', tokens_per_month: 1e12 });
    this.spent = await this.fleet.operate(0, '/v0/keys', { name: 'spent', tokens_per_month: 1 });
    const first = await this.#chat(this.fleet.routers[0], this.spent.key, { ms: this.limits.bound });
    if (first.status !== 200)
      throw new Error(`undisturbed, the books are answered with ${first.status}: ${first.text}`);
    this.mostOfOne = first.json.usage.prompt_tokens + BODY.max_tokens;
    await this.#pay();
    await this.check();
  }

  #chat(router, key, { ms = 5000 } = {}) {
    return ask(`${router.url}/v1/chat/completions`, { key, body: BODY, ms });
  }

  // What was refused costs nothing; what has no whole answer may have been counted.
  async #pay() {
    const answer = await this.#chat(this.fleet.routers[this.turn++ % this.fleet.routers.length], this.key.key);
    const tokens = answer.json?.usage?.total_tokens;
    if (answer.status === 200) this.least += tokens;
    if (![429, 503].includes(answer.status)) this.most += tokens ?? this.mostOfOne;
  }

  start() {
    this.isOn = true;
    this.running = (async () => {
      for (; this.isOn; await sleep(50)) await this.#pay();
    })();
  }

  async stop() {
    this.isOn = false;
    await this.running;
  }

  // The database is an older one: what was counted since is gone with it.
  forget() {
    this.isForgotten = true;
  }

  // What is wrong at a router; undefined: nothing.
  async #wrong(router) {
    const now = Math.floor(Date.now() / 1000);
    const month = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth()) / 1000;
    const next = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() + 1) / 1000;
    const records = async (since, to) => {
      const span = `since=${since}&until=${to}&step=100000000000`;
      const { json } = await ask(`${router.url}/v0/usage?key=${this.key.id}&${span}`);
      return json?.usage?.reduce((n, u) => n + u.prompt_tokens + u.completion_tokens, 0);
    };
    const over = await this.#chat(router, this.spent.key);
    if (over.status !== 429) return `the key whose budget is spent got ${over.status}`;
    const self = (await ask(`${router.url}/v0/self`, { key: this.key.key })).json;
    const used = self?.limits?.tokens_per_month.used;
    const sum = self?.usage && self.usage.prompt_tokens + self.usage.completion_tokens;
    const ofMonth = await records(month, next);
    const says = `${ofMonth} tokens in this month's records, ${sum} in the month's sum, ${used} in the budget`;
    if (used === undefined || ofMonth !== sum || used !== sum) return says;
    this.found = await records(now - MONTHS_S, now + MONTHS_S); // the budget has them, so all are written
    if (!this.isForgotten && !(this.found >= this.least && this.found <= this.most))
      return `${says}, ${this.found} in all records; clients have seen ${this.least}, and at most ${this.most} were counted`;
    return undefined;
  }

  // In a pause of the client: what it has seen is everywhere, exactly.
  async check() {
    const wasOn = this.isOn;
    await this.stop();
    const end = Date.now() + this.limits.heal;
    let wrong;
    do {
      wrong = [];
      for (const router of this.fleet.routers) {
        const text = await this.#wrong(router);
        if (text) wrong.push(`${router.name}: ${text}`);
      }
      if (wrong.length === 0) break;
      await sleep(100);
    } while (Date.now() < end && !this.judge.isOver);
    for (const text of wrong) this.judge.broke('usage and budgets are exact after a fault', text);
    if (this.isForgotten) this.least = this.most = this.found;
    else this.least = this.found ?? this.least; // what was cut is known now
    this.isForgotten = false;
    this.most = Math.max(this.least, this.found ?? this.most);
    this.judge.note(`books: ${this.least} tokens`);
    if (wasOn) this.start();
  }
}
