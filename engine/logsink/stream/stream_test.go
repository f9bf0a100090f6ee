package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink/stream/streamtest"
)

// trusted vouches for the receivers of these tests.
var trusted *streamtest.Authority

func TestMain(m *testing.M) {
	code, err := streamtest.Trust(func(a *streamtest.Authority) int {
		trusted = a
		return m.Run()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// listen returns a listener of a network, and its target.
func listen(t *testing.T, network string) (net.Listener, Target) {
	t.Helper()
	var l net.Listener
	var err error
	switch network {
	case "unix":
		l, err = net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	case "tls":
		l, err = tls.Listen("tcp", "127.0.0.1:0", trusted.TLS)
	default:
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, Target{network, l.Addr().String()}
}

// pair returns the two ends of a connection.
func pair(t *testing.T, network string) (*Conn, net.Conn) {
	t.Helper()
	l, target := listen(t, network)
	far := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if secure, ok := c.(*tls.Conn); ok && err == nil {
			err = secure.HandshakeContext(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
		far <- c
	}()
	near, err := Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	near.closing = time.Minute // a busy machine may need it
	c := <-far
	t.Cleanup(func() { _ = near.Close() })
	t.Cleanup(func() { _ = c.Close() }) // before the near end, which would wait for it
	return near, c
}

// networks are all that a target may have.
var networks = []string{"tcp", "tls", "unix"}

func TestBytesArrive(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			near, far := pair(t, network)
			for range 3 {
				if err := near.Probe(); err != nil {
					t.Errorf("Probe = %v", err)
				}
				if n, err := near.Write(t.Context(), time.Minute, []byte("hello")); n != 5 || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			}
			expectEnd(t, near, far, "hellohellohello")
		})
	}
}

// expectEnd closes the near end, and the far one when all has arrived, which must be want.
func expectEnd(t *testing.T, near *Conn, far net.Conn, want string) {
	t.Helper()
	got := make(chan string)
	go func() {
		all, err := io.ReadAll(far)
		if err != nil {
			t.Error(err)
		}
		_ = far.Close()
		got <- string(all)
	}()
	start := time.Now()
	if err := near.Close(); err != nil || time.Since(start) > near.closing/2 {
		t.Errorf("Close = %v after %s", err, time.Since(start))
	}
	if all := <-got; all != want {
		t.Errorf("received %q, want %q", all, want)
	}
}

// awaitProbe waits until Probe says something.
func awaitProbe(t *testing.T, c *Conn) error {
	t.Helper()
	for {
		if err := c.Probe(); err != nil || t.Context().Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func TestProbe(t *testing.T) {
	for _, network := range networks {
		t.Run(network+" closed", func(t *testing.T) {
			near, far := pair(t, network)
			if err := far.Close(); err != nil {
				t.Fatal(err)
			}
			err := awaitProbe(t, near)
			if !errors.Is(err, ErrClosed) || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), near.target.String()) {
				t.Errorf("Probe = %v, want ErrClosed of %s", err, near.target)
			}
		})
		t.Run(network+" spoke", func(t *testing.T) {
			near, far := pair(t, network)
			if _, err := far.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := awaitProbe(t, near); !errors.Is(err, ErrSpoke) {
				t.Errorf("Probe = %v, want ErrSpoke", err)
			}
		})
	}
	t.Run("reset", func(t *testing.T) {
		near, far := pair(t, "tcp")
		if err := errors.Join(far.(*net.TCPConn).SetLinger(0), far.Close()); err != nil {
			t.Fatal(err)
		}
		if err := awaitProbe(t, near); !fault.Is(err, fault.Unavailable) || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Probe = %v, want fault.Unavailable and the reset", err)
		}
	})
	t.Run("tls end announced", func(t *testing.T) {
		near, far := pair(t, "tls")
		if err := far.(*tls.Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := awaitProbe(t, near); !errors.Is(err, ErrClosed) {
			t.Errorf("Probe = %v, want ErrClosed", err)
		}
	})
	t.Run("tls record begun", func(t *testing.T) {
		near, far := pair(t, "tls")
		if _, err := far.(*tls.Conn).NetConn().Write([]byte{23, 3, 3}); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; {
			var err error
			if n, err = peekRaw(near.raw); err != nil {
				t.Fatal(err)
			}
		}
		if err := near.Probe(); err != nil {
			t.Errorf("Probe = %v", err)
		}
	})
	t.Run("context ended", func(t *testing.T) {
		near, _ := pair(t, "tcp")
		ctx, cancel := context.WithCancel(t.Context())
		release := near.bind(ctx, time.Minute)
		cancel()
		release()
		if err := near.Probe(); !errors.Is(err, ErrClosed) {
			t.Errorf("Probe = %v, want ErrClosed", err)
		}
	})
}

func TestDialErrors(t *testing.T) {
	l, gone := listen(t, "tcp")
	_ = l.Close()
	strange, err := streamtest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := tls.Listen("tcp", "127.0.0.1:0", strange.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wrong.Close() }()
	go func() {
		if c, err := wrong.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 1)) // the handshake
			_ = c.Close()
		}
	}()
	for want, target := range map[string]Target{
		"connection refused":    gone,
		"no such file":          {"unix", filepath.Join(t.TempDir(), "none")},
		"unknown authority":     {"tls", wrong.Addr().String()},
		"missing port":          {"tcp", "127.0.0.1"},
		"unknown network other": {"other", "x"},
	} {
		c, err := Dial(t.Context(), target)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), target.String()) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Dial(%s) = %v, %v, want %q", target, c, err, want)
		}
	}
}

