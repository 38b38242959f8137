// pages/key_create.js - the dialogs that create a key (shown once), change a key and rotate its secret (part of the
// keys page).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, segment } from '../lib/api.js';
import { dateTime } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive } from '../lib/live.js';
import { Button, CopyButton, Dialog, ErrorNote, Field, Note, useOrder } from '../lib/ui.js';

const DAY = 86400;
const lives = { never: 0, day: DAY, week: 7 * DAY, month: 30 * DAY, quarter: 90 * DAY, year: 365 * DAY };
const overlaps = { none: 0, hour: 3600, day: DAY, week: 7 * DAY, month: 30 * DAY };
// The numbers of the form, and what the API calls them.
const numbers = {
  requests: 'requests_per_minute',
  tokens: 'tokens_per_minute',
  month: 'tokens_per_month',
  soft: 'tokens_per_month_soft',
  together: 'concurrent_requests',
  size: 'request_bytes',
};
const eachNumber = (value) => Object.fromEntries(Object.entries(numbers).map(value));
const blank = {
  name: '',
  owner: '',
  label: '',
  role: 'api',
  life: 'never',
  models: '',
  addresses: '',
  keeps: false,
  ...eachNumber(([name]) => [name, '']),
};
const asForm = (key) => ({
  name: key.name,
  owner: key.owner ?? '',
  label: key.label ?? '',
  life: 'keep',
  keyRole: key.role,
  keeps: key.keep_texts === true,
  models: (key.models ?? []).join(', '),
  addresses: (key.addresses ?? []).join(', '),
  ...eachNumber(([name, member]) => [name, key[member] ?? '']),
});
// Keys of the other roles generate nothing.
const generates = (form) => ['api', 'admin'].includes(form.role ?? form.keyRole);
const toWords = (text) => text.split(/[\s,]+/).filter(Boolean);
// What the API takes; an expiry that stays is not said.
const asBody = (form) => ({
  name: form.name.trim(),
  owner: form.owner.trim(),
  label: form.label.trim(),
  models: toWords(form.models),
  addresses: toWords(form.addresses),
  keep_texts: form.keeps && generates(form),
  ...eachNumber(([name, member]) => [member, Number(form[name])]),
  ...(form.life === 'keep' ? {} : { expires_in: lives[form.life] }),
});

/** Names that no registered model has, as far as the models are known. */
function useUnknownModels(text) {
  const { items, isLoaded, error } = useLive('models');
  if (!isLoaded || error) return [];
  const known = new Set(items.flatMap((m) => [m.id, ...(m.aliases ?? [])]).map((id) => id.toLowerCase()));
  return toWords(text).filter((id) => !known.has(id.toLowerCase()));
}

function Form({ form, onChange, onSubmit }) {
  const unknown = useUnknownModels(form.models);
  const choices = form.role === undefined ? ['keep', ...Object.keys(lives)] : Object.keys(lives);
  const set = (name) => (event) => onChange({ ...form, [name]: event.currentTarget.value });
  const text =
    (name, more = {}) =>
    (props) =>
      html`<input autocomplete="off" spellcheck=${false} ...${more} ...${props} value=${form[name]} onInput=${set(name)} />`;
  const count = (name, placeholder = 'keys.noLimit') =>
    text(name, { type: 'number', min: 0, max: 1000000000000, step: 1, placeholder: t(placeholder) });
  return html`<form id="key-form" class="stack" onSubmit=${onSubmit}>
    <${Field} label=${t('keys.name')} hint=${t('keys.nameHint')}>${text('name', { autofocus: true, maxlength: 63 })}<//>
    <div class="pairs"><${Field} label=${t('keys.owner')} hint=${t('keys.ownerHint')}>${text('owner', { maxlength: 63 })}<//>
      <${Field} label=${t('keys.label')}>${text('label', { maxlength: 63 })}<//></div>
    ${
      form.role &&
      html`<fieldset class="roles"><legend class="legend">${t('keys.role')}</legend>${[
        'api',
        'admin',
        'viewer',
        'node',
        'metrics',
      ].map(
        (role) => html`
      <label class="check" key=${role}><input type="radio" name="role" value=${role} checked=${form.role === role} onChange=${() => onChange({ ...form, role, life: role === 'node' && form.life === 'never' ? 'day' : form.life })} /><span><b>${role}</b><br /><span class="small muted">${t(`keys.role_${role}`)}</span></span></label>`,
      )}</fieldset>`
    }
    <${Field} label=${t('keys.life')}>${(props) => html`<select ...${props} value=${form.life} onChange=${set('life')}>${choices.map((name) => html`<option value=${name}>${t(`keys.life_${name}`)}</option>`)}</select>`}<//>
    <div class="pairs"><${Field} label=${t('keys.requestsPerMinute')}>${count('requests')}<//><${Field} label=${t('keys.tokensPerMinute')}>${count('tokens')}<//></div>
    <div class="pairs"><${Field} label=${t('keys.tokensPerMonth')} hint=${t('keys.tokensPerMonthHint')}>${count('month')}<//>
      <${Field} label=${t('keys.tokensPerMonthSoft')} hint=${t('keys.tokensPerMonthSoftHint')}>${count('soft', 'keys.noWarning')}<//></div>
    <div class="pairs"><${Field} label=${t('keys.together')}>${count('together')}<//><${Field} label=${t('keys.requestBytes')}>${count('size')}<//></div>
    <${Field} label=${t('keys.addresses')} hint=${t('keys.addressesHint')}>${text('addresses', { placeholder: t('keys.anyAddress') })}<//>
    <${Field} label=${t('keys.models')} hint=${t('keys.modelsHint')}>${text('models', { placeholder: t('keys.allModels') })}<//>
    ${
      generates(form) &&
      html`<label class="check"><input type="checkbox" checked=${form.keeps} onChange=${(e) => onChange({ ...form, keeps: e.currentTarget.checked })} /><span><b>${t('keys.keepTexts')}</b><br /><span class="small muted">${t('keys.keepTextsHint')}</span></span></label>`
    }
    ${unknown.length > 0 && html`<${Note} tone="warn"><p role="status">${t('keys.unknownModels', { count: unknown.length, models: unknown.join(', ') })}</p><//>`}</form>`;
}

