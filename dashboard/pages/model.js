// pages/model.js - one model: its facts, its state on each node with the reason, its downloads,
// the operator's actions, its aliases, its manifest.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { bytes, dateTime, duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live, useLive, useResource } from '../lib/live.js';
import { mayChange } from '../lib/me.js';
import { go, href } from '../lib/route.js';
import { isBroken, reasonOf, StateBadge, stateName } from '../lib/states.js';
import { Table } from '../lib/table.js';
import {
  Badge,
  Button,
  CopyButton,
  confirm,
  Empty,
  ErrorNote,
  Facts,
  Field,
  Meter,
  Page,
  Skeleton,
  toast,
  useOrder,
} from '../lib/ui.js';

function Download({ download }) {
  const facts = [
    t('models.progress', { done: bytes(download.done_bytes), total: bytes(download.total_bytes) }),
    download.rate > 0 && t('models.rate', { rate: bytes(download.rate) }),
    download.remaining_ms !== undefined && t('models.remaining', { time: duration(download.remaining_ms) }),
  ].filter(Boolean);
  return html`<div class="download"><${Meter} value=${download.done_bytes} max=${download.total_bytes} label=${`${stateName('fetching')} ${download.name}`} tone="busy" />
    <p class="small muted number">${facts.join(' · ')}</p>
    <details><summary>${t('models.files', { done: number(download.files_done), count: download.file_count })}</summary>
    <ul class="files">${download.files.map(
      (
        f,
      ) => html`<li key=${f.name}><span class="file-name">${f.name}</span><span class="file-state">${t(`models.fileState.${f.state}`)}</span>
      <${Meter} value=${f.state === 'done' || f.state === 'skipped' ? 1 : f.done} max=${f.state === 'done' || f.state === 'skipped' ? 1 : f.size} label=${f.name} tone=${f.state === 'failed' ? 'bad' : f.state === 'done' ? '' : 'busy'} />
      ${f.reason && html`<span class="reason">${f.reason}</span>`}</li>`,
    )}</ul></details></div>`;
}

function Place({ place, download }) {
  return html`<div class="state-cell"><span class="row">${place.online ? html`<${StateBadge} state=${place.state ?? 'absent'} />` : html`<${Badge} tone="bad">${t('models.offline')}<//>`}
    ${place.pinned && html`<${Badge}>${t('models.pinned')}<//>`}</span>
    ${download ? html`<${Download} download=${download} />` : place.reason && html`<span class="reason">${reasonOf(place)}</span>`}</div>`;
}

function placeColumns(downloads, id, order, act) {
  const button = (
    place,
    action,
  ) => html`<${Button} changes class="small" kind="quiet" busy=${order.busy === `${action} ${place.node}`} label=${t(`models.${action}On`, { node: place.name })}
    onClick=${() => act(action, place)}>${t(`models.${action}`)}<//>`;
  return [
    {
      id: 'node',
      label: t('models.node'),
      sort: (p) => p.name,
      text: (p) => p.name,
      cell: (p) => html`<a class="row-link" href=${href('nodes', p.node)}>${p.name}</a>`,
    },
    {
      id: 'state',
      label: t('models.stateLabel'),
      text: (p) => `${p.state ?? ''} ${p.reason ?? ''}`,
      sort: (p) => p.state ?? '',
      cell: (p) => html`<${Place} place=${p} download=${downloads.get(`${p.node} ${id}`)} />`,
    },
    {
      id: 'engine',
      label: t('models.engine'),
      cell: (p) =>
        p.engine
          ? html`<span>${p.engine}</span><span class="row-sub">${p.slots ? t('models.slots', { live: number(p.live), slots: number(p.slots) }) : ''}</span>`
          : '–',
    },
    {
      id: 'speed',
      label: t('models.speed'),
      end: true,
      cell: (p) => (p.step_ms > 0 ? t('models.perSequence', { rate: figure(1000 / p.step_ms) }) : '–'),
    },
    {
      id: 'actions',
      label: t('models.actions'),
      hidden: true,
      end: true,
      cell: (p) =>
        p.can_run
          ? html`<span class="row end">${p.loaded ? button(p, 'unload') : button(p, 'load')}${button(p, p.pinned ? 'unpin' : 'pin')}</span>`
          : p.online && isBroken(p.state)
            ? html`<${Button} changes class="small" icon="reload" busy=${order.busy === `load ${p.node}`} label=${t('models.againOne', { id: p.name })} onClick=${() => act('load', p)}>${t('models.again')}<//>`
            : '',
    },
  ];
}

