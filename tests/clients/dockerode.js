// What dockerode does with containers, on the engine of $MOSS_SOCK with API version $API_VERSION.
// Run by node --test; $IMAGE names an image with a busybox.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { PassThrough, Readable } = require('node:stream');
const { test } = require('node:test');
const Docker = require('dockerode');
const tar = require('tar-stream'); // of dockerode's own dependencies

const image = process.env.IMAGE || 'busybox';
const version = process.env.API_VERSION || '1.24';
const docker = new Docker({ socketPath: process.env.MOSS_SOCK, version: `v${version}` });

async function create(t, options) {
  const made = await docker.createContainer({
    Image: image, Cmd: ['sleep', '1000'], ...options,
    HostConfig: { NetworkMode: 'none', ...(options || {}).HostConfig },
  });
  t.after(() => made.remove({ force: true }).catch((err) => { if (err.statusCode !== 404) throw err; }));
  return made;
}

async function running(t, options) {
  const made = await create(t, options);
  await made.start();
  return made;
}

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString();
}

// shown waits until a terminal shows something. A command that ends at once may lose what it says.
function shown(stream, pattern) {
  return new Promise((resolve, reject) => {
    let seen = '';
    stream.on('data', (part) => {
      seen += part;
      if (pattern.test(seen)) resolve();
    });
    stream.on('end', () => reject(new Error(`the stream ended after ${seen}`)));
    stream.on('error', reject);
  });
}

// split takes a multiplexed stream apart.
function split(stream) {
  const out = new PassThrough();
  const err = new PassThrough();
  docker.modem.demuxStream(stream, out, err);
  stream.on('end', () => { out.end(); err.end(); });
  return [text(out), text(err)];
}

function pack(files) {
  const archive = tar.pack();
  for (const [name, body] of Object.entries(files)) archive.entry({ name, mode: 0o600 }, body);
  archive.finalize();
  return archive;
}

async function unpack(stream) {
  const files = {};
  const extract = tar.extract();
  extract.on('entry', (header, body, next) => {
    text(body).then((content) => { files[header.name] = content; next(); });
  });
  stream.pipe(extract);
  await once(extract, 'finish');
  return files;
}

test('attach: both ways, and the code', async (t) => {
  const made = await create(t, { Cmd: ['sh', '-c', 'cat; echo err >&2; exit 5'], OpenStdin: true, StdinOnce: true });
  const stream = await made.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true });
  const [out, err] = split(stream);
  await made.start();
  stream.write('one\n');
  stream.end('two\n');
  assert.strictEqual(await out, 'one\ntwo\n');
  assert.strictEqual(await err, 'err\n');
  assert.strictEqual((await made.wait()).StatusCode, 5);
});

test('attach: a terminal, resized', async (t) => {
  const made = await create(t, { Cmd: ['sh', '-c', 'read x; stty size; read x'], Tty: true, OpenStdin: true });
  const stream = await made.attach({ stream: true, hijack: true, stdin: true, stdout: true });
  await made.start();
  await made.resize({ h: 31, w: 97 });
  stream.write('go\n');
  await shown(stream, /31 97/);
  stream.write('end\n');
});

