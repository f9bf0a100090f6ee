package build

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/build/worker"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
)

const dockerfileOfAll = `FROM base
ENV A=1
WORKDIR /app
COPY src /app/src
RUN one
ARG X=y
RUN two $X
CMD ["x"]
`

func TestBuildTellsWhatClientsLookFor(t *testing.T) {
	r := newRig(t)
	r.runner.run = func(_ context.Context, step worker.Step) error {
		_, err := step.Output.Write([]byte("out of " + step.Command[2] + "\n"))
		return err
	}
	req := request(dockerfileOfAll, map[string]string{"src/f": "1"})
	req.Tags = []string{"app", "app:v1", "app:latest"}
	got := r.must(req)
	want := []string{
		"Step 1/8 : FROM base\n ---> " + id.Short(r.images.names["base:latest"]) + "\n", "Step 2/8 : ENV A=1\n ---> ",
		"Step 3/8 : WORKDIR /app\n ---> ", "Step 4/8 : COPY src /app/src\n ---> ",
		"Step 5/8 : RUN one\n ---> Running in 000000000001\nout of one\nRemoving intermediate container 000000000001\n ---> ",
		"Step 6/8 : ARG X=y\n ---> ", "Step 7/8 : RUN two $X\n ---> Running in 000000000002\nout of two $X\n",
		"Step 8/8 : CMD [\"x\"]\n ---> " + id.Short(got.id) + "\nSuccessfully built " + id.Short(got.id) + "\n" +
			"Successfully tagged app:latest\nSuccessfully tagged app:v1\n",
	}
	at := 0
	for _, w := range want {
		i := strings.Index(got.text[at:], w)
		if i < 0 {
			t.Fatalf("output lacks %q after %q:\n%s", w, got.text[:at], got.text)
		}
		at += i
	}
	if !slices.ContainsFunc(got.lines, func(p image.Progress) bool { return p.Aux == Result{ID: got.id} }) {
		t.Errorf("no aux with the id in %v", got.lines)
	}
	if r.images.names["app:v1"] != got.id || !r.images.result[got.id] {
		t.Errorf("app:v1 is %q, results %v; want %s", r.images.names["app:v1"], r.images.result, got.id)
	}
	r.idle()
}

func TestCacheAnswersTheSecondTimeAndAfterARestart(t *testing.T) {
	r := newRig(t)
	files := map[string]string{"src/f": "1"}
	first := r.must(request(dockerfileOfAll, files))
	for range 2 {
		again := r.must(request(dockerfileOfAll, files))
		if n := strings.Count(again.text, " ---> Using cache\n"); again.id != first.id || n != 7 {
			t.Errorf("build again: %s with %d steps of the cache, want %s with 7:\n%s", again.id, n, first.id, again.text)
		}
		r.open()
	}
	if n := r.runner.count; n != 2 {
		t.Errorf("%d commands ran, want 2", n)
	}
	r.idle()
}

