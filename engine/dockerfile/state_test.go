package dockerfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/fault"
	"moss/engine/image"
)

// configOf reads a config from JSON; nothing is the zero Config.
func configOf(t *testing.T, text string) image.Config {
	t.Helper()
	var c image.Config
	if text == "" {
		return c
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

// stage carries all instructions of a file's last stage out, as a build does, and returns what the history says of each.
type stage struct {
	state    State
	scope    *Scope
	history  []string
	warnings []Warning
}

func build(t *testing.T, base, text string, args ...string) stage {
	t.Helper()
	s, err := tryBuild(t, base, text, args...)
	if err != nil {
		t.Fatalf("build of %q: %v", text, err)
	}
	return s
}

func tryBuild(t *testing.T, base, text string, args ...string) (stage, error) {
	t.Helper()
	p := resolve(t, text, ResolveOptions{Args: given(args...)})
	return runStage(p, p.Target, configOf(t, base))
}

// runStage carries a stage out on top of a config, after the stages that it is built on.
func runStage(p *Plan, def *Stage, base image.Config) (stage, error) {
	s := stage{}
	var below *Scope
	author := ""
	if on := p.Base(def).Stage; on != nil {
		other, err := runStage(p, on, base)
		if err != nil {
			return s, err
		}
		base, author, below = other.state.Config, other.state.Author, other.scope
	}
	s.scope = p.Scope(def, below)
	var lines []string
	s.state, lines = Begin(base, author)
	triggers, err := p.Triggers(def, lines)
	if err != nil {
		return s, err
	}
	for _, cmd := range slices.Concat(triggers, def.Commands) {
		if err := s.do(cmd); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *stage) do(cmd instructions.Command) error {
	warnings, err := s.scope.Expand(cmd, s.state.Config)
	if err != nil {
		return err
	}
	s.warnings = append(s.warnings, warnings...)
	switch c := cmd.(type) {
	case *instructions.RunCommand:
		r, err := s.state.Run(c)
		if err != nil {
			return err
		}
		s.history = append(s.history, s.scope.DescribeRun(s.state.Config, r))
	case *instructions.CopyCommand, *instructions.AddCommand:
		s.history = append(s.history, s.state.DescribeCopy(c, "file:00"))
	default:
		if s.state, err = s.state.Edit(cmd); err != nil {
			return err
		}
		s.history = append(s.history, s.state.Describe(cmd))
	}
	return nil
}

func TestEdit(t *testing.T) {
	const path = `"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]`
	for _, tc := range []struct {
		name, base, text string
		config           string // without PATH
		history          string // of the last instruction, after #(nop)
	}{
		{"env", "", `ENV A=1 B="x y" C=a\ b`, `{"Env":["A=1","B=x y","C=a b"]}`, "  ENV A=1 B=x y C=a b"},
		{"env, old form", "", `ENV A  x  y`, `{"Env":["A=x  y"]}`, "  ENV A=x  y"},
		{"env again", `{"Env":["A=1","B=2"]}`, "ENV A=3", `{"Env":["A=3","B=2"]}`, "  ENV A=3"},
		{"env of before", "", "ENV A=1\nENV A=2 B=$A", `{"Env":["A=2","B=1"]}`, "  ENV A=2 B=1"},
		{"label", `{"Labels":{"a":"0","z":"9"}}`, `LABEL a=1 "b c"='$X'`, `{"Labels":{"a":"1","b c":"$X","z":"9"}}`, "  LABEL a=1 b c=$X"},
		{"cmd", "", `CMD ["a", "b c"]`, `{"Cmd":["a","b c"]}`, `  CMD ["a" "b c"]`},
		{"cmd for the shell", "", `CMD a  "b"`, `{"Cmd":["/bin/sh","-c","a  \"b\""]}`, `  CMD ["/bin/sh" "-c" "a  \"b\""]`},
		{"cmd is not expanded", "", "ENV A=1\nCMD echo $A", `{"Env":["A=1"],"Cmd":["/bin/sh","-c","echo $A"]}`, `  CMD ["/bin/sh" "-c" "echo $A"]`},
		{"no cmd", `{"Cmd":["x"]}`, "CMD []", "{}", "  CMD []"},
		{"entrypoint", `{"Cmd":["x"]}`, `ENTRYPOINT ["a"]`, `{"Entrypoint":["a"]}`, `  ENTRYPOINT ["a"]`},
		{"entrypoint with its cmd", `{"Cmd":["x"]}`, "CMD [\"y\"]\nENTRYPOINT a", `{"Entrypoint":["/bin/sh","-c","a"],"Cmd":["y"]}`, `  ENTRYPOINT ["/bin/sh" "-c" "a"]`},
		{"no entrypoint", `{"Entrypoint":["x"]}`, "ENTRYPOINT []", "{}", "  ENTRYPOINT []"},
		{"expose", "", "ENV P=\"90 91/udp\"\nEXPOSE 80 7/UDP $P 8000-8001", `{"ExposedPorts":{"7/udp":{},"80/tcp":{},"8000/tcp":{},"8001/tcp":{},"90/tcp":{},"91/udp":{}},"Env":["P=90 91/udp"]}`, "  EXPOSE 90 91/udp 7/UDP 80 8000-8001"},
		{"expose with a host's side", "", "EXPOSE 127.0.0.1:9:80 [::1]::81 5-6:82", `{"ExposedPorts":{"80/tcp":{},"81/tcp":{},"82/tcp":{}}}`, "  EXPOSE 127.0.0.1:9:80 5-6:82 [::1]::81"},
		{"user", "", "ARG U=7\nUSER $U:8", `{"User":"7:8"}`, "  USER 7:8"},
		{"volume", `{"Volumes":{"/z":{}}}`, `VOLUME ["/a b", "/c"]`, `{"Volumes":{"/a b":{},"/c":{},"/z":{}}}`, "  VOLUME [/a b /c]"},
		{"volumes", "", "ENV D=/d\nVOLUME /a $D/e", `{"Env":["D=/d"],"Volumes":{"/a":{},"/d/e":{}}}`, "  VOLUME [/a /d/e]"},
		{"workdir", "", "WORKDIR /a/../b/", `{"WorkingDir":"/b"}`, " WORKDIR /b"},
		{"workdir below", `{"WorkingDir":"/w"}`, "ENV X=x\nWORKDIR ./$X", `{"Env":["X=x"],"WorkingDir":"/w/x"}`, " WORKDIR /w/x"},
		{"workdir above", "", "WORKDIR ../..", `{"WorkingDir":"/"}`, " WORKDIR /"},
		{"stop signal", "", "STOPSIGNAL SIGRTMIN+3", `{"StopSignal":"SIGRTMIN+3"}`, "  STOPSIGNAL SIGRTMIN+3"},
		{"onbuild", "", "ONBUILD RUN  echo $A", `{"OnBuild":["RUN  echo $A"]}`, "  ONBUILD RUN  echo $A"},
		{"onbuild here-document", "", "ONBUILD RUN <<EOF\nx\nEOF", `{"OnBuild":["RUN \u003c\u003cEOF\nx\nEOF"]}`, "  ONBUILD RUN <<EOF\nx\nEOF"},
		{"health check", "", "HEALTHCHECK --interval=5s --timeout=1m --start-period=2s --retries=3 CMD x y", `{"Healthcheck":{"Test":["CMD-SHELL","x y"],"Interval":5000000000,"Timeout":60000000000,"StartPeriod":2000000000,"Retries":3}}`, `  HEALTHCHECK &{["CMD-SHELL" "x y"] "5s" "1m0s" "2s" '\x03'}`},
		{"health check, words", "", `HEALTHCHECK CMD ["x","y"]`, `{"Healthcheck":{"Test":["CMD","x","y"]}}`, `  HEALTHCHECK &{["CMD" "x" "y"] "0s" "0s" "0s" '\x00'}`},
		{"no health check", `{"Healthcheck":{"Test":["CMD","x"]}}`, "HEALTHCHECK NONE", `{"Healthcheck":{"Test":["NONE"]}}`, `  HEALTHCHECK &{["NONE"] "0s" "0s" "0s" '\x00'}`},
		{"shell", "", "SHELL [\"/bin/bash\", \"-ec\"]\nCMD x", `{"Cmd":["/bin/bash","-ec","x"],"Shell":["/bin/bash","-ec"]}`, `  CMD ["/bin/bash" "-ec" "x"]`},
		{"arg", "", "ARG A=1 B C=$A", "{}", "  ARG A=1 B C=$A"},
		{"maintainer", "", "MAINTAINER Me <me@x>", "{}", "  MAINTAINER Me <me@x>"},
		{"copy", "", "COPY a b /x/", "{}", " COPY file:00 in /x/ "},
		{"copy with flags", "", "COPY --chown=1 --link --parents a $X/b", "{}", " COPY --link --parents file:00 in /b "},
		{"add", "", "ADD --unpack=false a /x", "{}", " ADD --unpack=false file:00 in /x "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := build(t, tc.base, "FROM base\n"+tc.text+"\n")
			s.state.Config.Env = slices.DeleteFunc(s.state.Config.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
			got, err := json.Marshal(s.state.Config)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(configOf(t, tc.config))
			if err != nil || string(got) != string(want) {
				t.Errorf("config after %q = %s, want %s", tc.text, got, want)
			}
			shell := "/bin/sh -c"
			if len(s.state.Config.Shell) > 0 {
				shell = strings.Join(s.state.Config.Shell, " ")
			}
			if got, want := s.history[len(s.history)-1], shell+" #(nop)"+tc.history; got != want {
				t.Errorf("history of %q = %q, want %q", tc.text, got, want)
			}
		})
	}
	if got := fmt.Sprintf(`"Env":[%q]`, build(t, "", "FROM scratch\n").state.Config.Env[0]); got != path {
		t.Errorf("a stage on nothing begins with %s, want %s", got, path)
	}
}

func TestEditLeavesTheOldState(t *testing.T) {
	base := configOf(t, `{"Env":["PATH=/p","A=1"],"Labels":{"a":"1"},"OnBuild":["RUN x"],"Volumes":{"/v":{}},"Cmd":["c"]}`)
	before, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	s, triggers := Begin(base, "me")
	if len(triggers) != 1 || s.Config.OnBuild != nil || s.Author != "me" || len(s.Config.Env) != 2 {
		t.Errorf("Begin = %+v, %q", s, triggers)
	}
	for _, cmd := range parse(t, "FROM a\nENV A=2\nLABEL a=2\nVOLUME /w\nENTRYPOINT x\nONBUILD RUN y\nEXPOSE 1\nHEALTHCHECK NONE\nMAINTAINER x\n").Stages[0].Commands {
		next, err := s.Edit(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := json.Marshal(base); err != nil || string(after) != string(before) {
			t.Errorf("%s changed the old config: %s, it was %s", Text(cmd), after, before)
		}
		s = next
	}
	if s.Author != "x" {
		t.Errorf("author = %q", s.Author)
	}
}

func TestEditRefuses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"ENV $X=1", "ENV names can not be blank"},
		{"ENV K=a=b\nENV $K=1", `ENV: "a=b" cannot be a variable`},
		{"LABEL $X=1", "LABEL names can not be blank"},
		{"EXPOSE 0", "EXPOSE: invalid containerPort: 0"},
		{"EXPOSE 70000", "EXPOSE: invalid containerPort: 70000"},
		{"EXPOSE x:80", "EXPOSE: invalid hostPort: x"},
		{"EXPOSE 1.2.3:1:80", "EXPOSE: invalid IP address: 1.2.3"},
		{"EXPOSE 1-65535 1-65535 1-65535 1", "EXPOSE: more than 196605 ports"},
		{"EXPOSE 80/http", `EXPOSE: invalid proto: "http"`},
		{"USER $X", "USER requires exactly one argument"},
		{"VOLUME $X", "VOLUME specified can not be an empty string"},
		{"WORKDIR $X", "WORKDIR: cannot normalize nothing"},
		{"STOPSIGNAL 65", "STOPSIGNAL: invalid signal: 65"},
		{"ENV A=" + strings.Repeat("x", 60_000) + "\n" + strings.Repeat("ENV A=$A$A\n", 4) + "ENV B=$A\nENV C=$A\nENV D=$A\nENV E=$A", "ENV: the image's config grows"},
	} {
		_, err := tryBuild(t, "", "FROM a\n"+tc.text+"\n")
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%.60q = %.200v, want an invalid fault %q", tc.text, err, tc.want)
		}
	}
}

func TestAuthorOfTheStageBelow(t *testing.T) {
	s := build(t, "", "FROM a AS x\nMAINTAINER me\nFROM x\n")
	if s.state.Author != "me" {
		t.Errorf("author = %q", s.state.Author)
	}
}
