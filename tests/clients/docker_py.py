"""What docker-py does with containers, images, networks and volumes, on the engine of $DOCKER_HOST with API version $API_VERSION.

unittest runs it: python3 docker_py.py Exec.test_streams. $IMAGE names an image with a busybox.
"""
import gzip
import io
import os
import socket
import struct
import tarfile
import tempfile
import threading
import time
import unittest
import urllib.request

import docker
from docker.types import LogConfig

IMAGE = os.environ.get('IMAGE', 'busybox')
VERSION = os.environ.get('API_VERSION', '1.24')


def at_least(minor):
    return int(VERSION.split('.')[1]) >= minor


def since(minor):
    return unittest.skipUnless(at_least(minor), f'the API has it from 1.{minor} on')


def frames(stream):
    """Yields (stream, payload) of a raw answer until its end."""
    while True:
        head = read_exactly(stream, 8)
        if not head:
            return
        kind, size = struct.unpack('>BxxxL', head)
        yield kind, read_exactly(stream, size)


def read_exactly(stream, size):
    data = b''
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            return data
        data += more
    return data


def raw(stream):
    """The socket below what docker-py hands out."""
    return getattr(stream, '_sock', stream)


def archive(**files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w') as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace('__', '/'))
            info.size, info.mtime, info.mode = len(text), 1000000000, 0o640
            tar.addfile(info, io.BytesIO(text))
    return data.getvalue()


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = docker.DockerClient(base_url=os.environ['DOCKER_HOST'], version=VERSION, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def container(self, *command, **options):
        options.setdefault('network_mode', 'none')
        made = self.client.containers.create(IMAGE, list(command) or ['sleep', '1000'], **options)
        self.addCleanup(self.drop, made)
        return made

    def running(self, *command, **options):
        made = self.container(*command, **options)
        made.start()
        return made

    def until(self, condition):
        end = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), end, 'not true in time')
            time.sleep(0.05)

    def read_until(self, stream, text):
        seen = b''
        while text not in seen:
            more = stream.recv(4096)
            self.assertTrue(more, f'the stream ended after {seen!r}')
            seen += more

    @staticmethod
    def drop(made):
        try:
            made.remove(force=True)
        except docker.errors.NotFound:
            pass


class Attach(Case):
    def test_output_frames(self):
        made = self.container('sh', '-c', 'echo out; echo err >&2')
        stream = made.attach(stream=True, logs=True, demux=True)
        made.start()
        out, err = b'', b''
        for o, e in stream:
            out, err = out + (o or b''), err + (e or b'')
        self.assertEqual((out, err), (b'out\n', b'err\n'))

    def test_socket_both_ways(self):
        made = self.container('cat', stdin_open=True)
        stream = raw(made.attach_socket(params={'stdin': 1, 'stdout': 1, 'stream': 1}))
        made.start()
        stream.sendall(b'to and fro\n')
        self.assertEqual(next(frames(stream)), (1, b'to and fro\n'))
        stream.shutdown(socket.SHUT_WR)
        self.assertEqual(list(frames(stream)), [])
        self.assertEqual(made.wait()['StatusCode'], 0)

    def test_terminal_is_raw(self):
        made = self.container('sh', '-c', 'stty -echo; read x; echo "got $x"; read x', stdin_open=True, tty=True)
        stream = raw(made.attach_socket(params={'stdin': 1, 'stdout': 1, 'stream': 1}))
        made.start()
        made.resize(height=33, width=99)
        stream.sendall(b'word\n')
        self.read_until(stream, b'got word')
        stream.sendall(b'end\n')


