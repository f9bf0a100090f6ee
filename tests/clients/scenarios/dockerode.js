// A scenario of dockerode on the engine at $MOSS_SOCK with API version $API_VERSION: numbered steps, up to the first that
// fails. It needs the image busybox and an open registry at $REGISTRY.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const readline = require('node:readline');
const { PassThrough, Readable } = require('node:stream');
const { setTimeout: sleep } = require('node:timers/promises');
const Docker = require('dockerode');
const tar = require('tar-stream'); // of dockerode's own dependencies

const version = process.env.API_VERSION;
const minor = Number(version.split('.')[1]);
const docker = new Docker({ socketPath: process.env.MOSS_SOCK, version: `v${version}` });
const name = `js-${minor}-${process.pid}`;
const built = `${name}/built`;
const remote = `${process.env.REGISTRY}/${name}/pushed`;

let steps = 0;
function step(text) {
  steps += 1;
  console.log(`step ${steps}: ${text}`);
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
  return Promise.all([text(out), text(err)]);
}

function pack(files) {
  const archive = tar.pack();
  for (const [file, body] of Object.entries(files)) archive.entry({ name: file }, body);
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

// told waits for the end of a verb's progress; an error among it rejects.
function told(stream) {
  return new Promise((resolve, reject) => {
    docker.modem.followProgress(stream, (err, all) => (err ? reject(err) : resolve(all)));
  });
}

async function system() {
  step('ping');
  assert.strictEqual((await docker.ping()).toString(), 'OK');
  step('version and info');
  assert.strictEqual((await docker.version()).ApiVersion, '1.51');
  assert.ok((await docker.info()).Images >= 1);
}

async function images() {
  const box = docker.getImage('busybox');
  const { Id } = await box.inspect();
  step('tag an image, and find it by its name');
  await box.tag({ repo: `${name}/tagged`, tag: 'one' });
  const listed = await docker.listImages({ filters: { reference: [`${name}/tagged`] } });
  assert.deepStrictEqual(listed.map((i) => i.Id), [Id]);
  step('history of an image');
  assert.strictEqual((await box.history())[0].Id, Id);
  step('remove a tag');
  await docker.getImage(`${name}/tagged:one`).remove();
  await assert.rejects(docker.getImage(`${name}/tagged:one`).inspect(), { statusCode: 404 });
  step('build an image');
  const context = pack({ Dockerfile: 'FROM busybox\nCOPY page /www/index.html\nRUN echo built >/word\nENV A=b\n', page: 'a page\n' });
  const lines = (await told(await docker.buildImage(context, { t: built, rm: 1 }))).map((m) => m.stream || '').join('');
  assert.match(lines, new RegExp(`Successfully tagged ${built}:latest`));
  step('what was built has its settings');
  const made = await docker.getImage(built).inspect();
  assert.ok(made.Config.Env.includes('A=b'));
  step('a build that fails tells why');
  const failed = await told(await docker.buildImage(pack({ Dockerfile: 'FROM busybox\nRUN exit 7\n' }), { forcerm: 1 }));
  assert.match(failed.at(-1).error, /returned a non-zero code: 7/);
  step('push an image');
  await docker.getImage(built).tag({ repo: remote, tag: 't' });
  const pushed = await told(await docker.getImage(remote).push({ tag: 't', authconfig: {} }));
  assert.strictEqual(pushed.find((m) => m.aux).aux.Tag, 't');
  step('pull it again');
  await docker.getImage(`${remote}:t`).remove();
  const pulled = await told(await docker.pull(`${remote}:t`));
  assert.match(pulled.at(-1).status, /^Status: Downloaded newer image/);
  step('save and load an image');
  const saved = [];
  for await (const part of await docker.getImage(`${remote}:t`).get()) saved.push(part);
  await docker.getImage(`${remote}:t`).remove();
  await text(await docker.loadImage(Readable.from([Buffer.concat(saved)])));
  assert.strictEqual((await docker.getImage(`${remote}:t`).inspect()).Id, made.Id);
  await docker.getImage(`${remote}:t`).remove();
  step('import an image');
  await told(await docker.importImage(pack({ file: 'text' }), { repo: `${name}/imported`, tag: 't' }));
  await docker.getImage(`${name}/imported:t`).remove();
}

// places makes a network and a volume, which the API has from 1.21 on.
async function places() {
  if (minor < 21) return [];
  step('create a network');
  const network = await docker.createNetwork({ Name: name, Driver: 'bridge', CheckDuplicate: true });
  const listed = await docker.listNetworks({ filters: { name: [name] } });
  assert.deepStrictEqual(listed.map((n) => n.Id), [network.id]);
  step('create a volume');
  await docker.createVolume({ Name: name });
  const { Volumes } = await docker.listVolumes({ filters: { dangling: ['true'] } });
  assert.ok(Volumes.some((v) => v.Name === name));
  return [network, docker.getVolume(name)];
}

async function page(port) {
  for (const end = Date.now() + 60000; ; await sleep(20)) {
    const got = await fetch(`http://127.0.0.1:${port}/`).then((r) => r.text(), () => '');
    if (got || Date.now() > end) return got;
  }
}

async function server(network) {
  step('create and start a container that serves a page');
  const web = await docker.createContainer({
    Image: built, name: `${name}-web`, Labels: { scenario: name }, ExposedPorts: { '8080/tcp': {} },
    Cmd: ['sh', '-c', 'echo up; echo kept >/data/kept; httpd -p 8080 -h /www; sleep 1000'],
    HostConfig: {
      Binds: [`${name}:/data`], PortBindings: { '8080/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] }, NetworkMode: network ? name : 'bridge',
    },
  });
  await web.start();
  step('inspect a container');
  const shown = await web.inspect();
  assert.deepStrictEqual([shown.State.Running, shown.Config.Labels.scenario, shown.Mounts[0].Destination], [true, name, '/data']);
  assert.strictEqual('Networks' in shown.NetworkSettings, minor >= 21);
  step('list containers by label');
  const listed = await docker.listContainers({ filters: { label: [`scenario=${name}`] } });
  assert.deepStrictEqual(listed.map((c) => c.Id), [web.id]);
  step('read the page at the published port');
  assert.strictEqual(await page(shown.NetworkSettings.Ports['8080/tcp'][0].HostPort), 'a page\n');
  if (network) {
    step('another container reads it by the name');
    const other = await docker.createContainer({
      Image: 'busybox', Cmd: ['wget', '-q', '-O', '-', `http://${name}-web:8080/`], HostConfig: { NetworkMode: name },
    });
    const output = split(await other.attach({ stream: true, stdout: true, stderr: true }));
    await other.start();
    assert.deepStrictEqual(await output, ['a page\n', '']);
    await other.wait(); // the output ends a little before the container
    await other.remove();
  }
  return web;
}

async function exec(web, options) {
  const made = await web.exec({ AttachStdout: true, AttachStderr: true, ...options });
  return [made, await made.start({ hijack: true, stdin: Boolean(options.AttachStdin) })];
}

async function streams(web) {
  step('exec: both outputs and the code');
  const [first, output] = await exec(web, { Cmd: ['sh', '-c', 'cat /data/kept; echo err >&2; exit 3'] });
  assert.deepStrictEqual(await split(output), ['kept\n', 'err\n']);
  assert.strictEqual((await first.inspect()).ExitCode, 3);
  step('exec: input');
  const [, both] = await exec(web, { Cmd: ['cat'], AttachStdin: true });
  const echoed = split(both);
  both.end('to and fro');
  assert.deepStrictEqual(await echoed, ['to and fro', '']);
  step('attach: input and both outputs');
  const cat = await docker.createContainer({
    Image: 'busybox', Cmd: ['sh', '-c', 'cat; echo err >&2; exit 5'], OpenStdin: true, StdinOnce: true, HostConfig: { NetworkMode: 'none' },
  });
  const stream = await cat.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true });
  const parts = split(stream);
  await cat.start();
  stream.end('words\n');
  assert.deepStrictEqual(await parts, ['words\n', 'err\n']);
  step('wait for the code');
  assert.strictEqual((await cat.wait()).StatusCode, 5);
  await cat.remove();
  step('logs');
  assert.match((await web.logs({ stdout: true, timestamps: true, tail: 1 })).toString(), /Z up\n$/);
  step('stats');
  assert.ok((await web.stats({ stream: false })).memory_stats.usage > 0);
  step('top');
  assert.match(JSON.stringify((await web.top()).Processes), /httpd/);
}

