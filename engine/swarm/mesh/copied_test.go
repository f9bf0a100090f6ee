package mesh

import (
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"moss/engine/record"
	"moss/engine/swarm/member"
)

// TestFolderOfAnotherMachine: who has only the files of a node does not act as that node. With its key, packets to the node would
// come here. The engine is told when the place is given up.
func TestFolderOfAnotherMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEngine()
		m := newMesh(t, f, io.Discard)
		membership := map[string]string{"ListenAddr": "127.0.0.1:2377", "Machine": "another"}
		check(t, record.Put(filepath.Join(m.opt.Dir, member.RecordName), membership))
		check(t, record.Put(filepath.Join(m.opt.Dir, viewFile), kept{"n1", view(1)}))
		node := member.Open(member.Options{Dir: m.opt.Dir, Machine: "this", Forget: m.Forget, Log: zerolog.Nop()})
		defer node.Close()
		m.Start(node)
		defer m.Close()
		synctest.Wait()
		if got := f.taken(); len(got) > 0 || m.session != nil {
			t.Errorf("the engine got %v, session %v", got, m.session)
		}
		check(t, node.Leave(t.Context(), true))
		if got := f.taken(); len(got) != 1 || got[0].Node != "n1" || len(got[0].Table.Networks) > 0 {
			t.Errorf("the engine got %+v, want no network", got)
		}
	})
}