function Shown({ made }) {
  const input = useRef(null);
  useEffect(() => {
    input.current.focus();
    input.current.select();
  }, []);
  return html`<${Note} tone="warn">${t('keys.shownOnce')}<//>
    <div class="made-key"><${Field} label=${t('keys.newKey', { name: made.name || made.id })}>${(props) => html`<input ref=${input} readonly class="mono" ...${props} value=${made.key} onFocus=${(e) => e.currentTarget.select()} />`}<//>
      <${CopyButton} text=${made.key} /></div>`;
}

/** @param {{open: boolean, onClose: () => void}} props */
export function CreateKey({ open, onClose }) {
  const [form, setForm] = useState(blank);
  const [made, setMade] = useState(null);
  const { busy, error, run, dismiss } = useOrder();
  const close = () => {
    setMade(null);
    setForm(blank);
    dismiss();
    onClose();
  };
  const submit = async (event) => {
    event.preventDefault();
    const answer = await run('make', () => api.post('/v0/keys', { ...asBody(form), role: form.role }));
    if (answer) setMade(answer);
  };
  const footer = made
    ? html`<${Button} kind="primary" onClick=${close}>${t('keys.stored')}<//>`
    : html`<${Button} onClick=${close}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="key-form" busy=${busy === 'make'}>${t('keys.create')}<//>`;
  return html`<${Dialog} open=${open} title=${t('keys.create')} onClose=${close} footer=${footer} sticky=${made !== null}>
    <${ErrorNote} error=${error} onDismiss=${dismiss} />
    ${made ? html`<${Shown} made=${made} />` : html`<${Form} form=${form} onChange=${setForm} onSubmit=${submit} />`}<//>`;
}

/** @param {{item: object, onClose: (isChanged: boolean) => void}} props item: the key */
export function EditKey({ item, onClose }) {
  const [form, setForm] = useState(() => asForm(item));
  const { busy, error, run, dismiss } = useOrder();
  const submit = async (event) => {
    event.preventDefault();
    if (await run('save', () => api.patch(`/v0/keys/${segment(item.id)}`, asBody(form)))) onClose(true);
  };
  const footer = html`<${Button} onClick=${() => onClose(false)}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="key-form" busy=${busy === 'save'}>${t('keys.save')}<//>`;
  return html`<${Dialog} open title=${t('keys.editOne', { name: item.name || item.id })} onClose=${() => onClose(false)} footer=${footer}>
    <${ErrorNote} error=${error} onDismiss=${dismiss} /><${Form} form=${form} onChange=${setForm} onSubmit=${submit} /><//>`;
}

/** Gives a key a new secret, shown once; the old one stays valid for the overlap.
 * @param {{item: object, onClose: () => void}} props item: the key */
export function RotateKey({ item, onClose }) {
  const [overlap, setOverlap] = useState('day');
  const [made, setMade] = useState(null);
  const { busy, error, run, dismiss } = useOrder();
  const rotate = async () => {
    const answer = await run('rotate', () =>
      api.post(`/v0/keys/${segment(item.id)}/rotate`, { overlap: overlaps[overlap] }),
    );
    if (answer) setMade(answer);
  };
  const footer = made
    ? html`<${Button} kind="primary" onClick=${onClose}>${t('keys.stored')}<//>`
    : html`<${Button} onClick=${onClose}>${t('common.cancel')}<//><${Button} kind="primary" busy=${busy === 'rotate'} onClick=${rotate}>${t('keys.rotate')}<//>`;
  return html`<${Dialog} open title=${t('keys.rotateOne', { name: item.name || item.id })} onClose=${onClose} footer=${footer} sticky=${made !== null}>
    <${ErrorNote} error=${error} onDismiss=${dismiss} />
    ${
      made
        ? html`<${Shown} made=${made} /><p class="muted">${made.old_secret_until ? t('keys.oldSecretUntil', { time: dateTime(made.old_secret_until) }) : t('keys.oldSecretOver')}</p>`
        : html`<p>${t('keys.rotateText')}</p><${Field} label=${t('keys.overlap')}>${(props) => html`<select ...${props} value=${overlap} onChange=${(e) => setOverlap(e.currentTarget.value)}>${Object.keys(overlaps).map((name) => html`<option value=${name}>${t(`keys.overlap_${name}`)}</option>`)}</select>`}<//>`
    }<//>`;
}
