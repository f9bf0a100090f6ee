package dockerfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"moss/engine/fault"
)

// runOf makes ready the RUN that is a file's last instruction.
func runOf(t *testing.T, base, text string) (Run, error) {
	t.Helper()
	p := resolve(t, "FROM base\n"+text, ResolveOptions{})
	s, _ := Begin(configOf(t, base), "")
	scope := p.Scope(p.Target, nil)
	for _, cmd := range p.Target.Commands {
		if _, err := scope.Expand(cmd, s.Config); err != nil {
			t.Fatal(err)
		}
		if run, ok := cmd.(*instructions.RunCommand); ok {
			return s.Run(run)
		}
		var err error
		if s, err = s.Edit(cmd); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%q has no RUN", text)
	return Run{}, nil
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name, base, text string
		args             []string
		files            []RunFile
		flags, network   string
	}{
		{"shell", "", "RUN echo  'a b' $X\n", []string{"/bin/sh", "-c", "echo  'a b' $X"}, nil, "", "default"},
		{"words", "", "RUN [\"a\", \"$b c\"]\n", []string{"a", "$b c"}, nil, "", "default"},
		{"nearly words", "", "RUN [ -n x ]\n", []string{"/bin/sh", "-c", "[ -n x ]"}, nil, "", "default"},
		{"own shell", `{"Shell":["/bin/bash","-c"]}`, "RUN x\n", []string{"/bin/bash", "-c", "x"}, nil, "", "default"},
		{"lines", "", "RUN a && \\\n  # note\n  b\n", []string{"/bin/sh", "-c", "a &&   b"}, nil, "", "default"},
		{"no network", "", "RUN --network=none x\n", []string{"/bin/sh", "-c", "x"}, nil, "--network=none", "none"},
		{"default network", "", "RUN --network=default --security=sandbox x\n", []string{"/bin/sh", "-c", "x"}, nil, "", "default"},
		{
			"mounts", "", "RUN --mount=target=/x --mount=type=tmpfs,target=/t,size=1m --mount=type=secret,id=s,required,mode=0400,env=S x\n",
			[]string{"/bin/sh", "-c", "x"},
			nil,
			"--mount=type=bind,target=/x --mount=type=tmpfs,target=/t,size=1048576 --mount=type=secret,id=s,mode=400,env=S,required", "default",
		},
		{
			"cache", "", "RUN --mount=type=cache,target=/c,sharing=locked,ro,gid=1 --mount=type=bind,target=/x,rw=true x\n",
			[]string{"/bin/sh", "-c", "x"},
			nil, "--mount=type=cache,target=/c,sharing=locked,gid=1,ro --mount=type=bind,target=/x,rw", "default",
		},
		{"here-document", "", "RUN <<EOF\necho a\n echo $b\nEOF\n", []string{"/bin/sh", "-c", "echo a\n echo $b\n"}, nil, "", "default"},
		{"here-document without tabs", "", "RUN <<-EOF\n\techo a\n\t\techo b\n\tEOF\n", []string{"/bin/sh", "-c", "echo a\necho b\n"}, nil, "", "default"},
		{
			"script", "", "RUN <<EOF\n#!/usr/bin/env python\nprint(1)\nEOF\n",
			[]string{"/dev/pipes/EOF"},
			[]RunFile{{"/dev/pipes/EOF", "#!/usr/bin/env python\nprint(1)\n"}},
			"", "default",
		},
		{"input", "", "RUN cat <<EOF >/x\na\nEOF\n", []string{"/bin/sh", "-c", "cat <<EOF >/x\na\nEOF"}, nil, "", "default"},
		{
			"several", "", "RUN cat <<A <<'B'\n1\nA\n2\nB\n",
			[]string{"/bin/sh", "-c", "cat <<A <<'B'\n1\nA\n2\nB"},
			nil, "", "default",
		},
		{
			"several, one a script", "", "RUN <<A cat <<B\n1\nA\n2\nB\n",
			[]string{"/bin/sh", "-c", "<<A cat <<B\n1\nA\n2\nB"},
			nil, "", "default",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := runOf(t, tc.base, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Args, tc.args) || !slices.Equal(got.Files, tc.files) || got.Flags != tc.flags || got.Network != tc.network {
				t.Errorf("%q = %+v, want %q %q %q %q", tc.text, got, tc.args, tc.files, tc.flags, tc.network)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		kind       fault.Constructor
	}{
		{"RUN\n", "RUN: no command specified", fault.Invalid},
		{"RUN []\n", "RUN: no command specified", fault.Invalid},
		{"RUN [\"\"]\n", "RUN: no command specified", fault.Invalid},
		{"RUN <<a/b\n#!x\na/b\n", `RUN: "a/b" cannot be the name of a script`, fault.Invalid},
		{"RUN <<..\n#!x\n..\n", `RUN: ".." cannot be the name of a script`, fault.Invalid},
		{"RUN <<E\n\xff\nE\n", "RUN: the command is not text", fault.Invalid},
		{"RUN --mount=type=ssh,required x\n", "RUN --mount=type=ssh is not supported", fault.Unsupported},
	} {
		_, err := runOf(t, "", tc.text)
		if !fault.Is(err, tc.kind) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%q = %v, want a fault %q", tc.text, err, tc.want)
		}
	}
}

func TestRunWithoutAgent(t *testing.T) {
	r, err := runOf(t, "", "RUN --mount=type=ssh --mount=type=ssh,required=false x\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Mounts) != 0 || r.Flags != "" || len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "RUN --mount=type=ssh is left out") {
		t.Errorf("Run = %+v, want notes and no mounts", r)
	}
}

func TestDescribeRun(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"RUN echo  hi", "/bin/sh -c echo  hi"},
		{"RUN [\"a\", \"b c\"]", "a b c"},
		{"ARG B=2\nARG A=1\nRUN --network=none x", "|2 A=1 B=2 --network=none /bin/sh -c x"},
		{"SHELL [\"/x\", \"-y\"]\nRUN x", "/x -y x"},
		{
			"RUN <<E\n#!/x\nE", // sha256 of "#!/x\n"
			"/dev/pipes/E file:ed868789585e039bb16ed6723d30749221ba798d259ca01d9bfbf3ca3bee6842",
		},
	} {
		got := build(t, "", "FROM a\n"+tc.text+"\n").last()
		if got != tc.want {
			t.Errorf("history of %q = %q, want %q", tc.text, got, tc.want)
		}
	}
}
