// Command moss-log brings the output of containers to receivers, such as syslog, for all containers of an engine. The engine
// starts it with the first container that needs it; monitors send it what their containers write.
//
//	moss-log KEEPALIVE    descriptor 3 is the socket on which it listens; KEEPALIVE may be empty
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/logsink"
	"moss/engine/logsink/awslogs"
	"moss/engine/logsink/fluentd"
	"moss/engine/logsink/gelf"
	"moss/engine/logsink/relay"
	"moss/engine/logsink/splunk"
	"moss/engine/logsink/syslog"
)

const listenFD = 3

// lastWords is how long records are delivered once the engine's outer process has gone, and with it the containers.
const lastWords = 10 * time.Second

// drivers are the log drivers, by their names in package logdriver.
var drivers = map[string]logsink.OpenFunc{ //nolint:gochecknoglobals // a constant
	"awslogs": awslogs.Open,
	"fluentd": fluentd.Open,
	"gelf":    gelf.Open,
	"splunk":  splunk.Open,
	"syslog":  syslog.Open,
}

func main() {
	unix.Umask(0o077)
	// Huge pages would turn a heap of some megabytes into tens. A kernel without them has nothing to disable.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	debug.SetGCPercent(50) // most of it is buffers that come and go
	if err := serve(os.Args[1:]); err != nil {
		report(err.Error())
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: moss-log KEEPALIVE, started by mossd")
	}
	file := os.NewFile(listenFD, "listener")
	l, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("descriptor %d is no socket, moss-log is started by mossd: %w", listenFD, err)
	}
	_ = file.Close() // the listener has its own
	r := relay.New(drivers, report)
	if path := args[0]; path != "" {
		if err := followKeepalive(path, func() { r.LeaveWithin(lastWords) }); err != nil {
			return err
		}
	}
	path := l.Addr().String()
	own, err := os.Stat(path)
	if err != nil {
		return err
	}
	err = r.Serve(l)
	// The engine may have put the next one's socket in its place.
	if now, statErr := os.Stat(path); statErr == nil && os.SameFile(own, now) {
		_ = os.Remove(path) // the next one does
	}
	return err
}

// followKeepalive calls leave when the FIFO's last writer, the engine's outer process, has gone.
func followKeepalive(path string, leave func()) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open keepalive %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := file.Read(buf); err != nil {
				leave()
				return
			}
		}
	}()
	return nil
}

// report writes a line to the engine's log.
func report(text string) { fmt.Fprintln(os.Stderr, "moss-log: "+text) }
