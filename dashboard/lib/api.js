// lib/api.js - the router's HTTP API, as this page uses it.
//
//   await api.get('/v0/nodes')                      the answer's JSON
//   await api.post('/v0/keys', {name: 'x'})         JSON in, JSON out
//   await api.patch('/v0/keys/abc', {name: 'y'})
//   await api.del('/v0/keys/abc')
//   await api.raw('/v1/chat/completions', {method: 'POST', body, signal})
//                                                   the Response itself, for streams
//
// A failed call throws an ApiError with the API's own message: show `error.message`
// unchanged.  A 401 also calls the functions that were given to api.onSignedOut.  A session's CSRF token
// (of /v0/whoami, see setCsrf) goes with every unsafe method.

/** What the API said, unchanged. */
export class ApiError extends Error {
  /**
   * @param {string} message the API's sentence
   * @param {{status?: number, type?: string, code?: string|null, param?: string|null,
   *          requestId?: string, retryAfter?: number}} [facts] status 0: the router did not answer
   */
  constructor(message, facts = {}) {
    super(message);
    this.name = 'ApiError';
    this.status = facts.status ?? 0;
    this.type = facts.type ?? '';
    this.code = facts.code ?? null;
    this.param = facts.param ?? null;
    this.requestId = facts.requestId ?? '';
    this.retryAfter = facts.retryAfter ?? 0;
  }
}

let csrf = '';
let signedOut = () => {};

async function toError(response) {
  const facts = {
    status: response.status,
    requestId: response.headers.get('X-Request-Id') ?? '',
    retryAfter: Number(response.headers.get('Retry-After') ?? 0),
  };
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text);
    return new ApiError(String(error.message), { ...facts, type: error.type, code: error.code, param: error.param });
  } catch {
    return new ApiError(text.slice(0, 500) || `HTTP ${response.status}`, facts);
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<Response>} one whose status is below 400
 */
async function raw(path, { method = 'GET', body, signal, headers = {} } = {}) {
  const sent = { ...headers };
  if (method !== 'GET' && csrf) sent['X-CSRF-Token'] = csrf;
  if (body !== undefined) sent['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      headers: sent,
      credentials: 'same-origin',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError('The router does not answer. Is it running?', { status: 0, code: 'unreachable' });
  }
  if (response.ok) return response;
  const error = await toError(response);
  if (error.status === 401) signedOut();
  throw error;
}

const json = async (response) => (response.status === 204 ? null : response.json());

export const api = {
  raw,
  get: async (path, options) => json(await raw(path, options)),
  post: async (path, body = {}, options) => json(await raw(path, { ...options, method: 'POST', body })),
  patch: async (path, body, options) => json(await raw(path, { ...options, method: 'PATCH', body })),
  del: async (path, options) => json(await raw(path, { ...options, method: 'DELETE' })),
  /** @param {string} token of /v0/whoami; '' where there is no session */
  setCsrf: (token) => {
    csrf = token;
  },
  /** @param {() => void} fn called when an answer says that nobody is signed in */
  onSignedOut: (fn) => {
    signedOut = fn;
  },
  /** Whoever finds out otherwise that nobody is signed in says so here. */
  signedOut: () => signedOut(),
};

/** One segment of a path: ids hold slashes. @param {string} id */
export const segment = (id) => encodeURIComponent(id);
