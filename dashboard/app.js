// app.js - the frame of the page: sign-in state, current page, navigation, theme and language.
//
// A page is pages/<name>.js with a default export: a component that gets {route, me}.
// pages/signin.js gets {onDone}, which it calls when a session exists.  The first page is shown when
// its module, the language and the answer of /v0/whoami have arrived; all are requested at once.
import { html, render, Component } from 'htm/preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { api } from './lib/api.js';
import { clock } from './lib/format.js';
import { getLang, onLang, setLang, t } from './lib/i18n.js';
import { Keyboard } from './lib/keyboard.js';
import { live, useLive } from './lib/live.js';
import { setRole } from './lib/me.js';
import { go, href, parseRoute, useRoute } from './lib/route.js';
import { Button, Empty, Icon, Note, Skeleton, Toasts } from './lib/ui.js';

const pages = {
  overview: { load: () => import('./pages/overview.js'), admin: true },
  models: { load: () => import('./pages/models.js'), admin: true },
  nodes: { load: () => import('./pages/nodes.js'), admin: true },
  requests: { load: () => import('./pages/requests.js'), admin: true },
  playground: { load: () => import('./pages/playground.js'), admin: false, asksModels: true },
  keys: { load: () => import('./pages/keys.js'), admin: true },
  self: { load: () => import('./pages/self.js'), admin: false, isForUsers: true },
  welcome: { load: () => import('./pages/welcome.js'), admin: true, isApart: true },
};
const hidden = { signin: { load: () => import('./pages/signin.js') } };

/** A module that is gone belongs to a router that was replaced meanwhile: take the new page, but
 * not again and again, and not from a router that does not answer. */
async function reloadOnce() {
  if (!(await fetch('/', { cache: 'no-store' }).catch(() => null))) return false;
  const last = Number(sessionStorage.getItem('lr.reloaded') ?? 0);
  if (Date.now() - last < 30000) return false;
  sessionStorage.setItem('lr.reloaded', String(Date.now()));
  location.reload();
  return true;
}

/** Components that have arrived. */
const views = new Map();
async function fetchView(name) {
  if (!views.has(name)) views.set(name, (await (pages[name] ?? hidden[name]).load()).default);
}

const Failed = () => html`<${Empty} icon="alert" title=${t('common.failedTitle')} text=${t('common.failedText')}>
  <${Button} onClick=${() => location.reload()}>${t('common.reload')}<//><//>`;

function View({ name, ...props }) {
  const [outcome, setOutcome] = useState('');
  useEffect(() => {
    fetchView(name).then(
      () => setOutcome('arrived'),
      async () => {
        if (!(await reloadOnce())) setOutcome('failed');
      },
    );
  }, [name]);
  const Shown = views.get(name);
  if (Shown) return html`<${Shown} ...${props} />`;
  return outcome === 'failed' ? html`<${Failed} />` : html`<div class="page"><${Skeleton} lines=${6} /></div>`;
}

/** One page that fails does not take the shell with it. */
class Guard extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ failed: true, at: this.props.name });
  }

  componentDidUpdate() {
    if (this.state.failed && this.state.at !== this.props.name) this.setState({ failed: false });
  }

  render({ children }) {
    return this.state.failed ? html`<${Failed} />` : children;
  }
}

function nextTheme() {
  const order = ['auto', 'light', 'dark'];
  const now = document.documentElement.dataset.theme ?? 'auto';
  const next = order[(order.indexOf(now) + 1) % order.length];
  if (next === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('lr.theme', next);
  } catch {
    /* storage is off */
  }
  dispatchEvent(new Event('lr-theme'));
  return next;
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? 'auto');
  const names = { auto: t('common.themeAuto'), light: t('common.themeLight'), dark: t('common.themeDark') };
  return html`<${Button} kind="quiet" icon=${{ auto: 'auto', light: 'sun', dark: 'moon' }[theme]} label=${`${t('common.theme')}: ${names[theme]}`}
    onClick=${() => setTheme(nextTheme())} />`;
}

function LanguageSwitch() {
  const other = getLang() === 'en' ? 'ja' : 'en';
  return html`<${Button} kind="quiet" class="language" lang=${other} onClick=${() => setLang(other)}>${other === 'ja' ? '日本語' : 'English'}<//>`;
}

function Link() {
  const link = useLive('link');
  const text = { open: t('common.linkOpen'), lost: t('common.linkLost'), connecting: t('common.linkConnecting') }[link];
  return html`<p class="link ${link}" role="status"><span class="dot" aria-hidden="true"></span><span>${text}</span></p>`;
}

