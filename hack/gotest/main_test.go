package main

import (
	"slices"
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	events := `{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestGood/part"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"bad_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"skip","Package":"p","Test":"TestLeftOut"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: no\n"}
something else
`
	var out strings.Builder
	ended, err := followEvents(strings.NewReader(events), &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"p TestGood/part", "p TestGood"}; !slices.Equal(ended.passed, want) {
		t.Errorf("passed: got %q, want %q", ended.passed, want)
	}
	if ended.failed != 1 || ended.skipped != 1 {
		t.Errorf("got %d failed and %d skipped, want 1 and 1", ended.failed, ended.skipped)
	}
	want := "bad_test.go:1: got 1, want 2\nFAIL\tp\t0.1s\nq.go:1: no\nsomething else\n"
	if out.String() != want {
		t.Errorf("printed: got %q, want %q", out.String(), want)
	}
}