test('exec: input, output, code, inspect', async (t) => {
  const made = await running(t);
  const exec = await made.exec({ Cmd: ['sh', '-c', 'cat; exit 6'], AttachStdin: true, AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({ hijack: true, stdin: true });
  const [out] = split(stream);
  stream.end('through\n');
  assert.strictEqual(await out, 'through\n');
  const shown = await exec.inspect();
  assert.strictEqual(shown.Running, false);
  assert.strictEqual(shown.ExitCode, 6);
  assert.strictEqual(shown.ProcessConfig.entrypoint, 'sh');
});

test('exec: a terminal', async (t) => {
  const made = await running(t);
  const exec = await made.exec({ Cmd: ['sh', '-c', 'tty; read x'], AttachStdin: true, AttachStdout: true, Tty: true });
  const stream = await exec.start({ hijack: true, stdin: true, Tty: true });
  await shown(stream, /\/dev\/pts\//);
  stream.write('end\n');
});

test('stats: one and many', async (t) => {
  const made = await running(t, { Cmd: ['sh', '-c', 'while :; do :; done'] });
  const one = await made.stats({ stream: false });
  assert.ok(one.memory_stats.usage > 0);
  assert.ok(one.cpu_stats.cpu_usage.total_usage > one.precpu_stats.cpu_usage.total_usage);
  const stream = await made.stats({ stream: true });
  const times = [];
  for await (const line of require('node:readline').createInterface({ input: stream })) {
    if (line) times.push(JSON.parse(line).read);
    if (times.length === 2) break;
  }
  stream.destroy();
  assert.ok(times[0] < times[1], times.join(' '));
});

test('archive: in, stat, out', async (t) => {
  const made = await running(t);
  await made.putArchive(pack({ 'a.txt': 'alpha', 'dir/b.txt': 'beta' }), { path: '/tmp' });
  const info = await made.infoArchive({ path: '/tmp/a.txt' });
  info.resume();
  const stat = JSON.parse(Buffer.from(info.headers['x-docker-container-path-stat'], 'base64').toString());
  assert.deepStrictEqual([stat.name, stat.size], ['a.txt', 5]);
  const files = await unpack(await made.getArchive({ path: '/tmp/dir/.' }));
  assert.strictEqual(files['./b.txt'] || files['b.txt'], 'beta');
  await assert.rejects(made.getArchive({ path: '/none' }), (err) => err.statusCode === 404);
});

test('events: a life, as it happens', async (t) => {
  const name = `events-js-${process.pid}`;
  const stream = await docker.getEvents({ filters: JSON.stringify({ container: [name], type: ['container'] }) });
  const actions = [];
  const destroyed = new Promise((resolve) => {
    require('node:readline').createInterface({ input: stream }).on('line', (line) => {
      if (line) actions.push(JSON.parse(line).Action);
      if (actions.at(-1) === 'destroy') resolve();
    });
  });
  const made = await create(t, { name, Cmd: ['true'] });
  await made.start();
  await made.wait();
  await made.remove();
  await destroyed;
  stream.destroy();
  assert.deepStrictEqual(actions, ['create', 'start', 'die', 'destroy']);
});

test('verbs: top, changes, export, pause, rename, update, commit', async (t) => {
  const made = await running(t, { Cmd: ['sh', '-c', 'echo x >/root/x; sleep 1000'] });
  const top = await made.top({ ps_args: 'aux' });
  assert.ok(top.Titles.includes('PID'));
  await made.pause();
  assert.strictEqual((await made.inspect()).State.Paused, true);
  await made.unpause();
  await made.rename({ name: `renamed-js-${process.pid}` });
  assert.strictEqual((await made.inspect()).Name, `/renamed-js-${process.pid}`);
  if (Number(version.split('.')[1]) >= 22) {
    await made.update({ CpuShares: 200 });
    assert.strictEqual((await made.inspect()).HostConfig.CpuShares, 200);
  }
  await made.stop({ t: 0 });
  const changes = await made.changes();
  assert.ok(changes.some((c) => c.Path === '/root/x' && c.Kind === 1));
  const files = await unpack(await made.export());
  assert.strictEqual(files['root/x'], 'x\n');
  const { Id } = await made.commit({ repo: `committed-js-${process.pid}`, comment: 'words' });
  const committed = docker.getImage(Id);
  t.after(() => committed.remove({ force: true }));
  assert.strictEqual((await committed.inspect()).Comment, 'words');
});

// What follows needs $REGISTRY with lib/box:one and :two, $CLOSED that wants ann:secret, and $SITE with busybox.tar.
const registry = process.env.REGISTRY;
const closed = process.env.CLOSED;
const ann = { username: 'ann', password: 'secret' };

// messages waits for the end of a verb's progress; an error among it rejects.
function messages(stream) {
  return new Promise((resolve, reject) => {
    docker.modem.followProgress(stream, (err, all) => (err ? reject(err) : resolve(all)));
  });
}

let names = 0;
// named makes a name of the test's own that goes with it.
function named(t, what) {
  const name = `${what}-${version.replace('.', '-')}-${process.pid}-${names += 1}`;
  t.after(() => forget(name));
  return name;
}

async function forget(part) {
  for (const entry of await docker.listImages({ all: true })) {
    for (const tag of entry.RepoTags) {
      if (tag.includes(part)) await docker.getImage(tag).remove({ force: true });
    }
  }
}

test('images: pull by tag and digest, again, and what is not there', async (t) => {
  t.after(() => forget(`${registry}/lib/box`));
  const all = await messages(await docker.pull(`${registry}/lib/box:one`));
  assert.match(all.at(-1).status, /^Status: Downloaded newer image/);
  const record = await docker.getImage(`${registry}/lib/box:one`).inspect();
  const again = await messages(await docker.pull(record.RepoDigests[0]));
  assert.match(again.at(-1).status, /^Status: Image is up to date/);
  await assert.rejects(docker.pull(`${registry}/no/such:t`), { statusCode: 404 });
});

test('images: push, and credentials', async (t) => {
  const name = `${closed}/${named(t, 'pushed')}`;
  const source = docker.getImage(image);
  await source.tag({ repo: name, tag: 't' });
  const made = docker.getImage(name);
  const all = await messages(await made.push({ tag: 't', authconfig: ann }));
  assert.strictEqual(all.find((m) => m.aux).aux.Tag, 't');
  await docker.getImage(`${name}:t`).remove();
  await messages(await docker.createImage(ann, { fromImage: name, tag: 't' }));
  assert.strictEqual((await docker.getImage(`${name}:t`).inspect()).Id, (await source.inspect()).Id);
  await docker.getImage(`${name}:t`).remove();
  await assert.rejects(async () => messages(await docker.createImage({ username: 'ann', password: 'wrong' }, { fromImage: name, tag: 't' })));
});

test('images: login', async () => {
  const answer = await docker.checkAuth({ ...ann, serveraddress: closed });
  assert.strictEqual(answer.Status, 'Login Succeeded');
  await assert.rejects(docker.checkAuth({ username: 'ann', password: 'wrong', serveraddress: closed }), { statusCode: 401 });
});

test('images: tag, list, inspect, history, remove', async (t) => {
  const name = named(t, 'tagged');
  await docker.getImage(image).tag({ repo: name, tag: 'a' });
  const tagged = docker.getImage(`${name}:a`);
  const record = await tagged.inspect();
  assert.ok(record.RepoTags.includes(`${name}:a`));
  assert.strictEqual((await tagged.history())[0].Id, record.Id);
  const listed = await docker.listImages({ filters: { reference: [name] } });
  assert.deepStrictEqual(listed.map((e) => e.Id), [record.Id]);
  assert.deepStrictEqual(await tagged.remove(), [{ Untagged: `${name}:a` }]);
  await assert.rejects(tagged.inspect(), { statusCode: 404 });
});

test('images: save and load', async (t) => {
  const name = named(t, 'saved');
  await docker.getImage(image).tag({ repo: name, tag: 'a' });
  const saved = await docker.getImage(`${name}:a`).get();
  const parts = [];
  for await (const part of saved) parts.push(part);
  await docker.getImage(`${name}:a`).remove();
  const stream = await docker.loadImage(Readable.from([Buffer.concat(parts)]));
  const all = await text(stream);
  if (version === '1.24') assert.match(all, new RegExp(`Loaded image: ${name}:a`));
  await docker.getImage(`${name}:a`).inspect();
});

test('images: import from the body and from a URL', async (t) => {
  const name = named(t, 'imported');
  await messages(await docker.importImage(pack({ file: 'text' }), { repo: name, tag: 'a' }));
  await messages(await docker.createImage({ fromSrc: `${process.env.SITE}/busybox.tar`, repo: name, tag: 'url' }));
  for (const tag of ['a', 'url']) await docker.getImage(`${name}:${tag}`).inspect();
});

test('images: search', async () => {
  const found = await docker.searchImages({ term: `${registry}/box` });
  assert.deepStrictEqual(found.map((f) => f.name), ['lib/box']);
});

// built builds a context and returns the messages; the image goes with the test.
async function built(t, context, options) {
  const name = named(t, 'built');
  return [name, await messages(await docker.buildImage(context, { t: name, rm: 1, forcerm: 1, ...options }))];
}
const lines = (list) => list.map((m) => m.stream || '').join('');

test('build: an archive, its arguments and labels', async (t) => {
  const context = pack({ Dockerfile: `FROM ${image}\nARG WORD\nCOPY file /file\nRUN echo $WORD >/word\nLABEL a=file`, file: 'text' });
  const [name, told] = await built(t, context, { buildargs: { WORD: 'given' }, labels: { b: 'option' } });
  assert.match(lines(told), /Step 1\/[56] : FROM .*Successfully built [0-9a-f]{12}\n.*Successfully tagged/s);
  const shown = await docker.getImage(name).inspect();
  assert.match(shown.Config.Labels.a, /file/);
  const made = await create(t, { Image: name, Cmd: ['cat', '/word', '/file'] });
  const stream = await made.attach({ stream: true, stdout: true, stderr: true });
  const [out] = split(stream);
  await made.start();
  assert.strictEqual(await out, 'given\ntext');
});

test('build: a folder of files, and a Dockerfile of another name', async (t) => {
  const folder = require('node:fs').mkdtempSync(require('node:path').join(require('node:os').tmpdir(), 'build'));
  t.after(() => require('node:fs').rmSync(folder, { recursive: true }));
  require('node:fs').writeFileSync(`${folder}/Other`, `FROM ${image}\nCOPY word /word\n`);
  require('node:fs').writeFileSync(`${folder}/word`, 'w');
  const [, told] = await built(t, { context: folder, src: ['Other', 'word'] }, { dockerfile: 'Other' });
  assert.match(lines(told), /Successfully built/);
});

test('build: progress to its end, and a step that fails', async (t) => {
  const stream = await docker.buildImage(pack({ Dockerfile: `FROM ${image}\nRUN echo why; exit 4` }), { t: named(t, 'failed'), forcerm: 1 });
  const told = await new Promise((resolve, reject) => {
    docker.modem.followProgress(stream, (err, all) => (err ? reject(err) : resolve(all)));
  });
  assert.match(lines(told), /^why$/m);
  assert.deepStrictEqual(told.at(-1).errorDetail, { code: 4, message: "The command '/bin/sh -c echo why; exit 4' returned a non-zero code: 4" });
  assert.strictEqual(told.at(-1).error, told.at(-1).errorDetail.message);
  await assert.rejects(docker.buildImage(pack({ Dockerfile: `FROM ${image}\nNOSUCH x` }), {}), (err) => {
    assert.strictEqual(err.statusCode, 400);
    assert.match(err.message, /unknown instruction: NOSUCH/);
    return true;
  });
});

test('build: quiet, from the cache, and by a remote', async (t) => {
  const context = () => pack({ Dockerfile: `FROM ${image}\nENV A=b` });
  const [name] = await built(t, context());
  const [, told] = await built(t, context(), { q: 1 });
  assert.strictEqual(lines(told).trim(), (await docker.getImage(name).inspect()).Id);
  const [, fetched] = await built(t, null, { remote: `${process.env.SITE}/context.tar` });
  assert.match(lines(fetched), /Successfully built/);
});

const minor = Number(version.split('.')[1]);

// made is a network of this test, which takes it away again after the containers that came later.
async function made(t, name, options) {
  const network = await docker.createNetwork({ Name: `${name}-${process.pid}`, CheckDuplicate: true, ...options });
  t.after(async () => {
    for (const id of Object.keys((await network.inspect()).Containers)) await network.disconnect({ Container: id, Force: true });
    await network.remove();
  });
  return network;
}

// server is a container with a page, in a network.
async function server(t, network, options) {
  const container = await running(t, {
    Cmd: ['sh', '-c', 'echo "from $HOSTNAME" >/tmp/index.html; exec httpd -f -p 8080 -h /tmp'],
    ...options, HostConfig: { NetworkMode: network, ...(options || {}).HostConfig },
  });
  // It runs before it listens.
  const end = Date.now() + 60000;
  while (!await fetchFrom(container, 'http://127.0.0.1:8080/')) assert.ok(Date.now() < end, 'the server does not listen');
  return container;
}

// fetch is the output of a request from inside a container; empty when it fails.
async function fetchFrom(container, url) {
  const exec = await container.exec({ Cmd: ['timeout', '60', 'wget', '-q', '-O', '-', url], AttachStdout: true, AttachStderr: true });
  const [out] = split(await exec.start());
  return out;
}

test('networks: create, list, inspect, remove', async (t) => {
  const network = await made(t, 'life', {
    Driver: 'bridge', Internal: true, Labels: { node: String(process.pid) }, Options: { 'com.docker.network.driver.mtu': '1400' },
    IPAM: { Driver: 'default', Config: [{ Subnet: '10.98.1.0/24', Gateway: '10.98.1.9' }] },
  });
  const record = await network.inspect();
  assert.strictEqual(record.Id, network.id);
  assert.strictEqual(record.IPAM.Config[0].Subnet, '10.98.1.0/24');
  assert.strictEqual(record.Options['com.docker.network.driver.mtu'], '1400');
  const listed = await docker.listNetworks({ filters: { name: [record.Name], type: ['custom'] } });
  assert.deepStrictEqual(listed.map((n) => n.Id), [network.id]);
  assert.strictEqual((await docker.getNetwork(network.id.slice(0, 12)).inspect()).Name, record.Name);
  await assert.rejects(docker.createNetwork({ Name: record.Name, CheckDuplicate: true }), { statusCode: 409 });
  await assert.rejects(docker.createNetwork({ Name: 'x-plugin', Driver: 'none-such' }), { statusCode: 404 });
  await assert.rejects(docker.getNetwork('none-such').inspect(), { statusCode: 404 });
  await assert.rejects(docker.getNetwork('bridge').remove(), { statusCode: 403 });
});

test('networks: connect and disconnect, names and addresses', async (t) => {
  const one = await made(t, 'one', { IPAM: { Config: [{ Subnet: '10.98.2.0/24' }] } });
  const two = await made(t, 'two');
  const first = await server(t, one.id);
  const second = await server(t, two.id);
  const page = `from ${second.id.slice(0, 12)}\n`;
  await one.connect({ Container: second.id, EndpointConfig: { Aliases: ['second'], IPAMConfig: { IPv4Address: '10.98.2.77' } } });
  const place = (await one.inspect()).Containers[second.id];
  // Versions before 1.22 have nothing to say about the place in the network.
  const hosts = minor >= 22 ? ['second', '10.98.2.77'] : [(await second.inspect()).Name.slice(1)];
  for (const host of hosts) assert.strictEqual(await fetchFrom(first, `http://${host}:8080/`), page);
  if (minor >= 22) assert.strictEqual(place.IPv4Address, '10.98.2.77/24');
  await assert.rejects(one.connect({ Container: second.id }));
  await assert.rejects(one.remove());
  await one.disconnect({ Container: second.id });
  assert.strictEqual(await fetchFrom(first, `http://${hosts[0]}:8080/`), '');
  await assert.rejects(one.disconnect({ Container: second.id }));
  if (minor >= 22) {
    const third = await server(t, one.id, { NetworkingConfig: { EndpointsConfig: { [(await one.inspect()).Name]: { Aliases: ['third'], IPAMConfig: { IPv4Address: '10.98.2.78' } } } } });
    assert.strictEqual(await fetchFrom(first, 'http://third:8080/'), `from ${third.id.slice(0, 12)}\n`);
    assert.strictEqual(Object.values((await third.inspect()).NetworkSettings.Networks)[0].IPAddress, '10.98.2.78');
  }
});

test('networks: published ports', async (t) => {
  const container = await server(t, 'bridge', {
    ExposedPorts: { '8080/tcp': {} }, HostConfig: { PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] } },
  });
  const [bound] = (await container.inspect()).NetworkSettings.Ports['8080/tcp'];
  assert.strictEqual(bound.HostIp, '127.0.0.1');
  const end = Date.now() + 60000;
  let page = '';
  while (!page && Date.now() < end) page = await fetch(`http://127.0.0.1:${bound.HostPort}/`).then((r) => r.text(), () => '');
  assert.strictEqual(page, `from ${container.id.slice(0, 12)}\n`);
  const taken = await create(t, {
    ExposedPorts: { '8080/tcp': {} }, HostConfig: { NetworkMode: 'bridge', PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: bound.HostPort }] } },
  });
  await assert.rejects(taken.start(), /already allocated/);
});

