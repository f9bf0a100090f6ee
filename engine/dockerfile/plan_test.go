package dockerfile

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

// given makes build arguments of "A=1" and of "A", which has no value.
func given(words ...string) map[string]*string {
	args := map[string]*string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		args[name] = nil
		if ok {
			args[name] = &value
		}
	}
	return args
}

// resolve makes a plan of a Dockerfile that must be right.
func resolve(t *testing.T, text string, opts ResolveOptions) *Plan {
	t.Helper()
	if opts.BuildPlatform == (image.Platform{}) {
		opts.BuildPlatform = image.Platform{OS: "linux", Architecture: "amd64"}
	}
	p, err := parse(t, text).Resolve(opts)
	if err != nil {
		t.Fatalf("Resolve(%q): %v", text, err)
	}
	return p
}

func (o Origin) text() string {
	switch {
	case o.Stage != nil:
		return "stage " + string(rune('0'+o.Stage.Index))
	case o.Image != "":
		return o.Image
	}
	return "nothing"
}

func TestResolveFrom(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		args       []string
		want       string // of each stage: what it is built on, @platform
	}{
		{"image", "FROM a:1", nil, "a:1"},
		{"scratch", "FROM scratch", nil, "nothing"},
		{"stage", "FROM a AS One\nFROM ONE", nil, "a, stage 0"},
		{"nearest stage", "FROM a AS x\nFROM b AS x\nFROM x AS x\nFROM x", nil, "a, b, stage 1, stage 2"},
		{"own name is an image's", "FROM busybox AS busybox\nFROM busybox", nil, "busybox, stage 0"},
		{"later name is an image's", "FROM b AS a\nFROM a AS b", nil, "b, stage 0"},
		{"number is an image's", "FROM a\nFROM 0", nil, "a, 0"},
		{"default", "ARG V=1\nFROM a:$V", nil, "a:1"},
		{"argument", "ARG V=1\nFROM a:${V}", []string{"V=2"}, "a:2"},
		{"argument without a value", "ARG V=1\nFROM a:${V}", []string{"V"}, "a:1"},
		{"no default", "ARG V\nFROM a:${V:-3}", nil, "a:3"},
		{"argument of an argument", "ARG A=1\nARG B=${A}2\nFROM a:$B", nil, "a:12"},
		{"several in one", "ARG A=1 B=2\nFROM a:$A$B", []string{"B=3"}, "a:13"},
		{"argument twice", "ARG A=1\nARG A=${A}2\nFROM a:$A", nil, "a:12"},
		{"not declared", "FROM a:${V:-3}", []string{"V=2"}, "a:3"},
		{"all of it", "ARG BASE=scratch\nFROM $BASE", nil, "nothing"},
		{"a stage by argument", "ARG W=x\nFROM a AS x\nFROM b AS y\nFROM $W", []string{"W=y"}, "a, b, stage 1"},
		{"stage arguments are not global", "FROM a AS x\nARG V=1\nFROM b:${V:-2}", nil, "a, b:2"},
		{"patterns", "ARG V=v1.2.3\nFROM a:${V#v} AS x\nFROM a:${V%%.*}\nFROM a:${V//./-}\nFROM a:${V/./-}", nil, "a:1.2.3, a:v1, a:v1-2-3, a:v1-2.3"},
		{"platform", "FROM --platform=linux/arm64 a", nil, "a@linux/arm64"},
		{"platform in other words", "ARG P\nFROM --platform=$P a\nFROM --platform=linux/x86_64 b", []string{"P=aarch64"}, "a@linux/arm64, b"},
		{"another system, not needed", "FROM --platform=windows/amd64 a\nFROM b", nil, "a@windows/amd64, b"},
		{"its parts", "FROM a:$TARGETOS-$TARGETARCH-$TARGETVARIANT-$BUILDARCH", nil, "a:linux-amd64--amd64"},
		{"a part given", "FROM a:$TARGETARCH", []string{"TARGETARCH=riscv64"}, "a:riscv64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := resolve(t, tc.text+"\n", ResolveOptions{Args: given(tc.args...)})
			var got []string
			for _, stage := range p.File.Stages {
				text := p.Base(stage).text()
				if platform := p.Platform(stage).String(); platform != "linux/amd64" {
					text += "@" + platform
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != tc.want {
				t.Errorf("Resolve(%q, %q): %s, want %s", tc.text, tc.args, got, tc.want)
			}
		})
	}
}

