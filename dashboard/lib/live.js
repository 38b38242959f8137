// lib/live.js - what the page knows about the fleet, kept fresh by the one event stream.
//
//   const models = useLive('models')     in a component: {items, error, isLoaded}; re-renders on
//                                        change.  Reading a list begins keeping it fresh.
//   const stats  = useLive('stats')      the last ten minutes, newest last: Stats[]
//   const alerts = useLive('alerts')     {items: Alert[], error, isLoaded}
//   const link   = useLive('link')       'connecting' | 'open' | 'lost'
//   live.subscribe((event) => ...)       every event as it arrives; returns unsubscribe
//   live.refresh('models')               after an order of ours, when an event may be late
//
// Lists are read whole and read again when an event concerns them, never more often than
// ten times as long as the last reading took (a big fleet answers slowly).  After a gap in
// the stream everything in use is read again, since events may have been missed.
//
/**
 * One event of GET /v0/events: {"event": "node.offline", "time": "...", ...}
 * @typedef {{event: string, time: string, [member: string]: any}} LiveEvent
 * The "stats" event, one per second; also the elements of GET /v0/stats.
 * @typedef {{time: string|number, requests_per_second: number, tokens_per_second: number,
 *   first_token_ms: {p50: number|null, p99: number|null}, inter_token_ms: {p50: number|null, p99: number|null},
 *   queue: number, in_flight: number, errors_per_second: number}} Stats
 * Of GET /v0/alerts: what is wrong now, and what to do about it, in the API's words.
 * @typedef {{id: string, kind: string, level: 'warning'|'error', time: string|number, node?: string,
 *   model?: string, message: string, action: string}} Alert
 */
import { useEffect, useState } from 'preact/hooks';
import { api } from './api.js';

const STATS_KEPT = 600;

/** Which list an event makes stale, by the first word of its name. */
const concerns = {
  model: ['models', 'nodes'],
  download: ['models'],
  node: ['nodes', 'models'],
  engine: ['nodes'],
  alert: ['alerts'],
};

const lists = {
  models: { path: '/v0/models?brief=true', member: 'models' },
  nodes: { path: '/v0/nodes?brief=true', member: 'nodes' },
  alerts: { path: '/v0/alerts', member: 'alerts' },
};

const empty = () => ({ items: [], error: null, isLoaded: false });
const state = { link: 'connecting', stats: [], models: empty(), nodes: empty(), alerts: empty() };
const watchers = { link: new Set(), stats: new Set(), models: new Set(), nodes: new Set(), alerts: new Set() };
const reading = {}; // name -> {busy, again, timer, tookMs, endedAt}
const eventListeners = new Set();
let source = null;
let retryTimer = 0;
let retryMs = 500;

function set(name, value) {
  state[name] = value;
  watchers[name].forEach((fn) => fn(value));
}

async function read(name) {
  const r = (reading[name] ??= { busy: false, again: false, timer: 0, tookMs: 0, endedAt: 0 });
  if (r.busy) { r.again = true; return; }
  clearTimeout(r.timer);
  r.busy = true;
  r.again = false;
  const began = performance.now();
  try {
    const answer = await api.get(lists[name].path);
    set(name, { items: answer[lists[name].member], error: null, isLoaded: true });
  } catch (error) {
    set(name, { ...state[name], error, isLoaded: true });
  }
  r.endedAt = performance.now();
  r.tookMs = r.endedAt - began;
  r.busy = false;
  if (r.again) stale(name);
}

/** Reads again soon, unless nobody looks at it. */
function stale(name) {
  if (watchers[name].size === 0) { if (state[name].isLoaded) state[name] = { ...state[name], isLoaded: false }; return; }
  const r = reading[name];
  if (!r) { read(name); return; }
  if (r.busy) { r.again = true; return; }
  clearTimeout(r.timer);
  const rest = Math.min(10000, Math.max(150, 10 * r.tookMs)) - (performance.now() - r.endedAt);
  r.timer = setTimeout(() => read(name), Math.max(0, rest));
}

async function readStats() {
  try {
    const answer = await api.get('/v0/stats');
    set('stats', (answer.stats ?? []).slice(-STATS_KEPT));
  } catch { /* the stream brings what comes from now on */ }
}

function take(text) {
  let event;
  try { event = JSON.parse(text); } catch { return; }
  if (event.event === 'stats') set('stats', [...state.stats.slice(1 - STATS_KEPT), event]);
  else (concerns[event.event.split('.')[0]] ?? []).forEach(stale);
  eventListeners.forEach((fn) => fn(event));
}

function connect() {
  source?.close();
  source = new EventSource('/v0/events');
  source.onopen = () => {
    retryMs = 500;
    set('link', 'open');
    readStats();
    Object.keys(lists).forEach(stale);
  };
  source.onmessage = (message) => take(message.data);
  source.onerror = () => {
    source.close();
    set('link', 'lost');
    clearTimeout(retryTimer);
    retryTimer = setTimeout(connect, retryMs);
    retryMs = Math.min(retryMs * 2, 5000);
    // A session that ended looks like a lost stream: asking tells which (api.onSignedOut).
    api.get('/v0/whoami').catch(() => {});
  };
}

export const live = {
  state,
  start() { if (!source) connect(); },
  stop() {
    source?.close();
    source = null;
    clearTimeout(retryTimer);
    for (const name of Object.keys(lists)) { clearTimeout(reading[name]?.timer); set(name, empty()); }
    set('stats', []);
    set('link', 'connecting');
  },
  refresh: stale,
  /** @param {(event: LiveEvent) => void} fn */
  subscribe(fn) {
    eventListeners.add(fn);
    return () => eventListeners.delete(fn);
  },
};

/**
 * @template {'link'|'stats'|'models'|'nodes'|'alerts'} K
 * @param {K} name
 * @returns {(typeof state)[K]}
 */
export function useLive(name) {
  const [value, setValue] = useState(state[name]);
  useEffect(() => {
    watchers[name].add(setValue);
    setValue(state[name]);
    if (lists[name] && !state[name].isLoaded) read(name);
    return () => { watchers[name].delete(setValue); };
  }, [name]);
  return value;
}
