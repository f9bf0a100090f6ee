package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

const (
	killRootVar   = "MOSS_TEST_KILL_ROOT"
	killDriverVar = "MOSS_TEST_KILL_DRIVER"
	seedVar       = "MOSS_SEED"
)

// TestKilled kills an engine at any moment of its work, again and again: each time the next one finds images that are whole,
// and nothing else. MOSS_CHANCE_ROUNDS is the number of rounds. MOSS_SEED fixes the moments and the work, but not how far the
// work has come by then.
func TestKilled(t *testing.T) {
	if root := os.Getenv(killRootVar); root != "" {
		killedHelper(t, root)
		return
	}
	rounds := 40
	if n, err := strconv.Atoi(os.Getenv("MOSS_CHANCE_ROUNDS")); err == nil {
		rounds = n
	}
	seed := drawSeed(t)
	for driver, rounds := range map[string]int{driverOverlay: rounds, driverVFS: (rounds + 3) / 4} {
		t.Run(driver, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(len(driver)))) //nolint:gosec // a seed makes it repeatable
			root := t.TempDir()
			run := filepath.Join(root, "run")
			if err := os.Mkdir(run, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", run, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(run, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			for round := range rounds {
				killOnce(t, root, driver, random)
				s := open(t, root, driver)
				checkWhole(t, s)
				if err := s.Close(); err != nil {
					t.Fatalf("round %d: Close: %v", round, err)
				}
				if t.Failed() {
					t.Fatalf("after round %d", round)
				}
			}
		})
	}
}

// drawSeed returns what a test of chance draws from: MOSS_SEED, or another one each time. A failure shows it.
func drawSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVar)
	if text == "" {
		text = strconv.FormatUint(rand.Uint64N(1<<31), 10) //nolint:gosec // no secret
	}
	seed, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		t.Fatalf("%s: %v", seedVar, err)
	}
	t.Logf("to repeat: %s=%d", seedVar, seed)
	return seed
}

func killOnce(t *testing.T, root, driver string, random *rand.Rand) {
	t.Helper()
	moment, work := time.Duration(random.IntN(150_000))*time.Microsecond, random.Uint32N(1<<31)
	t.Logf("%s: killed after %v of work %d", driver, moment, work)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killRootVar+"="+root, killDriverVar+"="+driver, fmt.Sprintf("%s=%d", seedVar, work))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 1)
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("the helper did not come up: %v", err)
	}
	time.Sleep(moment) // the moment is what the test is about
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil || len(rest) > 0 {
		t.Errorf("the helper ended by itself: %s %v", rest, err)
	}
	_ = cmd.Wait() // it was killed
}

// killedHelper takes images in, names and deletes them until it is killed.
func killedHelper(t *testing.T, root string) {
	s := open(t, root, os.Getenv(killDriverVar))
	random := rand.New(rand.NewPCG(drawSeed(t), 0)) //nolint:gosec // a seed makes it repeatable
	base := entries(t, folder("bin/"), file("bin/sh", noise(1, 200_000)))
	fmt.Print("+")
	var containers []string
	for i := 0; ; i++ {
		own := entries(t, file(fmt.Sprintf("f%d", i%7), noise(i, 50_000)), folder("d/"), file("d/.wh..wh..opq", ""))
		p := pulled(t, strconv.Itoa(random.IntN(5)), []string{"r/img", fmt.Sprintf("r/%d", random.IntN(6))}, base, own)
		p.Index.Raw = []byte(`{"schemaVersion":2,"manifests":[]}`)
		for at := s.Here(p.DiffIDs); at < 2; at++ {
			p.Layers[at] = stage(t, s, [][]byte{base, own}[at])
		}
		img, err := s.PutPulled(t.Context(), p)
		if err != nil {
			t.Fatalf("PutPulled: %v", err)
		}
		if err := s.Tag(t.Context(), img.ID, fmt.Sprintf("t/%d", i%3)); err != nil {
			t.Fatalf("Tag: %v", err)
		}
		id := newID(t)
		if err := s.Create(t.Context(), id, img.ID); err != nil {
			t.Fatalf("Create: %v", err)
		}
		containers = append(containers, id)
		if i%2 == 0 {
			if err := s.Remove(t.Context(), containers[0]); err != nil {
				t.Fatalf("Remove: %v", err)
			}
			containers = containers[1:]
		}
		buildOn(t, s, img.ID, i)
		if list, err := s.List(t.Context()); err != nil {
			t.Fatalf("List: %v", err)
		} else if len(list) > 6 {
			if _, err := s.Delete(t.Context(), list[random.IntN(len(list))]); err != nil {
				t.Fatalf("Delete: %v", err)
			}
		}
		if _, err := s.Stage(t.Context(), readerFunc(func(p []byte) (int, error) { return 0, io.ErrClosedPipe }), Blob{Size: -1}); err == nil {
			t.Fatal("Stage of nothing succeeded")
		}
	}
}

