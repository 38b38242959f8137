// pages/alerts.js - the overview's alerts: what is wrong, on which nodes, what to do, and silence for a time.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { ago, dateTime } from '../lib/format.js';
import { getLang, t, tOr } from '../lib/i18n.js';
import { live, useLive } from '../lib/live.js';
import { href } from '../lib/route.js';
import { reasonText } from '../lib/states.js';
import { Badge, Button, Dialog, ErrorNote, Field, Icon } from '../lib/ui.js';

const NODES_SHOWN = 12;
const LIVES = [3600, 4 * 3600, 86400, 7 * 86400];

function SilenceDialog({ alert, onClose }) {
  const [seconds, setSeconds] = useState(LIVES[0]);
  const [comment, setComment] = useState('');
  const [error, setError] = useState(null);
  const silence = async () => {
    try {
      await api.post(`/v0/alerts/${alert.id}/silence`, { seconds, ...(comment && { comment }) });
      live.refresh('alerts');
      onClose();
    } catch (failed) {
      setError(failed);
    }
  };
  return html`<${Dialog} open title=${t('overview.silenceTitle')} onClose=${onClose} footer=${html`
    <${Button} onClick=${onClose}>${t('common.cancel')}<//><${Button} kind="primary" onClick=${silence}>${t('overview.silence')}<//>`}>
    <p>${t('overview.silenceText')}</p><${ErrorNote} error=${error} />
    <${Field} label=${t('overview.silenceFor')}>${(
      props,
    ) => html`<select ...${props} value=${seconds} onChange=${(e) => setSeconds(Number(e.currentTarget.value))}>
      ${LIVES.map((s) => html`<option value=${s}>${t(`overview.for_${s}`)}</option>`)}</select>`}<//>
    <${Field} label=${t('overview.silenceComment')}>${(props) => html`<input ...${props} maxlength="190" value=${comment} onInput=${(e) => setComment(e.currentTarget.value)} />`}<//><//>`;
}

function AlertNodes({ alert }) {
  const nodes = alert.nodes.length > 0 ? alert.nodes : alert.node ? [{ id: alert.node, name: alert.node_name }] : [];
  return html`${nodes.slice(0, NODES_SHOWN).map((n) => html`<a key=${n.id} href=${href('nodes', n.id)} title=${n.message}>${n.name || n.id}</a>`)}
    ${alert.node_count > NODES_SHOWN && html`<span>${t('overview.moreNodes', { count: alert.node_count - NODES_SHOWN })}</span>`}`;
}

/** What is wrong, in the language of the page: the kind of the alert, its subject and the reason. */
const inWords = (alert) =>
  [
    tOr(`overview.kind.${alert.kind}`, alert.kind),
    alert.subject,
    reasonText(alert.message, alert.message_code, alert.message_params),
  ]
    .filter(Boolean)
    .join(': ');

/** "exited with 1" says nothing without its model. */
const withSubject = ({ subject, message }) =>
  !subject || message.includes(subject) ? message : `${subject}: ${message}`;

function AlertItem({ alert }) {
  const [asks, setAsks] = useState(false);
  const unsilence = async () => {
    await api.del(`/v0/alerts/${alert.id}/silence`);
    live.refresh('alerts');
  };
  const isSilenced = alert.silenced_until > 0;
  return html`<li class="alert ${alert.open && !isSilenced ? alert.level : 'over'}"><${Icon} name="alert" />
    <div class="alert-text"><p class="alert-message">${getLang() === 'en' ? withSubject(alert) : inWords(alert)}</p>
      <p class="small muted">${t('overview.whatToDo')} ${tOr(`overview.advice.${alert.kind}`, alert.advice)}</p>
      <p class="alert-facts">${alert.subject && html`<a href=${alert.link}>${alert.subject}</a>`}<${AlertNodes} alert=${alert} />
        <time datetime=${new Date(alert.last * 1000).toISOString()}>${ago(alert.last)}</time>
        ${alert.count > 1 && html`<span>${t('overview.times', { count: alert.count })}</span>`}${!alert.open && html`<${Badge}>${t('overview.over')}<//>`}
        ${isSilenced && html`<span>${t('overview.silencedUntil', { time: dateTime(alert.silenced_until) })}${alert.silence_comment && `: ${alert.silence_comment}`}</span>`}</p></div>
    ${alert.open && (isSilenced ? html`<${Button} changes kind="quiet" onClick=${unsilence}>${t('overview.unsilence')}<//>` : html`<${Button} changes kind="quiet" onClick=${() => setAsks(true)}>${t('overview.silence')}<//>`)}
    ${asks && html`<${SilenceDialog} alert=${alert} onClose=${() => setAsks(false)} />`}</li>`;
}

/** Without an alert all may still not be well: a node that was offline before this router began raises none. */
function Calm({ hasSilenced }) {
  const isLost = useLive('link') === 'lost';
  const nodes = useLive('nodes').items.filter((n) => !n.online).length;
  const models = useLive('models').items.filter((m) => !m.ready && ['failed', 'waiting'].includes(m.state)).length;
  if (isLost)
    return html`<p class="card calm uneasy"><${Icon} name="alert" /><span>${t('overview.unknown')}</span></p>`;
  const isWell = nodes === 0 && models === 0;
  return html`<p class="card calm ${isWell ? '' : 'uneasy'}"><${Icon} name=${isWell ? 'check' : 'alert'} /><span>${isWell && !hasSilenced ? t('overview.calm') : t('overview.noAlerts')}
    ${nodes > 0 && html` <a href=${href('nodes')}>${t('overview.butNodes', { count: nodes })}</a>`}${models > 0 && html` <a href="#/models?state=failed">${t('overview.butModels', { count: models })}</a>`}</span></p>`;
}

export function Alerts() {
  const { items, error, isLoaded } = useLive('alerts');
  const open = items.filter((a) => a.open);
  const loud = open.filter((a) => a.silenced_until === 0);
  const over = items.filter((a) => !a.open);
  return html`<section class="section" aria-labelledby="alerts-title"><h2 id="alerts-title">${t('overview.alerts')}${loud.length > 0 && html` <span class="count">${loud.length}</span>`}</h2>
    <${ErrorNote} error=${error} />
    <div aria-live="polite">${
      open.length > 0
        ? html`<ul class="card alerts">${open.map((a) => html`<${AlertItem} key=${a.id} alert=${a} />`)}</ul>`
        : isLoaded && !error && html`<${Calm} hasSilenced=${false} />`
    }</div>
    ${over.length > 0 && html`<details><summary>${t('overview.earlier')} (${over.length})</summary><ul class="card alerts">${over.map((a) => html`<${AlertItem} key=${a.id} alert=${a} />`)}</ul></details>`}</section>`;
}
