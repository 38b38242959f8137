// A TCP proxy between two of our processes that simulates network faults.
//
//   const proxy = await startProxy();
//   ... node --advertise proxy.url ...; proxy.port = node.port;
//   proxy.mode = 'swallow';       // every byte is lost, in both directions; new connections open
//   proxy.reset();                // every connection is reset
//   await proxy.close();
//
// Modes, for open and new connections alike:
//   pass      no fault
//   swallow   bytes are read and thrown away: the peer gets nothing
//   stall     bytes are not even read: the peer's buffers fill up
//   trickle   the node's answers come one byte every `proxy.every` ms
//   delay     the node's answers come `proxy.every` ms late
//   refuse    new connections are torn down at once
//   corrupt   a bit of everything that passes is wrong, both ways
//   flips     a bit of every `proxy.every`-th read of a link's frames is wrong, both ways; HTTP passes as it is
//
// proxy.change(bytes), where set, rewrites what goes to the target, read by read;
// proxy.changeAnswer(bytes) what comes back.
import net from 'node:net';

export async function startProxy({ port } = {}) {
  const sockets = new Set();
  // `asked` is what went to the target, for those who look at headers.
  const proxy = { port, mode: 'pass', every: 1000, asked: '', connections: 0 };

  const isStill = () => proxy.mode === 'swallow' || proxy.mode === 'stall';

  // Carries bytes from one socket to the other in the manner of the hour.
  function carry(from, to, isAnswer) {
    let waiting = Buffer.alloc(0);
    let timer;
    let reads = 0;
    let late = 0; // writes that are still delayed: what comes after them waits, too
    const send = (bytes) => {
      if (!to.destroyed) to.write(bytes);
    };
    const drip = () => {
      timer = undefined;
      if (waiting.length === 0) return;
      const count = proxy.mode === 'trickle' ? 1 : waiting.length;
      send(waiting.subarray(0, count));
      waiting = waiting.subarray(count);
      if (waiting.length > 0) timer = setTimeout(drip, proxy.mode === 'trickle' ? proxy.every : 0);
    };
    from.on('data', (bytes) => {
      if (!isAnswer && proxy.change) bytes = proxy.change(bytes);
      if (isAnswer && proxy.changeAnswer) bytes = proxy.changeAnswer(bytes);
      if (!isAnswer) proxy.asked = (proxy.asked + bytes.toString('latin1')).slice(-65536);
      if (proxy.mode === 'swallow') return;
      if (proxy.mode === 'corrupt') {
        bytes = Buffer.from(bytes);
        bytes[bytes.length >> 1] ^= 1;
      }
      if (proxy.mode === 'flips' && !bytes.includes('HTTP/1.1') && ++reads % proxy.every === 0) {
        bytes = Buffer.from(bytes);
        bytes[(reads * 7919) % bytes.length] ^= 1 << (reads % 8);
      }
      if ((proxy.mode === 'delay' && isAnswer) || late > 0) {
        late++;
        setTimeout(() => {
          late--;
          send(bytes);
        }, proxy.every);
      } else if ((proxy.mode === 'trickle' && isAnswer) || waiting.length > 0) {
        waiting = Buffer.concat([waiting, bytes]);
        timer ??= setTimeout(drip, proxy.every);
      } else {
        send(bytes);
      }
    });
    from.on('close', () => {
      clearTimeout(timer);
      if (!isStill()) to.destroy();
    });
    from.on('error', () => {});
  }

  const server = net.createServer((near) => {
    if (proxy.mode === 'refuse' || !proxy.port) return void near.resetAndDestroy();
    proxy.connections++;
    const far = net.connect(proxy.port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('close', () => sockets.delete(socket));
      if (proxy.mode === 'stall') socket.pause();
    }
    carry(near, far, false);
    carry(far, near, true);
    if (proxy.mode === 'stall') {
      near.pause();
      far.pause();
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.stall = () => {
    proxy.mode = 'stall';
    for (const socket of sockets) socket.pause();
  };
  proxy.heal = () => {
    proxy.mode = 'pass';
    for (const socket of sockets) socket.resume();
  };
  proxy.reset = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  proxy.close = () =>
    new Promise((done) => {
      server.close(done);
      for (const socket of sockets) socket.destroy();
    });
  return proxy;
}
