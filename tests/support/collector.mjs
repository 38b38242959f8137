// A collector of OpenTelemetry traces that remembers what it gets: OTLP over HTTP, JSON.
import assert from 'node:assert/strict';
import http from 'node:http';

export async function startCollector() {
  const self = { spans: [], requests: [], answer: () => ({ status: 200 }) };
  const server = http.createServer((req, res) => {
    const pieces = [];
    req.on('data', (piece) => pieces.push(piece));
    req.on('end', async () => {
      const body = JSON.parse(Buffer.concat(pieces));
      self.requests.push({ path: req.url, headers: req.headers, body, at: Date.now() });
      const { status, headers = {}, wait } = self.answer(self.requests.length);
      if (wait) await wait;
      if (status === 200)
        for (const { scopeSpans } of body.resourceSpans) for (const { spans } of scopeSpans) self.spans.push(...spans);
      res.writeHead(status, { 'content-type': 'application/json', ...headers }).end('{}');
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  self.url = `http://127.0.0.1:${server.address().port}`;
  self.close = () => {
    server.closeAllConnections();
    server.close();
  };
  self.of = (traceId) => self.spans.filter((s) => s.traceId === traceId);
  return self;
}

// {key: value} of a list of attributes; each value has exactly one type.
export const attributes = (list) =>
  Object.fromEntries(
    list.map(({ key, value }) => {
      const [[type, content], ...rest] = Object.entries(value);
      assert.deepEqual(rest, [], key);
      if (type === 'intValue') assert.match(content, /^\d+$/, `${key}: 64-bit numbers are texts`);
      return [key, type === 'intValue' ? Number(content) : content];
    }),
  );

// The form of a span, and that its time lies within its parent's.
export function checkSpans(spans) {
  const byId = new Map(spans.map((s) => [s.spanId, s]));
  assert.equal(byId.size, spans.length, 'ids are not used twice');
  for (const s of spans) {
    assert.match(s.traceId, /^[0-9a-f]{32}$/);
    assert.match(s.spanId, /^[0-9a-f]{16}$/);
    for (const time of [s.startTimeUnixNano, s.endTimeUnixNano]) assert.match(time, /^\d{19}$/);
    const [begin, end] = [BigInt(s.startTimeUnixNano), BigInt(s.endTimeUnixNano)];
    assert.ok(begin <= end, s.name);
    assert.ok([1, 2, 3].includes(s.kind));
    assert.ok(Array.isArray(s.attributes) && typeof s.status === 'object');
    const parent = byId.get(s.parentSpanId);
    if (!parent) continue;
    assert.ok(BigInt(parent.startTimeUnixNano) <= begin, `${s.name} begins within ${parent.name}`);
    assert.equal(s.traceId, parent.traceId);
  }
  return byId;
}
