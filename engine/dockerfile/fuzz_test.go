package dockerfile

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"FROM a\nRUN x\n", "# escape=`\nFROM a\nRUN x `\n y", "ARG A=1\nFROM a:${A:-b} AS c\nCOPY --from=c <<E /x\n$A\nE\n",
		"FROM a\r\nENV A=1 B=${A//x/y}\r\nONBUILD RUN <<E\r\nE\r\n", "\xef\xbb\xbf# syntax=docker/dockerfile:1\n#check=skip=all\nFROM a",
		"FROM a\nRUN --mount=type=cache,target=/x,sharing=locked --network=none <<E\n#!/x\nE\n", "FROM a\nHEALTHCHECK --retries=3 CMD [\"x\"]",
		"FROM a\nEXPOSE $A 1-3/udp [::1]:2:3\nVOLUME [\"/x\"]\nSHELL [\"a\"]\nSTOPSIGNAL 9\nUSER $U\nWORKDIR a", "from a as b\nadd --chmod=$A x y",
		"# escape=\\\n#\n \t# x\nFROM a \\\n\n\nRUN \\", "FROM --platform=$X a\nLABEL a b\nMAINTAINER c", "FROM a\nRUN <<-'E' cat <<F\nE\nF",
	} {
		f.Add(s, "A=1\nU=$A")
	}
	f.Fuzz(func(t *testing.T, text, args string) {
		file, err := Parse([]byte(text), ParseOptions{})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("Parse(%q): %v is no invalid fault", text, err)
			}
			return
		}
		plan, err := file.Resolve(ResolveOptions{Args: given(strings.Split(args, "\n")...)})
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
				t.Errorf("Resolve(%q, %q): %v has another kind", text, args, err)
			}
			return
		}
		s, err := runStage(plan, plan.Target, image.Config{OnBuild: []string{"ENV FROM=base"}})
		if err != nil {
			if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
				t.Errorf("stage of %q: %v has another kind", text, err)
			}
			return
		}
		for _, entry := range s.state.Config.Env {
			if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
				t.Errorf("%q made the variable %q", text, entry)
			}
		}
		if dir := s.state.Config.WorkingDir; dir != "" && !strings.HasPrefix(dir, "/") {
			t.Errorf("%q made the folder %q", text, dir)
		}
		for _, line := range s.history {
			if line == "" || !isText(line) {
				t.Errorf("%q has the history %q", text, line)
			}
		}
		out, err := json.Marshal(s.state.Config)
		var back image.Config
		if err == nil {
			err = json.Unmarshal(out, &back)
		}
		if err != nil || !slices.Equal(back.Env, s.state.Config.Env) || !slices.Equal(back.Cmd, s.state.Config.Cmd) {
			t.Errorf("%q made a config that JSON does not give back: %s (%v)", text, out, err)
		}
	})
}

func FuzzTriggers(f *testing.F) {
	for _, s := range []string{"RUN x", "COPY --from=0 a b", "ONBUILD RUN x", "RUN <<E\nx\nE", "FROM x", "ENV A=${B}", "# escape=`\nRUN x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte("FROM a\nFROM b\n"), ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := file.Resolve(ResolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = runStage(plan, plan.Target, image.Config{OnBuild: []string{text}}); err == nil {
			return
		}
		if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Errorf("trigger %q: %v has another kind", text, err)
		}
	})
}
