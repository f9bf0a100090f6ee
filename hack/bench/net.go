package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	netRef     = "localhost/moss-bench/iperf3:latest"
	netSeconds = 3 // of each transfer
	netLimit   = time.Minute
	netPort    = "5201" // of iperf3
	manyPorts  = 500
)

// measureNets measures TCP by iperf3: from a container to the host, from the host to a published port, between two
// containers, and between the two ends of a bare veth pair of the same packet size; and the memory of many published
// ports.
func (b *bench) measureNets(ctx context.Context, i *instance) error {
	iperf, err := exec.LookPath("iperf3")
	if err != nil {
		return err
	}
	if err := importWith(ctx, i, iperf); err != nil {
		return err
	}
	s := samples{}
	for figure, work := range map[string]func(context.Context, *instance) (float64, error){
		"container to host": toHost, "host to port": toPort, "container to container": betweenContainers, "bare veth": bareVeth,
	} {
		if !i.own && (figure == "container to container" || figure == "bare veth") {
			continue // without root podman's containers have a network each
		}
		err := withLimit(ctx, netLimit, figure, func(ctx context.Context) (err error) {
			s[figure], err = work(ctx, i)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", figure, err)
		}
	}
	if i.own {
		s["containers / veth"] = s["container to container"] / s["bare veth"]
		if s["500 ports"], err = portsMemory(ctx, i); err != nil {
			return err
		}
	}
	b.report.add(i.name, "net", s)
	return nil
}

// importWith gives the engine an image of iperf3 and the libraries that it has here.
func importWith(ctx context.Context, i *instance, iperf string) error {
	out, err := exec.CommandContext(ctx, "ldd", iperf).Output()
	if err != nil {
		return fmt.Errorf("libraries of %s: %w", iperf, err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, from := range parseLdd(string(out), iperf) {
		data, rerr := os.ReadFile(from)
		err = errors.Join(err, rerr, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(data))}))
		_, werr := w.Write(data)
		err = errors.Join(err, werr)
	}
	err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}), w.Close())
	if err != nil {
		return fmt.Errorf("make the image of iperf3: %w", err)
	}
	repo, tag, _ := strings.Cut(netRef, ":")
	query := url.Values{"fromSrc": {"-"}, "repo": {repo}, "tag": {tag}}
	return i.api.call(ctx, http.MethodPost, "/v1.24/images/create?"+query.Encode(), &buf, "application/x-tar", nil)
}

// parseLdd reads what ldd says: where a file is to be in the image, and where it is here.
func parseLdd(ldd, program string) map[string]string {
	files := map[string]string{"bin/iperf3": program}
	for line := range strings.Lines(ldd) {
		for word := range strings.FieldsSeq(line) {
			if path.IsAbs(word) {
				files[word] = word
			}
		}
	}
	return files
}

// runIperf runs iperf3 and returns what the other side has received, in Gbit/s. The server may not be ready yet.
func runIperf(ctx context.Context, env []string, line ...string) (float64, error) {
	line = append(line, "-J", "-t", strconv.Itoa(netSeconds))
	for {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env = env
		var said bytes.Buffer
		cmd.Stderr, cmd.WaitDelay = &said, pipeLimit
		out, err := cmd.Output()
		rate := 0.0
		if err == nil {
			rate, err = parseReceived(out)
		}
		if err == nil {
			return rate, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %w: %s%s", strings.Join(line, " "), err, said.Bytes(), out)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func parseReceived(out []byte) (float64, error) {
	var result struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return 0, fmt.Errorf("result of iperf3: %w", err)
	}
	if result.End.Received.Rate == 0 {
		return 0, fmt.Errorf("iperf3 has measured nothing: %s", out) // with -J a client that was refused ends with 0
	}
	return result.End.Received.Rate / 1e9, nil
}

func inContainer(i *instance, args ...string) []string {
	return append(append(append([]string(nil), i.cli...), "run", "--rm", netRef, "/bin/iperf3"), args...)
}

// toHost goes by the address that the host has outside: its loopback is closed to containers.
func toHost(ctx context.Context, i *instance) (float64, error) {
	host, err := outwardAddress()
	if err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, "iperf3", "-s", "-B", host, "-p", port)
	if err := server.Start(); err != nil {
		return 0, err
	}
	rate, err := runIperf(ctx, i.env, inContainer(i, "-c", host, "-p", port)...)
	err = errors.Join(err, server.Process.Kill())
	_ = server.Wait() // killed
	return rate, err
}

