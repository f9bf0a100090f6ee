package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// testImages tags, builds, pushes, pulls, saves, loads, imports and removes images.
func (r *run) testImages() {
	var id string
	r.Step("inspect an image", func() error {
		shown, err := r.client.InspectImage("busybox")
		if err != nil {
			return err
		}
		id = shown.ID
		if shown.Size == 0 || shown.Architecture == "" {
			return fmt.Errorf("inspect: size %d, architecture %q", shown.Size, shown.Architecture)
		}
		return nil
	})
	tagged := r.name + "/tagged"
	r.Step("tag an image, and find it in the list", func() error {
		if err := r.client.TagImage("busybox", docker.TagImageOptions{Repo: tagged, Tag: "one"}); err != nil {
			return err
		}
		list, err := r.client.ListImages(docker.ListImagesOptions{Filter: tagged})
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].ID != id || !slices.Contains(list[0].RepoTags, tagged+":one") {
			return fmt.Errorf("list: got %+v, want %s", list, id)
		}
		return nil
	})
	r.Step("history of an image", func() error {
		history, err := r.client.ImageHistory(tagged + ":one")
		if err != nil {
			return err
		}
		if len(history) == 0 || history[0].ID != id {
			return fmt.Errorf("history: got %+v, want %s first", history, id)
		}
		return nil
	})
	r.Step("remove a tag", func() error {
		if err := r.client.RemoveImage(tagged + ":one"); err != nil {
			return err
		}
		if _, err := r.client.InspectImage(tagged + ":one"); !errors.Is(err, docker.ErrNoSuchImage) {
			return fmt.Errorf("inspect after removal: got %w, want ErrNoSuchImage", err)
		}
		return nil
	})
	r.testBuilds()
	r.testTransfers()
}

// builtImage names the image that testBuilds makes.
func (r *run) builtImage() string { return r.name + "/built" }

func (r *run) testBuilds() {
	r.Step("build an image", func() error {
		context, err := scenario.Archive(
			"Dockerfile", "FROM busybox\nARG WORD=none\nCOPY page /www/index.html\nRUN echo \"$WORD\" >/word\nENV A=b\nCMD [\"cat\", \"/word\"]\n",
			"page", "a page\n")
		if err != nil {
			return err
		}
		options := docker.BuildImageOptions{Name: r.builtImage(), InputStream: context, OutputStream: &bytes.Buffer{}, RmTmpContainer: true}
		if r.minor >= 21 {
			options.BuildArgs = []docker.BuildArg{{Name: "WORD", Value: "given"}}
		}
		if err := r.client.BuildImage(options); err != nil {
			return err
		}
		return scenario.Contains("output", fmt.Sprint(options.OutputStream), "Step 1/", "Successfully built ")
	})
	r.Step("what was built has its settings", func() error {
		shown, err := r.client.InspectImage(r.builtImage())
		if err != nil {
			return err
		}
		return scenario.First(
			scenario.Contains("Env", strings.Join(shown.Config.Env, " "), "A=b"),
			scenario.Equal("Cmd", strings.Join(shown.Config.Cmd, " "), "cat /word"),
		)
	})
	r.Step("a build that fails is an error", func() error {
		context, err := scenario.Archive("Dockerfile", "FROM busybox\nRUN exit 7\n")
		if err != nil {
			return err
		}
		err = r.client.BuildImage(docker.BuildImageOptions{
			InputStream: context, OutputStream: &bytes.Buffer{}, RmTmpContainer: true, ForceRmTmpContainer: true,
		})
		return scenario.Contains("error", fmt.Sprint(err), "returned a non-zero code: 7")
	})
}

func (r *run) testTransfers() {
	// Without credentials the client sends no X-Registry-Auth, which a push has to have. The registry is open to all.
	anyone := docker.AuthConfiguration{Username: "anyone", Password: "anything"}
	remote := os.Getenv("REGISTRY") + "/" + r.name + "/pushed"
	r.Step("push an image", func() error {
		if err := r.client.TagImage(r.builtImage(), docker.TagImageOptions{Repo: remote, Tag: "t"}); err != nil {
			return err
		}
		out := &bytes.Buffer{}
		if err := r.client.PushImage(docker.PushImageOptions{Name: remote, Tag: "t", OutputStream: out}, anyone); err != nil {
			return err
		}
		return scenario.Contains("output", out.String(), "t: digest: sha256:")
	})
	r.Step("pull it again", func() error {
		if err := r.client.RemoveImage(remote + ":t"); err != nil {
			return err
		}
		out := &bytes.Buffer{}
		if err := r.client.PullImage(docker.PullImageOptions{Repository: remote, Tag: "t", OutputStream: out}, anyone); err != nil {
			return err
		}
		if _, err := r.client.InspectImage(remote + ":t"); err != nil {
			return err
		}
		return scenario.Contains("output", out.String(), "Status: Downloaded newer image for "+remote+":t")
	})
	r.Step("save, remove and load an image", func() error {
		saved := &bytes.Buffer{}
		if err := r.client.ExportImage(docker.ExportImageOptions{Name: remote + ":t", OutputStream: saved}); err != nil {
			return err
		}
		if err := r.client.RemoveImage(remote + ":t"); err != nil {
			return err
		}
		if err := r.client.LoadImage(docker.LoadImageOptions{InputStream: saved, OutputStream: &bytes.Buffer{}}); err != nil {
			return err
		}
		return r.client.RemoveImage(remote + ":t") // an error if it is not there again
	})
	r.Step("import an image", func() error {
		files, err := scenario.Archive("file", "text")
		if err != nil {
			return err
		}
		name := r.name + "/imported"
		if err := r.client.ImportImage(docker.ImportImageOptions{
			Repository: name, Tag: "t", Source: "-", InputStream: files, OutputStream: &bytes.Buffer{},
		}); err != nil {
			return err
		}
		return r.client.RemoveImage(name + ":t")
	})
}
