// lib/live.js - the page's copy of the fleet's state, updated by one event stream.
//
//   const models = useLive('models')     in a component: {items, error, isLoaded}; re-renders on
//                                        change.  The first use of a list starts its updates.
//   const stats  = useLive('stats')      {points: Stats[] (15 minutes, a point every five
//                                        seconds, newest last), now: Stats|null (this second),
//                                        minute: Stats|null (the last minute)}
//   const alerts = useLive('alerts')     {items: Alert[], error, isLoaded}
//   const downloads = useLive('downloads')   Map of `${node} ${model}` -> Download, while they run
//   const link   = useLive('link')       'connecting' | 'open' | 'lost'
//   live.subscribe((event) => ...)       every event as it arrives; returns unsubscribe
//   useResource('/v0/...', {everyS, concerns})   data of one page, updated in the same way
//   live.refresh('models')               after a command of this page, because its event may be late
//
// Lists are read whole and read again when an event concerns them, never more often than
// ten times as long as the last reading took (a big fleet answers slowly); what changes
// without an event (load, memory) is read again every few seconds, by the stream's own heartbeat.
// After a gap in the stream everything in use is read again, since events may be missing.
//
/**
 * One event of GET /v0/events: {"event": "node.offline", "time": "...", ...}
 * @typedef {{event: string, time: string, [member: string]: any}} LiveEvent
 * The "stats" event, one per second.
 * @typedef {{time: string|number, requests_per_second: number, tokens_per_second: number,
 *   first_token_ms: {p50: number|null, p99: number|null}, inter_token_ms: {p50: number|null, p99: number|null},
 *   queue: number, in_flight: number, errors_per_second: number, [series: string]: any}} Stats
 * A series that has a chart of its own (src/router/figures/figures.def).
 * @typedef {{series: string, title: {en: string, ja: string}}} ChartRow
 * Of GET /v0/alerts: what is or was wrong, and what to do about it, in the API's words.
 * @typedef {{id: number, kind: string, level: 'warning'|'error', open: boolean, node: string, node_name: string,
 *   subject: string, message: string, advice: string, count: number, first: number, last: number, link: string,
 *   silenced_until: number, silence_comment: string, node_count: number,
 *   nodes: {id: string, name: string, message: string, since: number}[]}} Alert
 * The "download" event: a model on its way to a node.
 * @typedef {{node: string, name: string, model: string, done_bytes: number, total_bytes: number, rate: number,
 *   remaining_ms?: number, files_done: number, file_count: number,
 *   files: {name: string, state: string, reason?: string, size: number, done: number}[]}} Download
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from './api.js';

const STEP_S = 5;
const POINTS_KEPT = 180;
const DOWNLOAD_SILENT_MS = 4000;

/** Which list an event makes stale, by the first word of its name. */
const concerns = {
  model: ['models', 'nodes'],
  node: ['nodes', 'models'],
  engine: ['nodes'],
  alert: ['alerts'],
};

const lists = {
  models: { path: '/v0/models?brief=true', member: 'models', everyS: 5 },
  nodes: { path: '/v0/nodes?brief=true', member: 'nodes', everyS: 3 },
  alerts: { path: '/v0/alerts', member: 'alerts', everyS: 30 },
};

const empty = () => ({ items: [], error: null, isLoaded: false });
const noStats = () => ({ charts: [], points: [], now: null, minute: null });
const state = {
  link: 'connecting',
  stats: noStats(),
  downloads: new Map(),
  models: empty(),
  nodes: empty(),
  alerts: empty(),
};
const watchers = Object.fromEntries(Object.keys(state).map((name) => [name, new Set()]));
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
  if (r.busy) {
    r.again = true;
    return;
  }
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
  if (watchers[name].size === 0) {
    if (state[name].isLoaded) state[name] = { ...state[name], isLoaded: false };
    return;
  }
  const r = reading[name];
  if (!r) {
    read(name);
    return;
  }
  if (r.busy) {
    r.again = true;
    return;
  }
  clearTimeout(r.timer);
  const rest = Math.min(10000, Math.max(150, 10 * r.tookMs)) - (performance.now() - r.endedAt);
  r.timer = setTimeout(() => read(name), Math.max(0, rest));
}

/** /v0/stats and /v0/history have a column per figure; points are easier to append to. */
export function toPoints(answer) {
  const columns = Object.entries(answer).filter(([, column]) => (column?.p50 ?? column)?.length === answer.time.length);
  return answer.time.map((_, i) =>
    Object.fromEntries(
      columns.map(([name, column]) => [name, column.p50 ? { p50: column.p50[i], p99: column.p99[i] } : column[i]]),
    ),
  );
}

/** The names of the rates of a point, and those of its percentiles. */
const rates = (point) => Object.keys(point).filter((name) => name.endsWith('_per_second'));
const spreads = (point) => Object.keys(point).filter((name) => point[name]?.p50 !== undefined);

/** The means of figures over all points, by name: of rates, and of what else is named. */
export function meansOf(points, ...more) {
  const names = [...rates(points[0]), ...more];
  return Object.fromEntries(names.map((name) => [name, points.reduce((sum, p) => sum + p[name], 0) / points.length]));
}