function Manifest({ model }) {
  const { data, error } = useResource(
    model.source === 'hub' ? `/v0/models/registry/${segment(model.id)}/manifest.json` : null,
  );
  if (model.source !== 'hub') return html`<p class="muted">${t('models.manifestLocal')}</p>`;
  if (error) return html`<${ErrorNote} error=${error} />`;
  if (!data) return html`<${Skeleton} />`;
  const text = JSON.stringify(data, null, 2);
  const role = (f) =>
    f.kind === 'artifact'
      ? t('models.artifact', { backends: (f.backends ?? []).join(', ') })
      : t(f.optional ? 'models.optional' : 'models.required');
  return html`<p class="muted">${t('models.manifestLead')}</p>
    <${Facts} items=${[[t('models.revision'), html`<code title=${data.revision}>${data.revision.slice(0, 12)}</code>`], [t('models.runtimes'), (data.runtimes ?? []).join(', ')]]} />
    <${Table} caption=${t('models.manifest')} rows=${data.files} rowKey=${(f) => f.name} pageSize=${20} columns=${[
      { id: 'file', label: t('models.file'), sort: (f) => f.name, cell: (f) => f.name },
      { id: 'role', label: t('models.role'), cell: role },
      {
        id: 'hash',
        label: t('models.hash'),
        cell: (f) => (f.sha256 ? html`<code title=${f.sha256}>${f.sha256.slice(0, 12)}…</code>` : '–'),
      },
      { id: 'size', label: t('models.size'), end: true, sort: (f) => f.size, cell: (f) => bytes(f.size) },
    ]} />
    <details><summary>${t('models.raw')}</summary><div class="code"><${CopyButton} text=${text} /><pre tabindex="0">${text}</pre></div></details>`;
}

