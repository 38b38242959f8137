// pages/topology.js - the fleet as a picture: the router, the nodes that it sends requests to, the models that each
// node has loaded, and the requests that run there now (part of the nodes page).
import { html } from 'htm/preact';
import { figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive, useResource } from '../lib/live.js';
import { href } from '../lib/route.js';
import { isBroken } from '../lib/states.js';
import { ErrorNote, Icon, Skeleton } from '../lib/ui.js';

const CHIPS = 6;
const PAIRS_MAX = 5000; // of models and nodes: the answer with every model of every node stays small

/** Models in the order of their load, those that are loaded only. */
const loadedOf = (node) =>
  (node.models ?? [])
    .filter((m) => m.replicas > 0 || m.state === 'ready' || isBroken(m.state))
    .sort((a, b) => b.inflight - a.inflight || a.id.localeCompare(b.id));

/** The thickness of a line, from 1 to 7: one request is seen, a hundred do not cover the page. */
export const thickness = (inflight) => (inflight === 0 ? 1 : Math.min(7, 1.5 + Math.log2(1 + inflight)));

const state = (node) => (!node.online ? 'offline' : node.drained || node.draining ? 'drained' : 'online');

function NodeBox({ node, hues }) {
  const loaded = loadedOf(node);
  const inflight = node.inflight ?? (node.models ?? []).reduce((sum, m) => sum + m.inflight, 0);
  const count = node.models_loaded ?? loaded.filter((m) => !isBroken(m.state)).length;
  return html`<li class="fleet-node ${state(node)}"><span class="fleet-line" style=${{ height: `${thickness(inflight)}px` }} data-busy=${inflight > 0 ? 'true' : 'false'}></span>
    <a class="card fleet-box" href=${href('nodes', node.id)}><span class="fleet-name"><span class="dot"></span><b>${node.name}</b></span>
      <span class="small muted number">${node.online ? t('nodes.pictureLoad', { running: number(inflight), loaded: number(count) }) : t('nodes.offline')}</span>
      ${
        loaded.length > 0 &&
        html`<span class="fleet-chips">${loaded.slice(0, CHIPS).map((m) => html`<span key=${m.id} class="fleet-chip ${isBroken(m.state) ? 'broken' : ''}" data-hue=${hues.get(m.id) ?? 0} title=${m.id}>${m.id.split('/').at(-1)}${m.replicas > 1 ? ` ×${number(m.replicas)}` : ''}${m.inflight > 0 ? html` <b>${number(m.inflight)}</b>` : ''}</span>`)}
        ${loaded.length > CHIPS && html`<span class="small muted">+${number(loaded.length - CHIPS)}</span>`}</span>`
      }</a></li>`;
}

export function Topology() {
  const brief = useLive('nodes');
  const models = useLive('models').items;
  const { minute, now } = useLive('stats');
  const isSmall = models.length * brief.items.length <= PAIRS_MAX;
  const { data, error } = useResource(isSmall ? '/v0/nodes' : null, {
    everyS: 2,
    concerns: (e) => e.event.startsWith('node.'),
  });
  const nodes = isSmall ? data?.nodes : brief.items;
  if (!nodes) return html`<${ErrorNote} error=${error} />${!error && html`<${Skeleton} lines=${6} />`}`;
  const hues = new Map(models.map((m, i) => [m.id, i % 6]));
  const queued = models.reduce((sum, m) => sum + m.queued, 0);
  const running = now?.in_flight ?? 0;
  const text = t('nodes.pictureText', {
    count: nodes.length,
    online: number(nodes.filter((n) => n.online).length),
    running: number(running),
  });
  return html`<${ErrorNote} error=${error} /><figure class="fleet" aria-label=${text}>
    <div class="card fleet-router"><span class="fleet-name"><${Icon} name="overview" /><b>${t('nodes.pictureRouter')}</b></span>
      <span class="small muted number">${t('nodes.pictureRate', { rate: minute ? figure(minute.requests_per_second) : '–' })}</span>
      <span class="small muted number">${t('nodes.pictureRunning', { running: number(running), queued: number(queued) })}</span></div>
    <ul class="fleet-nodes">${[...nodes].sort((a, b) => Number(b.online) - Number(a.online) || a.name.localeCompare(b.name)).map((n) => html`<${NodeBox} key=${n.id} node=${n} hues=${hues} />`)}</ul></figure>`;
}
