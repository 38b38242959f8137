export default {
  title: 'サインイン',
  key: 'キー',
  hint: 'admin のキーではすべて、viewer のキーでは閲覧のみ、api のキーではチャットを使えます。',
  action: 'サインイン',
  with: '{name} でサインイン',
  or: 'またはキーを使う',
  noKey: 'キーがない場合',
  noKeyText: 'キーはルーターの初回起動時に表示されます。admin のキーを持つ人は次のコマンドで追加できます。',
};
