package dockerfile

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
)

// parse reads a Dockerfile that must be right.
func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse([]byte(text), ParseOptions{})
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return f
}

// shown returns the instructions of a file as steps show them, stages by FROM.
func shown(f *File) []string {
	var all []string
	for _, arg := range f.MetaArgs {
		all = append(all, Text(arg))
	}
	for _, stage := range f.Stages {
		all = append(all, stage.Code)
		for _, cmd := range stage.Commands {
			all = append(all, Text(cmd))
		}
	}
	return all
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"plain", "FROM a\nRUN x\n", []string{"FROM a", "RUN x"}},
		{"no line end", "FROM a", []string{"FROM a"}},
		{"byte order mark", "\xef\xbb\xbfFROM a\n", []string{"FROM a"}},
		{"mark and directive", "\xef\xbb\xbf# escape=`\nFROM a\nRUN x `\n y\n", []string{"FROM a", "RUN x  y"}},
		{"windows", "FROM a\r\nRUN x \\\r\n  y\r\n", []string{"FROM a", "RUN x   y"}},
		{"comments in a continuation", "FROM a\nRUN x \\\n# no\n  # no\n  y # yes\n", []string{"FROM a", "RUN x   y # yes"}},
		{"empty line in a continuation", "FROM a\nRUN x \\\n\n y\n", []string{"FROM a", "RUN x  y"}},
		{"continuation at the end", "FROM a\nRUN x \\", []string{"FROM a", "RUN x"}},
		{"escape", "# escape=`\nFROM a\nCOPY a c:\\\nRUN x `\n y\n", []string{"FROM a", `COPY a c:\`, "RUN x  y"}},
		{"a late directive is a comment", "# hello\n# escape=`\nFROM a\nRUN x \\\n y\n", []string{"FROM a", "RUN x  y"}},
		{"lower case", "from a as b\nrun x\n", []string{"from a as b", "run x"}},
		{"global", "ARG A=1\nARG B\nFROM a:$A\n", []string{"ARG A=1", "ARG B", "FROM a:$A"}},
		{"syntax", "# syntax=docker/dockerfile:1.7-labs@sha256:00\nFROM a\n", []string{"FROM a"}},
		{"syntax with host", "#syntax = docker.io/docker/dockerfile-upstream:master\nFROM a\n", []string{"FROM a"}},
		{"here-document", "FROM a\nRUN <<EOF\necho a\nEOF\nCOPY <<A <<B /x/\n1\nA\n2\nB\n", []string{"FROM a", "RUN <<EOF", "COPY <<A <<B /x/"}},
		{"shift is none", "FROM a\nRUN echo $((1<<2))\n", []string{"FROM a", "RUN echo $((1<<2))"}},
		{"leading space", "  FROM a\n\t RUN x\n", []string{"FROM a", "RUN x"}},
		{"long", "FROM a\nRUN " + strings.Repeat("x", 60_000) + "\n", []string{"FROM a", "RUN " + strings.Repeat("x", 60_000)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := shown(parse(t, tc.text)); !slices.Equal(got, tc.want) {
				t.Errorf("Parse(%.80q) = %.200q, want %.200q", tc.text, got, tc.want)
			}
		})
	}
}

func TestParseStages(t *testing.T) {
	f := parse(t, "FROM a AS One\nRUN x\n\nFROM --platform=$BUILDPLATFORM \\\n  b\nFROM one as three\n")
	type stage struct {
		index                int
		name, from, platform string
		line, commands       int
	}
	var got []stage
	for _, s := range f.Stages {
		got = append(got, stage{s.Index, s.Name, s.From, s.Platform, s.Line, len(s.Commands)})
	}
	want := []stage{{0, "one", "a", "", 1, 1}, {1, "", "b", "$BUILDPLATFORM", 4, 0}, {2, "three", "one", "", 6, 0}}
	if !slices.Equal(got, want) {
		t.Errorf("stages = %+v, want %+v", got, want)
	}
	if f.Escape != '\\' {
		t.Errorf("Escape = %q", f.Escape)
	}
	if got := parse(t, "# escape=`\nFROM a").Escape; got != '`' {
		t.Errorf("Escape = %q, want a backtick", got)
	}
}