func TestResolvePlatform(t *testing.T) {
	p := resolve(t, "FROM --platform=$BUILDPLATFORM a\nFROM b:$TARGETARCH-$TARGETVARIANT\n", ResolveOptions{
		Platform: image.Platform{OS: "linux", Architecture: "arm", Variant: "v7"},
	})
	if got := p.Platform(p.File.Stages[0]).String(); got != "linux/amd64" {
		t.Errorf("platform of the first = %q", got)
	}
	if got := p.Platform(p.File.Stages[1]).String(); got != "linux/arm/v7" {
		t.Errorf("platform of the second = %q", got)
	}
	if got := p.Base(p.File.Stages[1]).Image; got != "b:arm-v7" {
		t.Errorf("base of the second = %q", got)
	}
}

func TestResolveNeeded(t *testing.T) {
	const text = "ARG V=1\n" + // stages below: 0 alone, 1 on 0, 2 copies of 1 by name, 3 of 0 by number, 4 mounts 3, 5 alone
		"FROM a AS a\nFROM a AS b\nRUN x\nFROM c AS c\nCOPY --from=B /x /y\nCOPY --from=img:1 /x /y\n" +
		"FROM d AS d\nCOPY --from=0 /x /y\nFROM e AS e\nRUN --mount=type=bind,from=d,target=/x y\n" +
		"RUN --mount=type=cache,target=/x --mount=from=2,target=/z y\nFROM f\nRUN x\nRUN y\n"
	for _, tc := range []struct {
		target string
		want   []int
		steps  int
	}{
		{"", []int{5}, 4},
		{"a", []int{0}, 2},
		{"B", []int{0, 1}, 4},
		{"c", []int{0, 1, 2}, 7},
		{"3", []int{0, 3}, 4},
		{"e", []int{0, 1, 2, 3, 4}, 12},
	} {
		p := resolve(t, text, ResolveOptions{Target: tc.target})
		got := make([]int, 0, len(tc.want))
		for _, stage := range p.Needed() {
			got = append(got, stage.Index)
		}
		if !slices.Equal(got, tc.want) || p.Steps() != tc.steps {
			t.Errorf("target %q needs %v, %d steps; want %v, %d", tc.target, got, p.Steps(), tc.want, tc.steps)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		opts       ResolveOptions
		want       string
	}{
		{"target", "FROM a\n", ResolveOptions{Target: "x"}, "failed to reach build target x in Dockerfile"},
		{"target by number", "FROM a\n", ResolveOptions{Target: "1"}, "failed to reach build target 1 in Dockerfile"},
		{"blank", "ARG A\nFROM $A\n", ResolveOptions{}, "dockerfile parse error line 2: base name ($A) should not be blank\n   2 | FROM $A"},
		{"bad name", "FROM A//b\n", ResolveOptions{}, "dockerfile parse error line 1: invalid reference format"},
		{"bad variable", "FROM ${A\n", ResolveOptions{}, "dockerfile parse error line 1: failed to process"},
		{"missing argument", "ARG A\nFROM ${A:?which}\n", ResolveOptions{}, `dockerfile parse error line 2: failed to process "${A:?which}": A: which`},
		{"bad default", "ARG A=${B\nFROM a\n", ResolveOptions{}, "dockerfile parse error line 1: failed to process"},
		{"platform", "FROM --platform=$A a\n", ResolveOptions{}, "dockerfile parse error line 1: empty platform value from expression $A"},
		{"bad platform", "FROM --platform=a/b/c/d a\n", ResolveOptions{}, "dockerfile parse error line 1: failed to parse platform a/b/c/d"},
		{
			"another system", "FROM --platform=windows/amd64 a\n",
			ResolveOptions{},
			"dockerfile parse error line 1: image operating system \"windows\" cannot be used",
		},
		{"later", "FROM a\nCOPY --from=x a b\nFROM b AS x\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value x: the stage needs to be defined before\n   2 | COPY --from=x a b"},
		{"later, by number", "FROM a\nCOPY --from=1 a b\nFROM b\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value 1: the stage needs to be defined before"},
		{"itself", "FROM a AS x\nCOPY --from=X a b\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value X: refers to current build stage"},
		{"itself, by number", "FROM a\nCOPY --from=0 a b\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value 0: refers to current build stage"},
		{"out of range", "FROM a\nCOPY --from=7 a b\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value 7: index out of bounds"},
		{"bad image", "FROM a\nCOPY --from=A//b a b\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value A//b: invalid reference format"},
		{"variable", "FROM a\nCOPY --from=$X a b\n", ResolveOptions{}, "dockerfile parse error line 2: variable expansion is not supported for --from"},
		{"mount", "FROM a\nRUN --mount=from=x,target=/y z\nFROM b AS x\n", ResolveOptions{}, "dockerfile parse error line 2: invalid from flag value x: the stage"},
		{"epoch", "FROM a\n", ResolveOptions{Args: given("SOURCE_DATE_EPOCH=now")}, `invalid SOURCE_DATE_EPOCH: "now" is not a number`},
		{"argument", "FROM a\n", ResolveOptions{Args: given("X=\xff")}, "build argument X is not text"},
		{"lint", "# check=error=true\nARG A\nFROM a${A}x$B\n", ResolveOptions{}, "lint violation found for rules: UndefinedArgInFrom\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(t, tc.text).Resolve(tc.opts)
			if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Resolve(%q) = %v, want an invalid fault %q", tc.text, err, tc.want)
			}
		})
	}
}

