package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes files into a folder and reads them.
func tree(t *testing.T, files map[string]string) *reader {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		file := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readFiles(top, slices.Sorted(maps.Keys(files)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(r *reader) string { return strings.Join(slices.Sorted(maps.Keys(r.programs)), " ") }

func TestShell(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"the first word", "ls -l; cd /; echo x | grep y && jq . <<<\"$(date)\"", "date grep jq ls"},
		{"no variables", `x=$1; "$x" y; $HOME/bin/z; "$here/as-user.sh" w`, ""},
		{"a variable with a value", "tool=skopeo; $tool copy", "skopeo"},
		{"a variable of a loop", "for x in gzip xz; do $x -d; done", "gzip xz"},
		{"a variable of another function", "f() { for x in gzip xz; do $x -d; done; }; g() { local x=$1; $x y; }", "gzip xz"},
		{"words of a list", `drop=(setpriv --reuid 1); front=(); "${front[@]}" "${drop[@]}" id`, "id setpriv"},
		{"absolute paths", "/usr/bin/python3 x; /proc/self/exe", "/usr/bin/python3"},
		{"timeout", "timeout -k 2 --foreground 60 docker ps", "docker timeout"},
		{"env", "env -i A=b nice -n 5 stat", "env nice stat"},
		{"xargs", "xargs -r -n 1 kill -9", "kill xargs"},
		{"a builtin is none behind a program", "timeout 5 true; true", "timeout true"},
		{"exec, command and looking for it", "exec -a x bash; command ls; command -v perl", "bash ls perl"},
		{"find", `find . -name x -exec touch {} \;`, "find touch"},
		{"namespaces", "unshare --mount --propagation slave nsenter -t 1 --net ip a", "ip nsenter unshare"},
		{"a script in a word", "sh -ec 'exec \"$@\"' - ps; script -qec \"stty rows $1\" /dev/null", "ps script sh stty"},
		{"a script in a variable", "inner='set -e\nmount x\nexec \"$@\"'; bash -c \"$inner\" name umount", "bash mount umount"},
		{"a trap", "trap 'rm -rf x' EXIT", "rm"},
		{"a function", "curl() { command wget; }; curl x", "wget"},
		{"a function that calls its arguments", `until_() { local end=$1; shift; until "$@"; do :; done; }; until_ 5 nft list`, "nft"},
		{"a function that calls one argument", `each() { local v=$1; run "$2" "$v"; }; each 1 socat`, "socat"},
		{"a function that shifts late", `f() { local verb=$1; shift 2; "$verb" "$@"; }; f tac b c`, "tac"},
		{"a function of functions", `a() { "$@"; }; b() { shift; a "$@"; }; b 1 rev`, "rev"},
		{"a function with options", `f() { while [ $# -gt 0 ]; do shift; done; "$@"; }; f --x od y`, "od"},
		{"what a container calls", "moss() { :; }; moss run box sh -c 'nc x'; docker exec box ping", "docker"},
		{"a terminal", "cat >e <<'E'\nspawn -noecho tmux x\nE", "cat tmux"},
		{"Python", "python3 - <<'E'\nimport json, yaml\nfrom docker.types import x\nE", "python3 python3:docker python3:json python3:yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := names(tree(t, map[string]string{"x.sh": tc.text})); got != tc.want {
				t.Errorf("%s\ngot  %s\nwant %s", tc.text, got, tc.want)
			}
		})
	}
}

