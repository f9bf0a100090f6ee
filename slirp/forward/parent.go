package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// sayEvery is the least time between two messages: what goes wrong for one connection goes wrong for a thousand.
const sayEvery = 10 * time.Second

// Parent is the half of the driver that runs in the outer process. Its methods may be called at the same time.
type Parent struct {
	log      io.Writer
	hide     bool
	path     string
	listener *net.UnixListener // for the other half; until RunParentDriver has accepted it
	work     sync.WaitGroup
	pipes    pipes
	dialer   *dialer // set by RunParentDriver before there is a port
	waits    waits   // of the ports that are opened from now on; tests set it

	files int // descriptors that this process may have

	mu      sync.Mutex // guards the fields below
	ports   map[int]*entry
	taken   map[place]int // which of them has a place
	carried int           // connections under way
	nextID  int
	ended   bool
	said    time.Time
}

// entry is a port that is open, or is being opened.
type entry struct {
	status port.Status
	open   opened // nil: not yet
}

// place is what two ports cannot share.
type place struct {
	proto, ip string
	port      int
}

func placeOf(s port.Spec) place { return place{s.Proto, s.ParentIP, s.ParentPort} }

// opened is a port of either protocol. close stops it at once and lets what is under way come to its end; cut does not.
type opened interface {
	close() error
	cut()
}

// NewParent returns a parent driver that awaits its other half at a socket in dir, a folder that only the user enters.
// With hide set, containers never see clients' addresses. Messages go to log.
func NewParent(log io.Writer, dir string, hide bool) (*Parent, error) {
	path := filepath.Join(dir, ".ports.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier run: %w", err)
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		return nil, fmt.Errorf("listen for the inner half of the port driver: %w", err)
	}
	return &Parent{
		log: log, hide: hide, path: path, listener: l, files: mostFiles(), ports: make(map[int]*entry),
		taken: make(map[place]int), nextID: 1, waits: waits{cut: cutWait, refuse: refuseWait},
	}, nil
}

// Ports and connections leave descriptors for the API by which ports are closed again: without any it would not hear of it.
const (
	filesOfConnection = 6   // two sockets, and a pipe for each direction
	filesOfOthers     = 128 // of the API, of spare sockets and pipes, of the process itself
)

// mostFiles is how many descriptors this process may have.
func mostFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // then the kernel says no, later
	}
	return int(min(limit.Cur, math.MaxInt32))
}

// admitConnection counts a connection, which releaseConnection ends. It is false when there are as many as this process
// can bear.
func (p *Parent) admitConnection() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (p.carried+1)*filesOfConnection > p.files-len(p.ports)-filesOfOthers {
		return false
	}
	p.carried++
	return true
}

func (p *Parent) releaseConnection() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carried--
}

// Info names the driver and what it forwards.
func (p *Parent) Info(context.Context) (*api.PortDriverInfo, error) {
	return &api.PortDriverInfo{Driver: "moss", Protos: []string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}}, nil
}

// OpaqueForChild tells the child where to find this half.
func (p *Parent) OpaqueForChild() map[string]string { return map[string]string{keySocket: p.path} }

// RunParentDriver waits for the child, sends to initComplete, and returns after quit, when all ports are closed.
func (p *Parent) RunParentDriver(initComplete chan struct{}, quit <-chan struct{}, _ *port.ChildContext) error {
	accepted := make(chan error, 1)
	var conn *net.UnixConn
	go func() {
		var err error
		conn, err = p.listener.AcceptUnix()
		accepted <- err
	}()
	select {
	case <-quit:
		err := p.listener.Close()
		if <-accepted == nil {
			err = errors.Join(err, conn.Close())
		}
		return err
	case err := <-accepted:
		if err = errors.Join(err, p.listener.Close()); err != nil { // which also removes the file
			return fmt.Errorf("wait for the inner half of the port driver: %w", err)
		}
	}
	p.dialer = newDialer(&pool{conn: conn}, p.hide)
	select {
	case initComplete <- struct{}{}:
		<-quit
	case <-quit:
	}
	return p.shutDown()
}

