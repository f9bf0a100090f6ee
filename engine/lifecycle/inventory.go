package lifecycle

import (
	"context"
	"fmt"

	"moss/engine/container"
	"moss/engine/destination"
	"moss/engine/image"
	"moss/engine/task"
)

// Inventory tells what containers there are and what is known of them. It changes nothing but their health.
type Inventory struct {
	index    *index
	links    *links
	layers   layerSizes
	images   images
	networks networkStore
}

// layerSizes measures writable layers, in bytes.
type layerSizes interface {
	Size(ctx context.Context, containerID string) (rw, rootfs int64, err error)
}

// Get returns the container's record, which must not be changed. fault.NotFound if there is none.
func (iv *Inventory) Get(ref string) (*container.Record, error) {
	c, err := iv.index.find(ref)
	if err != nil {
		return nil, err
	}
	return iv.links.withLinkNames(c.record()), nil
}

// Running returns the record and the task of a container whose process runs or is frozen. fault.NotFound if there is no such
// container, fault.Conflict if nothing of it runs.
func (iv *Inventory) Running(ref string) (*container.Record, task.Task, error) {
	c, err := iv.index.find(ref)
	if err != nil {
		return nil, nil, err
	}
	r := c.record()
	if t, ok := c.runningTask(); ok && r.State.HasProcess() {
		return r, t, nil
	}
	return nil, nil, container.NotRunning(ref)
}

// Size returns the bytes of the container's own files and of all it sees.
func (iv *Inventory) Size(ctx context.Context, ref string) (rw, rootfs int64, err error) {
	c, err := iv.index.find(ref)
	if err != nil {
		return 0, 0, err
	}
	return iv.layers.Size(ctx, c.id)
}

// ImageUsers lists the containers that keep an image.
func (iv *Inventory) ImageUsers(imageID string) []image.User {
	var users []image.User
	for _, c := range iv.index.newestFirst() {
		if r := c.record(); r.KeepsImage(imageID) {
			users = append(users, image.User{ContainerID: r.ID, ImageRef: r.Image, Running: r.State.Running()})
		}
	}
	return users
}

// Counts returns how many containers there are in all and in the states that /info shows.
func (iv *Inventory) Counts() (all, running, paused, stopped int) {
	for _, c := range iv.index.newestFirst() {
		all++
		switch s := c.record().State; {
		case s == container.Paused:
			paused++
		case s.Running():
			running++
		default:
			stopped++
		}
	}
	return all, running, paused, stopped
}

// User resolves the user of one more process of a running container inside the root filesystem that it runs on; an empty
// user is the container's own. fault.NotFound and fault.Conflict as Running, fault.Invalid for a user that is not there.
func (iv *Inventory) User(ref, user string) (container.UserIDs, error) {
	r, _, err := iv.Running(ref)
	if err != nil {
		return container.UserIDs{}, err
	}
	if user == "" {
		user = r.Config.User
	}
	return lookupUser(fmt.Sprintf("/proc/%d/root", r.Pid), user, r.Host.GroupAdd)
}

// CheckWorkingDir refuses to add a process to a running container whose working folder ends in proc by now; an empty one is
// the root. fault.NotFound and fault.Conflict as Running, fault.Invalid for such a folder.
func (iv *Inventory) CheckWorkingDir(ref, dir string) error {
	r, _, err := iv.Running(ref)
	if err != nil || dir == "" {
		return err
	}
	return destination.CheckWorkingDir(fmt.Sprintf("/proc/%d/root", r.Pid), dir)
}

// SetHealth notes what is known of the health of a container, if the process that began as r still runs. It returns the
// record after it, and whether it was noted.
func (iv *Inventory) SetHealth(r *container.Record, health container.Health) (*container.Record, bool, error) {
	c, err := iv.index.find(r.ID)
	if err != nil {
		return nil, false, err
	}
	after, noted := c.noteHealth(r, &health)
	if !noted {
		return after, false, nil
	}
	return after, true, c.saveRecord(false)
}
