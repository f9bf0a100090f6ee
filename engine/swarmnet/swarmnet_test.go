package swarmnet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/swarm/table"
)

// world is the engine around a Service: it notes calls in their order.
type world struct {
	path     string
	calls    []string
	networks map[string]*network.Network
	put      map[string]error // by id
	drop     map[string]error
	apply    error
	problems []string
	taken    []*table.Hosted
	applied  []*table.Hosted
	aside    []string
	log      strings.Builder
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{
		path: filepath.Join(t.TempDir(), "swarm.json"), networks: map[string]*network.Network{},
		put: map[string]error{}, drop: map[string]error{},
	}
}

func (w *world) open(t testing.TB) *Service {
	t.Helper()
	s, err := Open(Options{Path: w.path, Networks: w, Host: w, Damage: w, Log: zerolog.New(&w.log)})
	check(t, err)
	return s
}

func (w *world) PutSwarm(ctx context.Context, n *network.Network) error {
	w.calls = append(w.calls, "put "+n.Name)
	if err := errors.Join(ctx.Err(), w.put[n.ID]); err != nil {
		return err
	}
	w.networks[n.ID] = n
	return nil
}

func (w *world) DropSwarm(ctx context.Context, id string) error {
	w.calls = append(w.calls, "drop "+w.networks[id].Name)
	if err := errors.Join(ctx.Err(), w.drop[id]); err != nil {
		return err
	}
	delete(w.networks, id)
	return nil
}

func (w *world) SwarmNetworks() (all []*network.Network) {
	for _, n := range w.networks {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *network.Network) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (w *world) TakeUpSwarm(h *table.Hosted) { w.taken = append(w.taken, h) }

func (w *world) ApplySwarm(ctx context.Context, h *table.Hosted) ([]string, error) {
	w.calls = append(w.calls, "apply")
	w.applied = append(w.applied, h)
	return w.problems, errors.Join(ctx.Err(), w.apply)
}

func (w *world) SetAside(path string, why error) error {
	if why == nil {
		return errors.New("set aside for no reason")
	}
	w.aside = append(w.aside, path)
	return os.Remove(path)
}

func (w *world) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.calls, want) {
		t.Errorf("calls %q, want %q", w.calls, want)
	}
	w.calls = nil
}

func decode(body []byte) (*table.Hosted, error) {
	var h table.Hosted
	err := json.Unmarshal(body, &h)
	return &h, err
}

func remembered(t *testing.T, w *world) *table.Hosted {
	t.Helper()
	raw, err := os.ReadFile(w.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	check(t, err)
	h, err := decode(raw)
	check(t, err)
	return h
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	s := w.open(t)
	w.problems = []string{"port 80 is in use"}
	got, err := s.Apply(t.Context(), hosted())
	if err != nil || !slices.Equal(got.Problems, w.problems) {
		t.Errorf("problems %q, %v, want %q", got.Problems, err, w.problems)
	}
	w.expect(t, "put ingress", "put front", "apply")
	red := &network.Network{
		ID: redID, Name: "front", Internal: true,
		IPAM:    network.IPAM{Pools: []network.Pool{{Subnet: prefix("10.208.1.0/24"), Gateway: addr("10.208.1.1")}}},
		Overlay: &network.Overlay{Tunnel: "moss-swarm0", MTU: 1420},
	}
	if !reflect.DeepEqual(w.networks[redID], red) {
		t.Errorf("the network is %+v, want %+v", w.networks[redID], red)
	}
	if o := w.networks[ingressID].Overlay; !o.Ingress || o.Own != addr("10.208.0.2") {
		t.Errorf("the ingress network is %+v, want it with this node's own address", o)
	}
	if h := remembered(t, w); !reflect.DeepEqual(h, hosted()) {
		t.Errorf("remembered is %+v", h)
	}

	// Those that go come first: others may have their subnets.
	next := hosted()
	next.Table.Networks["b000000000000000000000001"] = next.Table.Networks[redID]
	delete(next.Table.Networks, redID)
	next.Table.Tasks, next.Table.Services = nil, nil
	delete(next.Table.Nodes[nodeID].Addrs, redID)
	_, err = s.Apply(t.Context(), next)
	check(t, err)
	w.expect(t, "drop front", "put front", "put ingress", "apply")

	// A client that hangs up does not leave half of it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Apply(ctx, hosted())
	check(t, err)
	w.expect(t, "drop front", "put ingress", "put front", "apply")

	// The node leaves.
	_, err = s.Apply(t.Context(), &table.Hosted{Table: &table.Table{}})
	check(t, err)
	w.expect(t, "drop front", "drop ingress", "apply")
	if h := remembered(t, w); h != nil {
		t.Errorf("after the node has left, remembered is %+v", h)
	}
}

// TestNetworkThatIsNotMade costs this network alone.
func TestNetworkThatIsNotMade(t *testing.T) {
	for kind, problem := range map[string]error{
		"conflict": fault.Conflict("Pool overlaps with other one"), "invalid": fault.Invalid("no such name"),
	} {
		w := newWorld(t)
		w.put[ingressID] = problem
		got, err := w.open(t).Apply(t.Context(), hosted())
		check(t, err)
		if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], problem.Error()) || got.Refused[ingressID] == "" || len(got.Refused) != 1 {
			t.Errorf("%s: problems %q, refused %q, want one of the network and its id", kind, got.Problems, got.Refused)
		}
		w.expect(t, "put ingress", "put front", "apply")
		if remembered(t, w) == nil {
			t.Errorf("%s: the view is not remembered", kind)
		}
	}
}

