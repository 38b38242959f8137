export default {
  title: 'Sign in',
  key: 'Key',
  hint: 'A key of role admin opens every page, a key of role viewer shows them without changes, a key of role api opens the playground.',
  action: 'Sign in',
  with: 'Sign in with {name}',
  or: 'or with a key',
  noKey: 'No key?',
  noKeyText: 'The router printed an admin key at its first start. With an admin key you can create more keys:',
};
