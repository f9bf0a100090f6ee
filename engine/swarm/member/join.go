package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/ca"

	"moss/engine/fault"
)

// JoinOptions say which swarm to join, and as what.
type JoinOptions struct {
	ListenAddr    string   // as that of InitOptions; of a manager
	AdvertiseAddr string   // the same; empty: the managers find out
	DataPathAddr  string   // as that of InitOptions; empty: AdvertiseAddr, or the address by which a manager is reached
	RemoteAddrs   []string // of managers, with or without a port; the first that answers is asked
	Token         string   // a secret; decides whether the node becomes a worker or a manager
	Availability  api.NodeSpec_Availability
}

// dialLimit bounds the search for a manager that answers at all.
const dialLimit = 5 * time.Second

// Join makes this node one of a swarm's, and returns when it takes part in it. It goes on if ctx ends. A failure leaves nothing
// behind, but for a node that the managers know already when Options.Patience has passed: that goes on in the background. The
// errors are fault.NotAcceptable in a swarm, fault.Invalid with the name of a field or the refusal of the managers, and
// fault.Unavailable.
func (m *Member) Join(ctx context.Context, opt JoinOptions) error {
	end, err := m.beginVerb(ctx)
	if err != nil {
		return err
	}
	defer end()
	if m.inSwarm() {
		return errInSwarm()
	}
	record, err := m.joinRecord(ctx, opt)
	if err != nil {
		return err
	}
	_, err = m.enterSwarm(ctx, record, attempt{availability: opt.Availability})
	switch {
	case err == nil:
		return nil
	case fault.Is(err, fault.Unavailable):
		if m.inSwarm() {
			return fault.Unavailable("%w The attempt to join the swarm will continue in the background. Use the \"info\" command to "+
				"see the current swarm status of your node.", err)
		}
		return fault.Unavailable("join the swarm at %s: %w", record.RemoteAddr, err)
	case isRefusal(err):
		return fault.Invalid("join the swarm at %s: %w", record.RemoteAddr, err)
	default:
		return fmt.Errorf("join the swarm at %s: %w", record.RemoteAddr, err)
	}
}

// joinRecord checks what a node joins with and finds a manager that answers.
func (m *Member) joinRecord(ctx context.Context, opt JoinOptions) (*membership, error) {
	list, err := m.opt.Interfaces()
	if err != nil {
		return nil, err
	}
	book := addressBook(list)
	listen, err := book.resolveListen(opt.ListenAddr)
	if err != nil {
		return nil, err
	}
	advertise, err := book.resolveAdvertise(opt.AdvertiseAddr, listen)
	if err != nil {
		return nil, err
	}
	data, err := book.resolveData(opt.DataPathAddr)
	if err != nil {
		return nil, err
	}
	if _, err := ca.ParseJoinToken(opt.Token); err != nil {
		return nil, fault.Invalid("JoinToken: it is no join token of a swarm")
	}
	remotes, err := readRemotes(opt.RemoteAddrs)
	if err != nil {
		return nil, err
	}
	remote, local, err := reachManager(ctx, remotes)
	if err != nil {
		return nil, err
	}
	return &membership{
		ListenAddr: listen.String(), AdvertiseAddr: advertise.String(), LocalAddr: local, DataPathAddr: data,
		Machine: m.opt.Machine, Joining: true, RemoteAddr: remote, Token: opt.Token,
	}, nil
}

// readRemotes gives every address of a manager its port.
func readRemotes(list []string) ([]string, error) {
	if len(list) == 0 {
		return nil, fault.Invalid("RemoteAddrs: at least one address of a manager is required to join")
	}
	remotes := make([]string, 0, len(list))
	for _, text := range list {
		host, port, err := splitPort(strings.TrimSpace(text))
		if err == nil && host == "" {
			err = errors.New("it names no host")
		}
		if err != nil {
			return nil, fault.Invalid("RemoteAddrs: %q: %w", text, err)
		}
		if port == 0 {
			port = DefaultPort
		}
		remotes = append(remotes, net.JoinHostPort(host, strconv.Itoa(int(port))))
	}
	return remotes, nil
}

// reachManager returns the first of the addresses that answers, and the address of this host by which it was reached.
func reachManager(ctx context.Context, remotes []string) (remote, local string, err error) {
	var failed []error
	for _, remote := range remotes {
		dialer := net.Dialer{Timeout: dialLimit}
		conn, err := dialer.DialContext(ctx, "tcp", remote)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		return remote, local, nil
	}
	return "", "", fault.Unavailable("no manager of the swarm answers: %w", errors.Join(failed...))
}
