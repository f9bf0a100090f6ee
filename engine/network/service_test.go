package network

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/damage"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
)

// told keeps the events.
type told struct {
	mu   sync.Mutex // guards list
	list []string
}

func (l *told) Publish(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, strings.Join([]string{e.Type, e.Action, e.ID, e.Attributes["name"], e.Attributes["type"]}, " "))
}

// driver is a fake: it hands out subnets in order and keeps what it was told of.
type driver struct {
	mu    sync.Mutex // guards the rest
	known map[string]*Network
	next  byte
	fail  error
	busy  map[string]bool // ids of networks with containers
}

func newDriver() *driver {
	return &driver{known: map[string]*Network{}, next: 17, busy: map[string]bool{}}
}

func (d *driver) Adopt(_ context.Context, all []*Network) (changed []*Network, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range all {
		if n.Driver != DriverBridge && n.Driver != DriverOverlay {
			return nil, errors.New("nothing to build: " + n.Name)
		}
		filled := d.fillLocked(n)
		if len(n.IPAM.Pools) == 0 {
			changed = append(changed, filled)
		}
		d.known[n.ID] = filled
	}
	return changed, d.fail
}

func (d *driver) AddNetwork(_ context.Context, n *Network) (*Network, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return nil, d.fail
	}
	d.known[n.ID] = d.fillLocked(n)
	return d.known[n.ID], nil
}

func (d *driver) PutNetwork(ctx context.Context, n *Network) (*Network, error) {
	return d.AddNetwork(ctx, n)
}

func (d *driver) fillLocked(n *Network) *Network {
	filled := *n
	filled.IPAM.Pools = slices.Clone(n.IPAM.Pools)
	if _, ok := n.Pool(false); !ok {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, d.next, 0, 0}), 16)
		filled.IPAM.Pools = slices.Insert(filled.IPAM.Pools, 0, Pool{Subnet: subnet})
		d.next++
	}
	for i := range filled.IPAM.Pools {
		if p := &filled.IPAM.Pools[i]; !p.Gateway.IsValid() {
			p.Gateway = p.Subnet.Addr().Next()
		}
	}
	filled.Device = "br-" + n.ID[:12]
	return &filled
}

func (d *driver) RemoveNetwork(_ context.Context, networkID string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	if d.busy[networkID] {
		return fault.Conflict("a container is in it")
	}
	delete(d.known, networkID)
	return nil
}

func (d *driver) ids() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.known))
}

func open(t *testing.T, dir string) (*Service, *driver, *told) {
	t.Helper()
	d, events := newDriver(), &told{}
	s, err := Open(t.Context(), Options{Dir: dir, Driver: d, Events: events, MTU: 65520, Log: zerolog.Nop(), Damage: damage.New(dir, nil)})
	must(t, err)
	return s, d, events
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, s *Service, opt CreateOptions) *Network {
	t.Helper()
	n, _, err := s.Create(t.Context(), opt)
	must(t, err)
	return n
}

// names lists networks; containers are in those with the ids.
func names(t *testing.T, s *Service, filters map[string][]string, used ...string) string {
	t.Helper()
	list, err := s.List(filters, nil, func(id string) bool { return slices.Contains(used, id) })
	must(t, err)
	names := make([]string, 0, len(list))
	for _, n := range list {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

// files returns what lies in the folder of records.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBuiltins(t *testing.T) {
	dir := t.TempDir()
	s, _, events := open(t, dir)
	for name, driver := range map[string]string{Bridge: DriverBridge, Host: DriverHost, None: DriverNull} {
		n, err := s.Find(name)
		must(t, err)
		if n.Driver != driver || !id.Is(n.ID) || !n.Builtin() || n.IPAM.Driver != "default" {
			t.Errorf("%s = %+v, want the driver %s", name, n, driver)
		}
		if err := s.Remove(t.Context(), name); !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "pre-defined network and cannot be removed") {
			t.Errorf("Remove(%s) = %v, want fault.Forbidden", name, err)
		}
		if _, _, err := s.Create(t.Context(), CreateOptions{Name: name}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("Create(%s) = %v, want fault.Forbidden", name, err)
		}
	}
	first, err := s.Find(Bridge)
	must(t, err)
	if len(first.IPAM.Pools) != 1 || first.IPAM.Pools[0].Gateway.String() != "172.17.0.1" || first.Options[OptionDefault] != "true" {
		t.Errorf("default network = %+v, want the driver's pool", first)
	}
	again, _, _ := open(t, dir)
	second, err := again.Find(Bridge)
	must(t, err)
	if second.ID != first.ID || second.IPAM.Pools[0].Subnet != first.IPAM.Pools[0].Subnet || !second.Created.Equal(first.Created) {
		t.Errorf("the next engine has %+v, want %+v", second, first)
	}
	if len(events.list) != 0 {
		t.Errorf("events %q, want none", events.list)
	}
}