func TestSeveralFiles(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"a library's functions", map[string]string{"lib/moss.bash": `eventually() { shift; "$@"; }; ls() { :; }`, "a.bats": "load lib/moss\n@test \"x\" {\n  ls\n  run -1 eventually 5 pgrep x\n}\n"}, "pgrep"},
		{"functions of a file that is not read", map[string]string{"a.sh": "ls() { :; }", "b.sh": "ls"}, "ls"},
		{"a script that calls its arguments", map[string]string{"as-user.sh": `while [ $# -gt 0 ]; do shift; done; exec env -i "$@"`, "b.sh": `hack/as-user.sh --x "$here/as-user.sh" id`}, "env id"},
		{"a Makefile", map[string]string{"Makefile": "GO ?= go\nV := $(shell git log | head)\nx: ## y\n\t@$(GO) run ./x $$(id) $(foreach a,$(B),$(a)) && \\\n\t  tee $@\n\t$(MAKE) y\n\t$(TOOL) z\n"}, "git go head id make tee"},
		{"Go", map[string]string{"p/a.go": "package p\nimport (\"os/exec\"; \"context\")\nfunc f() { exec.Command(\"ip\", \"a\"); exec.CommandContext(context.Background(), \"ps\"); exec.LookPath(\"runc\") }"}, "ip ps runc"},
		{"Go with names", map[string]string{"p/a.go": "package p\nimport \"os/exec\"\nconst c = \"crun\"\nvar l = []string{\"a1\", \"a2\"}\nfunc f() { exec.Command(c); for _, x := range l { exec.LookPath(x) }; for _, y := range []string{\"b\"} { exec.LookPath(y) } }\nfunc g(x string) { exec.Command(x) }"}, "a1 a2 b crun"},
		{"Go with wrappers", map[string]string{"p/a.go": "package p\nimport \"os/exec\"\nfunc enter(t int, args ...string) { exec.Command(\"nsenter\", args...) }\nfunc two(t int, args ...string) { enter(t, args...) }\nfunc tool(name string, args []string) { exec.Command(name, args...) }\nfunc line(line []string) { exec.Command(line[0], line[1:]...) }\n", "p/b_test.go": "package p\nfunc x(ns string) { enter(1, \"--net=\"+ns, \"nft\", \"list\"); two(2, \"--net\", \"tc\"); tool(\"git\", nil); line([]string{\"sh\", \"-c\", \"dig x\"}) }"}, "dig git nft nsenter sh tc"},
		{"Go of another folder", map[string]string{"p/a.go": "package p\nimport \"os/exec\"\nfunc Run(name string) { exec.Command(name) }", "q/b.go": "package q\nimport \"moss/p\"\nfunc f() { p.Run(\"lsns\") }"}, "lsns"},
		{"Python", map[string]string{"mine.py": "", "a.py": "import os, subprocess, mine\nimport shutil as s\nshutil.which('xz')\ndef run(command):\n    subprocess.run(command)\ndef f():\n    run(['timeout', '5', 'docker', *x])\n    build = ['go', 'build']\n    subprocess.run(build, check=True)\n    other(['sh'])\n"}, "docker go python3:os python3:shutil python3:subprocess timeout xz"},
		{"JavaScript", map[string]string{"a.js": "const c = require('child_process')\nc.execFileSync('tar', ['x'])", "b.js": "made.exec('no')"}, "tar"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := names(tree(t, tc.files)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestRules(t *testing.T) {
	r := tree(t, map[string]string{
		"Makefile": "build:\n\tgo build\nlint:\n\tshfmt\n", "a/x.sh": "curl; apk; ssh", "a/guest/y.sh": "nothing-here",
		"cmd/mossd/main.go": "package main", "a/z_test.go": "package a\nimport \"os/exec\"\nvar _ = exec.Command(\"mossd\")\nvar _ = exec.Command(\"ps\")",
	})
	const good = "# x\n\nfiles Makefile build\nfiles Makefile:lint lint\nfiles a/ test,demo\nfiles *_test.go test\nfiles a/guest/ - elsewhere\nprogram apk in a/: why\n"
	for _, tc := range []struct{ rules, want string }{
		{good, "build go Makefile:2\ndemo curl a/x.sh:1\ndemo ssh a/x.sh:1\nlint shfmt Makefile:4\ntest curl a/x.sh:1\ntest ps a/z_test.go:4\ntest ssh a/x.sh:1"},
		{good + "program curl,ssh why", "build go Makefile:2\nlint shfmt Makefile:4\ntest ps a/z_test.go:4"},
		{good + "program nc why", "line 9: nothing calls nc in any file"},
		{good + "program curl in b/: why", "line 9: nothing calls curl in b/"},
		{good + "files b/ test", "line 9: no file b/ calls a program"},
		{"files Makefile build\nfiles *_test.go test\n", "no rule says what a/guest/y.sh is for|no rule says what a/x.sh is for"},
		{"files a/ -\n", "line 1: no reason"},
		{"other\n", "line 1: want files PREFIX PURPOSE,... or program NAME,... and a reason"},
	} {
		var all []string
		rules, err := parseRules(tc.rules)
		if err == nil {
			var lines []line
			lines, err = rules.sortByPurpose(r)
			for _, l := range lines {
				all = append(all, l.purpose+" "+l.program+" "+l.places)
			}
		}
		got := strings.Join(all, "\n")
		if err != nil {
			got = err.Error()
		}
		if !slices.Contains(strings.Split(tc.want, "|"), got) {
			t.Errorf("%s\ngot  %s\nwant %s", tc.rules, got, tc.want)
		}
	}
}
