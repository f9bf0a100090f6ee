"""A scenario of docker-py on a swarm of the three engines $NODES/1/s to $NODES/3/s at 10.77.0.1 to 10.77.0.3: numbered steps, up
to the first that fails.

It needs the image busybox on each of them.
"""
import itertools
import os
import time

import docker
from docker.types import EndpointSpec, Mount, Resources, RestartPolicy, ServiceMode, UpdateConfig

NAME = f'py-{os.getpid()}'
numbers = itertools.count(1)
nodes = {
    n: docker.DockerClient(base_url=f'unix://{os.environ["NODES"]}/{n}/s', version='1.24', timeout=60) for n in (1, 2, 3)
}
first = nodes[1]


def step(text):
    print(f'step {next(numbers)}: {text}', flush=True)


def address(n):
    return f'10.77.0.{n}'


def equal(got, want):
    assert got == want, f'got {got!r}, want {want!r}'


def eventually(want, call):
    """Waits until the call returns this."""
    end = time.monotonic() + 120
    while (got := call()) != want:
        assert time.monotonic() < end, f'not in time: got {got!r}, want {want!r}'
        time.sleep(0.1)


def fails(status, text, call, *args, **options):
    """The call has to raise an error of the API."""
    try:
        call(*args, **options)
    except docker.errors.APIError as error:
        equal(error.status_code, status)
        assert text in error.explanation, error.explanation
        return
    raise AssertionError(f'{call} did not fail')


def by_host():
    return {node.attrs['Description']['Hostname']: node for node in first.nodes.list()}


def change_node(host, **options):
    node = by_host()[host]
    node.update({**node.attrs['Spec'], **options})


def places(service):
    """The nodes of its running tasks."""
    hosts = {node.id: host for host, node in by_host().items()}
    running = [t for t in service.tasks({'desired-state': 'running'}) if t['Status']['State'] == 'running']
    return sorted(hosts[t['NodeID']] for t in running)


def containers(n, service):
    return nodes[n].containers.list(filters={'label': f'com.docker.swarm.service.name={service.name}'})


def pages(box, *hosts):
    """What is at port 80 or the given one of these hosts, as a container sees it."""
    return [box.exec_run(['timeout', '5', 'wget', '-qO-', f'http://{host}/page']).output.decode().strip() for host in hosts]


def members():
    step('a node in no swarm has no services')
    fails(406, 'not part of a swarm', first.services.list)
    step('init')
    first.swarm.init(advertise_addr=address(1), listen_addr='0.0.0.0:2377')
    step('the swarm shows its tokens')
    first.swarm.reload()
    tokens = first.swarm.attrs['JoinTokens']
    assert tokens['Worker'].startswith('SWMTKN-1-') and tokens['Worker'] != tokens['Manager']
    step('nodes 2 and 3 join')
    for n in (2, 3):
        assert nodes[n].swarm.join([f'{address(1)}:2377'], tokens['Worker'])
    eventually(['ready'] * 3, lambda: [node.attrs['Status']['State'] for node in first.nodes.list()])
    step('info tells of the membership')
    equal([nodes[n].info()['Swarm']['ControlAvailable'] for n in nodes], [True, False, False])
    step('the list of nodes')
    equal(sorted(by_host()), ['node1', 'node2', 'node3'])
    step('a node by its id')
    node = first.nodes.get(by_host()['node2'].id)
    equal((node.attrs['Spec']['Role'], node.attrs['Status']['Addr']), ('worker', address(2)))
    step('labels of nodes')
    for host in ('node2', 'node3'):
        change_node(host, Labels={'part': 'web'})
    equal(by_host()['node3'].attrs['Spec']['Labels'], {'part': 'web'})
    step('a worker does not list nodes')
    fails(406, 'not a swarm manager', nodes[2].nodes.list)


def networks():
    step('a network')
    pool = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet='10.97.0.0/24')])
    net = first.networks.create(NAME, driver='overlay', ipam=pool, labels={'stage': 'test'})
    equal(len(net.id), 25)
    step('it is listed')
    equal([n.id for n in first.networks.list(names=[NAME])], [net.id])
    step('and shown')
    net.reload()
    equal([net.attrs[key] for key in ('Name', 'Scope', 'Driver', 'Labels')], [NAME, 'swarm', 'overlay', {'stage': 'test'}])
    equal(net.attrs['IPAM']['Config'][0]['Subnet'], '10.97.0.0/24')
    step('its name is taken')
    fails(409, 'already exists', first.networks.create, NAME, driver='overlay')
    return net


