package dockerfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/fault"
)

// last returns what the history says of the last instruction.
func (s stage) last() string { return s.history[len(s.history)-1] }

func TestExpand(t *testing.T) {
	for _, tc := range []struct {
		name, base, text string
		args             []string
		want             string // value of ENV V
	}{
		{"env", "", "ENV A=1\nENV V=$A", nil, "1"},
		{"env of the image", `{"Env":["A=1"]}`, "ENV V=${A}", nil, "1"},
		{"last of the image", `{"Env":["A=1","A=2"]}`, "ENV V=${A}", nil, "2"},
		{"nothing", "", "ENV V=x${A}y", nil, "xy"},
		{"default", "", "ARG A=1\nENV V=$A", nil, "1"},
		{"given", "", "ARG A=1\nENV V=$A", []string{"A=2"}, "2"},
		{"given empty", "", "ARG A=1\nENV V=x$A", []string{"A="}, "x"},
		{"given without a value", "", "ARG A=1\nENV V=$A", []string{"A"}, "1"},
		{"given, not declared", "", "ENV V=x$A", []string{"A=2"}, "x"},
		{"declared later", "", "ENV V=x$A\nARG A", []string{"A=2"}, "x"},
		{"env wins", "", "ARG A=1\nENV A=2\nENV V=$A", []string{"A=3"}, "2"},
		{"env wins over a later arg", "", "ENV A=2\nARG A=1\nENV V=$A", []string{"A=3"}, "2"},
		{"arg of an arg", "", "ARG A=1\nARG B=${A}2\nENV V=$B", nil, "12"},
		{"arg of an arg in one", "", "ARG A=1 B=${A}2\nENV V=$B", nil, "12"},
		{"arg again", "", "ARG A=1\nARG A=2\nENV V=$A", nil, "2"},
		{"proxy", "", "ENV V=$http_proxy", []string{"http_proxy=p"}, "p"},
		{"platform, not declared", "", "ENV V=x$TARGETARCH", nil, "x"},
		{"platform", "", "ARG TARGETARCH\nENV V=$TARGETARCH", nil, "amd64"},
		{"platform with a default", "", "ARG TARGETARCH=mine\nENV V=$TARGETARCH", nil, "mine"},
		{"or", "", "ENV V=${A:-b}${A-c}", nil, "bc"},
		{"and", "", "ENV A=1\nENV V=${A:+b}${B:+c}", nil, "b"},
		{"prefix", "", "ENV A=foo.tar.gz\nENV V=${A#*.}-${A##*.}-${A%.*}-${A%%.*}", nil, "tar.gz-gz-foo.tar-foo"},
		{"replace", "", "ENV A=a/b/c\nENV V=${A/b/x}-${A//\\//:}", nil, "a/x/c-a:b:c"},
		{"quotes", "", `ENV V="a  '$X' \"b\"" `, nil, `a  '' "b"`},
		{"single quotes", "", `ENV V='$X'`, nil, "$X"},
		{"escaped", "", `ENV V=\$X`, nil, "$X"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := build(t, tc.base, "FROM base\n"+tc.text+"\n", tc.args...)
			got := s.state.Config.Env[len(s.state.Config.Env)-1]
			if got != "V="+tc.want {
				t.Errorf("%q with %q: %s, want V=%s", tc.text, tc.args, got, tc.want)
			}
		})
	}
}

func TestExpandEscape(t *testing.T) {
	s := build(t, "", "# escape=`\nFROM a\nENV V=`$X\\y\n")
	if got := s.state.Config.Env[1]; got != `V=$X\y` {
		t.Errorf("Env = %q", got)
	}
}

func TestGlobalArgs(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		args       []string
		want       string
	}{
		{"not declared again", "ARG A=1\nFROM a\nENV V=x$A\n", nil, "x"},
		{"declared again", "ARG A=1\nFROM a\nARG A\nENV V=x$A\n", nil, "x1"},
		{"given", "ARG A=1\nFROM a\nARG A\nENV V=x$A\n", []string{"A=2"}, "x2"},
		{"another default", "ARG A=1\nFROM a\nARG A=3\nENV V=x$A\n", nil, "x3"},
		{"of a global", "ARG A=1\nARG B=${A}2\nFROM a\nARG B\nENV V=x$B\n", nil, "x12"},
		{"of another stage", "FROM a\nARG A=1\nFROM b\nENV V=x$A\n", nil, "x"},
		{"of the stage below", "FROM a AS b\nARG A=1\nFROM b\nENV V=x$A\n", nil, "x1"},
		{"env of the stage below", "FROM a AS b\nENV A=1\nFROM b\nENV V=x$A\n", nil, "x1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := build(t, "", tc.text, tc.args...)
			if got := s.state.Config.Env[len(s.state.Config.Env)-1]; got != "V="+tc.want {
				t.Errorf("%q with %q: %s, want V=%s", tc.text, tc.args, got, tc.want)
			}
		})
	}
}