// TestErrorsAreTriedAgain: an error says that the same view should come again, so the last one stays the one to remember.
func TestErrorsAreTriedAgain(t *testing.T) {
	broken := errors.New("broken")
	for name, prepare := range map[string]func(w *world){
		"put":   func(w *world) { w.put[redID] = broken },
		"apply": func(w *world) { w.apply = broken },
		"drop":  func(w *world) { w.drop["o000000000000000000000001"] = broken },
		"file":  func(w *world) { w.path += "/nowhere/x" },
	} {
		w := newWorld(t)
		w.networks["o000000000000000000000001"] = &network.Network{ID: "o000000000000000000000001", Name: "old"}
		prepare(w)
		s := w.open(t)
		if _, err := s.Apply(t.Context(), hosted()); err == nil || fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want an error that is no fault of the view", name, err)
		}
		if s.last != nil {
			t.Errorf("%s: the last view is %+v, want none", name, s.last)
		}
	}
	// A network with containers stays for now.
	w := newWorld(t)
	w.networks["o000000000000000000000001"] = &network.Network{ID: "o000000000000000000000001", Name: "old"}
	w.drop["o000000000000000000000001"] = fault.Conflict("it has active endpoints")
	got, err := w.open(t).Apply(t.Context(), hosted())
	if err != nil || len(got.Problems) > 0 {
		t.Errorf("a network with containers: %q, %v", got.Problems, err)
	}
}

func TestAnotherEngineOfThisBoot(t *testing.T) {
	w := newWorld(t)
	s := w.open(t)
	if len(w.taken) > 0 {
		t.Errorf("without a file %+v is taken up", w.taken)
	}
	_, err := s.Apply(t.Context(), hosted())
	check(t, err)
	w.calls = nil

	s = w.open(t)
	if len(w.taken) != 1 || !reflect.DeepEqual(w.taken[0], hosted()) {
		t.Errorf("taken up is %+v, want the view", w.taken)
	}
	w.expect(t) // the containers' networks are not restored yet
	s.Resume(t.Context())
	w.expect(t, "put ingress", "put front", "apply")
	w.problems = []string{"port 80 is in use"}
	s.Resume(t.Context())
	w.apply = errors.New("broken")
	s.Resume(t.Context())
	if log := w.log.String(); !strings.Contains(log, "port 80 is in use") || !strings.Contains(log, "broken") {
		t.Errorf("the log tells %q, want the problem and the error", log)
	}

	check(t, s.End())
	check(t, s.End())
	w.taken, w.calls, w.apply = nil, nil, nil
	w.open(t).Resume(t.Context()) // after the end of the engine, or of the boot
	if len(w.taken) > 0 {
		t.Errorf("after the end %+v is taken up", w.taken)
	}
	w.expect(t, "drop front", "drop ingress")
}

func TestDamagedFile(t *testing.T) {
	for _, text := range []string{
		"", "{", "null", "{}", `{"table":{"networks":{"x":{}}}}`, `{"node":"` + nodeID + `","table":{"networks":{"` + redID + `":{}}}}`,
	} {
		w := newWorld(t)
		check(t, os.WriteFile(w.path, []byte(text), 0o600))
		s := w.open(t)
		if !slices.Equal(w.aside, []string{w.path}) || len(w.taken) > 0 {
			t.Errorf("%q: set aside %q, taken up %+v", text, w.aside, w.taken)
		}
		_, err := s.Apply(t.Context(), hosted())
		check(t, err)
	}
}
