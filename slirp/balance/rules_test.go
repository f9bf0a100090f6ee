package balance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"moss/engine/swarm/swarmtest"
	"moss/engine/swarm/table"
	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	vip    = "10.208.1.200"
	server = "7000" // the port of all servers
)

// place is a node: the containers' namespace with a bridge, containers in it, and a wire in place of the tunnel.
type place struct {
	inside     string
	far        string // what is behind the tunnel
	containers []string
	addrs      []netip.Addr
}

func newPlace(t *testing.T, count int) *place {
	t.Helper()
	p := &place{inside: swarmtest.NewNetNS(t, "inside"), far: swarmtest.NewNetNS(t, "far")}
	slirptest.In(t, p.inside, func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		return errors.Join(swarmtest.AddBridge("br0", "10.208.1.1/24", 1500), swarmtest.AddBridge("br1", "10.208.2.1/24", 1500))
	})
	for i := range count {
		ns := swarmtest.NewNetNS(t, fmt.Sprint("container", i))
		a := netip.AddrFrom4([4]byte{10, 208, 1, byte(10 + i)})
		port := fmt.Sprint("port", i)
		swarmtest.Connect(t, 1500, ns, "eth0", a.String()+"/24", p.inside, port, "")
		slirptest.In(t, p.inside, func() error { return swarmtest.Enslave(port, "br0") })
		p.containers, p.addrs = append(p.containers, ns), append(p.addrs, a)
	}
	return p
}

