package mesh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/record"
	"moss/engine/swarm/member"
	"moss/engine/swarm/table"
)

// join begins a session as if the node were in a swarm, whose managers do not answer.
func join(t *testing.T, m *Mesh, node string, have *table.Table) {
	t.Helper()
	if m.node == nil {
		m.node = member.Open(member.Options{Dir: t.TempDir(), Log: zerolog.Nop()})
		m.identity = &identity{dir: m.node.Certificates()}
		t.Cleanup(m.node.Close)
	}
	m.sessionMu.Lock()
	defer m.sessionMu.Unlock()
	m.session.endSession()
	m.beginSession(node, have)
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		m := newMesh(t, f, io.Discard)
		defer m.Close()
		_, err := m.keys.publicKey()
		check(t, err)
		join(t, m, "n1", nil)
		check(t, m.applyView(t.Context(), "n1", view(1)))
		time.Sleep(2 * keepPause)
		key, file := filepath.Join(m.opt.Dir, keyFile), filepath.Join(m.opt.Dir, viewFile)
		if !exists(t, key) || !exists(t, file) {
			t.Errorf("the key is kept: %v, the view: %v", exists(t, key), exists(t, file))
		}
		check(t, m.Forget(t.Context()))
		got := f.taken()
		if last := got[len(got)-1]; last.Node != "n1" || last.Table == nil || len(last.Table.Networks) > 0 {
			t.Errorf("the engine got %+v at last, want no network", last)
		}
		if exists(t, key) || exists(t, file) {
			t.Errorf("the key is there: %v, the view: %v", exists(t, key), exists(t, file))
		}
		if now, _ := m.viewState(); !reflect.DeepEqual(now, standing{}) {
			t.Errorf("it stands at %+v", now)
		}
		check(t, m.Forget(t.Context())) // in no swarm
		if n := len(f.taken()); n != len(got) {
			t.Errorf("the engine was told %d times more", n-len(got))
		}

		// An engine that is away keeps nobody from it.
		join(t, m, "n2", view(2))
		synctest.Wait()
		f.leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Forget(ctx); err == nil || !strings.Contains(err.Error(), "has not given up") || exists(t, file) {
			t.Errorf("without an engine: %v, the view is there: %v", err, exists(t, file))
		}
	})
}

// TestKeptViewIsTheFirst: a node whose managers are away goes on with the view that it had.
func TestKeptViewIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		m := newMesh(t, f, io.Discard)
		join(t, m, "n1", view(7))
		expectVersions(t, f, 7)
		check(t, m.applyView(t.Context(), "n1", view(8)))
		m.Close() // at once
		if k := m.readKept(); k == nil || k.Node != "n1" || !reflect.DeepEqual(k.Table, view(8)) {
			t.Errorf("kept is %+v, want the last view", k)
		}
		again := newMesh(t, f, io.Discard)
		defer again.Close()
		join(t, again, "another node", nil)
		time.Sleep(time.Minute)
		expectVersions(t, f, 7, 8)
	})
}

func TestKeptFileThatIsDamaged(t *testing.T) {
	var log bytes.Buffer
	m := newMesh(t, newFakeEngine(), &log)
	path := filepath.Join(m.opt.Dir, viewFile)
	if k := m.readKept(); k != nil || log.Len() > 0 {
		t.Errorf("without a file: %+v, %s", k, log.String())
	}
	for _, text := range []string{
		"", "{", "[]", "null", "{}", `{"Node":"n1"}`, `{"Table":{}}`, `{"Node":"n1","Table":null}`, `{"Node":1,"Table":{}}`,
		`{"Node":"n1","Table":{"networks":{"red":{"subnet":"x"}}}}`, `{"Node":"n1","Table":{"nodes":{"n1":{"key":"x"}}}}`,
	} {
		log.Reset()
		check(t, os.WriteFile(path, []byte(text), 0o600))
		if k := m.readKept(); k != nil || !strings.Contains(log.String(), path) {
			t.Errorf("%s: %+v is taken, the log says %q", text, k, log.String())
		}
	}
	check(t, record.Put(path, kept{"n1", view(1)}))
	if k := m.readKept(); k == nil || k.Node != "n1" || !reflect.DeepEqual(k.Table, view(1)) {
		t.Errorf("a view that is whole: %+v", k)
	}
}

// TestNodeInNoSwarm does not touch what the engine has.
func TestNodeInNoSwarm(t *testing.T) {
	f := newFakeEngine()
	m := newMesh(t, f, io.Discard)
	check(t, record.Put(filepath.Join(m.opt.Dir, viewFile), kept{"n1", view(1)}))
	node := member.Open(member.Options{Dir: t.TempDir(), Log: zerolog.Nop()})
	defer node.Close()
	m.Start(node)
	check(t, m.Forget(t.Context()))
	m.Close()
	if got := f.taken(); len(got) > 0 {
		t.Errorf("the engine got %v", got)
	}
}

// TestTunnelThatDoesNotOpen is tried again, and told of once.
func TestTunnelThatDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMesh(t, newFakeEngine(), &log)
		m.opt.NetNS = filepath.Join(t.TempDir(), "nowhere")
		check(t, m.carrier.setView("n1", view(1)))
		if log.Len() > 0 || m.carrier.retry != nil {
			t.Errorf("a node alone opens a tunnel: %s", log.String())
		}
		v := view(2)
		v.Nodes = map[string]table.Node{"n2": {Key: table.Key{2}}}
		check(t, m.carrier.setView("n1", v))
		check(t, m.carrier.setView("n1", v))
		time.Sleep(10 * time.Minute)
		if lines := strings.Count(log.String(), "their tunnel is not open"); lines != 1 {
			t.Errorf("the log says so %d times:\n%s", lines, log.String())
		}
		m.carrier.closeTunnel()
		time.Sleep(10 * time.Minute)
		if m.carrier.retry != nil {
			t.Error("it is tried after the end")
		}
		m.Close()
	})
}