// outwardAddress finds the address by connecting a datagram socket, which sends nothing.
func outwardAddress() (string, error) {
	conn, err := net.Dial("udp4", "198.51.100.1:9")
	if err != nil {
		return "", fmt.Errorf("this machine has no address but its loopback: %w", err)
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, errors.Join(err, conn.Close())
}

// withServer runs work beside a container that serves.
func withServer(ctx context.Context, i *instance, work func(addr, port string) (float64, error)) (rate float64, err error) {
	id, err := i.api.createWith(ctx, map[string]any{
		"Image": netRef, "Cmd": []string{"/bin/iperf3", "-s"}, "ExposedPorts": map[string]any{netPort + "/tcp": struct{}{}},
		"HostConfig": map[string]any{"PortBindings": map[string]any{netPort + "/tcp": []any{map[string]string{"HostIp": "127.0.0.1"}}}},
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id)) }()
	if err := i.api.startContainer(ctx, id); err != nil {
		return 0, err
	}
	var c struct {
		NetworkSettings struct {
			IPAddress string
			Ports     map[string][]struct{ HostPort string }
		}
	}
	if err := i.api.call(ctx, http.MethodGet, "/v1.24/containers/"+id+"/json", nil, "", &c); err != nil {
		return 0, err
	}
	ports := c.NetworkSettings.Ports[netPort+"/tcp"]
	if len(ports) == 0 {
		return 0, errors.New("the server's port is not published")
	}
	return work(c.NetworkSettings.IPAddress, ports[0].HostPort)
}

func toPort(ctx context.Context, i *instance) (float64, error) {
	return withServer(ctx, i, func(_, port string) (float64, error) {
		return runIperf(ctx, os.Environ(), "iperf3", "-c", "127.0.0.1", "-p", port)
	})
}

func betweenContainers(ctx context.Context, i *instance) (float64, error) {
	return withServer(ctx, i, func(addr, _ string) (float64, error) {
		return runIperf(ctx, i.env, inContainer(i, "-c", addr)...)
	})
}

// veth makes two namespaces in a user namespace, joined by a pair, and measures from one to the other.
const veth = `unshare -n sh -c 'until ip addr add 10.9.0.2/24 dev peer 2>/dev/null; do sleep 0.02; done
  ip link set peer up; exec iperf3 -s >/dev/null' & peer=$!
here=$(readlink /proc/$$/ns/net)
until [ "$(readlink /proc/$peer/ns/net)" != "$here" ]; do sleep 0.02; done
ip link add name near mtu 65520 type veth peer name peer mtu 65520
ip link set peer netns $peer
ip addr add 10.9.0.1/24 dev near
ip link set near up
exec iperf3 -c 10.9.0.2 "$@"`

func bareVeth(ctx context.Context, i *instance) (float64, error) {
	dir, err := os.MkdirTemp("", "veth-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return runIperf(ctx, i.env, "unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child",
		"--mount-proc", "--wd="+dir, "sh", "-ec", veth, "veth")
}

// portsMemory tells how many MiB the engine's processes grow by so many published ports, half of them udp.
func portsMemory(ctx context.Context, i *instance) (_ float64, err error) {
	bindings := map[string]any{}
	for n := range manyPorts / 2 {
		for _, proto := range []string{"tcp", "udp"} {
			bindings[fmt.Sprintf("%d/%s", n+1, proto)] = []any{map[string]string{}}
		}
	}
	var grown [2]float64
	for k, bound := range []map[string]any{{}, bindings} {
		id, err := i.api.createWith(ctx, map[string]any{
			"Image": imageRef, "Cmd": []string{"sleep", "86400"}, "HostConfig": map[string]any{"PortBindings": bound},
		})
		if err != nil {
			return 0, err
		}
		err = i.api.startContainer(ctx, id)
		if err == nil {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(settle):
				grown[k], _, err = memoryOf(i.cmd.Process.Pid)
			}
		}
		if err = errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id)); err != nil {
			return 0, err
		}
	}
	return grown[1] - grown[0], nil
}