class Exec(Case):
    def test_output_and_code(self):
        made = self.running()
        code, output = made.exec_run(['sh', '-c', 'echo out; echo err >&2; exit 3'], demux=True)
        self.assertEqual((code, output), (3, (b'out\n', b'err\n')))

    def test_streams(self):
        made = self.running()
        made_exec = self.client.api.exec_create(made.id, ['cat'], stdin=True)
        stream = raw(self.client.api.exec_start(made_exec['Id'], socket=True))
        stream.sendall(b'x' * 100000)
        stream.shutdown(socket.SHUT_WR)
        self.assertEqual(sum(len(data) for _, data in frames(stream)), 100000)
        self.wait_for_end(made_exec['Id'])
        shown = self.client.api.exec_inspect(made_exec['Id'])
        self.assertEqual((shown['Running'], shown['ExitCode'], shown['OpenStdin']), (False, 0, True))
        self.assertEqual(shown['ProcessConfig']['entrypoint'], 'cat')
        if at_least(22):
            self.assertEqual(shown['ContainerID'], made.id)
        else:
            self.assertEqual(shown['Container']['Id'], made.id)

    def wait_for_end(self, exec_id):
        self.until(lambda: self.client.api.exec_inspect(exec_id)['ExitCode'] is not None)

    def test_terminal_user_privileged(self):
        made = self.running()
        made_exec = self.client.api.exec_create(made.id, ['sh', '-c', 'tty; read x'], tty=True, stdin=True)
        stream = raw(self.client.api.exec_start(made_exec['Id'], tty=True, socket=True))
        self.read_until(stream, b'/dev/pts/')  # a command that ends at once may lose what it says
        stream.sendall(b'\n')
        self.wait_for_end(made_exec['Id'])
        self.assertEqual(self.client.api.exec_inspect(made_exec['Id'])['ExitCode'], 0)
        _, output = made.exec_run('id -u', user='0')
        self.assertEqual(output, b'0\n')
        _, plain = made.exec_run(['grep', 'CapEff', '/proc/self/status'])
        _, full = made.exec_run(['grep', 'CapEff', '/proc/self/status'], privileged=True)
        self.assertNotEqual(plain, full)

    def test_detached(self):
        made = self.running()
        made.exec_run(['sh', '-c', 'echo done >/tmp/mark'], detach=True)
        code, output = made.exec_run(['sh', '-c', 'until [ -s /tmp/mark ]; do sleep 0.05; done; cat /tmp/mark'])
        self.assertEqual((code, output), (0, b'done\n'))

    def test_refusals(self):
        made = self.running()
        made.pause()
        with self.assertRaises(docker.errors.APIError) as paused:
            self.client.api.exec_create(made.id, ['true'])
        self.assertEqual(paused.exception.status_code, 409)
        made.unpause()
        with self.assertRaises(docker.errors.NotFound):
            self.client.api.exec_inspect('0' * 64)


class Stats(Case):
    def test_one_sample(self):
        shown = self.running().stats(stream=False)
        self.assertIn('cpu_stats', shown)
        self.assertIn('precpu_stats', shown)
        self.assertGreater(shown['memory_stats']['usage'], 0)
        self.assertGreater(shown['cpu_stats']['system_cpu_usage'], 0)

    def test_stream(self):
        made = self.running('sh', '-c', 'while :; do :; done')
        used = []
        for shown in made.stats(decode=True):
            used.append(shown['cpu_stats']['cpu_usage']['total_usage'])
            if len(used) == 3:
                break
        self.assertTrue(used[0] < used[1] < used[2], used)


class Archive(Case):
    def test_round_trip(self):
        for made in (self.running(), self.container()):
            self.assertTrue(made.put_archive('/tmp', archive(one=b'1' * 5000, two=b'two')))
            data, stat = made.get_archive('/tmp/one')
            self.assertEqual((stat['name'], stat['size'], stat['mode'] & 0o777), ('one', 5000, 0o640))
            with tarfile.open(fileobj=io.BytesIO(b''.join(data))) as tar:
                self.assertEqual(tar.getnames(), ['one'])
                self.assertEqual(tar.extractfile('one').read(), b'1' * 5000)
                self.assertEqual(tar.getmember('one').mtime, 1000000000)

    def test_errors(self):
        made = self.running()
        with self.assertRaises(docker.errors.NotFound):
            made.get_archive('/no/such/file')
        with self.assertRaises(docker.errors.NotFound):
            made.put_archive('/no/such/folder', archive(x=b''))

    def test_export_and_diff(self):
        made = self.container('sh', '-c', 'echo new >/root/file')
        made.start()
        made.wait()
        self.assertIn({'Path': '/root/file', 'Kind': 1}, made.diff())
        with tarfile.open(fileobj=io.BytesIO(b''.join(made.export()))) as tar:
            self.assertEqual(tar.extractfile('root/file').read(), b'new\n')