func TestParseRefuses(t *testing.T) {
	const long = "FROM a\nRUN "
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "the Dockerfile (Dockerfile) cannot be empty"},
		{"space", " \r\n\t\n", "the Dockerfile (Dockerfile) cannot be empty"},
		{"comments", "# a\n# b\n", "dockerfile parse error line 2: file with no instructions\n   2 | # b"},
		{"unknown", "FROM a\n\nFOO bar\n", "dockerfile parse error line 3: unknown instruction: FOO (did you mean FROM?)\n   3 | FOO bar"},
		{"nearly", "FROM a\nRUM x\n", "dockerfile parse error line 2: unknown instruction: RUM (did you mean RUN?)\n   2 | RUM x"},
		{"no stage", "RUN x\nFROM a\n", "dockerfile parse error line 1: no build stage in current context\n   1 | RUN x"},
		{"arguments only", "ARG x\n", "Dockerfile contains no stages to build"},
		{"from", "FROM a b\n", "dockerfile parse error line 1: FROM requires either one or three arguments\n   1 | FROM a b"},
		{"from nothing", "FROM\n", "dockerfile parse error line 1: FROM requires either one or three arguments"},
		{"stage name", "FROM a AS 1b\n", `dockerfile parse error line 1: invalid name for build stage: "1b", name can't start with a number`},
		{"copy", "FROM a\nCOPY x\n", "dockerfile parse error line 2: COPY requires at least two arguments"},
		{"flag", "FROM a\nCOPY --form=x a b\n", "dockerfile parse error line 2: unknown flag: --form (did you mean from?)"},
		{"env", "FROM a\nENV x\n", "dockerfile parse error line 2: ENV must have two arguments"},
		{"healthcheck", "FROM a\nHEALTHCHECK --interval=x CMD y\n", "dockerfile parse error line 2: time: invalid duration"},
		{"json", "FROM a\nCMD [1]\n", "dockerfile parse error line 2: when using JSON array syntax, arrays must be comprised of strings only"},
		{"onbuild", "FROM a\nONBUILD FROM b\n", "dockerfile parse error line 2: FROM isn't allowed as an ONBUILD trigger"},
		{"mount", "FROM a\nRUN --mount=type=cache,from=$X,target=/x y\n", "dockerfile parse error line 2: 'from' doesn't support variable expansion"},
		{"mount type", "FROM a\nRUN x\nRUN --mount=type=x,target=/x y\n", `dockerfile parse error line 3: unsupported mount type "x"`},
		{"mount target", "FROM a\nRUN --mount=type=cache,id=x y\n", `dockerfile parse error line 2: RUN --mount=type=cache: target is required`},
		{"mount mode", "FROM a\nRUN --mount=type=tmpfs,target=/x,mode=7 y\n", `dockerfile parse error line 2: mode not allowed for "tmpfs" type mounts`},
		{"network", "FROM a\nRUN --network=x y\n", `dockerfile parse error line 2: invalid network mode "x"`},
		{
			"several lines", "FROM a\nCOPY \\\n\tx\nRUN y\n",
			"dockerfile parse error line 2: COPY requires at least two arguments, but only one was provided. " +
				"Destination could not be determined\n   2 | COPY \\\n   3 |  x",
		},
		{"open here-document", "FROM a\nRUN <<EOF\nx\n", "dockerfile parse error line 2: unterminated heredoc\n   2 | RUN <<EOF\n   3 | x"},
		{"escape", "# escape=x\nFROM a\n", "dockerfile parse error line 1: invalid escape token 'x' does not match ` or \\\n   1 | # escape=x"},
		{"two escapes", "# escape=`\n# escape=`\nFROM a\n", "dockerfile parse error line 1: only one escape parser directive can be used"},
		{"syntax", "# syntax=example/lang:1\nFROM a\n", `syntax "example/lang:1" is not supported`},
		{"syntax of the same name", "# syntax=other.test/docker/dockerfile:1\nFROM a\n", `syntax "other.test/docker/dockerfile:1" is not supported`},
		{"foreign syntax", "// syntax=example/lang\n", `syntax "example/lang" is not supported`},
		{"check", "# check=every=1\nFROM a\n", `failed to parse check options: invalid check option "every"`},
		{"not text", "FROM a\nENV A=\xff\n", "dockerfile parse error line 2: ENV is not text\n   2 | ENV A=?"},
		{"zero", "FROM a\nRUN \x00\n", "dockerfile parse error line 2: the line is not text\n   2 | RUN"},
		{"line", long + strings.Repeat("x", 70_000), "dockerfile parse error line 2: dockerfile line greater than max allowed size of 65535\n"},
		{"file", "FROM a\n" + strings.Repeat("#\n", maxFile), "Dockerfile has 2097159 bytes, more than 1048576"},
		{"variables", long + strings.Repeat("${", 4_001), "Dockerfile has 4001 variables"},
		{"instructions", "FROM a\n" + strings.Repeat("RUN x\n", 10_000), "Dockerfile has 10001 instructions, more than 10000"},
		{"nested instructions", "FROM a\n" + strings.Repeat(strings.Repeat("OnBuild ", 101)+"\\\n", 100), "Dockerfile has more than 10000 instructions"},
		{"stages", strings.Repeat("FROM a\n", 1_001), "Dockerfile has 1001 stages, more than 1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text), ParseOptions{})
			if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("Parse(%.80q) = %v, want an invalid fault %q", tc.text, err, tc.want)
			}
		})
	}
}

