// pages/register.js - the dialog that registers a model.  An error stays, with the API's message,
// until it is dismissed; the typed values stay, too.
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { bytes } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { go } from '../lib/route.js';
import { Button, Dialog, ErrorNote, Field, Icon, Note, useOrder } from '../lib/ui.js';

const blank = {
  kind: 'repo',
  repo: '',
  path: '',
  format: '',
  revision: '',
  filename: '',
  name: '',
  chat_template: '',
  dialect: '',
};

/** Only what was filled in goes along. */
function toBody(form) {
  const names =
    form.kind === 'repo'
      ? ['repo', 'format', 'revision', 'filename', 'name', 'chat_template', 'dialect']
      : ['path', 'format', 'name', 'chat_template', 'dialect'];
  return Object.fromEntries(
    names.filter((n) => form[n].trim() !== '').map((n) => [n, n === 'chat_template' ? form[n] : form[n].trim()]),
  );
}

/** A repository by any name of docs/names.md: the router chooses the file, and the choice is registered.  Where nothing
 * runs here, the answer has `suggestions`; the registration itself says best why a repository is no model. */
async function registerName(form) {
  const { repo, ...more } = toBody(form);
  const wish = Object.fromEntries(['format', 'filename', 'revision'].flatMap((n) => (more[n] ? [[n, more[n]]] : [])));
  const found = await api.post('/v0/models/resolve', { name: repo, ...wish });
  if (found.kind === 'model') return { id: found.id, known: true };
  if (!found.registration && (found.kind === 'words' || found.suggestions?.length > 0)) return { found };
  const answer = await api.post('/v0/models/register', { ...(found.registration ?? { repo }), ...more });
  return { ...answer, chosen: found.chosen, nodes: found.nodes };
}

/** Why nothing was registered, and what would run instead: a click takes its name. */
function Suggestions({ found, take }) {
  return html`<div role="alert"><${Note} tone="warn">${found.message}<//></div>
    ${
      found.suggestions.length > 0 &&
      html`<div class="stack" role="group" aria-label=${t('register.suggestions')}>${found.suggestions.map(
        (one) =>
          html`<${Button} onClick=${() => take(one.repo)}>${t('register.take', { name: one.repo, size: bytes(one.weight_bytes) })}<//>`,
      )}</div>`
    }`;
}

/** The answers of the nodes about the chosen file, before anything is downloaded. */
function Fit({ chosen, nodes }) {
  const fits = (nodes ?? []).filter((node) => node.engine);
  return html`<p class="muted break">${t('register.chosen', { file: chosen.filename || chosen.format, why: chosen.why })}</p>
    ${fits.map(
      (node) =>
        html`<p class="muted break">${t(node.plan === 'never' ? 'register.fitsNot' : 'register.fits', {
          node: node.name,
          total: bytes(chosen.total_bytes),
          available: bytes(node.available),
          context: node.largest_context,
          disk: bytes(node.disk_free),
        })}</p>`,
    )}`;
}