async function ends() {
  step('attach to the end, then inspect: the exit code is there');
  for (let i = 0; i < 5; i += 1) { // an engine that tells too late does so now and then
    const told = await docker.createContainer({ Image: 'busybox', Cmd: ['sh', '-c', 'echo out; exit 7'], HostConfig: { NetworkMode: 'none' } });
    const output = split(await told.attach({ stream: true, stdout: true, stderr: true }));
    await told.start();
    assert.deepStrictEqual(await output, ['out\n', '']);
    const { State } = await told.inspect();
    assert.deepStrictEqual([State.Running, State.ExitCode], [false, 7]);
    await told.remove();
  }
  step('kill during an exec: its stream ends, and its code is not 0');
  const killed = await docker.createContainer({ Image: 'busybox', Cmd: ['sleep', '1000'], HostConfig: { NetworkMode: 'none' } });
  await killed.start();
  const [made, output] = await exec(killed, { Cmd: ['sh', '-c', 'echo here; sleep 1000'] });
  const parts = split(output);
  const first = once(output, 'data').then(() => killed.kill());
  await parts;
  const shown = await made.inspect();
  assert.ok(!shown.Running && shown.ExitCode, JSON.stringify(shown));
  await first;
  await killed.remove();
}

async function files(web) {
  step('put an archive, and get one');
  await web.putArchive(pack({ one: 'first' }), { path: '/tmp' });
  assert.deepStrictEqual(await unpack(await web.getArchive({ path: '/tmp/one' })), { one: 'first' });
  await assert.rejects(web.getArchive({ path: '/none' }), { statusCode: 404 });
  step('changes');
  assert.ok((await web.changes()).some((c) => c.Path === '/tmp/one' && c.Kind === 1));
  step('export');
  assert.strictEqual((await unpack(await web.export()))['tmp/one'], 'first');
}