func TestParseComments(t *testing.T) {
	f := parse(t, "# caf\xe9\nFROM a\n# \xff\n")
	if len(f.Stages) != 1 {
		t.Errorf("comments in another encoding spoil the file: %d stages", len(f.Stages))
	}
}

func TestParseArgs(t *testing.T) {
	syntax, check := "docker/dockerfile:1", "error=true"
	args := map[string]*string{"BUILDKIT_SYNTAX": &syntax, "BUILDKIT_DOCKERFILE_CHECK": &check}
	_, err := Parse([]byte("# syntax=example/lang\nFROM a as B\n"), ParseOptions{Args: args})
	want := "lint violation found for rules: FromAsCasing, StageNameCasing\n" +
		"StageNameCasing: Stage name 'B' should be lowercase (line 2)"
	if !fault.Is(err, fault.Invalid) || err.Error() != want {
		t.Errorf("Parse = %v, want %q", err, want)
	}
	if _, err := Parse([]byte("FROM a as B\n"), ParseOptions{Args: map[string]*string{"BUILDKIT_SYNTAX": nil}}); err != nil {
		t.Errorf("an argument without a value: %v", err)
	}
}

func texts(warnings []Warning) []string {
	var all []string //nolint:prealloc // nil if there are none
	for _, w := range warnings {
		all = append(all, w.String())
	}
	return all
}

func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"none", "FROM a AS b\nENV A=1\nCMD [\"x\"]\n", nil},
		{"stage names", "FROM a AS B\nFROM a AS b\nFROM a AS scratch\n", []string{
			"StageNameCasing: Stage name 'B' should be lowercase (line 1)",
			`DuplicateStageName: Duplicate stage name "b", stage names should be unique (line 2)`,
			`ReservedStageName: Stage name should not use the same name as reserved stage "scratch" (line 3)`,
		}},
		{"case", "FROM a as b\nrun x\nRun y\nRUN z\n", []string{
			"FromAsCasing: 'as' and 'FROM' keywords' casing do not match (line 1)",
			"ConsistentInstructionCasing: Command 'run' should match the case of the command majority (uppercase) (line 2)",
			"ConsistentInstructionCasing: Command 'Run' should match the case of the command majority (uppercase) (line 3)",
		}},
		{"lower case", "from a\nrun x\nRUN z\n", []string{
			"ConsistentInstructionCasing: Command 'RUN' should match the case of the command majority (lowercase) (line 3)",
		}},
		{"old forms", "FROM a\nMAINTAINER me\nENV A b\nLABEL C d\n", []string{
			"MaintainerDeprecated: Maintainer instruction is deprecated in favor of using label (line 2)",
			`LegacyKeyValueFormat: "ENV key=value" should be used instead of legacy "ENV key value" format (line 3)`,
			`LegacyKeyValueFormat: "LABEL key=value" should be used instead of legacy "LABEL key value" format (line 4)`,
		}},
		{"secrets", "FROM a\nARG DB_PASSWORD\nENV API_KEY=1 TOKEN_FILE=2 KEYS=3\n", []string{
			`SecretsUsedInArgOrEnv: Do not use ARG or ENV instructions for sensitive data (ARG "DB_PASSWORD") (line 2)`,
			`SecretsUsedInArgOrEnv: Do not use ARG or ENV instructions for sensitive data (ENV "API_KEY") (line 3)`,
		}},
		{"twice", "FROM a\nCMD [\"x\"]\nHEALTHCHECK NONE\nCMD [\"y\"]\nHEALTHCHECK NONE\nFROM a\nCMD [\"z\"]\n", []string{
			"MultipleInstructionsDisallowed: Multiple CMD instructions should not be used in the same stage because only the last one will be used (line 2)",
			"MultipleInstructionsDisallowed: Multiple HEALTHCHECK instructions should not be used in the same stage because only the last one will be used (line 3)",
		}},
		{"empty continuation", "FROM a\nRUN x \\\n\n y\n", []string{"NoEmptyContinuation: Empty continuation line (line 4)"}},
		{"skipped", "# check=skip=StageNameCasing,FromAsCasing\nFROM a as B\nMAINTAINER x\n", []string{
			"MaintainerDeprecated: Maintainer instruction is deprecated in favor of using label (line 3)",
		}},
		{"all skipped", "# check=skip=all\nFROM a as B\nMAINTAINER x\n", nil},
		{"skipped in one place", "FROM a AS b\n# check=skip=MaintainerDeprecated\nMAINTAINER x\nMAINTAINER y\n", []string{
			"MaintainerDeprecated: Maintainer instruction is deprecated in favor of using label (line 4)",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := texts(parse(t, tc.text).Warnings)
			if !slices.Equal(got, tc.want) {
				t.Errorf("warnings of %q:\n%s\nwant\n%s", tc.text, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}