/** The further names under which clients find the model.  The API replaces all of them at once. */
function Aliases({ model, onChange }) {
  const [name, setName] = useState('');
  const order = useOrder();
  const set = async (what, aliases) => {
    const got = await order.run(what, () => api.patch(`/v0/models/${segment(model.id)}`, { aliases }));
    if (got) onChange();
    return got;
  };
  const add = async (event) => {
    event.preventDefault();
    if (order.busy || name.trim() === '') return;
    if (await set('add', [...model.aliases, name.trim()])) setName('');
  };
  return html`<p class="muted">${t('models.aliasesLead')}</p>
    <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
    ${
      model.aliases.length > 0 &&
      html`<ul class="aliases" aria-label=${t('models.aliases')}>${model.aliases.map(
        (
          alias,
        ) => html`<li key=${alias}><code>${alias}</code><${Button} changes kind="quiet" icon="close" label=${t('models.aliasRemove', { alias })}
          busy=${order.busy === alias} onClick=${() =>
            set(
              alias,
              model.aliases.filter((other) => other !== alias),
            )} /></li>`,
      )}</ul>`
    }
    ${
      mayChange() &&
      html`<form class="alias-form" onSubmit=${add}><${Field} label=${t('models.aliasNew')}>${(props) => html`<input type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} placeholder="claude-sonnet-4-5" value=${name} onInput=${(e) => setName(e.currentTarget.value)} ...${props} />`}<//>
      <${Button} type="submit" busy=${order.busy === 'add'}>${t('models.aliasAdd')}<//></form>`
    }`;
}

export default function Model({ id }) {
  const mine = (event) =>
    (event.model ?? '').toLowerCase() === id.toLowerCase() ||
    /^node\.(online|offline|joined|drain|undrain)/.test(event.event);
  const { data, error, reload } = useResource(`/v0/models?id=${encodeURIComponent(id)}`, { everyS: 2, concerns: mine });
  const downloads = useLive('downloads');
  const order = useOrder();
  const model = data?.models[0];
  const act = async (action, place) => {
    const where = place ? `?node=${encodeURIComponent(place.node)}` : '';
    const got = await order.run(`${action} ${place?.node ?? ''}`, () =>
      api.post(`/v0/models/${segment(id)}/${action}${where}`),
    );
    if (got) {
      toast(t(`models.done.${place ? action : 'best'}`, { node: place?.name ?? '' }));
      reload();
    }
  };
  const remove = async () => {
    const answer = await confirm({
      title: t('models.deleteTitle', { id }),
      text: t('models.deleteText'),
      action: t('models.delete'),
      danger: true,
      choice: model.source === 'hub' ? t('models.deletePurge') : undefined,
    });
    if (!answer) return;
    const got = await order.run('delete', () =>
      api.del(`/v0/models/${segment(id)}${answer.choice ? '?purge=true' : ''}`),
    );
    if (!got) return;
    toast(t('models.deleted', { id }));
    const kept = (got.purged ?? []).filter((p) => !p.ok);
    if (kept.length > 0)
      await confirm({
        title: t('models.keptTitle'),
        lines: kept.map((p) => t('models.kept', { node: p.name, message: reasonOf(p) })),
        action: t('common.close'),
      });
    live.refresh('models');
    go('models');
  };
  const columns = useMemo(() => placeColumns(downloads, model?.id ?? id, order, act), [downloads, model, order.busy]);
  const back = { href: href('models'), text: t('models.title') };
  if (error && !data) return html`<${Page} title=${id} back=${back}><${ErrorNote} error=${error} /><//>`;
  if (!data) return html`<${Page} title=${id} back=${back}><${Skeleton} lines=${6} /><//>`;
  if (!model)
    return html`<${Page} title=${t('models.notFoundTitle', { id })} back=${back}><${Empty} icon="models" title=${t('models.notFoundTitle', { id })} text=${t('models.notFoundText')}><a class="button" href=${href('models')}>${t('models.toModels')}</a><//><//>`;
  const isFetching = model.nodes.some((p) => downloads.has(`${p.node} ${model.id}`));
  const one = model.nodes.find((p) => p.architecture) ?? {};
  const chats = model.capabilities?.includes('chat') ?? true;
  const actions = html`${model.ready && chats && mayChange() && html`<a class="button" href=${`#/playground?model=${encodeURIComponent(model.id)}`}>${t('models.chat')}</a>`}
    ${model.ready && html`<${Button} changes busy=${order.busy === 'load '} onClick=${() => act('load')}>${t('models.load')}<//>`}
    <${Button} changes icon="trash" onClick=${remove} busy=${order.busy === 'delete'}>${t('models.delete')}<//>`;
  return html`<${Page} title=${model.id} back=${back} actions=${actions}>
    <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
    <section class="card card-pad"><${Facts} items=${[
      [
        t('models.stateLabel'),
        html`<span class="state-cell" role="status"><${StateBadge} state=${model.state} />${model.reason && !isFetching && html`<span class="reason">${reasonOf(model)}</span>`}</span>`,
      ],
      [t('models.format'), model.format ?? '–'],
      [t('models.source'), t(model.source === 'hub' ? 'models.fromHub' : 'models.fromNode')],
      one.architecture && [t('models.architecture'), one.architecture],
      model.dialect && [
        t('models.dialect'),
        model.dialect_from === 'registration' ? t('models.chosen', { name: model.dialect }) : model.dialect,
      ],
      model.template_from && [t('models.template'), t(`models.template_${model.template_from}`)],
      one.stop_tokens && [t('models.stopTokens'), html`<code>${one.stop_tokens.join(' ')}</code>`],
      model.capabilities && [t('models.can'), model.capabilities.map((word) => t(`models.can_${word}`)).join(', ')],
      one.context_tokens > 0 && [t('models.context'), t('models.tokens', { count: number(one.context_tokens) })],
      one.weight_bytes > 0 && [t('models.size'), bytes(one.weight_bytes)],
      [
        t('models.loadLabel'),
        [
          t('models.inFlight', { count: number(model.nodes.reduce((sum, p) => sum + (p.inflight ?? 0), 0)) }),
          t('models.queued', { count: number(model.queued) }),
        ].join(', '),
      ],
      [t('models.registered'), dateTime(model.created)],
    ]} /></section>
    <section class="section"><h2>${t('models.onNodes')}</h2>
      <${Table} caption=${t('models.onNodes')} rows=${model.nodes} rowKey=${(p) => p.node} columns=${columns} rowHref=${(p) => href('nodes', p.node)} rowClass=${(p) => (p.online && isBroken(p.state) ? 'broken' : '')} filter=${model.nodes.length > 8 ? t('models.filterNodes') : undefined} pageSize=${25}
        empty=${html`<p class="card calm">${t('models.noNodes')}</p>`} /></section>
    <section class="section"><h2>${t('models.aliases')}</h2><${Aliases} model=${model} onChange=${reload} /></section>
    <section class="section"><h2>${t('models.manifest')}</h2><${Manifest} model=${model} /></section><//>`;
}
