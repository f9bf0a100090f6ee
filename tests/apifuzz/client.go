package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"
)

// answer is what came back.
type answer struct {
	status  int // 0: none came
	header  http.Header
	body    []byte // at most maxBody of it, all when the call keeps it
	size    int64
	cut     bool  // the call went before the end
	err     error // the connection broke, or patience ended
	overdue bool  // patience ended
	took    time.Duration
}

// maxBody is how many bytes of an answer are looked at.
const maxBody = 1 << 20

// client sends calls, one after the other, over one connection as long as it lasts.
type client struct {
	socket   string
	patience time.Duration // an answer that takes longer is a hang
	conn     *net.UnixConn // idle, or nil
	in       *bufio.Reader
}

// do sends a call and reads what the call's manner reads.
func (cl *client) do(c *call) *answer {
	start := time.Now()
	reused := cl.conn != nil && c.manner == polite
	a := cl.attemptCall(c, reused)
	// A server may close a connection that idles just when it is used again.
	if reused && a.status == 0 && !a.overdue && a.err != nil {
		cl.close()
		a = cl.attemptCall(c, false)
	}
	a.took = time.Since(start)
	return a
}

func (cl *client) close() {
	if cl.conn != nil {
		cl.conn.Close() //nolint:errcheck // it is given up
		cl.conn = nil
	}
}

func (cl *client) attemptCall(c *call, reuse bool) *answer {
	a := &answer{}
	if !reuse {
		cl.close()
		conn, err := net.DialTimeout("unix", cl.socket, cl.patience)
		if err != nil {
			return &answer{err: fmt.Errorf("connect: %w", err), overdue: isTimeout(err)}
		}
		cl.conn = conn.(*net.UnixConn)
		cl.in = bufio.NewReader(cl.conn)
	}
	_ = cl.conn.SetDeadline(time.Now().Add(cl.patience))
	conn, sent := cl.conn, make(chan struct{})
	go func() { // an answer may come while the body is still being sent
		defer close(sent)
		sendCall(conn, c)
	}()
	switch c.manner {
	case torn, rude:
		<-sent
		<-time.After(c.linger)
		cl.close()
		a.cut = true
		return a
	case polite, streaming, talking, short, half:
	}
	again := cl.readAnswer(c, a)
	if !again {
		cl.close()
	}
	<-sent
	return a
}

// sendCall writes the request, or as much of it as the call's manner says. An error shows when the answer is read.
func sendCall(conn *net.UnixConn, c *call) {
	var b bytes.Buffer
	proto := "HTTP/1.1"
	if c.old {
		proto = "HTTP/1.0"
	}
	fmt.Fprintf(&b, "%s %s %s\r\n", c.method, c.requestTarget(), proto)
	if _, own := c.header["Host"]; !own {
		b.WriteString("Host: moss\r\n")
	}
	for _, name := range sortedKeys(c.header) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, c.header[name])
	}
	body := c.body
	if c.chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		var chunks bytes.Buffer
		for part := range slices.Chunk(body, 64<<10) {
			fmt.Fprintf(&chunks, "%x\r\n%s\r\n", len(part), part)
		}
		chunks.WriteString("0\r\n\r\n")
		body = chunks.Bytes()
	} else {
		if len(body) > 0 || c.method == http.MethodPost || c.method == http.MethodPut {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
		}
		b.WriteString("\r\n")
	}
	if c.manner == torn || c.manner == short {
		body = body[:min(c.cut, len(body))]
	}
	b.Write(body)
	_, _ = conn.Write(b.Bytes()) // The answer tells.
	if c.manner == short || c.manner == half {
		_ = conn.CloseWrite() // The answer tells.
	}
}

// readAnswer reads the answer and reports whether the connection can be used again.
func (cl *client) readAnswer(c *call, a *answer) (again bool) {
	res, err := http.ReadResponse(cl.in, &http.Request{Method: c.method})
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(cl.in, &http.Request{Method: c.method})
	}
	if err != nil {
		a.err, a.overdue = fmt.Errorf("read the answer's head: %w", err), isTimeout(err)
		return false
	}
	defer res.Body.Close() //nolint:errcheck // read as far as wanted
	a.status, a.header = res.StatusCode, res.Header
	var body io.Reader = res.Body
	taken := res.StatusCode == http.StatusSwitchingProtocols
	if taken {
		body = cl.in
	}
	if c.manner == talking && res.StatusCode < http.StatusMultipleChoices {
		if _, err := cl.conn.Write(c.input); err == nil && c.finish {
			_ = cl.conn.CloseWrite() // What is read tells.
		}
	}
	leaves := c.manner == streaming || c.manner == talking && !c.finish
	if leaves {
		_ = cl.conn.SetReadDeadline(time.Now().Add(c.linger))
	}
	err = a.takeBody(body, pick(c.keep, int64(1<<30), maxBody))
	switch {
	case err == nil:
		return c.manner == polite && !res.Close && !taken && !c.old
	case leaves && isTimeout(err):
		a.cut = true
	case c.manner == talking && errors.Is(err, syscall.ECONNRESET):
		// Who closes with input unread resets the connection, after all that was written has come.
	default:
		a.err, a.overdue = fmt.Errorf("read the answer's body after %d bytes: %w", a.size, err), isTimeout(err)
	}
	return false
}

// takeBody reads a body to its end and keeps what fits into a limit.
func (a *answer) takeBody(body io.Reader, limit int64) (err error) {
	a.body, err = io.ReadAll(io.LimitReader(body, limit))
	a.size = int64(len(a.body))
	if err == nil && a.size == limit {
		var more int64
		more, err = io.Copy(io.Discard, body)
		a.size += more
	}
	return err
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.EAGAIN)
}
