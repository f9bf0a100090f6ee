package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

func (w *worker) fileActs() []act {
	return []act{
		{"archive put", 3, w.putFile},
		{"archive get", 3, w.getFile},
		{"archive head", 2, w.statFile},
		{"archive wrong", 3, w.wrongFile},
		{"copy", 2, w.copyFile},
		{"export", 1, w.exportContainer},
	}
}

// archiveOf returns a tar archive of files: names and contents by turns. A name that ends in a slash is a folder.
func archiveOf(pairs ...string) []byte {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for i := 0; i+1 < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1])), ModTime: time.Unix(1, 0), Typeflag: tar.TypeReg}
		if strings.HasSuffix(h.Name, "/") {
			h.Mode, h.Typeflag = 0o755, tar.TypeDir
		}
		_ = t.WriteHeader(h) // A buffer takes all.
		_, _ = t.Write([]byte(pairs[i+1]))
	}
	_ = t.Close() // Likewise.
	return b.Bytes()
}

func (w *worker) putFile() {
	if b := w.pickBox(); b != nil {
		c := w.newCall("PUT /containers/:id/archive", w.refOf(b)).withQuery("path", "/tmp", "noOverwriteDirNonDir", oneOf(w.rng, []string{"", "1"}))
		c.chunked = chance(w.rng, 30)
		w.applyVerb(b, change, c.withTar(archiveOf("put/", "", "put/file", strings.Repeat("x", w.rng.IntN(5000)))))
	}
}

func (w *worker) getFile() {
	if b := w.pickBox(); b != nil {
		w.applyVerb(b, look, w.newCall("GET /containers/:id/archive", w.refOf(b)).withQuery("path", oneOf(w.rng, []string{"/etc/passwd", "etc", "/etc/.", "/bin/sh"})))
	}
}

func (w *worker) statFile() {
	if b := w.pickBox(); b != nil {
		w.applyVerb(b, look, w.newCall("HEAD /containers/:id/archive", w.refOf(b)).withQuery("path", oneOf(w.rng, []string{"/etc/passwd", "/", "/bin/sh"})))
	}
}

// wrongFile asks for what is not there or cannot be.
func (w *worker) wrongFile() {
	b := w.pickBox()
	if b == nil {
		return
	}
	type ask struct {
		path string
		code int
	}
	asked := oneOf(w.rng, []ask{
		{"", bad},
		{"/nowhere", missing},
		{"/nowhere/", missing},
		{"/etc/passwd/", bad},
		{"/etc/passwd/x", missing},
		{"../../../../../nowhere", missing},
		{"/\x00", bad},
		{"/" + strings.Repeat("n", 300), missing},
	})
	route := oneOf(w.rng, []string{"GET /containers/:id/archive", "HEAD /containers/:id/archive", "PUT /containers/:id/archive"})
	c := w.newCall(route, w.refOf(b)).withQuery("path", asked.path)
	if c.method == "PUT" {
		c.withTar(archiveOf("f", "x"))
	}
	w.wantStatus(c, "no such path", asked.code, missing, bad)
}

func (w *worker) copyFile() {
	if b := w.pickBox(); b != nil {
		w.applyVerb(b, look, w.newCall("POST /containers/:id/copy", w.refOf(b)).withJSON(map[string]string{"Resource": oneOf(w.rng, []string{"/etc/passwd", "etc"})}))
	}
}

func (w *worker) exportContainer() {
	b := w.pickBox()
	if b == nil {
		return
	}
	c := w.newCall("GET /containers/:id/export", w.refOf(b))
	if chance(w.rng, 50) {
		c.manner, c.linger = streaming, w.randomDelay(20)
	}
	w.applyVerb(b, look, c)
}

// compareBox judges what inspect shows of a box.
func (w *worker) compareBox(b *box, raw []byte) {
	var seen struct {
		ID    string `json:"Id"`
		Name  string
		State struct{ Running, Paused, Restarting, Dead bool }
	}
	if err := json.Unmarshal(raw, &seen); err != nil {
		w.report.addFinding(w.number, "inspect of %s: %v", b, err)
		return
	}
	was := b.possibleStates()
	is := created | exited
	switch {
	case seen.State.Paused:
		is = paused
	case seen.State.Running:
		is = running
	}
	switch {
	case seen.Name != "/"+b.name && w.knows(b), b.id != "" && seen.ID != b.id && w.knows(b):
		w.report.addFinding(w.number, "inspect of %s shows the name %s and the id %s", b, seen.Name, seen.ID)
	case was&is == 0 || seen.State.Dead || seen.State.Restarting:
		w.report.addFinding(w.number, "inspect of %s shows %+v", b, seen.State)
	case w.knows(b):
		b.is = was & is
	}
}
