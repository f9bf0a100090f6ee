package main

import (
	"net/http"
	"slices"
	"testing"
)

func TestAfter(t *testing.T) {
	for _, tc := range []struct {
		verb   verb
		before state
		code   int
		want   state
		codes  []int
	}{
		{start, created, done, running, []int{done}},
		{start, running, same, running, []int{same}},
		{start, paused, done, 0, []int{conflict}},
		{start, absent | exited, done, running, []int{done, missing}},
		{start, absent | exited, missing, absent, []int{done, missing}},
		{stop, created, same, created, []int{same}},
		{stop, paused, done, exited, []int{done}},
		{restart, running, done, running, []int{done}},
		{kill, running | exited, done, exited, []int{done, conflict}},
		{kill, running | exited, conflict, exited, []int{done, conflict}},
		{poke, running, done, running, []int{done}},
		{oldKill, exited, done, exited, []int{done}},
		{oldPoke, running | created, done, running | created, []int{done}},
		{pause, running, done, paused, []int{done}},
		{pause, paused, conflict, paused, []int{conflict}},
		{unpause, running, conflict, running, []int{conflict}},
		{remove, running, done, 0, []int{conflict}},
		{remove, exited, done, absent, []int{done}},
		{forceRemove, running, done, absent, []int{done}},
		{look, paused, ok, paused, []int{ok}},
		{needsRun, exited, conflict, exited, []int{conflict}},
		{attach, running, ok, running, []int{http.StatusSwitchingProtocols}},
		{attach, paused, conflict, paused, []int{conflict}},
		{execute, running, made, running, []int{made}},
		{upgraded, exited, http.StatusSwitchingProtocols, exited, []int{http.StatusSwitchingProtocols}},
		{look, anyState, broken, 0, []int{ok, missing}},
	} {
		if got, codes := tc.verb.statesAfter(tc.before, tc.code); got != tc.want || !slices.Equal(codes, tc.codes) {
			t.Errorf("verb %d of %s with %d leaves %s of %v, want %s of %v", tc.verb, tc.before, tc.code, got, codes, tc.want, tc.codes)
		}
	}
}

// TestEveryVerbHasOutcomes: none is forgotten in the table, and what is absent is missing to all.
func TestEveryVerbHasOutcomes(t *testing.T) {
	for v := range verbs {
		for s := absent; s <= exited; s <<= 1 {
			if o := v.outcomeIn(s); o.code == 0 || o.next == 0 || s == absent && o.code != missing {
				t.Errorf("verb %d of %s: %+v", v, s, o)
			}
		}
	}
}

func TestStates(t *testing.T) {
	if got := (created | exited).String(); got != "created|exited" {
		t.Errorf("created|exited is shown as %q", got)
	}
	for _, s := range []state{created, running, paused, exited} {
		if got := stateOf(s.String()); got != s {
			t.Errorf("stateOf(%q) = %s", s, got)
		}
	}
	if got := stateOf("dead"); got != 0 {
		t.Errorf("stateOf(dead) = %s, want none", got)
	}
	if b := (&box{is: running, ends: true}); b.possibleStates() != running|exited {
		t.Errorf("a container that ends by itself is %s", b.possibleStates())
	}
	if b := (&box{is: running}); b.possibleStates() != running {
		t.Errorf("one that does not is %s", b.possibleStates())
	}
}
