package build

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"moss/engine/build/worker"
	"moss/engine/image"
)

func failing(code int) func(context.Context, worker.Step) error {
	return func(_ context.Context, step worker.Step) error {
		_, _ = step.Output.Write([]byte("about to fail\n"))
		return &worker.ExitError{Command: step.Shown, Code: code}
	}
}

func TestAFailingCommand(t *testing.T) {
	for _, tc := range []struct {
		remove, force bool
		kept          int
	}{{true, false, 1}, {true, true, 0}, {false, false, 1}, {false, true, 0}} {
		t.Run(fmt.Sprintf("rm=%t,forcerm=%t", tc.remove, tc.force), func(t *testing.T) {
			r := newRig(t)
			r.runner.run = failing(3)
			req := request("FROM base\nENV A=1\nRUN exit 3\nRUN never\n", nil)
			req.Remove, req.ForceRemove, req.Tags = tc.remove, tc.force, []string{"x"}
			got := r.build(t.Context(), req)
			var exit *ExitError
			if !errors.As(got.err, &exit) || exit.StreamCode() != 3 {
				t.Fatalf("build: %v, want code 3", got.err)
			}
			if want := "The command '/bin/sh -c exit 3' returned a non-zero code: 3"; got.err.Error() != want {
				t.Errorf("build says %q, want %q", got.err, want)
			}
			if !strings.Contains(got.text, "Step 3/4 : RUN exit 3\n ---> Running in 000000000001\nabout to fail\n") || strings.Contains(got.text, "Step 4/4") {
				t.Errorf("build tells\n%s", got.text)
			}
			kept := 0
			for _, state := range r.runner.left {
				if state == "kept" {
					kept++
				}
			}
			if kept != tc.kept || len(r.runner.left) != tc.kept {
				t.Errorf("containers %v, want %d", r.runner.left, tc.kept)
			}
			if _, ok := r.images.names["x:latest"]; ok || len(r.images.result) > 0 {
				t.Errorf("names %v and results %v are left", r.images.names, r.images.result)
			}
			r.idle()
		})
	}
}

func TestADefectEndsTheBuildAlone(t *testing.T) {
	r := newRig(t)
	r.runner.run = func(context.Context, worker.Step) error { panic("a defect") }
	got := r.build(t.Context(), request("FROM base\nRUN x\n", nil))
	if got.err == nil || !strings.Contains(got.err.Error(), "a defect") {
		t.Errorf("build: %v, want the defect", got.err)
	}
	r.runner.run = nil
	r.must(request("FROM base\nRUN x\n", nil))
}

func TestWithoutRemoveContainersStay(t *testing.T) {
	r := newRig(t)
	req := request("FROM base\nRUN one\n", nil)
	req.Remove = false
	got := r.must(req)
	if len(r.runner.left) != 1 || strings.Contains(got.text, "Removing") {
		t.Errorf("containers %v are left after\n%s", r.runner.left, got.text)
	}
	if layer := r.images.layers[got.id]; len(layer) != 1 || layer[0] != "written" {
		t.Errorf("the layer holds %q, want what was written", layer)
	}
}