function Outcome({ answer }) {
  const files = answer.manifest?.files ?? [];
  const needed = files.filter((f) => f.kind !== 'artifact');
  const artifacts = files.filter((f) => f.kind === 'artifact');
  return html`<div class="outcome" role="status"><span class="outcome-icon"><${Icon} name="check" /></span><div><h3 class="break">${t('register.done', { id: answer.id })}</h3>
    <p class="muted">${answer.known ? t('register.known') : answer.manifest ? t('register.doneText', { count: needed.length, size: bytes(needed.reduce((sum, f) => sum + (f.size ?? 0), 0)) }) : t('register.doneLocal')}</p></div></div>
    ${answer.chosen && html`<${Fit} chosen=${answer.chosen} nodes=${answer.nodes} />`}
    ${artifacts.length > 0 && html`<${Note} icon="spark">${t('register.artifacts', { names: artifacts.map((f) => f.name).join(', ') })}<//>`}
    ${(answer.warnings ?? []).map((text) => html`<${Note} tone="warn">${text}<//>`)}`;
}

export function Register({ open, onClose }) {
  const [form, setForm] = useState(blank);
  const [answer, setAnswer] = useState(null);
  const [found, setFound] = useState(null);
  const order = useOrder();
  const put = (name) => (event) => setForm({ ...form, [name]: event.currentTarget.value });
  const close = () => {
    onClose();
    setForm(blank);
    setAnswer(null);
    setFound(null);
    order.dismiss();
  };
  const submit = async (event) => {
    event.preventDefault();
    if (order.busy) return;
    setFound(null);
    const got = await order.run('register', () =>
      form.kind === 'repo' ? registerName(form) : api.post('/v0/models/register', toBody(form)),
    );
    if (got?.found) setFound(got.found);
    else if (got) {
      setAnswer(got);
      live.refresh('models');
    }
  };
  const see = () => {
    const { id } = answer;
    close();
    go('models', id);
  };
  const text = (
    name,
    attributes = {},
  ) => html`<${Field} label=${t(`register.${name === 'chat_template' ? 'template' : name}`)} hint=${t(`register.${name === 'chat_template' ? 'template' : name}Hint`)}>
    ${(props) =>
      name === 'chat_template'
        ? html`<textarea rows="3" class="mono" spellcheck=${false} value=${form[name]} onInput=${put(name)} ...${props}></textarea>`
        : html`<input type="text" autocomplete="off" autocapitalize="none" spellcheck=${false} value=${form[name]} onInput=${put(name)} ...${attributes} ...${props} />`}<//>`;
  const footer = answer
    ? html`<${Button} onClick=${() => {
        setAnswer(null);
        setForm(blank);
      }}>${t('register.another')}<//><${Button} kind="primary" onClick=${see}>${t('register.see')}<//>`
    : html`<${Button} onClick=${close}>${t('common.cancel')}<//><${Button} kind="primary" type="submit" form="register-form" busy=${order.busy !== ''}>${order.busy ? t('register.checking') : t('register.submit')}<//>`;
  return html`<${Dialog} open=${open} title=${t('register.title')} onClose=${close} footer=${footer}>
    ${
      answer
        ? html`<${Outcome} answer=${answer} />`
        : html`<form id="register-form" class="stack" onSubmit=${submit}>
      <${ErrorNote} error=${order.error} onDismiss=${order.dismiss} />
      ${
        found &&
        html`<${Suggestions} found=${found} take=${(repo) => {
          setForm({ ...form, repo });
          setFound(null);
        }} />`
      }
      <fieldset class="choice"><legend class="visually-hidden">${t('register.kind')}</legend>${['repo', 'path'].map(
        (kind) => html`<label><input type="radio" name="kind" value=${kind}
        checked=${form.kind === kind} onChange=${put('kind')} /><span>${t(`register.${kind}Kind`)}</span></label>`,
      )}</fieldset>
      ${text(form.kind, { required: true, autofocus: true, placeholder: form.kind === 'repo' ? 'openai/gpt-oss-20b' : '/models/my-model' })}
      <${Field} label=${t('register.format')} hint=${t('register.formatHint')}>${(
        props,
      ) => html`<select value=${form.format} onChange=${put('format')} ...${props}>
        <option value="">${t('register.formatAuto')}</option><option value="safetensors">safetensors</option><option value="gguf">GGUF</option></select>`}<//>
      ${form.kind === 'repo' && html`<p class="hint">${t('register.artifactNote')}</p>`}
      <details><summary>${t('register.more')}</summary><div class="stack">${text('name')}${form.kind === 'repo' && html`${text('revision')}${text('filename')}`}${text('chat_template')}${text('dialect', { placeholder: 'qwen_xml' })}</div></details>
    </form>`
    }<//>`;
}