const LOST_SHOWN_MS = 1500; // a router that hands over is back before

/** With the router down, what the page shows is old, and the page says since when. */
function Lost() {
  const link = useLive('link');
  const [since, setSince] = useState(0);
  useEffect(() => {
    if (link !== 'lost') {
      setSince(0);
      return undefined;
    }
    const began = Date.now();
    const timer = setTimeout(() => setSince(began), LOST_SHOWN_MS);
    return () => clearTimeout(timer);
  }, [link]);
  return html`<div class="lost" role="status">${since > 0 && html`<${Note} tone="bad">${t('common.lost', { time: clock(since / 1000) })}<//>`}</div>`;
}

/** Tells a screen reader what changes while one looks elsewhere. */
function Announcer() {
  const [text, setText] = useState('');
  useEffect(
    () =>
      live.subscribe((event) => {
        if (Date.now() - Date.parse(event.time) > 10000) return; // of before this page was opened
        if (event.event === 'node.offline' || event.event === 'node.online')
          setText(t(`common.said.${event.event.slice(5)}`, { name: event.name }));
        else if (event.event === 'node.model' && (event.state === 'ready' || event.state === 'failed'))
          setText(t(`common.said.${event.state}`, { name: event.name, model: event.model }));
      }),
    [],
  );
  return html`<p class="visually-hidden" role="status" aria-live="polite">${text}</p>`;
}

/** Roles that see every page; the router refuses a viewer's changes and requests to models. */
const readsAll = (me) => me.role === 'admin' || me.role === 'viewer';

/** The pages of the navigation that this role may see. */
const namesFor = (me) =>
  Object.keys(pages).filter(
    (name) =>
      !pages[name].isApart &&
      !(pages[name].asksModels && me.role === 'viewer') &&
      (!pages[name].admin || readsAll(me)) &&
      !(pages[name].isForUsers && readsAll(me)),
  );

function Navigation({ page, me }) {
  return html`<nav class="nav" aria-label=${t('common.navigation')}><ul>${namesFor(me).map(
    (name) => html`
    <li key=${name}><a href=${href(name)} aria-current=${page === name ? 'page' : undefined}><${Icon} name=${name} /><span>${t(name === 'keys' ? 'common.keysShort' : `common.${name}`)}</span></a></li>`,
  )}</ul></nav>`;
}

/** An overview of nothing helps nobody: without a model the first steps come instead, unless skipped or an alert is open. */
function FirstRun() {
  const models = useLive('models');
  const alerts = useLive('alerts');
  useEffect(() => {
    if (!models.isLoaded || models.error || models.items.length > 0) return;
    if (!alerts.isLoaded || alerts.items.some((alert) => alert.open)) return;
    try {
      if (sessionStorage.getItem('lr.welcomed')) return;
    } catch {
      return; /* storage is off: nobody could skip it */
    }
    location.replace('#/welcome');
  }, [models, alerts]);
  return null;
}

const paletteActions = (me, onSignOut) => [
  ...(me.role === 'admin'
    ? [
        {
          id: 'register',
          text: t('palette.register'),
          icon: 'plus',
          run: () => {
            location.hash = '#/models?register';
          },
        },
        { id: 'welcome', text: t('palette.welcome'), icon: 'spark', run: () => go('welcome') },
      ]
    : []),
  { id: 'theme', text: t('palette.theme'), icon: 'moon', run: nextTheme },
  { id: 'language', text: t('palette.language'), icon: 'auto', run: () => setLang(getLang() === 'en' ? 'ja' : 'en') },
  ...(me.signed_in ? [{ id: 'signOut', text: t('palette.signOut'), icon: 'leave', run: onSignOut }] : []),
];

