package storage

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestRecordsReplacedWhileTheyAreSynced: what counts is the file that has the name, since the disk knows that of no other.
func TestRecordsReplacedWhileTheyAreSynced(t *testing.T) {
	for _, often := range []int{0, 1, replacedOften - 1, 100} {
		t.Run(strconv.Itoa(often), func(t *testing.T) {
			dir := t.TempDir()
			path, tries, told := filepath.Join(dir, volatileFile), 0, 0
			write := func(text string) {
				must(t, os.WriteFile(path+".next", []byte(text), 0o600), os.Rename(path+".next", path))
			}
			write("0")
			f := newFlusher(flushed{layers: dir, images: dir, containers: dir}, func() error {
				if tries++; tries <= often {
					write(strconv.Itoa(tries))
				}
				return nil
			}, func(time.Time) { told++ })
			f.notePending(pending{records: true})
			must(t, f.sync())
			want := min(often, replacedOften-1)
			if got, err := os.ReadFile(filepath.Join(dir, backupFile)); err != nil || string(got) != strconv.Itoa(want) || tries != want+1 {
				t.Errorf("after %d tries the copy is of version %s, %v; want %d", tries, got, err, want)
			}
			must(t, f.close())
			if told != 1 {
				t.Errorf("%d syncs were told of, want 1", told)
			}
		})
	}
}