// serve answers with the number of the container, and whom it sees, until the client ends.
func (p *place) serve(t *testing.T, i int) {
	t.Helper()
	var l net.Listener
	slirptest.In(t, p.containers[i], func() (err error) {
		l, err = net.Listen("tcp4", ":"+server)
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_, _ = fmt.Fprintf(conn, "%d %s\n", i, host)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

// ask connects from a namespace and returns which container answered, and whom it saw.
func ask(ns, to string) (conn net.Conn, answered int, seen string, err error) {
	err = slirptest.Enter(ns, func() (err error) {
		conn, err = net.DialTimeout("tcp4", to, time.Minute)
		return err
	})
	if err != nil {
		return nil, 0, "", err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = fmt.Fscanln(conn, &answered, &seen)
	return conn, answered, seen, err
}

// spread counts who answers.
func spread(t *testing.T, ns, to, seen string, times int) map[int]int {
	t.Helper()
	got := map[int]int{}
	for range times {
		conn, n, who, err := ask(ns, to)
		check(t, err)
		check(t, conn.Close())
		if who != seen {
			t.Errorf("container %d sees %s, want %s", n, who, seen)
		}
		got[n]++
	}
	return got
}

func TestServiceAddressLeadsToReadyTasks(t *testing.T) {
	p := newPlace(t, 4)
	for i := 1; i < 4; i++ {
		p.serve(t, i)
	}
	client, to := p.containers[0], vip+":"+server
	set := func(ns string, backends ...netip.Addr) {
		t.Helper()
		check(t, Client{VIPs: []VIP{{Addr: addr(vip), Backends: backends}, {Addr: addr("10.208.1.201")}}}.Apply(ns))
	}
	set(client, p.addrs[1:4]...)
	// One of three is missed in 100 connections once in 10^17.
	if got := spread(t, client, to, p.addrs[0].String(), 100); len(got) != 3 || got[1]+got[2]+got[3] != 100 {
		t.Errorf("answers by container: %v", got)
	}
	set(client, p.addrs[3])
	conn, n, _, err := ask(client, to)
	check(t, err)
	if n != 3 {
		t.Errorf("container %d answered, want the only one that is ready", n)
	}
	set(client, p.addrs[2])
	if got := spread(t, client, to, p.addrs[0].String(), 20); got[2] != 20 {
		t.Errorf("answers by container: %v", got)
	}
	// What was open goes on.
	check(t, func() error { _, err := conn.Write([]byte("x")); return err }())
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Errorf("the open connection broke: %v", err)
	}
	check(t, conn.Close())

	set(client) // nobody is ready
	for _, dead := range []string{to, "10.208.1.201:" + server} {
		begin := time.Now()
		if _, _, _, err := ask(client, dead); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begin) > 30*time.Second {
			t.Errorf("%s, a service without a ready task: %v after %v", dead, err, time.Since(begin))
		}
	}
	// A task reaches its own service, and itself by it.
	set(p.containers[1], p.addrs[1])
	if got := spread(t, p.containers[1], to, p.addrs[1].String(), 2); got[1] != 2 {
		t.Errorf("answers by container: %v", got)
	}
	check(t, Remove(client))
	check(t, Remove(client))
	if conn, _, _, err := ask(client, p.addrs[2].String()+":"+server); err != nil {
		t.Errorf("without rules: %v", err)
	} else {
		check(t, conn.Close())
	}
}

func TestPublishedPortLeadsToReadyTasks(t *testing.T) {
	p := newPlace(t, 3)
	p.serve(t, 1)
	p.serve(t, 2)
	const ingress = "10.208.1.5" // the node's own address
	slirptest.In(t, p.inside, func() error { return swarmtest.AddBridge("own", ingress+"/32", 1500) })
	g := Gate{Tunnel: "tun", Ingress: addr(ingress), Ports: []Port{
		{Proto: table.TCP, Published: 8080, Target: 7000, Backends: p.addrs[1:3]},
		{Proto: table.UDP, Published: 8080, Target: 7000},
		{Proto: table.TCP, Published: 8081, Target: 7000},
	}}
	check(t, g.Apply(p.inside))
	// From the namespace itself, as the forwarder connects.
	if got := spread(t, p.inside, ingress+":8080", ingress, 60); got[1]+got[2] != 60 || len(got) != 2 {
		t.Errorf("answers by container: %v", got)
	}
	if _, _, _, err := ask(p.inside, ingress+":8081"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port without a ready task: %v", err)
	}
	g.Ports[0].Backends = p.addrs[2:3]
	check(t, g.Apply(p.inside))
	if got := spread(t, p.inside, ingress+":8080", ingress, 20); got[2] != 20 {
		t.Errorf("answers by container: %v", got)
	}
}

// TestThroughTheTunnelComesTheNodesAddress has a task behind the tunnel, and a client whose address must not get there.
func TestThroughTheTunnelComesTheNodesAddress(t *testing.T) {
	p := newPlace(t, 1)
	const ingress = "10.208.1.5"
	swarmtest.Connect(t, 1500, p.far, "eth0", "10.208.1.77/32", p.inside, "tun", "")
	slirptest.In(t, p.inside, func() error {
		return errors.Join(swarmtest.AddBridge("own", ingress+"/32", 1500), swarmtest.AddRoute("10.208.1.77/32", "tun"))
	})
	slirptest.In(t, p.far, func() error { return swarmtest.AddRoute("10.208.1.0/24", "eth0") })
	q := &place{containers: []string{p.far}}
	q.serve(t, 0)
	g := Gate{
		Tunnel: "tun", Ingress: addr(ingress), Members: []Member{{"br0", netip.MustParsePrefix("10.208.1.0/24")}},
		Ports: []Port{
			{Proto: table.TCP, Published: 8080, Target: 7000, Backends: []netip.Addr{addr("10.208.1.77")}},
			{Proto: table.TCP, Published: 8081, Target: 7000},
		},
	}
	check(t, g.Apply(p.inside))
	slirptest.In(t, p.containers[0], func() error { return swarmtest.AddRoute(ingress+"/32", "eth0") })
	for _, device := range []string{"br0", "tun"} {
		check(t, swarmtest.AnswerARP(p.inside, device))
	}
	if got := spread(t, p.inside, ingress+":8080", ingress, 3); got[0] != 3 {
		t.Errorf("answers: %v", got)
	}
	for _, port := range []string{":8080", ":8081"} {
		if _, _, _, err := ask(p.containers[0], ingress+port); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a container asks at the node's own address: %v", err)
		}
	}
	// Within a network nothing is translated.
	spread(t, p.containers[0], "10.208.1.77:7000", p.addrs[0].String(), 1)
}

// TestNetworksStayApartAtTheTunnel sends from one network to another, through the tunnel and into it.
func TestNetworksStayApartAtTheTunnel(t *testing.T) {
	p := newPlace(t, 1)
	swarmtest.Connect(t, 1500, p.far, "eth0", "10.208.1.77/32", p.inside, "tun", "")
	slirptest.In(t, p.inside, func() error {
		return errors.Join(swarmtest.AddRoute("10.208.1.77/32", "tun"), swarmtest.AddRoute("10.208.2.77/32", "tun"))
	})
	slirptest.In(t, p.far, func() error {
		return errors.Join(swarmtest.AddAddr("eth0", "10.208.2.77/32"), swarmtest.AddRoute("10.208.0.0/16", "eth0"))
	})
	for _, bridge := range []string{"br0", "tun"} {
		check(t, swarmtest.AnswerARP(p.inside, bridge))
	}
	slirptest.In(t, p.containers[0], func() error { return swarmtest.AddRoute("10.208.2.0/24", "eth0") })
	g := Gate{Tunnel: "tun", Members: []Member{
		{"br0", netip.MustParsePrefix("10.208.1.0/24")}, {"br1", netip.MustParsePrefix("10.208.2.0/24")},
	}}
	check(t, g.Apply(p.inside))
	in := listenUDP(t, p.containers[0], ":0")
	to := &net.UDPAddr{IP: p.addrs[0].AsSlice(), Port: in.LocalAddr().(*net.UDPAddr).Port}
	send(t, p.far, "10.208.2.77", to, "of another network")
	send(t, p.far, "10.208.1.77", to, "of the network")
	receive(t, in, "of the network")

	out := listenUDP(t, p.far, ":0")
	port := out.LocalAddr().(*net.UDPAddr).Port
	send(t, p.containers[0], p.addrs[0].String(), &net.UDPAddr{IP: net.ParseIP("10.208.2.77"), Port: port}, "to another network")
	send(t, p.containers[0], p.addrs[0].String(), &net.UDPAddr{IP: net.ParseIP("10.208.1.77"), Port: port}, "within the network")
	receive(t, out, "within the network")

	node := listenUDP(t, p.inside, ":0")
	nodePort := node.LocalAddr().(*net.UDPAddr).Port
	send(t, p.far, "10.208.1.77", &net.UDPAddr{IP: net.ParseIP("10.208.1.1"), Port: nodePort}, "to the node")
	send(t, p.containers[0], p.addrs[0].String(), &net.UDPAddr{IP: net.ParseIP("10.208.1.1"), Port: nodePort}, "from a container")
	receive(t, node, "from a container")
}

func listenUDP(t *testing.T, ns, at string) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	slirptest.In(t, ns, func() (err error) {
		c, err = net.ListenPacket("udp4", at)
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func send(t *testing.T, ns, from string, to *net.UDPAddr, text string) {
	t.Helper()
	_, err := listenUDP(t, ns, from+":0").WriteTo([]byte(text), to)
	check(t, err)
}

func receive(t *testing.T, c net.PacketConn, want string) {
	t.Helper()
	buf := make([]byte, 100)
	n, from, err := c.ReadFrom(buf)
	check(t, err)
	if got := string(buf[:n]); got != want {
		t.Errorf("%q came from %s, want %q", got, from, want)
	}
}

// TestKernelTakesDoubles: it would refuse all rules for two of the same name.
func TestKernelTakesDoubles(t *testing.T) {
	ns := swarmtest.NewNetNS(t, "container")
	check(t, ClientOf(doubled(), []string{"red", "red"}).Apply(ns))
	check(t, GateOf(doubled(), "me", "tun", map[string]string{"red": "br0", "ingress": "br1"}).Apply(ns))
}
