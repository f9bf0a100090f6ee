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
  const made = await create(t, { Cmd: ['sh', '-c', 'read x; stty size'], Tty: true, OpenStdin: true });
  const stream = await made.attach({ stream: true, hijack: true, stdin: true, stdout: true });
  await made.start();
  await made.resize({ h: 31, w: 97 });
  const seen = text(stream);
  stream.write('go\n');
  assert.match(await seen, /31 97/);
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
  const exec = await made.exec({ Cmd: ['tty'], AttachStdout: true, Tty: true });
  const stream = await exec.start({ hijack: true, Tty: true });
  assert.match(await text(stream), /\/dev\/pts\//);
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