/** The last percentiles that were measured, by name. */
export function measuredOf(points) {
  const last = (name) => points.findLast((p) => p[name].p50 !== null)?.[name] ?? { p50: null, p99: null };
  return Object.fromEntries(spreads(points[0]).map((name) => [name, last(name)]));
}

const MINUTE_POINTS = 60 / STEP_S;

/** Rates as means over the last minute; of what is measured now and then the last measurement; all else as it is now.
 * A single second says "0 requests" above a busy chart. */
export function lastMinute(points, now) {
  const last = points.slice(-MINUTE_POINTS);
  if (last.length === 0) return now;
  const newest = now ?? last.at(-1);
  return { ...newest, ...meansOf(last), ...measuredOf([...last, newest]) };
}

async function readStats() {
  try {
    const answer = await api.get(`/v0/stats?step=${STEP_S}`);
    const points = toPoints(answer).slice(-POINTS_KEPT);
    set('stats', { ...state.stats, charts: answer.charts, points, minute: lastMinute(points, state.stats.now) });
    // Seconds that the stream brought while the router's answer was on its way are not in the answer.
    const end = points.at(-1)?.time ?? 0;
    seconds = seconds.filter((s) => Math.floor(s.time) > end);
  } catch {
    /* the stream brings what comes from now on */
  }
}

let seconds = []; // of the point that is not whole yet
let ticks = 0;

function takeStats(event) {
  const now = { ...event, time: Date.parse(event.time) / 1000 };
  let { points } = state.stats;
  seconds.push(now);
  if (seconds.length >= STEP_S) {
    const point = { ...now, ...meansOf(seconds, 'queue', 'in_flight') };
    points = [...points.slice(1 - POINTS_KEPT), point];
    seconds = [];
  }
  set('stats', { ...state.stats, points, now, minute: lastMinute(points, now) });
  ticks++;
  for (const [name, { everyS }] of Object.entries(lists)) if (ticks % everyS === 0) stale(name);
  dropSilentDownloads();
}

/** A download that is no longer told of has ended; how, the model's state says. */
function dropSilentDownloads() {
  const limit = performance.now() - DOWNLOAD_SILENT_MS;
  const kept = [...state.downloads].filter(([, d]) => d.heardAt > limit);
  if (kept.length === state.downloads.size) return;
  set('downloads', new Map(kept));
  stale('models');
}

function take(text) {
  let event;
  try {
    event = JSON.parse(text);
  } catch {
    return;
  }
  if (event.event === 'stats') takeStats(event);
  else if (event.event === 'download')
    set(
      'downloads',
      new Map(state.downloads).set(`${event.node} ${event.model}`, { ...event, heardAt: performance.now() }),
    );
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
    api.get('/v0/whoami').then(
      ({ role }) => {
        if (role === 'public') api.signedOut();
      },
      () => {},
    );
  };
}

export const live = {
  state,
  start() {
    if (!source) connect();
  },
  stop() {
    source?.close();
    source = null;
    clearTimeout(retryTimer);
    for (const name of Object.keys(lists)) {
      clearTimeout(reading[name]?.timer);
      set(name, empty());
    }
    set('stats', noStats());
    set('downloads', new Map());
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
 * @template {'link'|'stats'|'downloads'|'models'|'nodes'|'alerts'} K
 * @param {K} name
 * @returns {(typeof state)[K]}
 */
export function useLive(name) {
  const [value, setValue] = useState(state[name]);
  useEffect(() => {
    watchers[name].add(setValue);
    setValue(state[name]);
    if (lists[name] && !state[name].isLoaded) read(name);
    return () => {
      watchers[name].delete(setValue);
    };
  }, [name]);
  return value;
}

/**
 * What a page reads for itself (one model, one node's memory), read again when an event
 * concerns it and every `everyS` seconds of the stream.
 * @param {string|null} path null: nothing to read
 * @param {{everyS?: number, concerns?: (event: LiveEvent) => boolean}} [options]
 * @returns {{data: any, error: Error|null, reload: () => void}}
 */
export function useResource(path, { everyS = 0, concerns: isMine } = {}) {
  const [result, setResult] = useState({ path: null, data: null, error: null });
  const mine = useRef(isMine);
  mine.current = isMine;
  const job = useRef({});
  useEffect(() => {
    const current = { isOver: false, busy: false, again: false, count: 0 };
    job.current = current;
    if (path === null) return undefined;
    current.read = async () => {
      if (current.busy) {
        current.again = true;
        return;
      }
      current.busy = true;
      current.again = false;
      let next;
      try {
        next = { path, data: await api.get(path), error: null };
      } catch (error) {
        next = { error };
      }
      if (current.isOver) return;
      setResult((before) => ({ ...(before.path === path ? before : { data: null }), path, ...next }));
      current.busy = false;
      if (current.again) current.read();
    };
    current.read();
    const leave = live.subscribe((event) => {
      if (event.event === 'stats' ? everyS > 0 && ++current.count % everyS === 0 : mine.current?.(event))
        current.read();
    });
    return () => {
      current.isOver = true;
      leave();
    };
  }, [path, everyS]);
  const isCurrent = result.path === path;
  return {
    data: isCurrent ? result.data : null,
    error: isCurrent ? result.error : null,
    reload: () => job.current.read?.(),
  };
}