test('volumes: create, list, use, remove', async (t) => {
  const name = `data-${process.pid}`;
  await docker.createVolume({ Name: name, Driver: 'local', Labels: { node: String(process.pid) } });
  const volume = docker.getVolume(name);
  assert.strictEqual((await volume.inspect()).Name, name);
  const { Volumes: all } = await docker.listVolumes({ filters: { dangling: ['true'] } });
  assert.ok(all.some((v) => v.Name === name));
  if (minor >= 24) {
    const { Volumes: found } = await docker.listVolumes({ filters: { label: [`node=${process.pid}`] } });
    assert.deepStrictEqual(found.map((v) => v.Name), [name]);
  }
  // Mounts is of later versions; clients send it at every one.
  const user = await create(t, {
    Cmd: ['sh', '-c', 'echo kept >/v/kept; cat /v/kept; grep -c " /t tmpfs " /proc/mounts; touch /b/x || echo read-only'],
    HostConfig: {
      Mounts: [
        { Type: 'volume', Source: name, Target: '/v' }, { Type: 'tmpfs', Target: '/t', TmpfsOptions: { SizeBytes: 65536 } },
        { Type: 'bind', Source: '/usr', Target: '/b', ReadOnly: true },
      ],
    },
  });
  await user.start();
  assert.strictEqual((await user.wait()).StatusCode, 0);
  assert.match((await user.logs({ stdout: true })).toString(), /kept\n[^]*1\n[^]*read-only/);
  assert.strictEqual((await user.inspect()).HostConfig.Mounts.length, 3);
  await assert.rejects(volume.remove(), { statusCode: 409 });
  await assert.rejects(volume.remove({ force: true }), { statusCode: 409 });
  await user.remove();
  await volume.remove();
  await assert.rejects(volume.remove(), { statusCode: 404 });
  await assert.rejects(create(t, { HostConfig: { Mounts: [{ Type: 'bind', Source: '/none-such', Target: '/b' }] } }), { statusCode: 400 });
  await assert.rejects(docker.createVolume({ Name: 'a/b' }), { statusCode: 500 });
});