class Events(Case):
    def test_life_of_a_container(self):
        name = f'events-{os.getpid()}'
        seen = []
        stream = self.client.events(decode=True, filters={'container': name, 'type': 'container'})
        listener = threading.Thread(target=lambda: seen.extend(stream))
        listener.start()
        made = self.container('sh', '-c', 'exit 4', name=name, labels={'kind': 'test'})
        made.start()
        made.wait()
        made.remove()
        self.until(lambda: any(e['Action'] == 'destroy' for e in seen))
        stream.close()
        listener.join(20)
        self.assertEqual([e['Action'] for e in seen], ['create', 'start', 'die', 'destroy'])
        die = seen[2]
        self.assertEqual(die['Actor']['Attributes']['exitCode'], '4')
        self.assertEqual(die['Actor']['Attributes']['kind'], 'test')
        self.assertEqual((die['status'], die['id']), ('die', made.id))

    def test_past(self):
        before = time.time() - 1
        made = self.running()
        made.pause()
        made.unpause()
        made.exec_run('true')
        past = self.client.events(decode=True, since=int(before), until=int(time.time()) + 1, filters={'container': made.id})
        actions = [e['Action'] for e in past]
        for wanted in ('create', 'start', 'pause', 'unpause', 'exec_create: true', 'exec_start: true'):
            self.assertIn(wanted, actions)


class Verbs(Case):
    def test_commit(self):
        made = self.container('sh', '-c', 'echo kept >/kept')
        made.start()
        made.wait()
        image = made.commit(repository=f'committed-{os.getpid()}', tag='v1', changes='ENV A=b', conf={'Cmd': ['cat', '/kept']})
        self.addCleanup(self.client.images.remove, image.id, force=True)
        output = self.client.containers.run(image.id, remove=True, network_mode='none')
        self.assertEqual(output, b'kept\n')
        self.assertIn('A=b', image.attrs['Config']['Env'])

    @since(22)
    def test_update(self):
        made = self.container()
        answer = made.update(mem_limit='64m', cpu_shares=300)
        self.assertIn('Warnings', answer)
        made.reload()
        self.assertEqual(made.attrs['HostConfig']['Memory'], 64 << 20)
        self.assertEqual(made.attrs['HostConfig']['CpuShares'], 300)

    def test_top_pause_rename_kill(self):
        made = self.running()
        self.assertIn('PID', made.top()['Titles'])
        # Right after the start the process may not have taken its own name yet.
        self.until(lambda: any('sleep' in ' '.join(line) for line in made.top()['Processes']))
        made.pause()
        made.reload()
        self.assertEqual(made.status, 'paused')
        made.unpause()
        made.rename(f'renamed-{os.getpid()}')
        made.reload()
        self.assertEqual(made.name, f'renamed-{os.getpid()}')
        made.kill('SIGKILL')
        self.assertEqual(made.wait()['StatusCode'], 137)

    def test_logs(self):
        made = self.container('sh', '-c', 'for i in 1 2 3; do echo $i; done', log_config=LogConfig(config={'max-size': '1m'}))
        made.start()
        made.wait()
        self.assertEqual(made.logs(tail=2), b'2\n3\n')
        self.assertEqual(b''.join(made.logs(stream=True, follow=True)), b'1\n2\n3\n')
        self.assertRegex(made.logs(timestamps=True, tail=1), rb'^\d{4}-\d\d-\d\dT\S+Z 3\n$')

    def test_list_filters(self):
        made = self.running(labels={'filter': str(os.getpid())})
        found = self.client.containers.list(filters={'label': f'filter={os.getpid()}', 'status': 'running'})
        self.assertEqual([c.id for c in found], [made.id])
        self.assertEqual(self.client.containers.list(filters={'label': 'filter=none'}), [])

    def test_volumes(self):
        volume = self.client.volumes.create(f'volume-{os.getpid()}')
        self.addCleanup(volume.remove)
        for command in ('echo there >/data/x', 'grep there /data/x'):
            made = self.running('sh', '-c', command, volumes={volume.name: {'bind': '/data', 'mode': 'rw'}})
            self.assertEqual(made.wait()['StatusCode'], 0)
            self.drop(made)


