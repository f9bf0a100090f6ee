package compat_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/fault"
)

func TestHead(t *testing.T) {
	h := http.Header{}
	for _, header := range compat.Head("1.2.3", apiver.Max) {
		if http.CanonicalHeaderKey(header.Key) != header.Key {
			t.Errorf("%s is not in the form of a key of http.Header", header.Key)
		}
		h[header.Key] = header.Value
	}
	// How docker's command line reads the system out of Server.
	if found := regexp.MustCompile(`\A(.*?)/(.*?) \((.*)\)\z`).FindStringSubmatch(h.Get("Server")); len(found) != 4 || found[3] != "linux" {
		t.Errorf("Server = %q, want NAME/VERSION (linux)", h.Get("Server"))
	}
	if h.Get("Api-Version") != "1.51" || h.Get("Ostype") != "linux" || h.Get("Docker-Experimental") != "false" {
		t.Errorf("Head = %v", h)
	}
}

func TestCrossOrigin(t *testing.T) {
	for _, tc := range []struct{ origin, allowed, vary string }{
		{"", "", ""},
		{"*", "*", ""},
		{"https://a.example", "https://a.example", "Origin"},
	} {
		h := http.Header{}
		for _, header := range compat.CrossOrigin(tc.origin) {
			h[header.Key] = header.Value
		}
		if h.Get("Access-Control-Allow-Origin") != tc.allowed || h.Get("Vary") != tc.vary || (len(h) > 0) != (tc.origin != "") {
			t.Errorf("CrossOrigin(%q) = %v, want origin %q, vary %q", tc.origin, h, tc.allowed, tc.vary)
		}
		if tc.origin != "" && (h.Get("Access-Control-Allow-Headers") == "" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "OPTIONS")) {
			t.Errorf("CrossOrigin(%q) = %v, want headers and methods too", tc.origin, h)
		}
	}
}

func TestTakeover(t *testing.T) {
	set := http.Header{"Api-Version": {"1.24"}, "X-Request-Id": {"x"}, "Content-Length": {"5"}}
	const rest = "Api-Version: 1.24\r\nX-Request-Id: x\r\n\r\n"
	for upgrade, want := range map[bool]string{
		true:  "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.engine.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n" + rest,
		false: "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.engine.raw-stream\r\n" + rest,
	} {
		if got := compat.Takeover(set, upgrade, compat.RawStream); got != want {
			t.Errorf("Takeover(upgrade %v) = %q, want %q", upgrade, got, want)
		}
	}
}

// TestVersionWords: what clients look for in the refusal of their version.
func TestVersionWords(t *testing.T) {
	served := apiver.Range{Since: apiver.New(1, 20), Until: apiver.New(1, 22)}
	for _, tc := range []struct {
		err  error
		want []string
	}{
		{compat.TooNew(apiver.New(1, 45), served), []string{
			"client is newer than server (client API version: 1.45, server API version: 1.22)",
			"client version 1.45 is too new. Maximum supported API version is 1.22", "1.20 to 1.22", "DOCKER_API_VERSION=1.22",
		}},
		{compat.TooOld(apiver.New(1, 12), served), []string{
			"client version 1.12 is too old. Minimum supported API version is 1.20, please upgrade your client to a newer version", "1.20 to 1.22",
		}},
		{compat.NoVersion("v1.x", served), []string{`invalid API version "v1.x"`, "/v1.22"}},
	} {
		for _, want := range tc.want {
			if !fault.Is(tc.err, fault.Invalid) || !strings.Contains(tc.err.Error(), want) {
				t.Errorf("%v: want an invalid fault with %q", tc.err, want)
			}
		}
	}
}

// TestStreamType: clients of 1.42 and later tell frames from bytes by it.
func TestStreamType(t *testing.T) {
	for _, tc := range []struct {
		minor uint16
		raw   bool
		want  string
	}{
		{24, false, "application/vnd.engine.raw-stream"},
		{41, true, "application/vnd.engine.raw-stream"},
		{42, true, "application/vnd.docker.raw-stream"},
		{42, false, "application/vnd.docker.multiplexed-stream"},
	} {
		if got := compat.StreamType(apiver.New(1, tc.minor), tc.raw); got != tc.want {
			t.Errorf("StreamType(1.%d, %t) = %q, want %q", tc.minor, tc.raw, got, tc.want)
		}
	}
}