async function verbs(web, network) {
  step('pause and unpause');
  await web.pause();
  assert.strictEqual((await web.inspect()).State.Paused, true);
  await web.unpause();
  step('rename');
  await web.rename({ name: `${name}-renamed` });
  assert.strictEqual((await docker.getContainer(`${name}-renamed`).inspect()).Id, web.id);
  if (minor >= 22) {
    step('update');
    await web.update({ CpuShares: 200 });
    assert.strictEqual((await web.inspect()).HostConfig.CpuShares, 200);
  }
  if (network) {
    step('disconnect and connect');
    await network.disconnect({ Container: web.id });
    assert.deepStrictEqual((await network.inspect()).Containers, {});
    await network.connect({ Container: web.id });
    assert.deepStrictEqual(Object.keys((await network.inspect()).Containers), [web.id]);
  }
  step('commit');
  const { Id } = await web.commit({ repo: `${name}/committed`, comment: 'words' });
  assert.strictEqual((await docker.getImage(`${name}/committed`).inspect()).Id.replace('sha256:', ''), Id.replace('sha256:', ''));
  await docker.getImage(`${name}/committed`).remove();
  step('restart');
  const before = (await web.inspect()).State.StartedAt;
  await web.restart({ t: 0 });
  assert.ok((await web.inspect()).State.StartedAt > before);
  step('kill, and wait for the code');
  await web.kill();
  assert.strictEqual((await web.wait()).StatusCode, 137);
}

async function removal(web, network, volume) {
  if (volume) {
    step('a volume in use stays');
    await assert.rejects(volume.remove(), { statusCode: 409 });
  }
  step('remove the container');
  await web.remove({ v: true });
  await assert.rejects(web.inspect(), { statusCode: 404 });
  if (network) {
    step('remove the network and the volume');
    await network.remove();
    await assert.rejects(network.inspect(), { statusCode: 404 });
    await volume.remove();
    await assert.rejects(volume.inspect(), { statusCode: 404 });
  }
  step('remove the image');
  await docker.getImage(built).remove();
  await assert.rejects(docker.getImage(built).inspect(), { statusCode: 404 });
}

async function main() {
  const events = await docker.getEvents();
  const seen = [];
  readline.createInterface({ input: events }).on('line', (line) => { if (line) seen.push(JSON.parse(line)); });
  await system();
  await images();
  const [network, volume] = await places();
  const web = await server(network);
  await streams(web);
  await ends();
  await files(web);
  await verbs(web, network);
  await removal(web, network, volume);
  step('the events of the container came in order');
  const wanted = ['create', 'start', 'pause', 'unpause', 'rename', ...(minor >= 22 ? ['update'] : []), 'pause', 'unpause', 'commit',
    'kill', 'die', 'stop', 'start', 'restart', 'kill', 'die', 'destroy'];
  const life = () => seen.filter((e) => e.id === web.id && wanted.includes(e.status)).map((e) => e.status);
  for (const end = Date.now() + 60000; life().at(-1) !== 'destroy' && Date.now() < end;) await sleep(20);
  events.destroy();
  assert.deepStrictEqual(life(), wanted);
  console.log(`steps: ${steps}`);
}

main().catch((err) => {
  console.log('FAILED:', err);
  process.exit(1);
});