func TestAChangeRunsOnlyWhatFollows(t *testing.T) {
	const dockerfile = "FROM base\nRUN one\nCOPY a /a\nRUN two\nCOPY b /b\nRUN three\n"
	for _, tc := range []struct {
		name       string
		dockerfile string
		files      map[string]string
		args       map[string]*string
		want       []string
	}{
		{"nothing", dockerfile, map[string]string{"a": "1", "b": "1"}, nil, nil},
		{"another file", dockerfile, map[string]string{"a": "1", "b": "1", "c": "1"}, nil, nil},
		{"the last copy", dockerfile, map[string]string{"a": "1", "b": "2"}, nil, []string{"three"}},
		{"the first copy", dockerfile, map[string]string{"a": "2", "b": "1"}, nil, []string{"three", "two"}},
		{"a command", strings.Replace(dockerfile, "RUN two", "RUN 2", 1), map[string]string{"a": "1", "b": "1"}, nil, []string{"2", "three"}},
		{"an argument", strings.Replace(dockerfile, "RUN two", "ARG V\nRUN two", 1), map[string]string{"a": "1", "b": "1"}, nil, []string{"three", "two"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.must(request(dockerfile, map[string]string{"a": "1", "b": "1"}))
			r.runner.ran = nil
			req := request(tc.dockerfile, tc.files)
			req.Args = tc.args
			r.must(req)
			if got := r.runner.commands(); !slices.Equal(got, tc.want) {
				t.Errorf("ran %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBuildArgumentsArePartOfTheKey(t *testing.T) {
	r := newRig(t)
	one, two, proxy := "1", "2", "http://proxy"
	build := func(args map[string]*string) {
		req := request("FROM base\nARG V\nRUN run\n", nil)
		req.Args = args
		r.must(req)
	}
	for i, tc := range []struct {
		args map[string]*string
		want int
	}{
		{map[string]*string{"V": &one}, 1},
		{map[string]*string{"V": &one}, 1},
		{map[string]*string{"V": &two}, 2},
		{map[string]*string{"V": &two, "HTTP_PROXY": &proxy}, 2},
		{map[string]*string{"V": nil}, 3},
	} {
		if build(tc.args); r.runner.count != tc.want {
			t.Errorf("build %d: %d commands ran in all, want %d", i, r.runner.count, tc.want)
		}
	}
}

func TestNoCache(t *testing.T) {
	r := newRig(t)
	req := func() Request { return request("FROM base\nRUN one\n", nil) }
	first := r.must(req())
	again := req()
	again.NoCache = true
	second := r.must(again)
	if r.runner.count != 2 || strings.Contains(second.text, "Using cache") {
		t.Errorf("%d commands ran, want 2:\n%s", r.runner.count, second.text)
	}
	if third := r.must(req()); r.runner.count != 2 || third.id != second.id || third.id == first.id {
		t.Errorf("after it: %s and %d commands, want the latest, %s, and 2", third.id, r.runner.count, second.id)
	}
}

func TestPull(t *testing.T) {
	r := newRig(t)
	newer := &image.Image{ID: hashed("newer"), OS: "linux", Architecture: "amd64", Layers: []string{"l"}}
	r.images.remote["base:latest"] = newer
	if got := r.must(request("FROM base\nENV A=1\n", nil)); len(r.images.pulls) != 0 || r.images.byID[got.id].Parent == newer.ID {
		t.Errorf("pulled %v without being asked", r.images.pulls)
	}
	req := request("FROM base AS a\nENV A=1\nFROM base\nCOPY --from=a /nothing* /x/\n", nil)
	req.Pull, req.Auths = true, map[string]image.RegistryAuth{"https://index.docker.io/v1/": {Username: "u"}}
	got := r.build(t.Context(), req)
	if got.err != nil && !strings.Contains(got.err.Error(), "COPY failed") {
		t.Fatal(got.err)
	}
	if len(r.images.pulls) != 1 || r.images.pulls[0].Auth.Username != "u" {
		t.Errorf("pulls %+v, want one with the credentials of the index", r.images.pulls)
	}
	missing := r.build(t.Context(), request("FROM nowhere\nRUN x\n", nil))
	if !fault.Is(missing.err, fault.NotFound) || !strings.Contains(missing.text, "Step 1/2 : FROM nowhere") {
		t.Errorf("FROM nowhere: %v after %q, want not found", missing.err, missing.text)
	}
	r.idle()
}

func TestNothingRunsBeforeAllIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  Request
		want string
	}{
		{"syntax", request("FROM base\nRUN one\nFOO bar\n", nil), "unknown instruction: FOO"},
		{"no stage", func() Request { r := request("FROM base\nRUN one\n", nil); r.Target = "x"; return r }(), "target x"},
		{"later stage", request("FROM base\nRUN one\nCOPY --from=later /x /x\nFROM base AS later\n", nil), ""},
		{"empty", request("  \n", nil), "cannot be empty"},
		{"no file", Request{Context: strings.NewReader("")}, "Cannot locate specified Dockerfile: Dockerfile"},
		{"file of the usual name", Request{Context: strings.NewReader(""), Dockerfile: "Dockerfile"}, "Cannot locate specified Dockerfile: Dockerfile"},
		{"other file", Request{Context: strings.NewReader(""), Dockerfile: "x/y"}, "Cannot locate specified Dockerfile: x/y"},
		{"no archive", Request{Context: strings.NewReader(strings.Repeat("no archive ", 100))}, ""},
		{"bad name", func() Request { r := request("FROM base\n", nil); r.Tags = []string{"A b"}; return r }(), "invalid reference format"},
		{"host's network", func() Request { r := request("FROM base\nRUN x\n", nil); r.Host.NetworkMode = "host"; return r }(), "never run in the host's network"},
		{"bad ignore file", request("FROM base\nRUN one\n", map[string]string{".dockerignore": "[\n"}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			got := r.build(t.Context(), tc.req)
			if !fault.Is(got.err, fault.Invalid) && !fault.Is(got.err, fault.Unsupported) || !strings.Contains(got.err.Error(), tc.want) {
				t.Errorf("got %v, want an invalid one with %q", got.err, tc.want)
			}
			if len(got.lines) > 0 || r.runner.count > 0 {
				t.Errorf("told %v and ran %d commands before", got.lines, r.runner.count)
			}
			r.idle()
		})
	}
}

func TestStagesRunAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.service.opt.Parallel = 3
		r.runner.run = func(ctx context.Context, step worker.Step) error {
			d, err := time.ParseDuration(step.Command[2])
			if err != nil {
				return err
			}
			_, _ = step.Output.Write([]byte("slept " + step.Command[2] + "\n"))
			time.Sleep(d)
			return nil
		}
		began := time.Now()
		got := r.must(request(`FROM base AS a
RUN 3s
FROM base AS unneeded
RUN 100s
FROM base AS b
RUN 1s
FROM base AS c
RUN 2s
FROM a
COPY --from=b / /b/
COPY --from=c / /c/
RUN 4s
`, nil))
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the build took %v, want 7s: 3 for the slowest stage and 4", took)
		}
		var order []string
		for line := range strings.Lines(got.text) {
			if strings.HasPrefix(line, "slept ") {
				order = append(order, strings.TrimSpace(line))
			}
		}
		if want := []string{"slept 3s", "slept 1s", "slept 2s", "slept 4s"}; !slices.Equal(order, want) {
			t.Errorf("output in the order %q, want that of the Dockerfile %q", order, want)
		}
		if strings.Contains(got.text, "100s") || !strings.Contains(got.text, "Step 10/10 : RUN 4s") {
			t.Errorf("the stage that nothing needs shows:\n%s", got.text)
		}
		r.idle()
		r.service.Close()
	})
}

func TestStepsAreToldApartAsTheyHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runner.run = func(_ context.Context, step worker.Step) error {
			d, err := time.ParseDuration(step.Command[2])
			time.Sleep(d)
			return err
		}
		req := request("FROM base AS a\nRUN 3s\nFROM base AS b\nRUN 1s\nFROM a\nCOPY --from=b / /\n", nil)
		req.Steps = true
		var states []string
		for _, p := range r.must(req).lines {
			if s, ok := p.Aux.(Step); ok && s.State != StepStarted && strings.HasPrefix(s.Instruction, "RUN") {
				states = append(states, s.StageName+" "+string(s.State)+" "+p.ID)
				if s.Seconds != float64(3-2*s.Stage) || s.Image == "" {
					t.Errorf("step %+v took %v s with image %q", s, s.Seconds, s.Image)
				}
			}
		}
		if want := []string{"b done 1", "a done 0"}; !slices.Equal(states, want) {
			t.Errorf("steps ended %q, want %q", states, want)
		}
		r.service.Close()
	})
}

func TestIdenticalStepsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runner.run = func(_ context.Context, step worker.Step) error {
			_, _ = step.Output.Write([]byte("working\n"))
			time.Sleep(time.Second)
			return nil
		}
		results := make(chan told, 3)
		for range 3 {
			go func() {
				results <- r.build(t.Context(), request("FROM base\nCOPY f /f\nRUN one\n", map[string]string{"f": "1"}))
			}()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		ids := map[string]bool{}
		for range 3 {
			got := <-results
			if got.err != nil || !strings.Contains(got.text, "working\n") {
				t.Errorf("build: %v, told %q; want the output of the step", got.err, got.text)
			}
			ids[got.id] = true
		}
		if len(ids) != 1 || r.runner.count != 1 {
			t.Errorf("%d images by %d commands, want one by one", len(ids), r.runner.count)
		}
		r.idle()
		r.service.Close()
	})
}

func TestAStepGoesOnWhileOneBuildWantsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runner.run = func(ctx context.Context, step worker.Step) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		dockerfile, files := "FROM base\nCOPY f /f\nRUN one\nCOPY f /g\n", map[string]string{"f": "1"}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan told, 1), make(chan told, 1)
		go func() { first <- r.build(ctx, request(dockerfile, files)) }()
		time.Sleep(time.Second)
		go func() { second <- r.build(t.Context(), request(dockerfile, files)) }()
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the build that was given up: %v, want it to be cancelled", got.err)
		}
		if got := <-second; got.err != nil || r.runner.count != 1 {
			t.Errorf("the other: %v with %d commands; want it to work with one", got.err, r.runner.count)
		}
		r.idle()
		r.service.Close()
	})
}

func TestCancelLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runner.run = func(ctx context.Context, _ worker.Step) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan told, 1)
		go func() {
			done <- r.build(ctx, request("FROM base AS a\nRUN one\nFROM base\nRUN two\nCOPY --from=a / /\n", nil))
		}()
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		if got := <-done; !errors.Is(got.err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("build: %v after %v, want it to be cancelled at once", got.err, time.Since(began))
		}
		if len(r.runner.left) > 0 || r.runner.count != 2 {
			t.Errorf("containers %v of %d are left", r.runner.left, r.runner.count)
		}
		r.idle()
		r.service.Close()
	})
}

func TestTheEndOfTheEngineEndsBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.runner.run = func(ctx context.Context, _ worker.Step) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		done := make(chan told, 1)
		go func() { done <- r.build(t.Context(), request("FROM base\nRUN one\n", nil)) }()
		time.Sleep(time.Second)
		r.service.Close()
		if got := <-done; !errors.Is(got.err, errClosing) {
			t.Errorf("build: %v, want %v", got.err, errClosing)
		}
		if got := r.build(t.Context(), request("FROM base\n", nil)); !fault.Is(got.err, fault.Unavailable) {
			t.Errorf("a build after it: %v, want unavailable", got.err)
		}
		r.idle()
	})
}
