package container

import (
	"slices"
	"testing"
)

// TestUlimitsForTheRuntime: what is raised is raised no further than the runtime needs, and at each start alike.
func TestUlimitsForTheRuntime(t *testing.T) {
	for host, want := range map[string]Ulimit{
		`{"Ulimits":[{"Name":"nofile","Soft":10,"Hard":20}]}`:                     {Name: "nofile", Soft: 48, Hard: 48},
		`{"Ulimits":[{"Name":"RLIMIT_NOFILE","Soft":10,"Hard":64}]}`:              {Name: "nofile", Soft: 48, Hard: 64},
		`{"Ulimits":[{"Name":"nofile","Soft":0,"Hard":-1}],"Binds":["/a:/a:ro"]}`: {Name: "nofile", Soft: 49, Hard: -1},
		`{"Ulimits":[{"Name":"nofile","Soft":64,"Hard":128}]}`:                    {Name: "nofile", Soft: 64, Hard: 128},
		`{"Ulimits":[{"Name":"fsize","Soft":10,"Hard":20}]}`:                      {Name: "fsize", Soft: 32768, Hard: 32768},
	} {
		first, _, err := ask{host: host}.spec(t)
		if err != nil {
			t.Fatal(err)
		}
		again, err := SpecOf(&Record{Config: first.Config, Host: first.Host, Mounts: first.Mounts()})
		if all := []Ulimit{want}; err != nil || !slices.Equal(first.Ulimits, all) || !slices.Equal(again.Ulimits, all) {
			t.Errorf("ulimits of %s: %+v at create, %+v at start, %v, want %+v", host, first.Ulimits, again.Ulimits, err, want)
		}
	}
}
