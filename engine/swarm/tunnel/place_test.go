package tunnel

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"

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

// machine is a node: a host's network namespace, one for containers with a bridge, and one container.
type machine struct {
	number    int
	host      string // paths of namespaces
	inside    string
	container string
	addr      netip.Addr // of the container
	key       PrivateKey
	public    table.Key
	tunnel    *Tunnel
}

const (
	tunnelDevice = "moss-swarm"
	bridgeDevice = "br0"
)

// newMachines makes machines whose hosts are on one wire, with a tunnel each and one container in the network
// 10.208.1.0/24. Peers are not set.
func newMachines(t testing.TB, count int) []*machine {
	t.Helper()
	wire := swarmtest.NewNetNS(t, "wire")
	slirptest.In(t, wire, func() error { return swarmtest.AddBridge("wire0", "", 1500) })
	var all []*machine
	for i := 1; i <= count; i++ {
		m := &machine{
			number: i, host: swarmtest.NewNetNS(t, fmt.Sprint("host", i)), inside: swarmtest.NewNetNS(t, fmt.Sprint("inside", i)),
			container: swarmtest.NewNetNS(t, fmt.Sprint("container", i)), addr: netip.AddrFrom4([4]byte{10, 208, 1, byte(10 + i)}),
		}
		port := fmt.Sprint("port", i)
		swarmtest.Connect(t, 1500, m.host, "eth0", fmt.Sprintf("192.0.2.%d/24", i), wire, port, "")
		slirptest.In(t, wire, func() error { return swarmtest.Enslave(port, "wire0") })
		slirptest.In(t, m.inside, func() error {
			if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
				return err
			}
			return swarmtest.AddBridge(bridgeDevice, "10.208.1.1/24", DefaultMTU)
		})
		swarmtest.Connect(t, DefaultMTU, m.container, "eth0", m.addr.String()+"/24", m.inside, "veth0", "")
		slirptest.In(t, m.inside, func() error { return swarmtest.Enslave("veth0", bridgeDevice) })
		check(t, swarmtest.AnswerARP(m.inside, bridgeDevice))
		var err error
		m.key, err = NewPrivateKey()
		check(t, err)
		m.public, err = m.key.Public()
		check(t, err)
		m.open(t)
		all = append(all, m)
	}
	return all
}

// open opens the tunnel as a process in the host's namespace does.
func (m *machine) open(t testing.TB) {
	t.Helper()
	slirptest.In(t, m.host, func() (err error) {
		report := func(s string) { t.Log(m.number, s) }
		m.tunnel, err = Open(Options{NetNS: m.inside, Device: tunnelDevice, Key: m.key, Port: 7946, Report: report})
		return err
	})
	tunnel := m.tunnel
	t.Cleanup(func() { check(t, tunnel.Close()) })
}

// sent returns how many bytes the machine has sent to its only peer.
func (m *machine) sent(t testing.TB) string {
	t.Helper()
	state, err := m.tunnel.device.IpcGet()
	check(t, err)
	_, rest, _ := strings.Cut(state, "tx_bytes=")
	sent, _, _ := strings.Cut(rest, "\n")
	return sent
}

// openAgain is open after Close. The time in a handshake has a grain of 17 ms and must be later than the last one: no
// process starts again as quickly.
func (m *machine) openAgain(t testing.TB) {
	t.Helper()
	<-time.After(50 * time.Millisecond)
	m.open(t)
}

// peer is the machine as others know it, with addresses beside that of its container.
func (m *machine) peer(more ...netip.Addr) Peer {
	data := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(m.number)}), 7946)
	return Peer{Key: m.public, Data: data, Addrs: append([]netip.Addr{m.addr}, more...)}
}

// meet makes all machines peers of each other.
func meet(t testing.TB, all []*machine) {
	t.Helper()
	for _, m := range all {
		var peers []Peer
		for _, o := range all {
			if o != m {
				peers = append(peers, o.peer())
			}
		}
		check(t, m.tunnel.Set(peers))
	}
	// What is sent before may begin a handshake that crosses another one.
	for _, m := range all {
		m.awaitHandshakes(t, len(all)-1)
	}
}

// awaitHandshakes waits until this many peers have keys. On a slow machine two handshakes may cross, and both are void. The library
// does not try again by itself then, but with the next packet, as is done here when that may have been.
func (m *machine) awaitHandshakes(t testing.TB, want int) {
	t.Helper()
	began := time.Now()
	awaitCondition(t, func() bool {
		if time.Since(began) > device.RekeyTimeout+time.Second {
			for key := range m.tunnel.peers {
				check(t, m.tunnel.device.LookupPeer(device.NoisePublicKey(key)).SendHandshakeInitiation(false))
			}
		}
		state, err := m.tunnel.device.IpcGet()
		check(t, err)
		return strings.Count(state, "last_handshake_time_sec=")-strings.Count(state, "last_handshake_time_sec=0\n") == want
	})
}

// awaitCondition waits until this is so.
func awaitCondition(t testing.TB, met func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute) // much for a slow and busy machine
	for !met() {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("it takes too long")
		}
	}
}
