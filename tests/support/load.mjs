// Requests at a fixed rate, whatever the answers take: GET /v1/models, and short answers of a
// model.  A third opens a connection of its own, the others share kept connections.
import http from 'node:http';

const once = (options, body, check) =>
  new Promise((done) => {
    const req = http.request(options, async (res) => {
      let text = '';
      try {
        for await (const part of res.setEncoding('utf8')) text += part;
        done(res.statusCode === 200 && check(text) ? null : `${options.path} ${res.statusCode} ${text.slice(0, 300)}`);
      } catch (error) {
        done(`${options.path} ${error.code ?? error} in the answer`);
      }
    });
    req.on('error', (error) => done(`${options.path} ${error.code ?? error}`));
    req.end(body);
  });

export function startLoad(url, { perSecond, model, key }) {
  const { hostname, port } = new URL(url);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256, maxFreeSockets: 256 });
  const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const self = { sent: 0, answered: 0, chats: 0, failures: [] };
  const pending = new Set();
  const begun = performance.now();
  const send = (i) => {
    const options = { hostname, port, headers, agent: i % 3 === 0 ? false : agent };
    const isChat = i % 2 === 0;
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: `n${i}` }] });
    self.sent++;
    if (isChat) self.chats++;
    const sent = isChat
      ? once({ ...options, path: '/v1/chat/completions', method: 'POST' }, body, (text) => text.includes(`"n${i}"`))
      : once({ ...options, path: '/v1/models', method: 'GET' }, undefined, (text) => text.includes(`"${model}"`));
    const end = sent.then((failure) => {
      self.answered++;
      if (failure) self.failures.push(`after ${Math.round(performance.now() - begun)} ms: ${failure}`);
      pending.delete(end);
    });
    pending.add(end);
  };
  const timer = setInterval(() => {
    const due = ((performance.now() - begun) / 1000) * perSecond;
    while (self.sent < due) send(self.sent);
  }, 5);
  // Stops sending; resolves when everything is answered.
  self.stop = async () => {
    clearInterval(timer);
    await Promise.all(pending);
    agent.destroy();
    return self;
  };
  return self;
}