class Networks(Case):
    def network(self, name, **options):
        made = self.client.networks.create(f'{name}-{os.getpid()}', driver='bridge', check_duplicate=True, **options)
        self.addCleanup(made.remove)
        return made

    def server(self, network, *command, **options):
        container = self.running('sh', '-c', 'echo "from $HOSTNAME" >/tmp/index.html; exec httpd -f -h /tmp', network=network.name,
                                 network_mode=network.name, **options)
        end = time.monotonic() + 120
        while self.fetch(container, 'http://127.0.0.1/')[0] != 0:  # it runs before it listens
            self.assertLess(time.monotonic(), end, 'the server does not listen')
        return container

    def fetch(self, container, url):
        """The exit code and the output of a request from inside."""
        result = container.exec_run(['timeout', '60', 'wget', '-q', '-O', '-', url])
        return result.exit_code, result.output.decode()

    def test_life(self):
        pool = docker.types.IPAMPool(subnet='10.97.1.0/24', iprange='10.97.1.128/25', gateway='10.97.1.254')
        options = {'labels': {'py': str(os.getpid())}} if at_least(23) else {}
        made = self.network('life', ipam=docker.types.IPAMConfig(pool_configs=[pool]), options={'com.docker.network.driver.mtu': '1400'}, **options)
        made.reload()
        self.assertEqual(made.attrs['Driver'], 'bridge')
        self.assertEqual(made.attrs['IPAM']['Config'][0]['Subnet'], '10.97.1.0/24')
        self.assertEqual(made.attrs['Options'], {'com.docker.network.driver.mtu': '1400'})
        self.assertEqual([n.id for n in self.client.networks.list(names=[made.name])], [made.id])
        self.assertEqual([n.id for n in self.client.networks.list(ids=[made.id[:12]])], [made.id])
        if at_least(24):
            self.assertEqual([n.id for n in self.client.networks.list(filters={'label': f'py={os.getpid()}'})], [made.id])
        with self.assertRaises(docker.errors.APIError) as raised:
            self.client.networks.create(made.name, check_duplicate=True)
        self.assertEqual(raised.exception.status_code, 409)
        with self.assertRaises(docker.errors.NotFound):
            self.client.networks.get('none-such')

    @since(22)
    def test_names_and_connect(self):
        one, two = self.network('one'), self.network('two')
        first, second = self.server(one), self.server(two)
        code, _ = self.fetch(first, f'http://{second.name}/')
        self.assertNotEqual(code, 0)
        one.connect(second, aliases=['second'])
        self.assertEqual(self.fetch(first, 'http://second/'), (0, f'from {second.id[:12]}\n'))
        one.reload()
        self.assertEqual({c.id for c in one.containers}, {first.id, second.id})
        with self.assertRaises(docker.errors.APIError):
            one.remove()
        one.disconnect(second)
        self.assertNotEqual(self.fetch(first, 'http://second/')[0], 0)
        second.reload()
        self.assertEqual(list(second.attrs['NetworkSettings']['Networks']), [two.name])
        with self.assertRaises(docker.errors.APIError):
            one.disconnect(second)
        first.remove(force=True)
        second.remove(force=True)

    @since(22)
    def test_addresses(self):
        pool = docker.types.IPAMPool(subnet='10.97.2.0/24')
        made = self.network('fixed', internal=True, ipam=docker.types.IPAMConfig(pool_configs=[pool]))
        low = self.client.api
        config = low.create_networking_config({made.name: low.create_endpoint_config(ipv4_address='10.97.2.9', aliases=['nine'])})
        host = low.create_host_config(network_mode=made.name)
        created = low.create_container(IMAGE, ['sleep', '1000'], networking_config=config, host_config=host)['Id']
        self.addCleanup(low.remove_container, created, force=True)
        low.start(created)
        endpoint = low.inspect_container(created)['NetworkSettings']['Networks'][made.name]
        self.assertEqual(endpoint['IPAddress'], '10.97.2.9')
        self.assertEqual(endpoint['IPAMConfig'], {'IPv4Address': '10.97.2.9'})
        self.assertIn('nine', endpoint['Aliases'])
        other = self.running(network=made.name, network_mode=made.name)
        self.assertEqual(other.exec_run(['ping', '-c', '1', '-W', '5', 'nine']).exit_code, 0)
        made.disconnect(other, force=True)

    def test_ports(self):
        made = self.running('sh', '-c', 'echo page >/tmp/index.html; exec httpd -f -p 8080 -h /tmp', network_mode='bridge',
                            ports={'8080/tcp': ('127.0.0.1', None)})
        made.reload()
        bound = made.ports['8080/tcp'][0]
        self.assertEqual(bound['HostIp'], '127.0.0.1')

        def answers():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{bound['HostPort']}/", timeout=5) as answer:
                    return answer.read() == b'page\n'
            except OSError:
                return False
        self.until(answers)
        self.assertEqual(self.client.api.port(made.id, 8080), made.ports['8080/tcp'])


