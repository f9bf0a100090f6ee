package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// testArchives moves files in and out of a container.
func (r *run) testArchives() {
	r.stepSince(20, "upload files", func() error {
		files, err := scenario.Archive("one", "first", "sub/two", "second")
		if err != nil {
			return err
		}
		if err := r.client.UploadToContainer(r.web, docker.UploadToContainerOptions{InputStream: files, Path: "/tmp"}); err != nil {
			return err
		}
		out, _, _, err := r.execCommand(r.web, "", "cat", "/tmp/one", "/tmp/sub/two")
		return scenario.First(err, scenario.Equal("files", out, "firstsecond"))
	})
	r.stepSince(20, "download a file", func() error {
		archive := &bytes.Buffer{}
		if err := r.client.DownloadFromContainer(r.web, docker.DownloadFromContainerOptions{Path: "/www/index.html", OutputStream: archive}); err != nil {
			return err
		}
		text, err := scenario.File(archive, "index.html")
		return scenario.First(err, scenario.Equal("file", text, "a page\n"))
	})
	r.Step("changes of a container's files", func() error {
		if _, _, code, err := r.execCommand(r.web, "", "sh", "-c", "echo new >/root/new; rm /word"); err != nil || code != 0 {
			return fmt.Errorf("exec: code %d: %w", code, err)
		}
		changes, err := r.client.ContainerChanges(r.web)
		if err != nil {
			return err
		}
		for _, want := range []docker.Change{{Path: "/root/new", Kind: docker.ChangeAdd}, {Path: "/word", Kind: docker.ChangeDelete}} {
			if !slices.Contains(changes, want) {
				return fmt.Errorf("changes: got %v, want %v", changes, want)
			}
		}
		return nil
	})
	r.Step("export a container", func() error {
		archive := &bytes.Buffer{}
		if err := r.client.ExportContainer(docker.ExportContainerOptions{ID: r.web, OutputStream: archive}); err != nil {
			return err
		}
		text, err := scenario.File(archive, "root/new")
		return scenario.First(err, scenario.Equal("file", text, "new\n"))
	})
}

// checkState returns an error if the container's state is another one.
func (r *run) checkState(want func(docker.State) bool) error {
	shown, err := r.inspectContainer(r.web)
	if err != nil {
		return err
	}
	if !want(shown.State) {
		return fmt.Errorf("state: got %+v", shown.State)
	}
	return nil
}

// testVerbs changes what the container does.
func (r *run) testVerbs() {
	r.Step("pause and unpause", func() error {
		return scenario.First(
			r.client.PauseContainer(r.web), r.checkState(func(s docker.State) bool { return s.Paused }),
			r.client.UnpauseContainer(r.web), r.checkState(func(s docker.State) bool { return s.Running && !s.Paused }),
		)
	})
	r.Step("rename", func() error {
		err := r.client.RenameContainer(docker.RenameContainerOptions{ID: r.web, Name: r.name + "-renamed"})
		if err != nil {
			return err
		}
		shown, err := r.inspectContainer(r.name + "-renamed")
		if err != nil {
			return err
		}
		return scenario.Equal("id", shown.ID, r.web)
	})
	r.stepSince(22, "update", func() error {
		if err := r.client.UpdateContainer(r.web, docker.UpdateContainerOptions{CPUShares: 200}); err != nil {
			return err
		}
		shown, err := r.inspectContainer(r.web)
		if err != nil {
			return err
		}
		return scenario.Equal("CpuShares", shown.HostConfig.CPUShares, int64(200))
	})
	r.Step("restart", func() error {
		before, err := r.inspectContainer(r.web)
		if err != nil {
			return err
		}
		return scenario.First(
			r.client.RestartContainer(r.web, 0),
			r.checkState(func(s docker.State) bool { return s.Running && s.StartedAt.After(before.State.StartedAt) }), r.checkPage())
	})
}