func TestTheStageThatFailsShows(t *testing.T) {
	r := newRig(t)
	began := make(chan struct{})
	r.runner.run = func(ctx context.Context, step worker.Step) error {
		if step.Command[2] == "slow" {
			close(began)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		<-began
		return failing(7)(ctx, step)
	}
	got := r.build(t.Context(), request("FROM base AS a\nRUN slow\nFROM base AS b\nRUN bad\nFROM base AS c\nCOPY --from=a / /\nCOPY --from=b / /\n", nil))
	var exit *ExitError
	if !errors.As(got.err, &exit) || exit.Code != 7 {
		t.Fatalf("build: %v, want code 7", got.err)
	}
	if !strings.Contains(got.text, "RUN slow") || !strings.HasSuffix(got.text, "about to fail\n") {
		t.Errorf("build tells\n%s", got.text)
	}
	r.idle()
}

func TestQuiet(t *testing.T) {
	r := newRig(t)
	req := request("FROM base\nRUN one\n", nil)
	req.Quiet = true
	got := r.must(req)
	if len(got.lines) != 1 || got.text != got.id+"\n" {
		t.Errorf("told %+v, want the id alone", got.lines)
	}
	r.runner.run = failing(1)
	req = request("FROM base\nRUN two\n", nil)
	req.Quiet = true
	if got := r.build(t.Context(), req); got.err == nil || !strings.Contains(got.text, "about to fail") {
		t.Errorf("a build that fails: %v after %q; want all that it had to tell", got.err, got.text)
	}
	r.idle()
}

func TestAMissingFileEndsTheBuild(t *testing.T) {
	r := newRig(t)
	got := r.build(t.Context(), request("FROM base\nCOPY nothing /x\nRUN never\n", nil))
	if got.err == nil || !strings.Contains(got.err.Error(), "COPY failed: file not found in build context") || r.runner.count > 0 {
		t.Errorf("build: %v, %d commands", got.err, r.runner.count)
	}
	r.idle()
}

func TestAFullDiskEndsTheBuild(t *testing.T) {
	r := newRig(t)
	full := errors.New("no space left on device")
	r.images.full = full
	got := r.build(t.Context(), request("FROM base\nCOPY f /f\nRUN never\n", map[string]string{"f": "1"}))
	if !errors.Is(got.err, full) || r.runner.count > 0 {
		t.Errorf("build: %v, want %v", got.err, full)
	}
	r.idle()
}

func TestFromScratch(t *testing.T) {
	r := newRig(t)
	got := r.must(request("FROM scratch\nCOPY f /f\n", map[string]string{"f": "1"}))
	if !strings.Contains(got.text, "Step 1/2 : FROM scratch\n ---> \nStep 2/2") {
		t.Errorf("told\n%s", got.text)
	}
	if img := r.images.byID[got.id]; img.Parent != "" || img.OS != "linux" || img.Architecture != "amd64" || len(img.Layers) != 1 {
		t.Errorf("image %+v, want one layer for linux/amd64 on nothing", img)
	}
	if got := r.build(t.Context(), request("FROM scratch\n", nil)); !errors.Is(got.err, errNoImage) {
		t.Errorf("nothing at all: %v, want %v", got.err, errNoImage)
	}
	r.idle()
}

func TestTriggers(t *testing.T) {
	r := newRig(t)
	r.images.put("trigger:latest", image.Config{OnBuild: []string{"RUN first", "COPY --from=0 / /x/"}})
	got := r.must(request("FROM base\nRUN earlier\nFROM trigger\nRUN second\n", nil))
	if !strings.Contains(got.text, "# Executing 2 build triggers\n") {
		t.Errorf("told\n%s", got.text)
	}
	if want := "[earlier first second]"; fmt.Sprint(r.runner.commands()) != want {
		t.Errorf("ran %q, want %s", r.runner.commands(), want)
	}
	if n := len(r.images.byID[got.id].Config.OnBuild); n > 0 {
		t.Errorf("the image has %d triggers, want none", n)
	}
	r.idle()
}

func TestRequestLabelsComeLast(t *testing.T) {
	r := newRig(t)
	req := request("FROM base\nLABEL a=1\n", nil)
	req.Labels = map[string]string{"b": "2", "a": "$3"}
	got := r.must(req)
	if labels := r.images.byID[got.id].Config.Labels; labels["a"] != "$3" || labels["b"] != "2" {
		t.Errorf("labels %v", labels)
	}
	if !strings.Contains(got.text, "Step 4/4 : LABEL b=2") {
		t.Errorf("told\n%s", got.text)
	}
}

func TestUnconsumedArgumentsAndLints(t *testing.T) {
	r := newRig(t)
	v := "1"
	req := request("FROM base\nMAINTAINER me\n", nil)
	req.Args = map[string]*string{"NOT": &v}
	got := r.must(req)
	for _, want := range []string{"[Warning] One or more build-args [NOT] were not consumed\n", "[Warning] MaintainerDeprecated"} {
		if !strings.Contains(got.text, want) {
			t.Errorf("output lacks %q:\n%s", want, got.text)
		}
	}
}

func TestSecretsAreInNoKey(t *testing.T) {
	r := newRig(t)
	for _, secret := range []string{"one", "two"} {
		req := request("FROM base\nRUN --mount=type=secret,id=s run\n", nil)
		req.Secrets = map[string]image.Secret{"s": image.Secret(secret)}
		r.must(req)
	}
	if r.runner.count != 1 {
		t.Fatalf("%d commands ran, want 1: a secret is not part of the key", r.runner.count)
	}
	if got, ok := r.runner.ran[0].Secrets("s"); !ok || string(got) != "one" {
		t.Errorf("secret %q, %t", got, ok)
	}
	for id, past := range r.images.past {
		for _, p := range past {
			if strings.Contains(p.CreatedBy, "one") {
				t.Errorf("history of %s: %q", id, p.CreatedBy)
			}
		}
	}
}

// TestStepConfig: an image whose last step ran nothing names its instruction, and has the configuration of the step.
func TestStepConfig(t *testing.T) {
	r := newRig(t)
	got := r.must(request("FROM base\nENV A=b\nCMD [\"x\"]\n", nil))
	shown := string(r.images.specs[got.id].ContainerConfig)
	if !strings.Contains(shown, `"A=b"`) || !strings.Contains(shown, `"Cmd":["/bin/sh","-c","#(nop)  CMD [\"x\"]"]`) {
		t.Errorf("the image shows %s", shown)
	}
}

func TestArgumentsAreNotKept(t *testing.T) {
	r := newRig(t)
	proxy := "http://user:password@proxy"
	req := request("FROM base\nRUN one\n", nil)
	req.Args = map[string]*string{"HTTP_PROXY": &proxy}
	got := r.must(req)
	if env := fmt.Sprint(r.runner.ran[0].Env); !strings.Contains(env, proxy) {
		t.Errorf("the command has %s, want the proxy", env)
	}
	shown := string(r.images.specs[got.id].ContainerConfig)
	if strings.Contains(shown, proxy) || !strings.Contains(shown, `"Env":["PATH=/bin"]`) || !strings.Contains(shown, `"Cmd"`) {
		t.Errorf("the image shows %s", shown)
	}
}
