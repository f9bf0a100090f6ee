package slirp

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/publish"
)

// portPublisher opens the ports of containers on the host, and for other containers on the gateways of their networks.
type portPublisher struct {
	publisher *publish.Publisher
	fabric    *bridge.Fabric
	lans      *lanTable
}

// portRequests returns what the container publishes. Where a request names no address, the primary network's option
// decides.
func (t *portPublisher) portRequests(p *place) []network.PortRequest {
	l := t.lans.findLAN(p.sandbox.Endpoints[p.sandbox.Primary].NetworkID)
	if l == nil || !l.set.host.IsValid() {
		return p.request.Ports
	}
	ports := slices.Clone(p.request.Ports)
	for i := range ports {
		ports[i].HostIP = cmp.Or(ports[i].HostIP, l.set.host.String())
	}
	return ports
}

// publishPorts opens the container's ports on the host, and for containers on their gateways.
func (t *portPublisher) publishPorts(ctx context.Context, p *place) ([]network.Port, error) {
	ports, err := t.publisher.Publish(ctx, p.portTarget(), t.portRequests(p))
	if err != nil {
		return nil, err
	}
	shown := *p
	shown.sandbox.Ports = ports
	return ports, t.fabric.Ports(ctx, nil, shown.exposedPorts())
}

// unpublishPorts closes the container's ports. p is nil if nothing is known of it.
func (t *portPublisher) unpublishPorts(ctx context.Context, containerID string, p *place) error {
	var err error
	if p != nil {
		err = t.fabric.Ports(ctx, portKeys(p.exposedPorts()), nil)
	}
	return errors.Join(err, t.publisher.Unpublish(ctx, containerID))
}

// movePorts lets the published ports follow the primary network. Without one they are closed; with the first one that
// comes they open again.
func (t *portPublisher) movePorts(ctx context.Context, from, to *place) (err error) {
	switch {
	case from.sandbox.Primary == to.sandbox.Primary || len(to.request.Ports) == 0:
		return nil
	case to.sandbox.Primary == "":
		to.sandbox.Ports = nil
		return t.unpublishPorts(ctx, to.request.ContainerID, from)
	case from.sandbox.Primary == "":
		to.sandbox.Ports, err = t.publishPorts(ctx, to)
		return err
	default:
		if to.sandbox.Ports, err = t.publisher.Move(ctx, to.portTarget()); err != nil {
			return err
		}
		return t.fabric.Ports(ctx, portKeys(from.exposedPorts()), to.exposedPorts())
	}
}

// exposedPorts returns the published ports that containers reach by the addresses of their gateways, as those of
// Docker's do: the ones that are published on all addresses of the host. Port 53 is not: there the default network's
// name server answers.
func (p *place) exposedPorts() map[bridge.PortKey]bridge.PortTarget {
	all := make(map[bridge.PortKey]bridge.PortTarget)
	to := p.portTarget().Addr
	for _, port := range p.sandbox.Ports {
		const names = 53
		ip, err := netip.ParseAddr(port.HostIP)
		if err != nil || ip != netip.IPv4Unspecified() || port.HostPort == names || !to.Is4() {
			continue
		}
		switch port.Proto {
		case "tcp":
			all[bridge.PortKey{Proto: unix.IPPROTO_TCP, Port: port.HostPort}] = bridge.PortTarget{Addr: to, Port: port.ContainerPort}
		case "udp":
			all[bridge.PortKey{Proto: unix.IPPROTO_UDP, Port: port.HostPort}] = bridge.PortTarget{Addr: to, Port: port.ContainerPort}
		}
	}
	return all
}

func portKeys(all map[bridge.PortKey]bridge.PortTarget) []bridge.PortKey {
	list := make([]bridge.PortKey, 0, len(all))
	for k := range all {
		list = append(list, k)
	}
	return list
}