class Volumes(Case):
    def test_life(self):
        options = {'labels': {'py': str(os.getpid())}} if at_least(23) else {}
        made = self.client.volumes.create(f'volume-{os.getpid()}', driver='local', driver_opts={'type': 'tmpfs', 'o': 'size=1m'}, **options)
        self.assertEqual(self.client.volumes.get(made.name).attrs['Driver'], 'local')
        self.assertIn(made.name, [v.name for v in self.client.volumes.list()])
        self.assertIn(made.name, [v.name for v in self.client.volumes.list(filters={'dangling': True})])
        if at_least(24):
            self.assertEqual([v.name for v in self.client.volumes.list(filters={'label': f'py={os.getpid()}'})], [made.name])
        holder = self.container('true', volumes={made.name: {'bind': '/data', 'mode': 'ro'}})
        self.assertNotIn(made.name, [v.name for v in self.client.volumes.list(filters={'dangling': True})])
        with self.assertRaises(docker.errors.APIError) as raised:
            made.remove()
        self.assertEqual(raised.exception.status_code, 409)
        holder.remove()
        made.remove()
        with self.assertRaises(docker.errors.NotFound):
            self.client.volumes.get(made.name)
        with self.assertRaises(docker.errors.NotFound):
            self.client.volumes.create('x-plugin', driver='none-such')

    @since(22)
    def test_mounts_of_all_kinds(self):
        made = self.client.volumes.create(f'kinds-{os.getpid()}')
        self.addCleanup(made.remove)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'file'), 'w', encoding='utf-8') as file:
                file.write('of the host\n')
            holder = self.running('sh', '-c', 'cat /b/file; touch /b/x; echo kept >/v/kept; grep -c " /t tmpfs " /proc/mounts',
                                  volumes=[f'{folder}:/b:ro', f'{made.name}:/v', '/anonymous'], tmpfs={'/t': 'size=1m'})
            self.assertEqual(holder.wait()['StatusCode'], 0)
            self.assertEqual(holder.logs(stderr=False), b'of the host\n1\n')
        holder.reload()
        kinds = {m['Destination']: m for m in holder.attrs['Mounts']}
        self.assertEqual(kinds['/v']['Name'], made.name)
        self.assertEqual(kinds['/b']['RW'], False)
        taker = self.running('cat', '/v/kept', volumes_from=[holder.id])
        self.assertEqual(taker.wait()['StatusCode'], 0)
        taker.remove()
        anonymous = kinds['/anonymous']['Name']
        holder.remove(v=True)
        self.assertNotIn(anonymous, [v.name for v in self.client.volumes.list()])
        self.assertIn(made.name, [v.name for v in self.client.volumes.list()])


