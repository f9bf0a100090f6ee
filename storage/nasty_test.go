package storage

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"moss/engine/fault"
)

// gnuTar makes an archive of a sparse file with holes, as programs do that know of them.
func gnuTar(t *testing.T, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // more pieces than a header has room for
		if _, err := f.WriteAt([]byte(noise(i, 5000)), int64(i)*200_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "whole"), []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "tar", append([]string{"-C", dir, "-cS"}, append(args, "sparse", "whole")...)...).Output()
	if err != nil {
		t.Fatalf("tar: %v", err)
	}
	return out
}

func TestByteForByte(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		long := strings.Repeat("long/", 60)
		plain := entries(t, folder("d/"), file("d/f", "content"))
		var old bytes.Buffer
		w := tar.NewWriter(&old)
		for _, h := range []*tar.Header{
			{Name: long + "gnu", Format: tar.FormatGNU, Typeflag: tar.TypeReg, Mode: 0o644},
			{Name: "big-owner", Format: tar.FormatGNU, Uid: 1 << 30, Gid: 1 << 29, Typeflag: tar.TypeReg, Mode: 0o600},
			{Name: "l", Format: tar.FormatGNU, Linkname: long + "target", Typeflag: tar.TypeSymlink},
		} {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for name, archive := range map[string][]byte{
			"empty":          make([]byte, 1024),
			"no end mark":    plain[:len(plain)-1024],
			"half end mark":  plain[:len(plain)-512],
			"padding":        append(bytes.Clone(plain), make([]byte, 3<<20+77)...),
			"rubbish behind": append(bytes.Clone(plain), "rubbish"...),
			"gnu headers":    old.Bytes(),
			"pax headers": entries(t,
				&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "git"}},
				&tar.Header{Name: long + "pax/ümläut", Typeflag: tar.TypeReg, Linkname: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "\x00\xff"}},
			),
			"bytes that are no utf-8": bytes.Replace(entries(t, file("name-XY", "1")), []byte("XY"), []byte("\xff\xfe"), 1),
			"a whiteout with content": entries(t, folder("w/"), file("w/.wh.gone", "why not"), file("w/after", "2")),
			"sparse, pax 0.0":         gnuTar(t, "--format=posix", "--sparse-version=0.0"),
			"sparse, pax 0.1":         gnuTar(t, "--format=posix", "--sparse-version=0.1"),
			"sparse, pax 1.0":         gnuTar(t, "--format=posix", "--sparse-version=1.0"),
		} {
			t.Run(name, func(t *testing.T) {
				if name == "bytes that are no utf-8" {
					archive = checksummed(archive)
				}
				img := mustPull(t, s, name, nil, archive)
				checkLayer(t, s, img.ID, 0, archive)
				if strings.HasPrefix(name, "sparse") {
					got, err := os.ReadFile(filepath.Join(s.layerFolder(img.TopLayer), "sparse"))
					if err != nil || len(got) != 29*200_000+5000 || string(got[400_000:405_000]) != noise(2, 5000) {
						t.Errorf("the sparse file has %d bytes, %v", len(got), err)
					}
				}
			})
		}
	})
}

func TestOldSparse(t *testing.T) {
	s := openTemp(t, "")
	if _, err := s.Stage(t.Context(), bytes.NewReader(gnuTar(t, "--format=gnu")), Blob{Size: -1}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Stage of a sparse file in the old GNU form: %v, want invalid", err)
	}
	nothingLeft(t, s)
}

// checksummed mends the sum of an archive's first header.
func checksummed(archive []byte) []byte {
	copy(archive[148:156], "        ")
	sum := 0
	for _, b := range archive[:512] {
		sum += int(b)
	}
	copy(archive[148:156], []byte{
		byte('0' + sum>>15&7), byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' ',
	})
	return archive
}

func FuzzPack(f *testing.F) {
	f.Add(make([]byte, 1024))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var headers bytes.Buffer
		if _, err := packHeaders(bytes.NewReader(raw), &headers); err != nil {
			return
		}
	})
}