func TestResolveUnsupported(t *testing.T) {
	for _, tc := range []struct{ run, want string }{
		{"--network=host x", "dockerfile line 3: RUN --network=host is not supported"},
		{"--security=insecure x", "dockerfile line 3: RUN --security=insecure is not supported"},
		{"--device=vendor.test/gpu x", "dockerfile line 3: RUN --device=vendor.test/gpu is not supported"},
	} {
		text := "FROM a AS one\nFROM b AS two\nRUN " + tc.run + "\n"
		_, err := parse(t, text).Resolve(ResolveOptions{})
		if !fault.Is(err, fault.Unsupported) || !strings.HasPrefix(err.Error(), tc.want) || !strings.HasSuffix(err.Error(), "\n   3 | RUN "+tc.run) {
			t.Errorf("Resolve(%q) = %v, want an unsupported fault %q", text, err, tc.want)
		}
		if _, err := parse(t, text).Resolve(ResolveOptions{Target: "one"}); err != nil {
			t.Errorf("a stage that is not needed: %v", err)
		}
		p := resolve(t, "FROM a\n", ResolveOptions{})
		if _, err := p.Triggers(p.Target, []string{"RUN " + tc.run}); !fault.Is(err, fault.Unsupported) {
			t.Errorf("trigger RUN %s: %v, want an unsupported fault", tc.run, err)
		}
	}
}

