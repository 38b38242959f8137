// Requests that come at random moments, for tests of overload.
import { sleep, stream } from './support.mjs';

export const quantile = (times, q) =>
  times.sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * q))];

// Requests at random moments, `rate` a second for `seconds`; resolves with all answers, when each was
// asked for, and the ms to its first token.
export async function arrivals(url, rate, seconds, ask, { isOver = () => false, seed = 20261115 } = {}) {
  const all = [],
    end = Date.now() + seconds * 1000;
  const random = () => {
    seed = (seed * 48271) % 2147483647;
    return seed / 2147483647;
  };
  for (let due = Date.now(); due < end && !isOver(); due += (-Math.log(random()) * 1000) / rate) {
    const early = due - Date.now();
    if (early > 0) await sleep(early);
    const body = ask(all.length),
      begun = Math.max(due, Date.now() - 50);
    let first;
    all.push(
      stream(url, body.body, {
        key: body.key,
        onChunk: () => {
          first ??= Date.now() - begun;
        },
      }).then((out) => ({ ...out, begun, first })),
    );
  }
  return Promise.all(all);
}
