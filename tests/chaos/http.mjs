// One HTTP request to a router or a node, on its own connection.  A failure tells how far the
// request came, and no request waits longer than its limit.
import http from 'node:http';
import https from 'node:https';

// How far a request came before it failed.
export class Cut extends Error {
  constructor(message, stage) {
    super(message);
    this.stage = stage; // 'before': no byte of an answer; 'within': some; 'late': the time was over
  }
}

// Resolves with { status, headers, text }.  `onData(text, response)` sees the body as it comes,
// and may pause the response or end the exchange with response.destroy().
export function exchange(url, { method, body, key, ca, ms = 5000, onData, headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const target = new URL(url);
    const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const request = (target.protocol === 'https:' ? https : http).request(target, {
      method: method ?? (bytes ? 'POST' : 'GET'),
      agent: false,
      ca,
      headers: {
        ...(bytes ? { 'content-type': 'application/json', 'content-length': bytes.length } : {}),
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...headers,
      },
    });
    let stage = 'before',
      text = '',
      over = false;
    const finish = (call, value) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      call(value);
    };
    const timer = setTimeout(() => {
      finish(reject, Object.assign(new Cut(`no end within ${ms} ms`, 'late'), { text, stageBefore: stage }));
      request.destroy();
    }, ms);
    const fail = (error) => finish(reject, Object.assign(new Cut(error.code ?? error.message, stage), { text }));
    request.on('error', fail);
    request.on('response', (response) => {
      stage = 'within';
      response.setEncoding('utf8');
      response.on('data', (data) => {
        text += data;
        onData?.(text, response);
      });
      response.on('error', fail);
      response.on('close', () => {
        if (response.complete) finish(resolve, { status: response.statusCode, headers: response.headers, text });
        else fail(new Error('the answer was cut'));
      });
    });
    request.end(bytes);
  });
}

// The same with JSON out; a failure is an answer of status 0, for callers that poll.
export async function ask(url, options) {
  try {
    const answer = await exchange(url, options);
    try {
      answer.json = JSON.parse(answer.text);
    } catch {
      /* not JSON: the caller looks at the text */
    }
    return answer;
  } catch (error) {
    return { status: 0, headers: {}, text: error.message };
  }
}