func TestOldRecord(t *testing.T) {
	const oldID = "5f2a4b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c5d7e9f1a3b5c7d9e1f3a"
	for _, tc := range []struct{ name, text, id, subnet string }{
		{"taken over", `{"id":"` + oldID + `","subnet":"172.30.0.0/16"}`, oldID, "172.30.0.0/16"},
		{"an impossible subnet", `{"id":"` + oldID + `","subnet":"127.0.0.0/16"}`, oldID, "172.17.0.0/16"},
		{"no id", `{"id":"x","subnet":"172.30.0.0/16"}`, "", "172.17.0.0/16"},
		{"damaged", `{"id":`, "", "172.17.0.0/16"},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "bridge.json"), []byte(tc.text), 0o600))
		s, _, _ := open(t, dir)
		n, err := s.Find(Bridge)
		must(t, err)
		if tc.id != "" && n.ID != tc.id || n.IPAM.Pools[0].Subnet.String() != tc.subnet {
			t.Errorf("%s: %+v, want %s %s", tc.name, n, tc.id, tc.subnet)
		}
		if got := files(t, dir); !slices.Equal(got, []string{n.ID + ".json"}) {
			t.Errorf("%s: files %q, want the record alone", tc.name, got)
		}
	}
}

func TestBrokenRecords(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	kept := create(t, s, CreateOptions{Name: "kept", EnableIPv6: true, IPAM: pool("fd00:3::/64"), Labels: map[string]string{"a": "1"}, Options: map[string]string{OptionMTU: "1400"}})
	for name, text := range map[string]string{
		id.New() + ".json": "{", id.New() + ".json ": "{}", "notes": "x", ".record-1.tmp": "x",
		id.New() + ".json\n": "", strings.Repeat("a", 64) + ".json": `{"ID":"` + strings.Repeat("b", 64) + `","Name":"x","Driver":"bridge"}`,
		strings.Repeat("c", 64) + ".json": `{"ID":"` + strings.Repeat("c", 64) + `","Name":"../x","Driver":"bridge"}`,
		strings.Repeat("d", 64) + ".json": `{"ID":"` + strings.Repeat("d", 64) + `","Name":"x","Driver":"host"}`,
		strings.Repeat("f", 64) + ".json": `{"ID":"` + strings.Repeat("f", 64) + `","Name":"bridge","Driver":"bridge"}`,
		strings.Repeat("1", 64) + ".json": `{"ID":"` + strings.Repeat("1", 64) + `","Name":"x","Driver":"bridge"}`,
		strings.Repeat("2", 64) + ".json": `{"ID":"` + strings.Repeat("2", 64) + `","Name":"x","Driver":"bridge","IPAM":{"Pools":[{"Subnet":"10.1.0.0/16","Gateway":"10.2.0.1"}]}}`,
		strings.Repeat("3", 64) + ".json": `{"ID":"` + strings.Repeat("3", 64) + `","Name":"x","Driver":"bridge","IPAM":{"Pools":[{"Gateway":"10.2.0.1"}]}}`,
		strings.Repeat("4", 64) + ".json": `{"ID":"` + strings.Repeat("4", 64) + `","Name":"x","Driver":"bridge","Options":{"` + OptionMTU + `":"x"},` +
			`"IPAM":{"Pools":[{"Subnet":"10.1.0.0/16","Gateway":"10.1.0.1"}]}}`,
		"0" + strings.Repeat("0", 63) + ".json": `{"ID":"` + strings.Repeat("0", 64) + `","Name":"host","Driver":"bridge"}`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	again, d, _ := open(t, dir)
	if got := names(t, again, nil); got != "bridge host kept none" {
		t.Errorf("networks %q, want the good ones", got)
	}
	n, err := again.Find("kept")
	must(t, err)
	if n.ID != kept.ID || n.Labels["a"] != "1" || n.Options[OptionMTU] != "1400" || n.IPAM.Pools[0].Subnet != kept.IPAM.Pools[0].Subnet ||
		n.Device != kept.Device || !n.Created.Equal(kept.Created) {
		t.Errorf("read %+v, want %+v", n, kept)
	}
	if len(d.ids()) != 2 {
		t.Errorf("the driver was told of %q, want the default network and kept", d.ids())
	}
	if slices.Contains(files(t, dir), ".record-1.tmp") {
		t.Error("a half-written record is still there")
	}
}

func TestLifeOfANetwork(t *testing.T) {
	dir := t.TempDir()
	s, d, events := open(t, dir)
	opt := CreateOptions{
		Name: "blue", CheckDuplicate: true, Driver: "bridge", Internal: true, EnableIPv6: true, Labels: map[string]string{"a": "1"},
		IPAM: IPAMRequest{Options: map[string]string{"x": "y"}, Pools: []PoolRequest{
			{Subnet: "10.1.0.0/16", Range: "10.1.2.0/24", Gateway: "10.1.0.254", Aux: map[string]string{"r": "10.1.2.7"}}, {Subnet: "fd00:1::/64"},
		}},
	}
	n, warning, err := s.Create(t.Context(), opt)
	must(t, err)
	if warning != "The IPAM driver default has no option x: kept and of no effect" {
		t.Errorf("warning %q", warning)
	}
	v4, _ := n.Pool(false)
	v6, ok := n.Pool(true)
	if !n.Internal || !n.EnableIPv6 || n.Labels["a"] != "1" || v4.Range.String() != "10.1.2.0/24" || v4.Aux["r"].String() != "10.1.2.7" ||
		v4.Gateway.String() != "10.1.0.254" || !ok || v6.Subnet.String() != "fd00:1::/64" || n.IPAM.Options["x"] != "y" || n.Device == "" {
		t.Errorf("created %+v", n)
	}
	for _, ref := range []string{n.ID, n.ID[:12], n.ID[:7], "blue"} {
		if found, err := s.Find(ref); err != nil || found.ID != n.ID {
			t.Errorf("Find(%s) = %+v, %v", ref, found, err)
		}
	}
	d.busy[n.ID] = true
	if err := s.Remove(t.Context(), "blue"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "network blue id "+n.ID+" has active endpoints") {
		t.Errorf("Remove of one in use = %v, want fault.Conflict", err)
	}
	delete(d.busy, n.ID)
	must(t, s.Remove(t.Context(), n.ID[:12]))
	if _, err := s.Find("blue"); !fault.Is(err, fault.NotFound) || err.Error() != "network blue not found" {
		t.Errorf("Find after Remove = %v", err)
	}
	if err := s.Remove(t.Context(), "blue"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Remove again = %v, want fault.NotFound", err)
	}
	if want := []string{"network create " + n.ID + " blue bridge", "network destroy " + n.ID + " blue bridge"}; !slices.Equal(events.list, want) {
		t.Errorf("events %q, want %q", events.list, want)
	}
	if len(d.ids()) != 1 || len(files(t, dir)) != 1 {
		t.Errorf("left: %q in the driver, %q on the disk", d.ids(), files(t, dir))
	}
}

func TestDuplicates(t *testing.T) {
	s, _, _ := open(t, t.TempDir())
	first := create(t, s, CreateOptions{Name: "twin"})
	if _, _, err := s.Create(t.Context(), CreateOptions{Name: "twin", CheckDuplicate: true}); !fault.Is(err, fault.Conflict) ||
		err.Error() != "network with name twin already exists" {
		t.Errorf("a checked duplicate = %v, want fault.Conflict", err)
	}
	second, warning, err := s.Create(t.Context(), CreateOptions{Name: "twin"})
	must(t, err)
	if !strings.Contains(warning, first.ID) {
		t.Errorf("warning %q does not name %s", warning, first.ID)
	}
	if _, err := s.Find("twin"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "2 matches found based on name") {
		t.Errorf("Find of two = %v, want fault.Conflict", err)
	}
	if found, err := s.Find(second.ID); err != nil || found != second {
		t.Errorf("Find by id = %+v, %v", found, err)
	}
	for len(first.ID) == len(second.ID) && first.ID[0] != second.ID[0] { // 16 to the first digit, so it ends
		second = create(t, s, CreateOptions{Name: "more"})
	}
	if _, err := s.Find(first.ID[:1]); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "based on ID prefix") {
		t.Errorf("Find(%s) = %v, want fault.Conflict", first.ID[:1], err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, _, errs[i] = s.Create(t.Context(), CreateOptions{Name: "race", CheckDuplicate: true}) })
	}
	wg.Wait()
	if got := len(slices.DeleteFunc(errs, func(err error) bool { return fault.Is(err, fault.Conflict) })); got != 1 {
		t.Errorf("%d of 8 creates were not refused, want 1", got)
	}
	if got := names(t, s, map[string][]string{"name": {"^race$"}}); got != "race" {
		t.Errorf("networks %q, want one race", got)
	}
}

