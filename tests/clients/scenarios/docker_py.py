"""A scenario of docker-py on the engine of $DOCKER_HOST with API version $API_VERSION: numbered steps, up to the first that fails.

It needs the image busybox and an open registry at $REGISTRY.
"""
import io
import itertools
import os
import socket
import struct
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request

import docker

VERSION = os.environ['API_VERSION']
MINOR = int(VERSION.split('.')[1])
NAME = f'py-{MINOR}-{os.getpid()}'
BUILT, REMOTE = f'{NAME}/built', f'{os.environ["REGISTRY"]}/{NAME}/pushed'
client = docker.DockerClient(base_url=os.environ['DOCKER_HOST'], version=VERSION, timeout=60)
numbers = itertools.count(1)


def step(text):
    print(f'step {next(numbers)}: {text}', flush=True)


def equal(got, want):
    assert got == want, f'got {got!r}, want {want!r}'


def fails(kind, status, call, *args, **options):
    """The call has to raise this kind of error."""
    try:
        call(*args, **options)
    except kind as error:
        equal(error.status_code, status)
        return error
    raise AssertionError(f'{call} did not fail')


def archive(**files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w') as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    return data.getvalue()


def unpack(chunks, name):
    with tarfile.open(fileobj=io.BytesIO(b''.join(chunks))) as tar:
        return tar.extractfile(name).read()


def page(port):
    """What the server at this port says, once it listens."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=5) as answer:
                return answer.read()
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, 'no page in time'
            time.sleep(0.02)


def system():
    step('ping')
    assert client.ping()
    step('version and info')
    equal((client.version()['ApiVersion'], client.version()['Os']), ('1.51', 'linux'))
    assert client.info()['Images'] >= 1 and client.info()['Driver']


def images():
    busybox = client.images.get('busybox')
    step('tag an image, and find it by its name')
    assert busybox.tag(f'{NAME}/tagged', tag='one')
    equal([i.id for i in client.images.list(f'{NAME}/tagged')], [busybox.id])
    step('history of an image')
    equal(busybox.history()[0]['Id'], busybox.id)
    step('remove a tag')
    client.images.remove(f'{NAME}/tagged:one')
    fails(docker.errors.ImageNotFound, 404, client.images.get, f'{NAME}/tagged:one')
    step('build an image')
    context = archive(Dockerfile=b'FROM busybox\nARG WORD\nCOPY page /www/index.html\nRUN echo $WORD >/word\nENV A=b\n', page=b'a page\n')
    made, lines = client.images.build(fileobj=io.BytesIO(context), custom_context=True, tag=BUILT, buildargs={'WORD': 'given'}, rm=True)
    assert f'Successfully tagged {BUILT}:latest' in ''.join(line.get('stream', '') for line in lines)
    step('what was built has its settings')
    assert 'A=b' in made.attrs['Config']['Env'], made.attrs['Config']
    equal(made.tags, [f'{BUILT}:latest'])
    step('a build that fails tells why')
    try:
        client.images.build(fileobj=io.BytesIO(b'FROM busybox\nRUN exit 7\n'), forcerm=True)
        raise AssertionError('the build did not fail')
    except docker.errors.BuildError as error:
        assert 'returned a non-zero code: 7' in error.msg, error.msg
    step('push an image')
    made.tag(REMOTE, tag='t')
    pushed = [line['aux'] for line in client.images.push(REMOTE, tag='t', stream=True, decode=True) if 'aux' in line]
    equal(pushed[-1]['Tag'], 't')
    step('pull it by its digest')
    client.images.remove(f'{REMOTE}:t')
    pulled = client.images.pull(f'{REMOTE}@{pushed[-1]["Digest"]}')
    equal(pulled.id, made.id)
    step('save and load an image')
    data = b''.join(made.save(named=f'{BUILT}:latest'))
    client.images.remove(f'{BUILT}:latest')
    client.api.load_image(data)
    equal(client.images.get(BUILT).id, made.id)
    step('import an image')
    client.api.import_image_from_data(archive(file=b'text'), repository=f'{NAME}/imported', changes=['CMD x'])
    equal(client.images.get(f'{NAME}/imported').attrs['Config']['Cmd'][-1], 'x')
    client.images.remove(f'{NAME}/imported')


def places():
    step('create a network')
    network = client.networks.create(NAME, driver='bridge', check_duplicate=True)
    equal([n.id for n in client.networks.list(names=[NAME])], [network.id])
    step('create a volume')
    volume = client.volumes.create(NAME)
    assert volume.id in [v.id for v in client.volumes.list(filters={'dangling': True})]
    return network, volume


def server():
    step('run a container that serves a page')
    web = client.containers.run(
        BUILT, ['sh', '-c', 'echo up; echo kept >/data/kept; httpd -p 8080 -h /www; sleep 1000'], detach=True, name=f'{NAME}-web',
        labels={'scenario': NAME}, environment={'E': 'f'}, network=NAME, ports={'8080/tcp': ('127.0.0.1', None)},
        volumes={NAME: {'bind': '/data', 'mode': 'rw'}})
    step('inspect a container')
    web.reload()
    equal((web.status, web.attrs['Mounts'][0]['Destination']), ('running', '/data'))
    equal(list(web.attrs['NetworkSettings']['Networks']), [NAME])
    step('list containers by label')
    equal([c.id for c in client.containers.list(filters={'label': f'scenario={NAME}'})], [web.id])
    step('read the page at the published port')
    equal(page(web.ports['8080/tcp'][0]['HostPort']), b'a page\n')
    step('another container reads it by the name')
    equal(client.containers.run('busybox', ['wget', '-q', '-O', '-', f'http://{NAME}-web:8080/'], network=NAME, remove=True), b'a page\n')
    return web


def streams(web):
    step('exec: both outputs and the code')
    equal(tuple(web.exec_run(['sh', '-c', 'cat /data/kept; echo err >&2; exit 3'], demux=True)), (3, (b'kept\n', b'err\n')))
    step('exec: input through a socket')
    made = client.api.exec_create(web.id, ['cat'], stdin=True)
    stream = client.api.exec_start(made['Id'], socket=True)
    both = getattr(stream, '_sock', stream)
    both.sendall(b'to and fro')
    both.shutdown(socket.SHUT_WR)
    got = b''
    while more := both.recv(4096):
        got += more
    equal(got, struct.pack('>BxxxL', 1, 10) + b'to and fro')
    step('attach: the output as it comes')
    talks = client.containers.create('busybox', ['sh', '-c', 'echo out; echo err >&2'], network_mode='none')
    output = talks.attach(stream=True, demux=True)
    talks.start()
    parts = list(output)
    equal((b''.join(o or b'' for o, _ in parts), b''.join(e or b'' for _, e in parts)), (b'out\n', b'err\n'))
    equal(talks.wait()['StatusCode'], 0)
    step('logs of one output, and its last line with a time')
    equal(talks.logs(stderr=False), b'out\n')
    assert web.logs(tail=1, timestamps=True).endswith(b'Z up\n')
    talks.remove()
    ends()
    step('stats')
    assert web.stats(stream=False)['memory_stats']['usage'] > 0
    step('top')
    assert any('httpd' in ' '.join(process) for process in web.top()['Processes'])


def ends():
    step('attach to the end, then inspect: the exit code is there')
    for _ in range(5):  # an engine that tells too late does so now and then
        told = client.containers.create('busybox', ['sh', '-c', 'echo out; exit 7'], network_mode='none')
        output = told.attach(stream=True)
        told.start()
        equal(b''.join(output), b'out\n')
        state = client.api.inspect_container(told.id)['State']
        equal((state['Running'], state['ExitCode']), (False, 7))
        told.remove()
    step('kill during an exec: its stream ends, and its code is not 0')
    killed = client.containers.run('busybox', ['sleep', '1000'], network_mode='none', detach=True)
    made = client.api.exec_create(killed.id, ['sh', '-c', 'echo here; sleep 1000'])
    output = client.api.exec_start(made['Id'], stream=True)
    equal(next(output), b'here\n')
    killed.kill()
    equal(list(output), [])
    shown = client.api.exec_inspect(made['Id'])
    assert not shown['Running'] and shown['ExitCode'], shown
    killed.remove()


def files(web):
    step('put an archive')
    assert web.put_archive('/tmp', archive(one=b'first'))
    equal(web.exec_run(['cat', '/tmp/one']).output, b'first')
    step('get an archive')
    data, stat = web.get_archive('/www/index.html')
    equal((stat['name'], stat['size'], unpack(data, 'index.html')), ('index.html', 7, b'a page\n'))
    step('changes and export')
    assert {'Path': '/tmp/one', 'Kind': 1} in web.diff()
    equal(unpack(web.export(), 'tmp/one'), b'first')


def verbs(web, network):
    step('pause and unpause')
    web.pause()
    web.reload()
    equal(web.status, 'paused')
    web.unpause()
    step('rename')
    web.rename(f'{NAME}-renamed')
    equal(client.containers.get(f'{NAME}-renamed').id, web.id)
    if MINOR >= 22:
        step('update')
        web.update(cpu_shares=200)
        web.reload()
        equal(web.attrs['HostConfig']['CpuShares'], 200)
    step('disconnect')
    network.disconnect(web)
    network.reload()
    equal(network.attrs['Containers'], {})
    if MINOR >= 22:  # the library refuses it below
        step('connect')
        network.connect(web, aliases=['other'])
        network.reload()
        equal(list(network.attrs['Containers']), [web.id])
    step('commit')
    made = web.commit(f'{NAME}/committed', message='words', changes=['CMD ["cat", "/tmp/one"]'])
    equal(client.containers.run(made.id, remove=True, network_mode='none'), b'first')
    client.images.remove(f'{NAME}/committed')
    step('restart, kill and wait')
    web.restart(timeout=0)
    web.kill()
    equal(web.wait()['StatusCode'], 137)


def removal(web, network, volume):
    step('a volume in use stays')
    fails(docker.errors.APIError, 409, volume.remove)
    step('remove the container')
    web.remove()
    fails(docker.errors.NotFound, 404, client.containers.get, web.id)
    step('remove the network and the volume')
    network.remove()
    fails(docker.errors.NotFound, 404, client.networks.get, network.id)
    volume.remove()
    fails(docker.errors.NotFound, 404, client.volumes.get, NAME)
    step('remove the images')
    client.images.remove(BUILT, force=True)
    assert not [tag for made in client.images.list() for tag in made.tags if NAME in tag]


def main():
    seen = []
    events = client.events(decode=True)
    listener = threading.Thread(target=lambda: seen.extend(events), daemon=True)
    listener.start()
    system()
    images()
    network, volume = places()
    web = server()
    streams(web)
    files(web)
    verbs(web, network)
    removal(web, network, volume)
    step('the events of the container came in order')
    wanted = ['create', 'start', 'pause', 'unpause', 'rename', *(['update'] if MINOR >= 22 else []), 'pause', 'unpause', 'commit',
              'kill', 'die', 'stop', 'start', 'restart', 'kill', 'die', 'destroy']
    end = time.monotonic() + 60
    while not any(e.get('status') == 'destroy' and e['id'] == web.id for e in seen):
        assert time.monotonic() < end, 'no event destroy'
        time.sleep(0.02)
    equal([e['status'] for e in seen if e.get('id') == web.id and e['status'] in wanted], wanted)
    print(f'steps: {next(numbers) - 1}')


if __name__ == '__main__':
    sys.exit(main())
