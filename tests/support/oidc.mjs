// An OpenID provider (the package oidc-provider) on loopback, and a browser without a screen that
// signs in at it: it follows redirects, keeps cookies by origin and fills in the provider's forms.
import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import Provider from 'oidc-provider';

export const SECRET = 'a client secret, with % and & in it:';

// A new private key as a JSON Web Key.
export function makeKey(alg, kid) {
  const kinds = {
    RS: ['rsa', { modulusLength: 2048 }],
    PS: ['rsa', { modulusLength: 2048 }],
    ES: ['ec', { namedCurve: alg === 'ES384' ? 'P-384' : 'P-256' }],
    Ed: ['ed25519', {}],
  };
  const [type, options] = kinds[alg.slice(0, 2)];
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, kid, use: 'sig' };
}

// people: {login: claims}.  The provider answers once `open` was called: by then the router's
// address is known.  `change` puts another provider with other keys in its place.
export async function startProvider({ people, keys = [makeKey('RS256', 'first')], claimsInToken = false }) {
  let handler, settings;
  const counts = {};
  const server = http.createServer((req, res) => {
    const at = new URL(req.url, 'http://x').pathname;
    counts[at] = (counts[at] ?? 0) + 1;
    if (self.delayed) setTimeout(() => handler?.(req, res), self.delayed);
    else if (handler && !self.isDown) handler(req, res);
    else res.writeHead(503).end();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const self = {
    issuer,
    counts,
    isDown: false,
    delayed: 0,
    // routers: their URLs
    open(routers, more = {}) {
      settings = { routers, more, keys };
      self.change({});
    },
    change({ keys: others = settings.keys, ...more }) {
      settings.keys = others;
      const provider = new Provider(issuer, {
        clients: [
          {
            client_id: 'router',
            client_secret: SECRET,
            redirect_uris: settings.routers.map((url) => `${url}/v0/oidc/callback`),
            post_logout_redirect_uris: settings.routers.map((url) => `${url}/`),
            grant_types: ['authorization_code'],
            response_types: ['code'],
            id_token_signed_response_alg: others[0].alg,
            token_endpoint_auth_method: 'client_secret_basic',
            ...settings.more,
            ...more,
          },
        ],
        enabledJWA: { idTokenSigningAlgValues: [others[0].alg, 'RS256'] },
        jwks: { keys: others },
        cookies: { keys: ['not a secret'] },
        conformIdTokenClaims: !claimsInToken,
        scopes: ['openid', 'email', 'groups'],
        claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
        pkce: { required: () => true },
        ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Session: 600, Grant: 600 },
        findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
      });
      provider.on('server_error', (_, error) => console.error(error));
      handler = provider.callback();
    },
    close: () => server.close(),
  };
  return self;
}

export class Browser {
  #jars = new Map();

  // One request, no redirect followed.
  async fetch(url, { method = 'GET', form, headers = {} } = {}) {
    const { origin, pathname } = new URL(url);
    const jar = this.jar(origin);
    const cookie = [...jar.values()]
      .filter((c) => pathname.startsWith(c.path))
      .map((c) => c.pair)
      .join('; ');
    const answer = await fetch(url, {
      method: form ? 'POST' : method,
      redirect: 'manual',
      headers: { ...headers, ...(cookie ? { cookie } : {}) },
      body: form && new URLSearchParams(form),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [pair, ...rest] = line.split(';').map((part) => part.trim());
      const name = pair.slice(0, pair.indexOf('='));
      const path = rest.find((r) => /^path=/i.test(r))?.slice(5) ?? '/';
      const isGone = pair.endsWith('=') || rest.some((r) => /^max-age=0$/i.test(r) || /^expires=.*1970/i.test(r));
      if (isGone) jar.delete(`${name} ${path}`);
      else jar.set(`${name} ${path}`, { pair, path });
    }
    return answer;
  }

  jar(origin) {
    if (!this.#jars.has(origin)) this.#jars.set(origin, new Map());
    return this.#jars.get(origin);
  }

  cookie(origin) {
    return [...this.jar(origin).values()].map((c) => c.pair).join('; ');
  }

  // Follows redirects and the provider's forms until `isEnd(url)`; gives that URL.
  async follow(from, login, isEnd) {
    let url = from;
    let answer = await this.fetch(url);
    for (let i = 0; i < 20; i++) {
      const to = answer.headers.get('location');
      if (to) {
        url = new URL(to, url).href;
        if (isEnd(url)) return url;
        answer = await this.fetch(url);
        continue;
      }
      const page = await answer.text();
      const form = page.match(/<form[^>]*action="([^"]+)"[^]*?<\/form>/);
      if (answer.status !== 200 || !form)
        throw new Error(
          `${url}: ${answer.status} ${page.replace(/<style[^]*?<\/style>|<[^>]+>|\s+/g, ' ').slice(0, 300)}`,
        );
      const fields = Object.fromEntries(
        [...form[0].matchAll(/<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"/g)].map((m) => [
          m[1],
          m[2],
        ]),
      );
      if (fields.prompt === 'login') Object.assign(fields, { login, password: 'any' });
      if (/name="logout"/.test(page)) fields.logout = 'yes';
      url = new URL(form[1], url).href;
      answer = await this.fetch(url, { form: fields });
    }
    throw new Error(`no end after 20 steps: ${url}`);
  }

  // To the answer of the router's callback.
  async signIn(router, login) {
    const callback = await this.follow(`${router.url}/v0/oidc/start`, login, (url) =>
      url.startsWith(`${router.url}/v0/oidc/callback`),
    );
    return { callback, answer: await this.fetch(callback) };
  }

  async api(router, at, { method, body, csrf } = {}) {
    const answer = await fetch(`${router.url}${at}`, {
      method,
      headers: {
        cookie: this.cookie(router.url),
        ...(csrf ? { 'x-csrf-token': csrf } : {}),
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, text, json: text.startsWith('{') ? JSON.parse(text) : undefined };
  }
}