func TestExpandFields(t *testing.T) {
	p := resolve(t, `FROM base
COPY --chown=$A:$A --chmod=$A $A/x $A/y
ADD --checksum=$A $A $A/
COPY <<X <<"Y" /z/
$A "$A" \$A
X
$A
Y
RUN --mount=type=cache,target=/$A,id=$A,uid=$A --mount=type=bind,from=img:1,source=$A,target=/b,rw echo $A
`, ResolveOptions{})
	scope := p.Scope(p.Target, nil)
	c := configOf(t, `{"Env":["A=7"]}`)
	cmds := p.Target.Commands
	for _, cmd := range cmds {
		if _, err := scope.Expand(cmd, c); err != nil {
			t.Fatal(err)
		}
	}
	cp, ok := cmds[0].(*instructions.CopyCommand)
	if !ok || cp.Chown != "7:7" || cp.Chmod != "7" || cp.DestPath != "7/y" || !slices.Equal(cp.SourcePaths, []string{"7/x"}) {
		t.Errorf("COPY = %+v", cmds[0])
	}
	add, ok := cmds[1].(*instructions.AddCommand)
	if !ok || add.Checksum != "7" || add.DestPath != "7/" || !slices.Equal(add.SourcePaths, []string{"7"}) {
		t.Errorf("ADD = %+v", cmds[1])
	}
	doc, ok := cmds[2].(*instructions.CopyCommand)
	want := []instructions.SourceContent{{Path: "X", Data: "7 \"7\" $A\n", Expand: true}, {Path: "Y", Data: "$A\n"}}
	if !ok || !slices.Equal(doc.SourceContents, want) {
		t.Errorf("COPY <<X = %+v, want %+v", doc.SourceContents, want)
	}
	run, ok := cmds[3].(*instructions.RunCommand)
	if !ok {
		t.Fatalf("RUN = %+v", cmds[3])
	}
	r, err := State{Config: c}.Run(run)
	if err != nil {
		t.Fatal(err)
	}
	const flags = "--mount=type=cache,id=7,target=/7,uid=7 --mount=type=bind,from=img:1,source=7,target=/b,rw"
	if r.Flags != flags || strings.Join(r.Args, "|") != "/bin/sh|-c|echo $A" || len(r.Mounts) != 2 || r.Mounts[0].Target != "/7" {
		t.Errorf("Run = %+v", r)
	}
}

func TestRunEnvironment(t *testing.T) {
	const text = "FROM base\nARG B=2\nARG A\nARG E=5\nARG N\nENV E=6\nARG https_proxy\nRUN x\n"
	s := build(t, `{"Env":["PATH=/p"]}`, text, "A=1", "http_proxy=p", "https_proxy=q", "C=3")
	if got, want := s.last(), "|3 A=1 B=2 https_proxy=q /bin/sh -c x"; got != want {
		t.Errorf("history = %q, want %q", got, want)
	}
	want := []string{"PATH=/p", "E=6", "B=2", "A=1", "https_proxy=q", "http_proxy=p"}
	if got := s.scope.Environ(s.state.Config); !slices.Equal(got, want) {
		t.Errorf("Environ() = %q, want %q", got, want)
	}
	s = build(t, "", "FROM base\nRUN x\n", "http_proxy=p")
	if got, want := s.last(), "/bin/sh -c x"; got != want {
		t.Errorf("history with a proxy = %q, want %q", got, want)
	}
}

func TestExpandRefuses(t *testing.T) {
	big := "ENV A=" + strings.Repeat("x", 60_000) + "\n"
	for _, tc := range []struct{ text, want string }{
		{"ENV V=${A", `dockerfile parse error line 2: failed to process "${A": `},
		{"ENV V=\"a", "dockerfile parse error line 2: failed to process"},
		{"ENV V=${A!b}", "dockerfile parse error line 2: failed to process \"${A!b}\": unsupported modifier (!) in substitution\n   2 | ENV V=${A!b}"},
		{"WORKDIR ${A:?need it}", `dockerfile parse error line 2: failed to process "${A:?need it}": A: need it`},
		{"ARG A=${B", "dockerfile parse error line 2: failed to process"},
		{"EXPOSE \"1", "dockerfile parse error line 2: failed to process"},
		{"COPY <<E /\n${x\nE", "dockerfile parse error line 2: failed to process"},
		{"COPY <<E /\n\xff$x\nE", "dockerfile parse error line 2: \"\\xff$x\\n\" is not text"},
		{"RUN --mount=type=$A x", `dockerfile parse error line 2: unsupported mount type ""`},
		{"RUN --mount=type=bind,mode=${X:-7},target=/x y", "dockerfile parse error line 2: mode not allowed"},
		{big + "ENV V=" + strings.Repeat("$A", 20), "dockerfile parse error line 3: a word grows beyond 1048576 bytes"},
		{big + "LABEL V=" + strings.Repeat("${Z:-$A}", 20), "dockerfile parse error line 3: a word grows beyond 1048576 bytes"},
		{big + "EXPOSE " + strings.Repeat("$A", 20), "dockerfile parse error line 3: a word grows beyond 1048576 bytes"},
		{big + "ENV V=${A//x/yy}", "dockerfile parse error line 3: a word grows beyond"},
		{big + strings.Repeat("ARG V=$A$A$A$A$A$A$A$A$A$A\n", 115), "dockerfile parse error line 114: variables add more than 67108864 bytes"},
		{"ENV A=aaaa\nENV V=${A//a/${A//a/$A}}", "dockerfile parse error line 3: replacements within replacements"},
		{"ENV A=aaaa\nENV V=${A//a/'}'${A//a/$A}}", "dockerfile parse error line 3: replacements within replacements"},
		{big + "ENV V=${A#x}", "dockerfile parse error line 3: a word grows beyond"},
		{"ENV V=${A%" + strings.Repeat("b", maxMatched) + "}", "dockerfile parse error line 2: a word with patterns has more than 16384 bytes"},
		{"ENV V=${A//a/" + strings.Repeat("b", maxReplaced) + "}", "dockerfile parse error line 2: a word with replacements has more than 8192 bytes"},
	} {
		_, err := tryBuild(t, "", "FROM a\n"+tc.text+"\n")
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%.60q = %.300v, want an invalid fault %q", tc.text, err, tc.want)
		}
	}
	s := build(t, "", "FROM a\nENV A=a.b\nENV V=${A//./-}${A//b/c}${X:-${A//a/b}}\n")
	if got := s.state.Config.Env[2]; got != "V=a-ba.cb.b" {
		t.Errorf("replacements side by side = %q", got)
	}
}