func TestResolveWarnings(t *testing.T) {
	for _, tc := range []struct {
		text string
		args []string
		want []string
	}{
		{"ARG A=1\nFROM a$A AS x\nFROM --platform=$TARGETPLATFORM b$C\n", nil, []string{
			"UndefinedArgInFrom: FROM argument 'C' is not declared (did you mean A?) (line 3)",
			"RedundantTargetPlatform: Setting platform to predefined $TARGETPLATFORM in FROM is redundant as this is the default behavior (line 3)",
		}},
		{"ARG BASE\nFROM $BASE\n", []string{"BASE=a"}, []string{
			"InvalidDefaultArgInFrom: Default value for ARG $BASE results in empty or invalid base image name (line 2)",
		}},
		{"FROM --platform=linux/arm64 a AS x\nFROM --platform=linux/arm64 a AS x-arm64\n", nil, []string{
			`FromPlatformFlagConstDisallowed: FROM --platform flag should not use constant value "linux/arm64" (line 1)`,
		}},
	} {
		got := texts(resolve(t, tc.text, ResolveOptions{Args: given(tc.args...)}).Warnings())
		if !slices.Equal(got, tc.want) {
			t.Errorf("warnings of %q:\n%s\nwant\n%s", tc.text, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

func TestUnconsumed(t *testing.T) {
	const text = "ARG G\nFROM a AS one\nARG A\nFROM b AS two\nARG B\n"
	args := given("A=1", "B", "C=3", "D", "G=1", "http_proxy=x", "TARGETARCH=y", "BUILDKIT_SYNTAX=z", "BUILDKIT_SANDBOX_HOSTNAME=h", "BUILDKIT_INLINE_CACHE=1")
	p := resolve(t, text, ResolveOptions{Args: args})
	if got, want := p.Unconsumed(), []string{"A", "BUILDKIT_INLINE_CACHE", "C", "D"}; !slices.Equal(got, want) {
		t.Errorf("Unconsumed() = %q, want %q", got, want)
	}
	if got := p.Hostname(); got != "h" {
		t.Errorf("Hostname() = %q", got)
	}
	if _, err := p.Triggers(p.Target, []string{"ARG C"}); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Unconsumed(), []string{"A", "BUILDKIT_INLINE_CACHE", "D"}; !slices.Equal(got, want) {
		t.Errorf("Unconsumed() after a trigger = %q, want %q", got, want)
	}
}

func TestEpoch(t *testing.T) {
	for _, tc := range []struct {
		text string
		args []string
		want int64 // -1: none
	}{
		{"FROM a\n", nil, -1},
		{"FROM a\n", []string{"SOURCE_DATE_EPOCH=12"}, 12},
		{"ARG SOURCE_DATE_EPOCH=34\nFROM a\n", nil, 34},
		{"ARG SOURCE_DATE_EPOCH=34\nFROM a\n", []string{"SOURCE_DATE_EPOCH=12"}, 12},
		{"ARG SOURCE_DATE_EPOCH=34\nFROM a\n", []string{"SOURCE_DATE_EPOCH="}, -1},
		{"ARG SOURCE_DATE_EPOCH\nFROM a\n", []string{"SOURCE_DATE_EPOCH"}, -1},
	} {
		got, ok := resolve(t, tc.text, ResolveOptions{Args: given(tc.args...)}).Epoch()
		if ok != (tc.want >= 0) || ok && got.Unix() != tc.want {
			t.Errorf("Epoch() of %q with %q = %v, %v; want %d", tc.text, tc.args, got, ok, tc.want)
		}
	}
}

func TestTriggers(t *testing.T) {
	p := resolve(t, "FROM a AS one\nFROM b\nRUN x\n", ResolveOptions{})
	cmds, err := p.Triggers(p.Target, []string{"RUN  x y", "copy --from=one /a /b", "ENV A=$B", "RUN <<EOF\nhi\nEOF"})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(cmds))
	for _, cmd := range cmds {
		got = append(got, Text(cmd))
	}
	if want := []string{"RUN  x y", "copy --from=one /a /b", "ENV A=$B", "RUN <<EOF"}; !slices.Equal(got, want) {
		t.Errorf("triggers = %q, want %q", got, want)
	}
	stages, err := p.Needs(p.Target, cmds[1])
	if err != nil || len(stages) != 1 || stages[0].Name != "one" {
		t.Errorf("Needs(%s) = %v, %v", got[1], stages, err)
	}
	for _, tc := range []struct{ text, want string }{
		{"FROM x", "FROM isn't allowed as an ONBUILD trigger"},
		{"maintainer x", "MAINTAINER isn't allowed as an ONBUILD trigger"},
		{"ONBUILD RUN x", "Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed"},
		{"FOO", "unknown instruction: FOO"},
		{"", "file with no instructions"},
		{"RUN a\nRUN b", "onbuild trigger should be a single expression"},
		{"RUN \x00", "the line is not text"},
		{"RUN \xff", "it is not text"},
		{"COPY --from=7 a b", "invalid from flag value 7"},
		{strings.Repeat("#\n", maxFile), "the instruction has 2097152 bytes"},
	} {
		_, err := p.Triggers(p.Target, []string{tc.text})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "dockerfile parse error line 2: ") {
			t.Errorf("Triggers(%.40q) = %.300v, want an invalid fault with %q", tc.text, err, tc.want)
		}
	}
}

func TestLabels(t *testing.T) {
	s, _ := Begin(configOf(t, ""), "")
	got := make([]string, 0, 4)
	for _, cmd := range Labels(map[string]string{"b": "$X y", "a": `"1"`}) {
		scope := resolve(t, "FROM a\n", ResolveOptions{}).Scope(nil, nil)
		if _, err := scope.Expand(cmd, s.Config); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = s.Edit(cmd); err != nil {
			t.Fatal(err)
		}
		got = append(got, Text(cmd), s.Describe(cmd))
	}
	want := []string{`LABEL a="1"`, `/bin/sh -c #(nop)  LABEL a="1"`, "LABEL b=$X y", "/bin/sh -c #(nop)  LABEL b=$X y"}
	if !slices.Equal(got, want) {
		t.Errorf("Labels: %q, want %q", got, want)
	}
	if want := map[string]string{"a": `"1"`, "b": "$X y"}; !maps.Equal(s.Config.Labels, want) {
		t.Errorf("labels = %q, want %q", s.Config.Labels, want)
	}
}