// testEndings makes an image of the container, and ends it.
func (r *run) testEndings() {
	r.Step("commit", func() error {
		made, err := r.client.CommitContainer(docker.CommitContainerOptions{
			Container: r.web, Repository: r.name + "/committed", Message: "words", Run: &docker.Config{Cmd: []string{"cat", "/root/new"}},
		})
		if err != nil {
			return err
		}
		id, err := r.startContainer("committed", docker.CreateContainerOptions{Config: &docker.Config{Image: made.ID}}, "cat", "/root/new")
		if err != nil {
			return err
		}
		code, err := r.client.WaitContainer(id)
		return scenario.First(err, scenario.Equal("code", code, 0), r.removeContainer(id), r.client.RemoveImage(r.name+"/committed"))
	})
	r.Step("kill, and wait for the code", func() error {
		if err := r.client.KillContainer(docker.KillContainerOptions{ID: r.web, Signal: docker.SIGKILL}); err != nil {
			return err
		}
		code, err := r.client.WaitContainer(r.web)
		return scenario.First(err, scenario.Equal("code", code, 137), r.checkState(func(s docker.State) bool { return !s.Running && s.ExitCode == 137 }))
	})
	r.Step("stop what does not run: the client's own kind of error", func() error {
		var stopped *docker.ContainerNotRunning
		if err := r.client.StopContainer(r.web, 1); !errors.As(err, &stopped) {
			return fmt.Errorf("stop: got %w, want ContainerNotRunning", err)
		}
		return nil
	})
}

// testRemoval takes all away that the run has made, and looks at the events of it.
func (r *run) testRemoval() {
	r.stepSince(21, "a volume and a network in use stay", func() error {
		if err := r.client.RemoveVolumeWithOptions(docker.RemoveVolumeOptions{Name: r.name}); !errors.Is(err, docker.ErrVolumeInUse) {
			return fmt.Errorf("remove the volume: got %w, want ErrVolumeInUse", err)
		}
		return nil
	})
	r.Step("remove the container", func() error {
		if err := r.removeContainer(r.web); err != nil {
			return err
		}
		var gone *docker.NoSuchContainer
		if _, err := r.inspectContainer(r.web); !errors.As(err, &gone) {
			return fmt.Errorf("inspect after removal: got %w, want NoSuchContainer", err)
		}
		return nil
	})
	r.stepSince(21, "remove the network", func() error {
		if err := r.client.RemoveNetwork(r.network); err != nil {
			return err
		}
		var gone *docker.NoSuchNetwork
		if _, err := r.client.NetworkInfo(r.network); !errors.As(err, &gone) {
			return fmt.Errorf("inspect after removal: got %w, want NoSuchNetwork", err)
		}
		return nil
	})
	r.stepSince(21, "remove the volume", func() error {
		if err := r.client.RemoveVolumeWithOptions(docker.RemoveVolumeOptions{Name: r.name}); err != nil {
			return err
		}
		if _, err := r.client.InspectVolume(r.name); !errors.Is(err, docker.ErrNoSuchVolume) {
			return fmt.Errorf("inspect after removal: got %w, want ErrNoSuchVolume", err)
		}
		return nil
	})
	r.Step("remove the image", func() error { return r.client.RemoveImage(r.builtImage()) })
	r.Step("the events of the container's life came in order", r.checkEvents)
}

// checkEvents waits for as many events of the container as there should be. The client hands each over on its own, in
// no order: their times tell it.
func (r *run) checkEvents() error {
	want := []string{
		"create", "start", "pause", "unpause", "rename", "kill", "die", "stop", "start", "restart", "pause", "unpause", "commit",
		"kill", "die", "destroy",
	}
	var came []*docker.APIEvents
	timeout := time.After(time.Minute)
	for len(came) < len(want) {
		select {
		case event := <-r.events:
			if event.ID == r.web && slices.Contains(want, event.Status) {
				came = append(came, event)
			}
		case <-timeout:
			return fmt.Errorf("events: no more than %d came, want %d", len(came), len(want))
		}
	}
	slices.SortStableFunc(came, func(a, b *docker.APIEvents) int { return cmp.Compare(a.TimeNano, b.TimeNano) })
	got := make([]string, 0, len(came))
	for _, event := range came {
		got = append(got, event.Status)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("events: got %v, want %v", got, want)
	}
	return r.client.RemoveEventListener(r.events)
}
