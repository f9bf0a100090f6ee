package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"moss/tests/clients/go/scenario"
)

// testImages lists, pulls, saves and builds images.
func (r *run) testImages() {
	r.Step("list images", func() error {
		list, err := r.provider.ListImages(r.ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(i tc.ImageInfo) bool { return i.Name == "busybox:latest" }) {
			return fmt.Errorf("images: got %+v, want busybox:latest among them", list)
		}
		return nil
	})
	remote := os.Getenv("REGISTRY") + "/lib/box:one"
	r.Step("pull an image", func() error { return r.provider.PullImage(r.ctx, remote) })
	r.Step("run an image that is pulled first", func() error {
		return r.checkOnce(func(c tc.Container) error {
			return r.checkOutput(c, "out of the registry\n", "echo", "out of the registry")
		},
			tc.WithImage(remote), tc.WithAlwaysPull(), withSleep())
	})
	r.Step("save an image", func() error {
		file := filepath.Join(os.TempDir(), r.name+".tar")
		if err := r.provider.SaveImages(r.ctx, file, "busybox:latest"); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.Size() < 500_000 {
			return fmt.Errorf("archive: got %d bytes", info.Size())
		}
		return os.Remove(file)
	})
	r.Step("build an image with an argument, and wait until it is healthy", r.checkBuild)
	r.Step("a build that fails tells why", func() error {
		context, err := scenario.Archive("Dockerfile", "FROM busybox\nRUN exit 7\n")
		if err != nil {
			return err
		}
		_, err = tc.Run(r.ctx, "", tc.WithDockerfile(tc.FromDockerfile{ContextArchive: bytes.NewReader(context.Bytes())}))
		return scenario.Contains("error", fmt.Sprint(err), "returned a non-zero code: 7")
	})
}

func (r *run) checkBuild() error {
	context, err := scenario.Archive("sub/File", `FROM busybox
ARG WORD=none
RUN echo "$WORD" >/word
HEALTHCHECK --interval=1s CMD test -e /word
CMD ["sleep", "1000"]
`)
	if err != nil {
		return err
	}
	word, told := "given", &bytes.Buffer{}
	made, err := tc.Run(r.ctx, "", tc.WithDockerfile(tc.FromDockerfile{
		ContextArchive: bytes.NewReader(context.Bytes()), Dockerfile: "sub/File", Repo: r.name, Tag: "built",
		BuildArgs: map[string]*string{"WORD": &word}, BuildLogWriter: told,
	}), tc.WithWaitStrategy(wait.ForHealthCheck()))
	if err != nil {
		return err
	}
	if err := scenario.First(r.checkOutput(made, "given\n", "cat", "/word"), scenario.Contains("output", told.String(), "Step 1/", "Successfully tagged "+r.name+":built")); err != nil {
		return err
	}
	if err := made.Terminate(r.ctx, tc.StopTimeout(0)); err != nil {
		return err
	}
	// The image was for this container, and goes with it.
	list, err := r.provider.ListImages(r.ctx)
	gone := !slices.ContainsFunc(list, func(i tc.ImageInfo) bool { return i.Name == r.name+":built" })
	return scenario.First(err, scenario.Equal("the image is gone", gone, true))
}
