// Command peerd tells whoever asks it which address he has for it, for tests of published ports.
//
//	peerd serve PORT            TCP: one line with the peer's address, then everything back; UDP: the address and the datagram
//	peerd ask tcp|udp FROM TO   stdin to TO (HOST:PORT) from the address FROM (- for any), and to stdout what comes back
//
// By UDP each line of stdin is a datagram, all from one port, and each waits for its answer.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// answerWait is for one answer by UDP.
const answerWait = time.Minute

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peerd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 4 && args[0] == "ask" && args[1] == "tcp":
		return askTCP(args[2], args[3])
	case len(args) == 4 && args[0] == "ask" && args[1] == "udp":
		return askUDP(args[2], args[3])
	}
	return errors.New("usage: peerd serve PORT | peerd ask tcp|udp FROM TO")
}

func serve(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	go serveUDP(c)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = fmt.Fprintln(conn, peerHost(conn.RemoteAddr()))
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}()
	}
}

func serveUDP(c net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(append([]byte(peerHost(from)+" "), buf[:n]...), from)
	}
}

// peerHost leaves out the port, which no test can know.
func peerHost(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return err.Error()
	}
	return ap.Addr().Unmap().String()
}

func askTCP(from, to string) error {
	d := net.Dialer{}
	if from != "-" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.Dial("tcp", to)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		if tcp, ok := conn.(*net.TCPConn); ok {
			err = errors.Join(err, tcp.CloseWrite())
		}
		sent <- err
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return err
	}
	return errors.Join(<-sent, conn.Close())
}

func askUDP(from, to string) error {
	d := net.Dialer{}
	if from != "-" {
		d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.Dial("udp", to)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := conn.Write(lines.Bytes()); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
			return err
		}
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(os.Stdout, "%s\n", buf[:n]); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), conn.Close())
}
