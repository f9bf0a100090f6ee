// A scenario of testcontainers-node on the engine of $DOCKER_HOST, without its reaper, whose image is another one than busybox:
// numbered steps, up to the first that fails. It needs the image busybox.
'use strict';
const assert = require('node:assert');
const Docker = require('dockerode'); // the library's own client
const { GenericContainer, Network, Wait } = require('testcontainers');

const name = `tcjs-${process.pid}`;
const docker = new Docker({ socketPath: process.env.MOSS_SOCK });
const started = [];
let network;
let steps = 0;

function step(text) {
  steps += 1;
  console.log(`step ${steps}: ${text}`);
}

function busybox(...command) {
  return new GenericContainer('busybox').withCommand(command.length ? command : ['sleep', '1000']);
}

async function start(container) {
  const made = await container.start();
  started.push(made);
  return made;
}

async function text(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts.map((part) => Buffer.from(part))).toString();
}

async function gone(made) {
  await assert.rejects(docker.getContainer(made.getId()).inspect(), { statusCode: 404 });
}

async function server() {
  step('a network');
  network = await new Network().start();
  step('a container with files, variables, a label and a port, once its page is there');
  const web = await start(busybox('sh', '-c', 'echo "$WORD"; echo err >&2; httpd -p 8080 -h /www; sleep 1000')
    .withName(`${name}-web`).withLabels({ scenario: name }).withEnvironment({ WORD: 'of the environment' })
    .withCopyContentToContainer([{ content: 'a page\n', target: '/www/index.html' }])
    .withNetwork(network).withNetworkAliases('web').withExposedPorts(8080)
    .withWaitStrategy(Wait.forAll([Wait.forListeningPorts(), Wait.forHttp('/index.html', 8080)])));
  assert.deepStrictEqual([web.getName(), web.getLabels().scenario], [`/${name}-web`, name]);
  step('read the page at the mapped port');
  const page = await fetch(`http://${web.getHost()}:${web.getMappedPort(8080)}/`);
  assert.strictEqual(await page.text(), 'a page\n');
  step('another container reads it by the alias');
  const other = await start(busybox().withNetwork(network));
  assert.strictEqual((await other.exec(['wget', '-q', '-O', '-', 'http://web:8080/'])).output, 'a page\n');
  await other.stop();
  return web;
}

async function execs(web) {
  step('exec: output and code');
  const failed = await web.exec(['sh', '-c', 'echo "$WORD"; exit 5']);
  assert.deepStrictEqual([failed.output, failed.exitCode], ['of the environment\n', 5]);
  step('exec: variables');
  const variables = await web.exec(['sh', '-c', 'echo "$WORD, $MORE"'], { env: { WORD: 'of exec', MORE: 'more' } });
  assert.deepStrictEqual([variables.output, variables.exitCode], ['of exec, more\n', 0]);
  step('exec: those variables were for that command alone');
  assert.strictEqual((await web.exec(['sh', '-c', 'echo "$WORD, $MORE"'])).output, 'of the environment, \n');
  step('exec: a working folder');
  assert.strictEqual((await web.exec(['pwd'], { workingDir: '/www' })).output, '/www\n');
  step('exec: a working folder, a user and variables together');
  const all = await web.exec(['sh', '-c', 'pwd; id -u; echo "$A"'], { workingDir: '/tmp', user: '0', env: { A: 'b' } });
  assert.strictEqual(all.output, '/tmp\n0\nb\n');
  step('exec: a working folder that is not there does not end with 0');
  assert.notStrictEqual((await web.exec(['pwd'], { workingDir: '/www/index.html' })).exitCode, 0);
}

async function settings() {
  step('working folder, user and tmpfs of a container');
  const made = await start(busybox().withWorkingDir('/var').withUser('1000:1000').withTmpFs({ '/fast': 'rw,size=1m' }));
  assert.strictEqual((await made.exec(['sh', '-c', 'pwd; id -u; grep -c " /fast tmpfs " /proc/mounts'])).output, '/var\n1000\n1\n');
  await made.stop();
  step('a health check that is waited for');
  const healthy = await start(busybox()
    .withHealthCheck({ test: ['CMD-SHELL', 'true'], interval: 1000, timeout: 60000, retries: 3, startPeriod: 0 })
    .withWaitStrategy(Wait.forHealthCheck()));
  await healthy.stop();
  step('a line of the log that is waited for');
  const told = await start(busybox('sh', '-c', 'echo ready; sleep 1000').withWaitStrategy(Wait.forLogMessage('ready')));
  await told.stop();
  await gone(told);
}

async function ends() {
  step('read the output to its end, then inspect: the exit code is there');
  const told = await start(busybox('sh', '-c', 'echo out; exit 7'));
  const inspected = await new Promise((resolve, reject) => {
    told.logs().then((stream) => {
      stream.on('end', () => docker.getContainer(told.getId()).inspect().then(resolve, reject)).on('error', reject).resume();
    }, reject);
  });
  assert.deepStrictEqual([inspected.State.Running, inspected.State.ExitCode], [false, 7]);
  await told.stop();
  step('a command that is waited for and fails');
  await assert.rejects(start(busybox('sh', '-c', 'exit 3').withWaitStrategy(Wait.forOneShotStartup())), /3/);
  step('kill during an exec: it ends, and its code is not 0');
  const killed = await start(busybox());
  const exec = killed.exec(['sh', '-c', 'touch /tmp/here; sleep 1000']);
  while ((await killed.exec(['test', '-e', '/tmp/here'])).exitCode !== 0);
  await docker.getContainer(killed.getId()).kill();
  assert.notStrictEqual((await exec).exitCode, 0);
  await killed.stop();
}

async function files(web) {
  step('copy into a container that runs, and out of it');
  await web.copyContentToContainer([{ content: 'copied\n', target: '/tmp/copied' }]);
  assert.strictEqual((await web.exec(['cat', '/tmp/copied'])).output, 'copied\n');
  assert.match(await text(await web.copyArchiveFromContainer('/tmp/copied')), /copied\n/);
  step('logs');
  assert.match(await text(await docker.getContainer(web.getId()).logs({ stdout: true, stderr: true, follow: false }).then((log) => [log])), /of the environment\n/);
  step('restart');
  await web.restart();
  const page = await fetch(`http://${web.getHost()}:${web.getMappedPort(8080)}/`);
  assert.strictEqual(await page.text(), 'a page\n');
}

async function main() {
  process.exitCode = 1; // for an end without its last line
  const alive = setInterval(() => {}, 1000); // the library's streams keep no program alive
  const web = await server();
  await execs(web);
  await files(web);
  await settings();
  await ends();
  step('end all, and the network');
  await web.stop();
  await gone(web);
  await network.stop();
  clearInterval(alive);
  process.exitCode = 0;
  console.log(`steps: ${steps}`);
}

main().catch(async (err) => {
  console.log('FAILED:', err);
  await Promise.allSettled(started.map((made) => made.stop()));
  process.exit(1);
});
