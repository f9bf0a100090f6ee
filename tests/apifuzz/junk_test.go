package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestValues(t *testing.T) {
	doc := []byte(`{"a": [1, {"b":null}], "c":"x"}`)
	spans := valueRanges(doc)
	got := make([]string, 0, len(spans))
	for _, s := range spans {
		got = append(got, string(doc[s[0]:s[1]]))
	}
	want := []string{"1", "null", `{"b":null}`, `[1, {"b":null}]`, `"x"`, string(doc)}
	if !slices.Equal(got, want) {
		t.Errorf("values of %s = %q, want %q", doc, got, want)
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"x"} `))
	f.Add([]byte(`[}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, s := range valueRanges(doc) {
			if s[0] < 0 || s[0] >= s[1] || s[1] > len(doc) || !json.Valid(doc[s[0]:s[1]]) {
				t.Fatalf("values of %q: %v, %q", doc, s, doc[max(s[0], 0):s[1]])
			}
		}
	})
}

// TestMutate: the same seed gives the same bytes, the document itself is left alone, and some of what comes is still JSON.
func TestMutate(t *testing.T) {
	doc, err := json.Marshal(wholeCreate("busybox"))
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(doc)
	right, changed := 0, 0
	for seed := range uint64(300) {
		one, other := mutateJSON(rand.New(rand.NewPCG(seed, 1)), doc), mutateJSON(rand.New(rand.NewPCG(seed, 1)), doc) //nolint:gosec // a seed makes it repeatable
		if !bytes.Equal(one, other) {
			t.Fatalf("seed %d: %q and %q", seed, one, other)
		}
		if json.Valid(one) {
			right++
		}
		if !bytes.Equal(one, doc) {
			changed++
		}
	}
	if !bytes.Equal(doc, before) {
		t.Error("the document was changed in place")
	}
	if right < 50 || right > 290 || changed < 250 {
		t.Errorf("of 300 mutations %d differ and %d are JSON", changed, right)
	}
}
