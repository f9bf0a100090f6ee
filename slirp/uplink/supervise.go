package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api"
	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/parentutils"
)

const (
	firstDelay = 100 * time.Millisecond // before the first new start; doubles with every one after it
	mostDelay  = 5 * time.Second        // between two starts: a route may have come back
	steady     = 10 * time.Second       // who ran so long begins with firstDelay again
)

// supervisor is the network driver of the programs: it makes the tap device, keeps a program on it and writes the status.
// RootlessKit's own drivers start the program once and take no notice of its death.
type supervisor struct {
	cfg      Config
	programs []program // in the order in which the first start tries them
	reason   string    // why a faster one is not among them
	log      io.Writer
	tap      func(childPID int, netns, device string) error
	start    func(p program, at place) (*process, error)
}

func newSupervisor(cfg Config, reason string, log io.Writer, programs ...program) *supervisor {
	return &supervisor{
		cfg: cfg, programs: programs, reason: reason, log: log, tap: parentutils.PrepareTap,
		start: func(p program, at place) (*process, error) { return p.start(at, log) },
	}
}

// Info names the driver that is in use, or will be tried first.
func (s *supervisor) Info(context.Context) (*api.NetworkDriverInfo, error) {
	info := &api.NetworkDriverInfo{Driver: s.programs[0].name, DNS: []net.IP{net.ParseIP(nameDNS)}, ChildIP: net.ParseIP(address)}
	if now, err := ReadStatus(s.cfg.StateDir); err == nil {
		info.Driver = now.Driver
	}
	return info, nil
}

// MTU is that of the tap device in bytes.
func (s *supervisor) MTU() int { return s.cfg.MTU }

// String names the driver in RootlessKit's messages.
func (s *supervisor) String() string { return s.programs[0].name }

// ConfigureNetwork makes the tap device and starts the first program that works; the function it returns ends that and
// does not start it again. RootlessKit's child gives the device its address and route.
func (s *supervisor) ConfigureNetwork(
	childPID int, _, netns string,
) (*messages.ParentInitNetworkDriverCompleted, func() error, error) {
	if err := s.tap(childPID, netns, Device); err != nil {
		return nil, nil, fmt.Errorf("make the tap device: %w", err)
	}
	quit, ended, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for good: the programs end with this thread, see program.start
		s.keepRunning(place{childPID: childPID, netns: netns}, first, quit)
	}()
	stop := func() error {
		close(quit)
		<-ended
		return nil
	}
	if err := <-first; err != nil {
		<-ended
		return nil, nil, err
	}
	msg := &messages.ParentInitNetworkDriverCompleted{
		Dev: Device, IP: address, Netmask: bits, Gateway: gateway, DNS: []string{nameDNS}, MTU: s.cfg.MTU,
	}
	if s.cfg.ipv6 {
		msg.NetworkDriverOpaque = map[string]string{ipv6Key: "yes"}
	}
	return msg, stop, nil
}

// keepRunning keeps a program running until quit is closed. It says on first how the first start went, and returns at
// once if that failed.
func (s *supervisor) keepRunning(at place, first chan<- error, quit <-chan struct{}) {
	chosen, proc, reason, err := s.startFirst(at)
	now := Status{Driver: chosen.name, Reason: reason, Send: chosen.send}
	if err == nil {
		now.PID = proc.pid
		if err = now.writeTo(s.cfg.StateDir); err != nil {
			err = errors.Join(err, proc.killAndWait())
		}
	}
	first <- err
	if err != nil {
		return
	}
	for delay, since := time.Duration(0), time.Now(); ; {
		select {
		case <-quit:
			_ = proc.killAndWait() // it has been killed
			return
		case why := <-proc.ended:
			now.PID, now.Error = 0, why.Error()
			s.writeStatus(now)
		}
		if time.Since(since) >= steady {
			delay = 0
		}
		for proc = nil; proc == nil; {
			delay = max(firstDelay, min(2*delay, mostDelay))
			select {
			case <-quit:
				return
			case <-time.After(delay):
			}
			since = time.Now()
			if proc, err = s.start(chosen, at); err != nil && err.Error() != now.Error {
				now.Error = err.Error()
				s.writeStatus(now)
			}
		}
		now.PID = proc.pid
		now.Restarts++
		s.writeStatus(now)
	}
}

// startFirst starts the first program that works and says why those before it do not.
func (s *supervisor) startFirst(at place) (chosen program, proc *process, reason string, err error) {
	var reasons []string
	if s.reason != "" {
		reasons = append(reasons, s.reason)
	}
	var errs []error
	for _, p := range s.programs {
		proc, err := s.start(p, at)
		if err == nil {
			return p, proc, strings.Join(reasons, "; "), nil
		}
		errs = append(errs, err)
		reasons = append(reasons, err.Error())
	}
	return program{}, nil, "", errors.Join(errs...)
}

// writeStatus writes the status. An engine that does not learn it is no reason to stop.
func (s *supervisor) writeStatus(now Status) {
	if err := now.writeTo(s.cfg.StateDir); err != nil {
		_, _ = fmt.Fprintf(s.log, "uplink status not written: %v\n", err)
	}
}