class Images(Case):
    """Needs $REGISTRY with lib/box:one and :two, $CLOSED that wants ann:secret, and $SITE with busybox.tar."""

    registry = os.environ.get('REGISTRY', '')
    closed = os.environ.get('CLOSED', '')
    ann = {'username': 'ann', 'password': 'secret'}

    def name(self, what):
        name = f'{what}-{VERSION.replace(".", "-")}-{time.time_ns()}'
        self.addCleanup(self.forget, name)
        return name

    def forget(self, name):
        for made in self.client.images.list(all=True):
            for tag in made.tags:
                if name in tag:
                    self.client.images.remove(tag, force=True)

    def test_pull(self):
        repository = f'{self.registry}/lib/box'
        self.addCleanup(self.forget, repository)
        made = self.client.images.pull(repository, tag='one')
        self.assertIn(f'{repository}:one', made.tags)
        both = self.client.images.pull(repository, all_tags=True)
        self.assertEqual(sorted(tag for i in both for tag in i.tags if repository in tag), [f'{repository}:one', f'{repository}:two'])
        digest = self.client.images.get(f'{repository}:one').attrs['RepoDigests'][0]
        self.assertEqual(self.client.images.pull(digest).id, made.id)
        lines = list(self.client.api.pull(repository, tag='one', stream=True, decode=True))
        self.assertIn('up to date', lines[-1]['status'])

    def test_pull_what_is_not_there(self):
        with self.assertRaises(docker.errors.NotFound):
            self.client.images.pull(f'{self.registry}/no/such', tag='t')
        with self.assertRaises(docker.errors.NotFound):
            self.client.images.pull(f'{self.registry}/lib/box', tag='nope')

    def test_push(self):
        repository = f'{self.registry}/{self.name("push")}'
        made = self.client.images.get(IMAGE)
        self.assertTrue(made.tag(repository, tag='t'))
        lines = list(self.client.images.push(repository, tag='t', stream=True, decode=True))
        self.assertFalse([line for line in lines if 'error' in line], lines)
        aux = [line['aux'] for line in lines if 'aux' in line][-1]
        self.assertEqual(aux['Tag'], 't')
        self.assertRegex(aux['Digest'], '^sha256:[0-9a-f]{64}$')

    def test_credentials(self):
        repository = f'{self.closed}/{self.name("ann")}'
        made = self.client.images.get(IMAGE)
        made.tag(repository, tag='t')
        lines = list(self.client.images.push(repository, tag='t', stream=True, decode=True, auth_config=self.ann))
        self.assertTrue([line for line in lines if 'aux' in line], lines)
        self.client.images.remove(f'{repository}:t')
        self.assertEqual(self.client.images.pull(repository, tag='t', auth_config=self.ann).id, made.id)
        with self.assertRaises(docker.errors.APIError):
            self.client.images.pull(repository, tag='t', auth_config={'username': 'ann', 'password': 'wrong'})

    def test_login(self):
        answer = self.client.login('ann', 'secret', registry=self.closed, reauth=True)
        self.assertEqual(answer['Status'], 'Login Succeeded')
        with self.assertRaises(docker.errors.APIError) as caught:
            self.client.login('ann', 'wrong', registry=self.closed, reauth=True)
        self.assertEqual(caught.exception.status_code, 401)

    def test_tag_history_inspect_remove(self):
        name = self.name('tagged')
        made = self.client.images.get(IMAGE)
        self.assertTrue(made.tag(f'127.0.0.1:5000/{name}', tag='a', force=True))
        tagged = self.client.images.get(f'127.0.0.1:5000/{name}:a')
        self.assertEqual((tagged.id, tagged.short_id[:7]), (made.id, 'sha256:'))
        self.assertIn(f'127.0.0.1:5000/{name}:a', tagged.tags)
        self.assertEqual(tagged.history()[0]['Id'], made.id)
        self.assertIn(f'127.0.0.1:5000/{name}:a', [t for i in self.client.images.list(f'127.0.0.1:5000/{name}') for t in i.tags])
        self.client.images.remove(f'127.0.0.1:5000/{name}:a')
        with self.assertRaises(docker.errors.ImageNotFound):
            self.client.images.get(f'127.0.0.1:5000/{name}:a')

    def test_save_and_load(self):
        name = self.name('saved')
        made = self.client.images.get(IMAGE)
        made.tag(name, tag='t')
        data = b''.join(self.client.images.get(f'{name}:t').save(named=f'{name}:t'))
        self.client.images.remove(f'{name}:t')
        if at_least(23):
            self.assertEqual([i.id for i in self.client.images.load(data)], [made.id])
        else:  # the answer is empty, which the library's images.load cannot take
            self.client.api.load_image(data)
        self.assertEqual(self.client.images.get(f'{name}:t').id, made.id)

    def test_import(self):
        name = self.name('imported')
        self.client.api.import_image_from_data(archive(file=b'text'), repository=name, tag='t', changes=['CMD x'])
        self.assertEqual(self.client.images.get(f'{name}:t').attrs['Config']['Cmd'][-1], 'x')
        self.client.api.import_image_from_url(os.environ['SITE'] + '/busybox.tar', repository=name, tag='url')
        self.assertIn(f'{name}:url', self.client.images.get(f'{name}:url').tags)

    def test_search(self):
        found = self.client.images.search(f'{self.registry}/box')
        self.assertEqual([r['name'] for r in found], ['lib/box'])


