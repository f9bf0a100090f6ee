package dockerfile

import (
	"encoding/json"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes []string
		want    string
	}{
		{"none", nil, `{}`},
		{"cmd json", []string{`CMD ["sh", "-c", "a b"]`}, `{"Cmd":["sh","-c","a b"]}`},
		{"cmd shell", []string{`cmd echo  "a b"`}, `{"Cmd":["/bin/sh","-c","echo  \"a b\""]}`},
		{"cmd not quite json", []string{`CMD [ "a", b ]`}, `{"Cmd":["/bin/sh","-c","[ \"a\", b ]"]}`},
		{"entrypoint drops cmd", []string{`ENTRYPOINT ["/x"]`}, `{"Entrypoint":["/x"]}`},
		{"entrypoint keeps its cmd", []string{"CMD a", `ENTRYPOINT ["/x"]`}, `{"Entrypoint":["/x"],"Cmd":["/bin/sh","-c","a"]}`},
		{"own shell", []string{`SHELL ["/bin/bash","-lc"]`, "CMD x"}, `{"Cmd":["/bin/bash","-lc","x"],"Shell":["/bin/bash","-lc"]}`},
		{"env pairs", []string{`ENV A=1 B="two words" C=a\ b D='$A' E=$A-${B}`}, `{"Env":["A=1","B=two words","C=a b","D=$A","E=-"]}`},
		{"env old form", []string{`ENV A  one two`}, `{"Env":["A=one two"]}`},
		{"env sees what was set", []string{"ENV A=1", "ENV B=${A}2 C=${X:-def} D=${A:+yes} E=${X:+no}"}, `{"Env":["A=1","B=12","C=def","D=yes","E="]}`},
		{"env again", []string{"ENV A=1 B=2", "ENV A=3"}, `{"Env":["A=3","B=2"]}`},
		{"label", []string{`LABEL a.b=c "d e"="f g" h=`}, `{"Labels":{"a.b":"c","d e":"f g","h":""}}`},
		{"expose", []string{"EXPOSE 80 53/udp 8000-8002"}, `{"ExposedPorts":{"53/udp":{},"80/tcp":{},"8000/tcp":{},"8001/tcp":{},"8002/tcp":{}}}`},
		{"user", []string{"USER 1000:1000"}, `{"User":"1000:1000"}`},
		{"workdir", []string{"WORKDIR /a/../b", "WORKDIR c"}, `{"WorkingDir":"/b/c"}`},
		{"volume", []string{`VOLUME ["/a b"]`, "VOLUME /c /d"}, `{"Volumes":{"/a b":{},"/c":{},"/d":{}}}`},
		{"stopsignal", []string{"STOPSIGNAL SIGRTMIN+3"}, `{"StopSignal":"SIGRTMIN+3"}`},
		{"onbuild", []string{"ONBUILD RUN  x y"}, `{"OnBuild":["RUN  x y"]}`},
		{
			"healthcheck",
			[]string{"HEALTHCHECK --interval=5s --retries=3 CMD curl -f /"},
			`{"Healthcheck":{"Test":["CMD-SHELL","curl -f /"],"Interval":5000000000,"Retries":3}}`,
		},
		{"healthcheck exec", []string{`HEALTHCHECK CMD ["a"]`}, `{"Healthcheck":{"Test":["CMD","a"]}}`},
		{"healthcheck none", []string{"HEALTHCHECK NONE"}, `{"Healthcheck":{"Test":["NONE"]}}`},
		{"lines", []string{"# a comment\nUSER u\n\nWORKDIR /w\n"}, `{"User":"u","WorkingDir":"/w"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := Apply(image.Config{}, tc.changes)
			if err != nil {
				t.Fatalf("Apply(%q): %v", tc.changes, err)
			}
			got, err := json.Marshal(c)
			if err != nil || string(got) != tc.want {
				t.Errorf("Apply(%q) = %s, want %s", tc.changes, got, tc.want)
			}
		})
	}
}

func TestApplyLeavesTheOldConfig(t *testing.T) {
	for _, tc := range []struct {
		changes []string
		want    string
	}{
		{[]string{"USER x"}, "A=1 B=2 C=3"},
		{[]string{"ENV D=4 B=$A", "ENV C=5"}, "D=4 B=1 C=5 A=1"},
		{[]string{"ENV B=7", "ENV A=$B B=8"}, "B=8 A=7 C=3"},
	} {
		c, err := Apply(image.Config{Env: []string{"A=1", "B=2", "C=3"}}, tc.changes)
		if got := strings.Join(c.Env, " "); err != nil || got != tc.want {
			t.Errorf("Apply(%q) gives the environment %s, %v, want %s", tc.changes, got, err, tc.want)
		}
	}
	old := image.Config{Env: []string{"A=1"}, Cmd: []string{"x"}, Labels: map[string]string{"a": "1"}}
	c, err := Apply(old, []string{"ENV A=2", "LABEL a=2", `ENTRYPOINT ["e"]`})
	if err != nil {
		t.Fatal(err)
	}
	if old.Env[0] != "A=1" || old.Labels["a"] != "1" || len(old.Cmd) != 1 {
		t.Errorf("Apply changed the config: %+v", old)
	}
	if c.Env[0] != "A=2" || c.Labels["a"] != "2" || c.Cmd != nil {
		t.Errorf("Apply = %+v", c)
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, tc := range []struct{ change, want string }{
		{"RUN x", "RUN is not a valid change command"},
		{"FROM x", "FROM is not a valid change command"},
		{"ENV", "ENV requires at least one argument"},
		{"ENV A", "ENV must have two arguments"},
		{"ENV A=1 B", "ENV: Syntax error - can't find = in \"B\""},
		{"ENV =1", "ENV names can not be blank"},
		{`ENV A="x`, `ENV: failed to process "\"x": unexpected end of statement`},
		{`ENV A=${X`, `ENV: failed to process "${X": unsupported modifier`},
		{"EXPOSE 0", "EXPOSE: invalid containerPort"},
		{"EXPOSE 80/icmp", "EXPOSE: invalid proto"},
		{"EXPOSE 9-8", "EXPOSE: invalid containerPort"},
		{"USER a b", "USER requires exactly one argument"},
		{"STOPSIGNAL 99", "STOPSIGNAL: invalid signal"},
		{"STOPSIGNAL BOGUS", "STOPSIGNAL: invalid signal"},
		{"STOPSIGNAL RTMIN+31", "STOPSIGNAL: invalid signal"},
		{"STOPSIGNAL RTMAX+1", "STOPSIGNAL: invalid signal"},
		{"SHELL /bin/sh", "SHELL requires the arguments to be in JSON form"},
		{"ONBUILD onbuild RUN x", "ONBUILD: Chaining ONBUILD"},
		{"ONBUILD from x", "ONBUILD: FROM isn't allowed"},
		{"HEALTHCHECK --start-interval=1us CMD x", `HEALTHCHECK: Interval "start-interval" cannot be less than 1ms`},
		{"HEALTHCHECK --every=3s CMD x", "HEALTHCHECK: unknown flag"},
		{"HEALTHCHECK --interval=1us CMD x", `HEALTHCHECK: Interval "interval" cannot be less than 1ms`},
		{"HEALTHCHECK CMD", "HEALTHCHECK: Missing command"},
		{"HEALTHCHECK TRY x", `HEALTHCHECK: Unknown type "TRY"`},
		{"CMD " + strings.Repeat("x", maxChange), "a change has"},
	} {
		_, err := Apply(image.Config{}, []string{tc.change})
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("Apply(%.40q) = %v, want an invalid fault %q", tc.change, err, tc.want)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, s := range []string{
		`ENV A=1 B="$A" C=${A:-${B:+x}}`, `CMD ["a"]`, "HEALTHCHECK --interval=1s CMD x", "EXPOSE 1-65535/udp", `LABEL "a=`,
		"ENV \x89\x89 0", "VOLUME [\"\"]", "ONBUILD \\", "WORKDIR ../..", "STOPSIGNAL SIG",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, change string) {
		c, err := Apply(image.Config{Env: []string{"A=x"}}, []string{change})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("Apply(%q): %v is no invalid fault", change, err)
			}
			return
		}
		for _, entry := range c.Env {
			if key, _, ok := strings.Cut(entry, "="); !ok || key == "" {
				t.Errorf("Apply(%q) made the variable %q", change, entry)
			}
		}
		if c.WorkingDir != "" && !strings.HasPrefix(c.WorkingDir, "/") {
			t.Errorf("Apply(%q) made the folder %q", change, c.WorkingDir)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	})
}