def service(net):
    step('a service with a network, a port, a mount, a variable, a constraint and limits')
    web = first.services.create(
        'busybox', ['sh', '-c', 'mkdir -p /w; echo "$WORD" | tee /w/page; exec httpd -f -h /w'], name=f'{NAME}-web', env=['WORD=hello'],
        networks=[NAME], endpoint_spec=EndpointSpec(ports={18095: 80}), constraints=['node.labels.part==web'],
        mounts=[Mount('/data', f'{NAME}-data', type='volume')], mode=ServiceMode('replicated', 2), labels={'stage': 'test'},
        resources=Resources(mem_limit=64 << 20), restart_policy=RestartPolicy('any', delay=10**8), stop_grace_period=10**9,
        update_config=UpdateConfig(parallelism=1))
    step('its tasks run where the constraint says')
    eventually(['node2', 'node3'], lambda: places(web))
    step('the list of services and its filters')
    equal([s.id for s in first.services.list(filters={'label': 'stage=test'})], [web.id])
    step('the service by its name')
    shown = first.services.get(web.name).attrs
    equal(shown['Endpoint']['Ports'][0]['PublishedPort'], 18095)
    equal(len(shown['Endpoint']['VirtualIPs']), 2)
    step('its containers')
    for n in (2, 3):
        (box,) = containers(n, web)
        assert 'WORD=hello' in box.attrs['Config']['Env']
        equal(box.attrs['HostConfig']['Memory'], 64 << 20)
        equal([(m['Name'], m['Destination']) for m in box.attrs['Mounts']], [(f'{NAME}-data', '/data')])
        equal(box.logs(), b'hello\n')
    step('the network has them')
    equal(list(nodes[2].networks.get(net.id).attrs['Containers']), [containers(2, web)[0].id])
    step('a container of a client is refused in it')
    fails(403, 'not manually attachable', nodes[2].containers.run, 'busybox', 'true', network=NAME)
    step('a second service reaches the first by its name')
    ask = first.services.create(
        'busybox', ['sleep', '1000'], name=f'{NAME}-ask', networks=[NAME], constraints=['node.role==manager'], stop_grace_period=10**9)
    eventually(['node1'], lambda: places(ask))
    (box,) = containers(1, ask)
    eventually(['hello'], lambda: pages(box, web.name))
    step('the published port is open at every node')
    ports = [f'{address(n)}:18095' for n in nodes]
    eventually(['hello'] * 3, lambda: pages(box, *ports))
    step('scale')
    web.reload()
    web.scale(4)
    eventually(['node2', 'node2', 'node3', 'node3'], lambda: places(web))
    web.reload()
    web.scale(2)
    eventually(2, lambda: len(places(web)))
    step('update of a variable')
    web.reload()
    web.update(env=['WORD=again'], networks=[NAME], fetch_current_spec=True)
    eventually(['again'] * 3, lambda: pages(box, *ports))
    step('the tasks before the update are shown')
    assert web.tasks({'desired-state': 'shutdown'})
    return web, ask


def ends(net, web, ask):
    step('a drained node has no tasks')
    change_node('node3', Availability='drain')
    eventually(['node2', 'node2'], lambda: places(web))
    step('an active one has them again')
    change_node('node3', Availability='active')
    web.reload()
    web.scale(3)
    eventually(['node2', 'node2', 'node3'], lambda: places(web))
    step('a network in use is not removed')
    fails(409, f'in use by the services {ask.name}, {web.name}', net.remove)
    step('services are removed')
    web.remove()
    ask.remove()
    eventually([0, 0, 0], lambda: [len(containers(n, web) + containers(n, ask)) for n in nodes])
    fails(404, 'not found', first.services.get, web.id)
    step('then the network is')

    def removed():
        try:
            net.remove()
        except docker.errors.APIError as error:
            return error.explanation
        return ''
    eventually('', removed)
    step('workers leave')
    for n in (2, 3):
        assert nodes[n].swarm.leave()
    step('a node that is down is removed from the list')
    eventually('down', lambda: by_host()['node3'].attrs['Status']['State'])
    first.api.remove_node(by_host()['node3'].id)
    equal(sorted(by_host()), ['node1', 'node2'])
    step('the last manager leaves by force only')
    fails(503, 'force', first.swarm.leave)
    assert first.swarm.leave(force=True)
    equal([nodes[n].info()['Swarm']['LocalNodeState'] for n in nodes], ['inactive'] * 3)
    for n in (2, 3):
        nodes[n].volumes.get(f'{NAME}-data').remove()


members()
made = networks()
ends(made, *service(made))
