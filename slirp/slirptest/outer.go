package slirptest

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gorilla/mux"
	"github.com/rootless-containers/rootlesskit/v3/pkg/api/router"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/slirp/forward"
)

// Outer plays the outer process over a Detached namespace: the port driver, both halves of it, behind RootlessKit's
// API at dir/api.sock. The port manager that is returned looks past the API. All ends when the test ends.
func Outer(t testing.TB, dir, netns string) port.Manager {
	t.Helper()
	parent, err := forward.NewParent(logger{t}, dir, false)
	check(t, err)
	child := forward.NewChild(logger{t})
	ended := make(chan error, 2)
	quitParent, quitChild := make(chan struct{}), make(chan struct{})
	ready := make(chan struct{})
	go func() { ended <- child.RunChildDriver(parent.OpaqueForChild(), quitChild, netns) }()
	go func() { ended <- parent.RunParentDriver(ready, quitParent, nil) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("port driver: %v", err)
	}
	r := mux.NewRouter()
	router.AddRoutes(r, &router.Backend{StateDir: dir, PortDriver: parent})
	l, err := net.Listen("unix", filepath.Join(dir, "api.sock"))
	check(t, err)
	srv := &http.Server{Handler: r}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() {
		check(t, srv.Close())
		ports, err := parent.ListPorts(context.Background())
		check(t, err)
		for _, p := range ports {
			check(t, parent.RemovePort(context.Background(), p.ID))
		}
		close(quitParent)
		close(quitChild)
		for range 2 {
			check(t, <-ended)
		}
	})
	return parent
}

// logger passes what the drivers say to a test that still runs.
type logger struct{ t testing.TB }

// Write never fails; a driver's last words may come after the test.
func (l logger) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", p)
	}
	return len(p), nil
}
