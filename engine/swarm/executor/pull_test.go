package executor

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"
)

func auth(user, password string) string {
	return base64.URLEncoding.EncodeToString([]byte(`{"username":"` + user + `","password":"` + password + `"}`))
}

func TestImages(t *testing.T) {
	login := func(header string) *api.ContainerSpec_PullOptions {
		return &api.ContainerSpec_PullOptions{RegistryAuth: header}
	}
	const digest = "busybox@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for _, tc := range []struct {
		name   string
		image  string
		login  *api.ContainerSpec_PullOptions
		there  string // an image
		state  api.TaskState
		err    string
		pulled string
	}{
		{"to be pulled", "new", nil, "", api.TaskStateRunning, "", "new:latest"},
		{"with a tag", "reg.example:5000/a:b", nil, "", api.TaskStateRunning, "", "reg.example:5000/a:b"},
		{"with a port and no tag", "reg.example:5000/a", nil, "", api.TaskStateRunning, "", "reg.example:5000/a:latest"},
		{"with credentials", "private", login(auth("me", "pass")), "", api.TaskStateRunning, "", "private:latest me"},
		{
			"with credentials without padding", "private", login(strings.TrimRight(auth("you", "pass"), "=")), "", api.TaskStateRunning, "",
			"private:latest you",
		},
		{
			"wrong credentials", "private", login(auth("me", "word")), "", api.TaskStateRejected,
			"pull image private: unauthorized: wrong credentials", "private:latest me",
		},
		{"no credentials", "private", nil, "", api.TaskStateRejected, "pull image private: unauthorized: wrong credentials", "private:latest"},
		{"credentials that are none", "private", login("§"), "", api.TaskStateRejected, "the service's credentials are not in base64", ""},
		{"credentials without JSON", "private", login("YQ=="), "", api.TaskStateRejected, "the service's credentials are no JSON object", ""},
		{"there, and the pull fails", "private", nil, "private", api.TaskStateRunning, "", "private:latest"},
		{"missing", "none", nil, "", api.TaskStateRejected, "pull image none: manifest for none:latest not found", "none:latest"},
		{"there by its digest", digest, nil, digest, api.TaskStateRunning, "", ""},
		{"by a digest that is not there", digest, nil, "", api.TaskStateRunning, "", digest},
		{"there by its id", "sha256:01", nil, "sha256:01", api.TaskStateRunning, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 0)
			r.registry = map[string]string{
				"new:latest": "", "reg.example:5000/a:b": "", "reg.example:5000/a:latest": "", "private:latest": "pass", digest: "",
			}
			r.images = map[string]bool{tc.there: true}
			j := r.newJob(func(_ *api.Task, c *api.ContainerSpec) { c.Image, c.PullOptions = tc.image, tc.login })
			j.advance(tc.state)
			j.expect(tc.state, tc.err)
			if got := strings.Join(r.pulled, ","); got != tc.pulled {
				t.Errorf("pulled %q, want %q", got, tc.pulled)
			}
		})
	}
}

// TestNameInUse rejects a task whose name another container has, and takes its own container over.
func TestNameInUse(t *testing.T) {
	for _, tc := range []struct {
		taskID string
		state  api.TaskState
	}{{"other", api.TaskStateRejected}, {"", api.TaskStateRejected}, {"taskid", api.TaskStateRunning}} {
		r := newRig(t, 0)
		body, err := newCreate(newTask(nil), nil, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		body.Labels[labelTaskID] = tc.taskID
		r.set(func() { r.addLocked("web.2.taskid", body) })
		j := r.newJob(nil)
		j.advance(tc.state)
		if tc.state == api.TaskStateRejected && !strings.Contains(j.task.Status.Err, "already in use") {
			t.Errorf("error %q, want that the name is in use", j.task.Status.Err)
		}
		if pulls := r.count("POST /images/create"); tc.taskID == "taskid" && pulls != 0 {
			t.Errorf("%d pulls for a container that is there, want none", pulls)
		}
	}
}

// TestImageGoneMeanwhile prepares the task once more.
func TestImageGoneMeanwhile(t *testing.T) {
	r := newRig(t, 0)
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if q.URL.Path == "/containers/create" && r.countLocked("POST /containers/create") == 1 {
			delete(r.images, "busybox")
		}
		return false
	}
	j := r.newJob(nil)
	j.advance(api.TaskStateRunning)
	if got := len(r.pulled); got != 2 {
		t.Errorf("%d pulls, want 2", got)
	}
}
