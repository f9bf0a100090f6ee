package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sourceFolders  = 20
	sourceFiles    = 100   // in each folder
	largestSource  = 6000  // bytes
	manyFiles      = 50000 // of the large context
	manyPerFolder  = 500
	smallFile      = 700 // bytes
	builtRef       = "localhost/bench/built"
	stepsAfterCopy = 2 // RUN steps behind the last COPY
)

// makeDockerfile returns one of twelve steps: settings, a tree of 2,000 small files, commands that read and write it,
// one more COPY and what follows it.
func makeDockerfile(salt string) string {
	return strings.Join([]string{
		"FROM " + imageRef,
		"ENV SALT=" + salt,
		"WORKDIR /app",
		"COPY src /app/src",
		"RUN ls -R /app/src | wc -l > /app/count",
		"RUN mkdir -p /app/build && cp /app/count /app/build/",
		"RUN for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > /app/build/f$i; done",
		"COPY last /app/last",
		"RUN tar cf /app/build/last.tar /app/last",
		"RUN rm -r /app/build/f1 /app/last",
		"LABEL bench=1",
		`CMD ["cat", "/app/count"]`,
	}, "\n") + "\n"
}

// tree is the context of the twelve steps: files by name.
type tree map[string][]byte

func sourceTree() tree {
	t := tree{}
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same bytes each time
	for d := range sourceFolders {
		for f := range sourceFiles {
			content := make([]byte, 200+random.IntN(largestSource-200)) //nolint:mnd // none is empty
			for i := range content {
				content[i] = byte(random.Uint32())
			}
			t[fmt.Sprintf("src/d%d/f%d", d, f)] = content
			if d == 0 {
				t[fmt.Sprintf("last/f%d", f)] = content
			}
		}
	}
	return t
}

// writeArchive writes the context's archive.
func (t tree) writeArchive(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	for name, content := range t {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}))
		if err == nil {
			_, err = w.Write(content)
		}
	}
	return errors.Join(err, w.Close(), file.Close())
}

// measureBuilds measures the twelve steps cold, again, and with a change of what the last COPY reads, then a context of many
// files.
func (b *bench) measureBuilds(ctx context.Context, i *instance) error {
	context, files := filepath.Join(b.dir, "context.tar"), sourceTree()
	files["Dockerfile"] = []byte(makeDockerfile(strconv.FormatInt(time.Now().UnixNano(), 10)))
	if err := resetPeak(i.cmd.Process.Pid); err != nil {
		return err
	}
	s := samples{}
	for _, figure := range []string{"12 steps, cold", "12 steps, cached", "last COPY changed"} {
		if figure == "last COPY changed" {
			files["last/f0"] = append([]byte("changed "), files["last/f0"]...)
		}
		if err := files.writeArchive(context); err != nil {
			return err
		}
		took, ran, err := i.api.buildImage(ctx, context, builtRef)
		if err != nil {
			return fmt.Errorf("%s: %w", figure, err)
		}
		if want, known := map[string]int{"12 steps, cached": 0, "last COPY changed": stepsAfterCopy}[figure]; known && i.own && ran != want {
			return fmt.Errorf("%s: %d steps ran, want %d", figure, ran, want)
		}
		s[figure] = took * 1000 //nolint:mnd // milliseconds
	}
	if err := b.manyBuild(ctx, i, s); err != nil {
		return err
	}
	if i.own {
		var err error
		if s["peak of the engine"], err = peakOf(i.cmd.Process.Pid); err != nil {
			return err
		}
	}
	_, err := i.api.removeImage(ctx, builtRef)
	b.report.add(i.name, "build", s)
	return err
}

// buildImage builds a context and returns the seconds it took, and how many steps ran.
func (a *api) buildImage(ctx context.Context, path, ref string) (seconds float64, ran int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	var out strings.Builder
	began := time.Now()
	query := url.Values{"t": {ref}, "rm": {"1"}, "forcerm": {"1"}}
	_, err = a.copyAnswer(ctx, http.MethodPost, "/v1.24/build?"+query.Encode(), file, "application/x-tar", &out) // the client closes it
	seconds = time.Since(began).Seconds()
	if err == nil && !strings.Contains(out.String(), "Successfully built") {
		err = fmt.Errorf("build: %s", out.String())
	}
	return seconds, strings.Count(out.String(), "Running in"), err
}

// manyBuild measures the command line with a context of many files that one COPY takes, beside tar with the same: packing
// and unpacking beside a build that copies them, packing beside one that finds them in its cache.
func (b *bench) manyBuild(ctx context.Context, i *instance, s samples) error {
	dir := filepath.Join(b.dir, "many")
	if err := makeMany(dir); err != nil {
		return err
	}
	salt := strconv.FormatInt(time.Now().UnixNano(), 10)
	file := []byte("FROM " + imageRef + "\nENV SALT=" + salt + "\nCOPY . /many/\n")
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), file, 0o600); err != nil {
		return err
	}
	packed, unpacked, err := b.tarMany(ctx, dir)
	if err != nil {
		return err
	}
	for _, figure := range []string{"50,000 files", "50,000 files, cached"} {
		took, err := i.runCommand(ctx, transferLimit, "build", "-q", "-t", builtRef+"-many", dir)
		if err != nil {
			return err
		}
		s[figure] = took / 1000 //nolint:mnd // of milliseconds
	}
	s["50,000 files / tar both ways"] = s["50,000 files"] / (packed + unpacked)
	s["50,000 files, cached / tar"] = s["50,000 files, cached"] / packed
	_, err = i.api.removeImage(ctx, builtRef+"-many")
	return err
}

// tarMany returns how many seconds tar takes to pack a folder and to unpack it again.
func (b *bench) tarMany(ctx context.Context, dir string) (packed, unpacked float64, err error) {
	archive, copied := filepath.Join(b.dir, "many.tar"), filepath.Join(b.dir, "many-copied")
	out, err := os.Create(archive)
	if err != nil {
		return 0, 0, err
	}
	pack := exec.CommandContext(ctx, "tar", "-C", dir, "-cf", "-", ".")
	pack.Stdout = out // a name it would be told of, and leave out the contents if it is /dev/null
	began := time.Now()
	if err := errors.Join(pack.Run(), out.Close()); err != nil {
		return 0, 0, err
	}
	packed = time.Since(began).Seconds()
	if err := os.Mkdir(copied, 0o755); err != nil { //nolint:gosec // as contexts have it
		return 0, 0, err
	}
	began = time.Now()
	err = exec.CommandContext(ctx, "tar", "-C", copied, "-xf", archive).Run()
	unpacked = time.Since(began).Seconds()
	err = errors.Join(err, os.RemoveAll(copied))
	unix.Sync() // or the build's first sync would wait for what tar has written
	return packed, unpacked, err
}

// makeMany makes the folder of many files, unless it is there.
func makeMany(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	content := strings.Repeat("0123456789", smallFile/10) //nolint:mnd // its length
	for n := range manyFiles {
		folder := filepath.Join(dir, "d"+strconv.Itoa(n/manyPerFolder))
		if n%manyPerFolder == 0 {
			if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // as contexts have it
				return err
			}
		}
		name := filepath.Join(folder, "f"+strconv.Itoa(n))
		if err := os.WriteFile(name, []byte(content+strconv.Itoa(n)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