// TestNothingHalfMade lets each step fail: nothing is left, and the same can be asked for again.
func TestNothingHalfMade(t *testing.T) {
	dir := t.TempDir()
	s, d, events := open(t, dir)
	before := d.ids()
	d.fail = fault.Conflict("Pool overlaps with other one on this address space")
	if _, _, err := s.Create(t.Context(), CreateOptions{Name: "blue"}); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "Pool overlaps") {
		t.Errorf("Create = %v, want the driver's fault", err)
	}
	d.fail = nil
	away := dir + ".away"
	must(t, os.Rename(dir, away)) // no record can be written
	if _, _, err := s.Create(t.Context(), CreateOptions{Name: "blue"}); err == nil {
		t.Error("Create without a folder succeeded")
	}
	must(t, os.Rename(away, dir))
	if !slices.Equal(d.ids(), before) || names(t, s, nil) != "bridge host none" || len(files(t, dir)) != 1 || len(events.list) != 0 {
		t.Errorf("left: %q in the driver, %q listed, files %q, events %q", d.ids(), names(t, s, nil), files(t, dir), events.list)
	}
	n := create(t, s, CreateOptions{Name: "blue", CheckDuplicate: true})
	must(t, os.Rename(dir, away))
	must(t, os.MkdirAll(filepath.Join(dir, n.ID+".json", "x"), 0o700)) // a record that cannot be removed
	if err := s.Remove(t.Context(), "blue"); err == nil {
		t.Error("Remove of a record that stays succeeded")
	}
	must(t, os.RemoveAll(dir))
	must(t, os.Rename(away, dir))
	if !slices.Contains(d.ids(), n.ID) || names(t, s, nil) != "blue bridge host none" {
		t.Errorf("after a failed Remove: %q in the driver, %q listed", d.ids(), names(t, s, nil))
	}
	must(t, os.Chmod(dir, 0o300)) // files come and go, the folder is not opened to be synced
	err := s.Remove(t.Context(), "blue")
	must(t, os.Chmod(dir, 0o700)) //nolint:gosec // a folder
	if err == nil || !slices.Contains(files(t, dir), n.ID+".json") {
		t.Errorf("Remove in a folder that is not synced = %v, files %q; want an error and the record", err, files(t, dir))
	}
	must(t, s.Remove(t.Context(), "blue"))
}

func TestCancelled(t *testing.T) {
	s, _, _ := open(t, t.TempDir())
	must(t, s.acquireToken(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, createErr := s.Create(ctx, CreateOptions{Name: "x"})
	_, pruneErr := s.Prune(ctx, nil, PruneOptions{Used: func(string) bool { return false }})
	for what, err := range map[string]error{"Create": createErr, "Remove": s.Remove(ctx, "x"), "Prune": pruneErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s while another holds the token = %v, want the context's error", what, err)
		}
	}
	s.releaseToken()
}

func TestOpenFails(t *testing.T) {
	d := newDriver()
	d.fail = errors.New("no namespace")
	if _, err := Open(t.Context(), Options{Dir: t.TempDir(), Driver: d, Events: &told{}, Log: zerolog.Nop()}); err == nil || !strings.Contains(err.Error(), "no namespace") {
		t.Errorf("Open = %v, want the driver's error", err)
	}
	file := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(t.Context(), Options{Dir: file, Driver: newDriver(), Events: &told{}, Log: zerolog.Nop()}); err == nil {
		t.Error("Open of a file succeeded")
	}
}