func TestDialEndsWithContext(t *testing.T) {
	_, target := listen(t, "tcp") // which never shakes hands
	target.Network = "tls"
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := Dial(ctx, target); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial = %v, want the end of the context", err)
	}
}

func TestStalledReceiver(t *testing.T) {
	big := make([]byte, 64<<20)
	for _, network := range networks {
		t.Run(network+" bound", func(t *testing.T) {
			near, _ := pair(t, network)
			n, err := near.Write(t.Context(), 20*time.Millisecond, big)
			if !errors.Is(err, os.ErrDeadlineExceeded) || !fault.Is(err, fault.Unavailable) || n >= len(big) {
				t.Errorf("Write = %d, %v, want a timeout", n, err)
			}
			if err := near.Probe(); !errors.Is(err, ErrClosed) {
				t.Errorf("Probe after a failed write = %v", err)
			}
			start := time.Now()
			if _ = near.Close(); time.Since(start) > near.closing/2 {
				t.Errorf("Close took %s", time.Since(start))
			}
		})
		t.Run(network+" context", func(t *testing.T) {
			near, _ := pair(t, network)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := near.Write(ctx, time.Hour, big); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Write = %v, want the end of the context", err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			if _, err := near.Read(ctx, time.Hour, make([]byte, 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("Read = %v, want the end of the context", err)
			}
		})
	}
}

// TestIdle leaves a connection alone for longer than the bound of its last call.
func TestIdle(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			near, far := pair(t, network)
			const bound = 20 * time.Millisecond
			if _, err := near.Write(t.Context(), time.Minute, []byte("a")); err != nil {
				t.Fatal(err)
			}
			near.bind(t.Context(), bound)() // all that a call leaves behind
			<-time.After(2 * bound)
			if err := near.Probe(); err != nil {
				t.Errorf("Probe = %v", err)
			}
			if _, err := near.Write(t.Context(), time.Minute, []byte("b")); err != nil {
				t.Errorf("Write = %v", err)
			}
			expectEnd(t, near, far, "ab")
		})
	}
}

func TestRead(t *testing.T) {
	stalled, _ := pair(t, "tcp")
	if _, err := stalled.Read(t.Context(), time.Millisecond, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v, want a timeout", err)
	}
	near, far := pair(t, "tcp")
	if _, err := far.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	p := make([]byte, 8)
	if n, err := near.Read(t.Context(), time.Minute, p); n != 3 || err != nil {
		t.Errorf("Read = %d, %v", n, err)
	}
	if n, err := near.Read(t.Context(), time.Minute, p); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read at the end = %d, %v", n, err)
	}
}

// TestTail ends a connection whose receiver has sent what nobody reads, such as tickets: what was written arrives all the same.
func TestTail(t *testing.T) {
	near, far := pair(t, "tls")
	text := make([]byte, 256<<10)
	if _, err := far.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	done := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, far)
		_ = far.Close()
		done <- n
	}()
	if _, err := near.Write(t.Context(), time.Minute, text); err != nil {
		t.Fatal(err)
	}
	_ = near.Close()
	if n := <-done; n != int64(len(text)) {
		t.Errorf("%d of %d bytes arrived", n, len(text))
	}
}