func TestExpandWarnings(t *testing.T) {
	for _, tc := range []struct {
		name, base, text string
		want             []string
	}{
		{"variable", `{"Env":["FOO=1"]}`, "WORKDIR /$FO/$ZZZZ", []string{
			"UndefinedVar: Usage of undefined variable '$FO' (did you mean $FOO?) (line 2)",
			"UndefinedVar: Usage of undefined variable '$ZZZZ' (line 2)",
		}},
		{"declared without a value", "", "ARG A\nENV V=$A", nil},
		{"in a here-document", "", "COPY <<E /x\n$ZZZZ\nE", []string{"UndefinedVar: Usage of undefined variable '$ZZZZ' (line 2)"}},
		{"in an argument", "", "ARG A=$ZZZZ", []string{"UndefinedVar: Usage of undefined variable '$ZZZZ' (line 2)"}},
		{"not in a command", "", "RUN echo $ZZZZ\nCMD [\"$ZZZZ\"]", nil},
		{"workdir", `{"WorkingDir":"/w"}`, "WORKDIR a\nWORKDIR b", []string{
			`WorkdirRelativePath: Relative workdir "a" can have unexpected results if the base image changes (line 2)`,
		}},
		{"workdir below one of this file", "", "WORKDIR /a\nWORKDIR b", nil},
		{"shell", "", "CMD x\nENTRYPOINT y", []string{
			"JSONArgsRecommended: JSON arguments recommended for CMD to prevent unintended behavior related to OS signals (line 2)",
			"JSONArgsRecommended: JSON arguments recommended for ENTRYPOINT to prevent unintended behavior related to OS signals (line 3)",
		}},
		{"own shell", `{"Shell":["x"]}`, "CMD x", nil},
		{"expose", "", "EXPOSE 80/TCP 8:9", []string{
			"ExposeProtoCasing: Defined protocol '80/TCP' in EXPOSE instruction should be lowercase (line 2)",
			"ExposeInvalidFormat: EXPOSE instruction should not define an IP address or host-port mapping, found '8:9' (line 2)",
		}},
		{"skipped", "", "# check=skip=UndefinedVar\nENV V=$ZZZZ\nENV V=$ZZZZ", []string{"UndefinedVar: Usage of undefined variable '$ZZZZ' (line 4)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := texts(build(t, tc.base, "FROM a\n"+tc.text+"\n").warnings)
			if !slices.Equal(got, tc.want) {
				t.Errorf("warnings of %q:\n%s\nwant\n%s", tc.text, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
	_, err := tryBuild(t, "", "# check=error=true\nFROM a\nENV V=$ZZZZ\n")
	if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "lint violation found for rules: UndefinedVar") {
		t.Errorf("a finding that is to be an error: %v", err)
	}
}

func TestTriggersOfAStage(t *testing.T) {
	s := build(t, "", "FROM a AS one\nONBUILD ENV T=$A\nONBUILD COPY x /y\nENV A=1\nFROM one\nENV B=$T\n")
	want := []string{"/bin/sh -c #(nop)  ENV T=1", "/bin/sh -c #(nop) COPY file:00 in /y ", "/bin/sh -c #(nop)  ENV B=1"}
	if !slices.Equal(s.history, want) {
		t.Errorf("history = %q, want %q", s.history, want)
	}
	if len(s.state.Config.OnBuild) != 0 {
		t.Errorf("OnBuild = %q, want nothing", s.state.Config.OnBuild)
	}
	_, err := tryBuild(t, `{"OnBuild":["WORKDIR ${A:?need it}"]}`, "FROM scratch\n\nFROM a\n")
	if err == nil || !strings.HasPrefix(err.Error(), "dockerfile parse error line 3: failed to process") {
		t.Errorf("a trigger's fault = %v, want it at the FROM", err)
	}
}