class Build(Case):
    """Images from Dockerfiles. Needs $CLOSED that wants ann:secret, and $SITE with context.tar and a Dockerfile."""

    name, forget = Images.name, Images.forget

    def context(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = os.path.join(folder.name, {'ignore': '.dockerignore'}.get(name, name.replace('__', '/')))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w') as file:
                file.write(text)
        return folder.name

    def build(self, **options):
        """The image and the lines of a build."""
        options.setdefault('tag', self.name('built'))
        options.setdefault('rm', True)
        options.setdefault('forcerm', True)
        made, lines = self.client.images.build(**options)
        self.addCleanup(self.drop_image, made.id)
        return made, list(lines)

    def drop_image(self, made):
        try:
            self.client.images.remove(made, force=True)
        except docker.errors.ImageNotFound:
            pass  # two builds may have made the same

    def says(self, made, *command):
        return self.client.containers.run(made.id, list(command), remove=True, network_mode='none').decode()

    def test_folder(self):
        path = self.context(Dockerfile=f'FROM {IMAGE}\nARG WORD\nCOPY . /src/\nRUN echo $WORD >/word\n', a='1', b='2', drop__c='3', ignore='drop\n')
        made, lines = self.build(path=path, buildargs={'WORD': 'given'}, **({'labels': {'a': 'b'}} if at_least(23) else {}))
        text = ''.join(line.get('stream', '') for line in lines)
        steps = 5 if at_least(23) else 4  # labels of the request are a step of their own
        for part in (f'Step 1/{steps} : FROM {IMAGE}', ' ---> Running in ', 'Successfully built ', f'Successfully tagged {made.tags[0]}'):
            self.assertIn(part, text)
        self.assertEqual(self.says(made, 'cat', '/word'), 'given\n')
        self.assertEqual(self.says(made, 'ls', '-A', '/src').split(), ['.dockerignore', 'Dockerfile', 'a', 'b'])
        if at_least(23):
            self.assertEqual(made.labels, {'a': 'b'})

    def test_id(self):
        """The library takes the id out of the lines: the short one of "Successfully built", or all of it when quiet."""
        path = self.context(Dockerfile=f'FROM {IMAGE}\nENV A=b\n')
        tag = self.name('id')
        made, _ = self.build(path=path, tag=tag)
        self.assertEqual(made.id, self.client.images.get(tag).id)
        quiet, lines = self.build(path=path, quiet=True, tag=tag)
        self.assertEqual(quiet.id, made.id)
        self.assertEqual([line['stream'].strip() for line in lines if 'stream' in line], [made.id])

    def test_error(self):
        path = self.context(Dockerfile=f'FROM {IMAGE}\nRUN echo why; exit 3\n')
        with self.assertRaises(docker.errors.BuildError) as caught:
            self.build(path=path)
        self.assertEqual(caught.exception.msg, "The command '/bin/sh -c echo why; exit 3' returned a non-zero code: 3")
        log = list(caught.exception.build_log)
        self.assertIn({'stream': 'why\n'}, log)
        self.assertEqual(log[-1]['errorDetail']['code'], 3)
        with self.assertRaises(docker.errors.APIError) as caught:
            self.build(path=self.context(Dockerfile=f'FROM {IMAGE}\nNOSUCH x\n'))
        self.assertEqual(caught.exception.status_code, 400)
        self.assertIn('unknown instruction: NOSUCH', str(caught.exception))
        with self.assertRaises(docker.errors.BuildError):
            self.build(path=self.context(Dockerfile=f'FROM {IMAGE}\nCOPY missing /\n'))

    def test_streams(self):
        """A Dockerfile alone, an archive of one's own, one of gzip, and a Dockerfile that is outside of the context."""
        made, _ = self.build(fileobj=io.BytesIO(f'FROM {IMAGE}\nRUN echo alone >/alone\n'.encode()))
        self.assertEqual(self.says(made, 'cat', '/alone'), 'alone\n')
        own = archive(sub__File=f'FROM {IMAGE}\nCOPY word /word\n'.encode(), word=b'own')
        made, _ = self.build(fileobj=io.BytesIO(own), custom_context=True, dockerfile='sub/File')
        self.assertEqual(self.says(made, 'cat', '/word'), 'own')
        small, _ = self.build(fileobj=io.BytesIO(gzip.compress(own)), custom_context=True, encoding='gzip', dockerfile='sub/File')
        self.assertEqual(small.id, made.id)
        outside = os.path.join(self.context(Else=f'FROM {IMAGE}\nCOPY word /else\n'), 'Else')
        made, _ = self.build(path=self.context(word='inside'), dockerfile=outside, gzip=True)
        self.assertEqual(self.says(made, 'cat', '/else'), 'inside')

    def test_options(self):
        path = self.context(Dockerfile=f'FROM {IMAGE}\nRUN df -k /dev/shm | tail -n 1 >/shm\n')
        options = {'shmsize': 4 << 20} if at_least(22) else {}
        made, lines = self.build(path=path, nocache=True, pull=False, container_limits={'memory': 1 << 28, 'memswap': 1 << 29, 'cpushares': 100}, **options)
        if options:
            self.assertEqual(self.says(made, 'awk', '{print $2}', '/shm'), '4096\n')
        again, lines = self.build(path=path, container_limits={'memory': 1 << 28, 'memswap': 1 << 29, 'cpushares': 100}, **options)
        self.assertEqual(again.id, made.id)
        self.assertIn({'stream': ' ---> Using cache\n'}, lines)

    def test_kept_container(self):
        before = {c.id for c in self.client.containers.list(all=True)}
        self.build(path=self.context(Dockerfile=f'FROM {IMAGE}\nRUN echo {time.time_ns()}\n'), rm=False, forcerm=False)
        left = [c for c in self.client.containers.list(all=True) if c.id not in before]
        self.assertEqual([c.status for c in left], ['exited'])
        left[0].remove()

    def test_remote(self):
        site = os.environ['SITE']
        made, _ = self.build(path=f'{site}/context.tar')
        self.assertEqual(self.says(made, 'cat', '/word'), 'remote\n')
        made, _ = self.build(path=f'{site}/Dockerfile')
        self.assertEqual(self.says(made, 'cat', '/alone'), 'remote\n')
        with self.assertRaises((docker.errors.APIError, docker.errors.BuildError)) as caught:
            self.build(path=f'{site}/missing.tar')
        self.assertIn('404', str(caught.exception))

    def test_credentials(self):
        """The library sends what it knows of registries with X-Registry-Config."""
        closed = os.environ['CLOSED']
        name = self.name('base')
        self.client.images.get(IMAGE).tag(f'{closed}/{name}', tag='t')
        self.client.images.push(f'{closed}/{name}', tag='t', auth_config=Images.ann)
        self.client.images.remove(f'{closed}/{name}:t')
        path = self.context(Dockerfile=f'FROM {closed}/{name}:t\nRUN true\n')
        with self.assertRaises((docker.errors.APIError, docker.errors.BuildError)):
            self.build(path=path)
        knows = docker.DockerClient(base_url=os.environ['DOCKER_HOST'], version=VERSION)
        self.addCleanup(knows.close)
        knows.login('ann', 'secret', registry=closed)
        made, _ = knows.images.build(path=path, rm=True, forcerm=True)
        self.addCleanup(self.drop_image, made.id)


if __name__ == '__main__':
    unittest.main()
