// pages/topology.js - the fleet as a picture: the routers that share a database, the nodes that they send requests to,
// the models that each node has loaded, and the requests that run there now (part of the nodes page).
import { html } from 'htm/preact';
import { duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive, useResource } from '../lib/live.js';
import { href } from '../lib/route.js';
import { isBroken } from '../lib/states.js';
import { Badge, ErrorNote, Icon, Skeleton } from '../lib/ui.js';

const CHIPS = 6;
const PAIRS_MAX = 5000; // of models and nodes: the answer with every model of every node stays small

/** Models in the order of their load, those that are loaded only. */
const loadedOf = (node) =>
  (node.models ?? [])
    .filter((m) => m.replicas > 0 || m.state === 'ready' || isBroken(m.state))
    .sort((a, b) => b.running - a.running || a.id.localeCompare(b.id));

/** The thickness of a line, from 1 to 7: one request is seen, a hundred do not cover the page. */
export const thickness = (running) => (running === 0 ? 1 : Math.min(7, 1.5 + Math.log2(1 + running)));

const Line = ({ running }) =>
  html`<span class="fleet-line" style=${{ height: `${thickness(running)}px` }} data-busy=${running > 0 ? 'true' : 'false'}></span>`;

const state = (node) => (!node.online ? 'offline' : node.drained || node.draining ? 'drained' : 'online');

function NodeBox({ node, hues }) {
  const loaded = loadedOf(node);
  const running = node.models ? node.models.reduce((sum, m) => sum + m.running, 0) : node.running;
  const count = node.models_loaded ?? loaded.filter((m) => !isBroken(m.state)).length;
  return html`<li class="fleet-node ${state(node)}"><${Line} running=${node.online ? running : 0} />
    <a class="card fleet-box" href=${href('nodes', node.id)}><span class="fleet-name"><span class="dot"></span><b>${node.name}</b></span>
      <span class="small muted number">${node.online ? t('nodes.pictureLoad', { running: number(running), loaded: number(count) }) : t('nodes.offline')}</span>
      ${
        loaded.length > 0 &&
        html`<span class="fleet-chips">${loaded.slice(0, CHIPS).map((m) => html`<span key=${m.id} class="fleet-chip ${isBroken(m.state) ? 'broken' : ''}" data-hue=${hues.get(m.id) ?? 0} title=${m.id}>${m.id.split('/').at(-1)}${m.replicas > 1 ? ` ×${number(m.replicas)}` : ''}${m.running > 0 ? html` <b>${number(m.running)}</b>` : ''}</span>`)}
        ${loaded.length > CHIPS && html`<span class="small muted">+${number(loaded.length - CHIPS)}</span>`}</span>`
      }</a></li>`;
}

const place = (url) => url.replace(/^https?:\/\//, '');

function RouterBox({ router, versions }) {
  return html`<li class="fleet-router ${router.online ? 'online' : 'offline'}"><div class="card fleet-router-box ${router.own ? 'own' : ''}">
      <span class="fleet-name"><span class="dot"></span><b>${place(router.url)}</b></span>
      ${
        router.online
          ? html`<span class="small muted number">${t('nodes.pictureRate', { rate: figure(router.requests_per_minute / 60) })}</span>
      <span class="small muted number">${t('nodes.pictureRunning', { running: number(router.running), queued: number(router.queued) })}</span>`
          : html`<span class="small bad-text">${t('nodes.pictureSilent', { time: duration(router.silent_ms) })}</span>`
      }
      ${(router.own || versions > 1) && html`<span class="row">${router.own && html`<${Badge}>${t('nodes.pictureRouter')}<//>`}${versions > 1 && router.version && html`<${Badge}>${router.version}<//>`}</span>`}
    </div><${Line} running=${router.online ? router.running : 0} /></li>`;
}

export function Topology() {
  const brief = useLive('nodes');
  const models = useLive('models').items;
  const isSmall = models.length * brief.items.length <= PAIRS_MAX;
  const { data, error } = useResource(isSmall ? '/v0/nodes' : null, {
    everyS: 2,
    concerns: (e) => e.event.startsWith('node.'),
  });
  const { data: peers, error: peersError } = useResource('/v0/routers', { everyS: 2 });
  const nodes = isSmall ? data?.nodes : brief.items;
  const failed = error ?? peersError;
  if (!nodes || !peers) return html`<${ErrorNote} error=${failed} />${!failed && html`<${Skeleton} lines=${6} />`}`;
  const hues = new Map(models.map((m, i) => [m.id, i % 6]));
  const { routers } = peers;
  const versions = new Set(routers.filter((r) => r.online).map((r) => r.version)).size;
  const text = t('nodes.pictureText', {
    routers: number(routers.filter((r) => r.online).length),
    nodes: number(nodes.length),
    online: number(nodes.filter((n) => n.online).length),
    running: number(routers.reduce((sum, r) => sum + (r.online ? r.running : 0), 0)),
  });
  return html`<${ErrorNote} error=${failed} /><figure class="fleet" aria-label=${text}>
    <section class="fleet-side"><h2><${Icon} name="overview" />${t('nodes.pictureRouters')}</h2>
      <ul class="fleet-routers">${routers.map((r) => html`<${RouterBox} key=${r.url} router=${r} versions=${versions} />`)}</ul></section>
    <section class="fleet-bus"><h2><${Icon} name="nodes" />${t('nodes.title')}</h2>
      <ul class="fleet-nodes">${[...nodes].sort((a, b) => Number(b.online) - Number(a.online) || a.name.localeCompare(b.name)).map((n) => html`<${NodeBox} key=${n.id} node=${n} hues=${hues} />`)}</ul></section></figure>`;
}
