package client

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) }))
	defer server.Close()
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known := put("known.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	host := "tcp://" + strings.TrimPrefix(server.URL, "https://")
	for _, tc := range []struct {
		name, host string
		files      TLSFiles
		want       string // in the error of the call; empty: it works
	}{
		{name: "known", host: host, files: TLSFiles{CA: known}},
		{name: "whoever answers", host: host},
		{name: "another name", host: strings.Replace(host, "127.0.0.1", "localhost", 1), files: TLSFiles{CA: known}, want: "localhost"},
	} {
		config, err := LoadTLS(tc.files)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Options{Host: tc.host, TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Ping(t.Context())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		c.Close()
	}
	for name, files := range map[string]TLSFiles{
		"no authority":           {CA: filepath.Join(dir, "none.pem")},
		"authority without any":  {CA: put("empty.pem", "")},
		"certificate alone":      {Cert: known},
		"a key that is none":     {Cert: known, Key: known},
		"certificate that is no": {Cert: put("junk.pem", "junk"), Key: known},
	} {
		if _, err := LoadTLS(files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