function Shell({ me, onSignOut }) {
  const route = useRoute();
  const page = pages[route.page];
  const names = useMemo(() => namesFor(me), [me.role]);
  useEffect(() => {
    if (readsAll(me)) live.start();
    return () => live.stop();
  }, [me.role]);
  useEffect(() => {
    scrollTo(0, 0);
  }, [route.page, route.id]);
  let body;
  if (!page) {
    body = html`<${Empty} icon="search" title=${t('common.notFoundTitle')} text=${t('common.notFoundText')}><a class="button primary" href="#/overview">${t('common.toOverview')}</a><//>`;
  } else if (page.asksModels && me.role === 'viewer') {
    body = html`<${Empty} icon="playground" title=${t('common.viewerTitle')} text=${t('common.viewerText')}><a class="button primary" href="#/overview">${t('common.toOverview')}</a><//>`;
  } else if (page.admin && !readsAll(me)) {
    body = html`<${Empty} icon="keys" title=${t('common.notAllowedTitle')} text=${t('common.notAllowedText')}><a class="button primary" href="#/playground">${t('common.playground')}</a><//>`;
  } else {
    body = html`<${Guard} name=${route.page}><${View} key=${route.page} name=${route.page} route=${route} me=${me} />${route.page === 'overview' && me.role === 'admin' && html`<${FirstRun} />`}<//>`;
  }
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>${t('common.skip')}</a>
    <div class="shell"><header class="side"><a class="brand" href="#/overview"><span class="mark" aria-hidden="true"></span><span>llm-router</span></a>
      <${Keyboard} me=${me} names=${names} actions=${paletteActions(me, onSignOut)} />
      <${Navigation} page=${route.page} me=${me} />
      <div class="side-foot">${readsAll(me) && html`<${Link} />`}
        ${me.signed_in && html`<p class="small muted who" title=${me.name}>${me.name} · ${me.role}</p>`}
        <div class="side-tools"><${LanguageSwitch} /><${ThemeSwitch} />
        ${me.signed_in && html`<${Button} kind="quiet" icon="leave" label=${`${t('common.signOut')} (${me.name})`} onClick=${onSignOut} />`}</div></div></header>
    <main id="main" tabindex="-1">${readsAll(me) && html`<${Lost} />`}${body}</main></div><${Toasts} /><${Announcer} />`;
}

/** For theme.js: whether the next visit begins with the page or with a sign-in. */
function remember(me) {
  try {
    if (me) localStorage.removeItem('lr.guest');
    else localStorage.setItem('lr.guest', '1');
  } catch {
    /* storage is off */
  }
  return me;
}

/** The OpenID provider of /v0/whoami, for the sign-in page. */
let provider;

/** After the way over the OpenID provider: the page where the sign-in began. */
function returnToPage() {
  try {
    const page = sessionStorage.getItem('lr.page');
    sessionStorage.removeItem('lr.page');
    if (page && !location.hash) location.replace(page);
  } catch {
    /* storage is off */
  }
}

/** Who is there: /v0/whoami's answer, null for nobody, an error where nothing answers. */
async function identify() {
  try {
    const early = await globalThis.lrWhoami; // theme.js has asked; null: ask again for the reason
    globalThis.lrWhoami = null;
    const me = early ?? (await api.get('/v0/whoami'));
    api.setCsrf(me.csrf ?? '');
    setRole(me.role);
    provider = me.sign_in;
    if (me.signed_in) returnToPage();
    return remember(me.role === 'public' ? null : me);
  } catch (error) {
    return error.status === 401 ? remember(null) : error;
  }
}

function App({ first }) {
  const [me, setMe] = useState(first);
  const [, setLangCount] = useState(0);
  const ask = async () => setMe(await identify());
  const signOut = async () => {
    const answer = await api.del('/v0/session').catch(() => null);
    api.setCsrf('');
    if (answer?.redirect) {
      location.assign(answer.redirect); // the provider ends its own session and comes back
      return;
    }
    await ask();
  };
  useEffect(() => {
    api.onSignedOut(() => setMe(null));
    return onLang(() => setLangCount((n) => n + 1));
  }, []);
  if (me instanceof Error)
    return html`<main id="main"><${Empty} icon="alert" title=${me.message} text=""><${Button} kind="primary" onClick=${ask}>${t('common.reload')}<//><//></main>`;
  if (me === null)
    return html`<main id="main" class="bare" key=${getLang()}><${View} name="signin" onDone=${ask} provider=${provider} /><div class="bare-tools"><${LanguageSwitch} /><${ThemeSwitch} /></div></main><${Toasts} />`;
  return html`<${Shell} key=${getLang()} me=${me} onSignOut=${signOut} />`;
}

async function start() {
  const { page } = parseRoute();
  const [first] = await Promise.all([
    identify(),
    setLang(document.documentElement.lang),
    pages[page] && fetchView(page).catch(() => {}),
  ]);
  document.getElementById('app').replaceChildren(); // the frame that was there from the start
  render(html`<${App} first=${first} />`, document.getElementById('app'));
  // The other pages, while nobody waits; one that does not come is asked for again when it is wanted.
  setTimeout(() => Object.keys(pages).forEach((name) => fetchView(name).catch(() => {})), 2000);
}
start();