// AddPort opens a port. Invalid and Unsupported specs are faults, and so is one port too many (Unavailable); everything
// else is the kernel's refusal, or a text with "conflict with ID" for a port of which this driver knows itself.
func (p *Parent) AddPort(ctx context.Context, spec port.Spec) (*port.Status, error) {
	r, err := parseSpec(spec)
	if err != nil {
		return nil, err
	}
	e, err := p.reservePort(spec)
	if err != nil {
		return nil, err
	}
	var o opened
	if r.udp {
		o, err = p.openUDP(ctx, r)
	} else {
		o, err = p.openTCP(ctx, r)
	}
	p.mu.Lock()
	if err == nil && p.ended {
		err = net.ErrClosed
		defer o.close() //nolint:errcheck // the process is ending
	}
	if err != nil {
		p.dropLocked(e)
		p.mu.Unlock()
		return nil, err
	}
	e.open = o
	p.mu.Unlock()
	status := e.status
	return &status, nil
}

// reservePort keeps others from opening the same port meanwhile.
func (p *Parent) reservePort(spec port.Spec) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialer == nil || p.ended {
		return nil, fault.Unavailable("the port driver does not run")
	}
	if len(p.ports) >= p.files/2 {
		return nil, fault.Unavailable("%d ports are open, which is half of the files that the engine may have open", len(p.ports))
	}
	if id, ok := p.taken[placeOf(spec)]; ok {
		return nil, fmt.Errorf("conflict with ID %d", id) // as RootlessKit's own driver says it
	}
	e := &entry{status: port.Status{ID: p.nextID, Spec: spec}}
	p.ports[e.status.ID], p.taken[placeOf(spec)] = e, e.status.ID
	p.nextID++
	return e, nil
}

// ListPorts lists the open ports, in no order.
func (p *Parent) ListPorts(context.Context) ([]port.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]port.Status, 0, len(p.ports))
	for _, e := range p.ports {
		if e.open != nil {
			list = append(list, e.status)
		}
	}
	return list, nil
}

// RemovePort closes a port and its connections. Those that the container has ended itself may still send what is under
// way. When it returns the port is free.
func (p *Parent) RemovePort(_ context.Context, id int) error {
	p.mu.Lock()
	e, ok := p.ports[id]
	if !ok || e.open == nil {
		p.mu.Unlock()
		return fmt.Errorf("unknown id: %d", id) // as RootlessKit's own driver says it
	}
	p.dropLocked(e)
	p.mu.Unlock()
	return e.open.close()
}

// dropLocked forgets a port.
func (p *Parent) dropLocked(e *entry) {
	delete(p.ports, e.status.ID)
	delete(p.taken, placeOf(e.status.Spec))
}

// shutDown closes everything and waits for it.
func (p *Parent) shutDown() error {
	p.mu.Lock()
	p.ended = true
	var all []opened
	for _, e := range p.ports {
		if e.open != nil {
			all = append(all, e.open)
		}
	}
	clear(p.ports)
	clear(p.taken)
	p.mu.Unlock()
	errs := make([]error, 0, len(all)+1)
	for _, o := range all {
		errs = append(errs, o.close())
		o.cut()
	}
	p.dialer.abortConnects()
	errs = append(errs, p.dialer.pool.close())
	p.work.Wait()
	p.dialer.close()
	p.pipes.close()
	return errors.Join(errs...)
}

// logLimited writes a message, unless there was one just now.
func (p *Parent) logLimited(format string, args ...any) {
	p.mu.Lock()
	now := time.Now()
	quiet := now.Sub(p.said) < sayEvery
	if !quiet {
		p.said = now
	}
	p.mu.Unlock()
	if !quiet {
		_, _ = fmt.Fprintf(p.log, format+"\n", args...)
	}
}