// buildOn makes images as the steps of a build do.
func buildOn(t *testing.T, s *Store, parent string, i int) {
	t.Helper()
	env := putStep(t, s, parent, fmt.Sprint("ENV ", i), nil)
	layer := putStep(t, s, env.ID, fmt.Sprint("COPY ", i), map[string]string{"copied": noise(i, 20_000)})
	view, err := s.View(t.Context(), layer.ID)
	must(t, err)
	id := ran(t, s, layer.ID, func(dir string) {
		write(t, dir, "written", noise(i, 30_000))
		must(t, os.Remove(filepath.Join(dir, "copied")), os.Mkdir(filepath.Join(dir, "point"), 0o755))
	})
	last, err := s.Seal(t.Context(), id, stepSpec(layer.ID, fmt.Sprint("RUN ", i)), []string{"/point"})
	must(t, err, view.Close(), s.Remove(t.Context(), id))
	if i%3 == 0 {
		_, err := s.Finish(t.Context(), last.ID, []string{fmt.Sprintf("built/%d", i%2)})
		must(t, err)
	}
}

// checkWhole looks at everything that is in a store.
func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	ids, err := s.Containers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := s.Remove(ctx, id); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	list, err := s.List(ctx)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	needed := map[string]bool{}
	for _, img := range list {
		config, manifests, err := s.Documents(ctx, img.ID)
		if err != nil || "sha256:"+sum(config) != img.ID || len(manifests) == 0 {
			t.Errorf("documents of %s: %d manifests, %v", img.ID, len(manifests), err)
		}
		for i, want := range img.Layers {
			r, err := s.OpenLayer(ctx, img.ID, i)
			if err != nil {
				t.Fatalf("OpenLayer: %v", err)
			}
			hash := digest.SHA256.Digester()
			if _, err := io.Copy(hash.Hash(), r); err != nil || hash.Digest().String() != want {
				t.Errorf("layer %d of %s has digest %s, %v; want %s", i, img.ID, hash.Digest(), err, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		chain, err := s.layerChain(img.TopLayer)
		if err != nil {
			t.Error(err)
		}
		for _, layerID := range chain {
			needed[layerID] = true
			if _, err := s.cs.Layer(layerID); err != nil {
				t.Errorf("layer %s: %v", layerID, err)
			}
		}
		for i := range chain {
			if s.choice.driver == driverOverlay {
				checkPlace(t, s, chain[i:])
			}
		}
	}
	if records, folders := layers(t, s); records != len(needed) || folders != len(needed) {
		t.Errorf("%d layers, %d folders; the images need %d", records, folders, len(needed))
	}
	for _, dir := range []string{stagedFolder, "overlay-layers", "overlay-images", "vfs-layers", "vfs-images", "overlay/l"} {
		left, err := readDir(filepath.Join(s.root, dir))
		if err != nil {
			t.Error(err)
		}
		links := 0
		for _, entry := range left {
			id, _, _ := strings.Cut(entry.Name(), ".")
			switch {
			case dir == stagedFolder, strings.HasPrefix(entry.Name(), ".tmp"):
				t.Errorf("left in %s: %s", dir, entry.Name())
			case dir == "overlay/l":
				links++
			case len(id) == 64 && strings.HasSuffix(dir, "-layers") && !needed[id]:
				t.Errorf("left in %s: %s", dir, entry.Name())
			}
		}
		if dir == "overlay/l" && s.choice.driver == driverOverlay && links != len(needed) {
			t.Errorf("%d links of %d layers", links, len(needed))
		}
	}
}

func sum(raw []byte) string {
	hash := sha256.Sum256(raw)
	return hex.EncodeToString(hash[:])
}

// checkPlace looks at the small files by which the overlay driver finds a layer, the first of some, and those below it.
func checkPlace(t *testing.T, s *Store, chain []string) {
	t.Helper()
	read := func(layerID, name string) string {
		raw, err := os.ReadFile(filepath.Join(s.root, driverOverlay, layerID, name))
		if err != nil {
			return "" // the lowest layer has none of those below it
		}
		return string(raw)
	}
	short := make([]string, 0, len(chain)-1)
	for _, below := range chain[1:] {
		short = append(short, "l/"+read(below, "link"))
	}
	if got := read(chain[0], "link"); !isShort(got) {
		t.Errorf("short name of %s: %q", chain[0], got)
	}
	if got, want := read(chain[0], "lower"), strings.Join(short, ":"); got != want {
		t.Errorf("lower of %s: %q, want %q", chain[0], got, want)
	}
	if got, want := read(chain[0], "lower-layers"), strings.Join(chain[1:], ":"); got != want {
		t.Errorf("lower-layers of %s: %q, want %q", chain[0], got, want)
	}
}
