package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLinksNoSwarm: a node in no swarm pays nothing for what swarms need.
func TestLinksNoSwarm(t *testing.T) {
	for program, foreign := range map[string]bool{"mossd": true, "moss": true, "moss-shim": true, "moss-log": true, "moss-swarm": false} {
		out, err := exec.Command("go", "list", "-deps", "../"+program).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", program, err)
		}
		for _, module := range []string{"github.com/moby/swarmkit/", "google.golang.org/grpc", "go.etcd.io/"} {
			if linked := strings.Contains(string(out), "\n"+module); linked == foreign {
				t.Errorf("%s links %s: got %t", program, module, linked)
			}
		}
	}
}
